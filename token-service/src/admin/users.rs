//! Users and their linked accounts.

use std::sync::Arc;

use serde_json::json;

use super::views::{AccountView, Page, UserView};
use super::{AdminError, Administration, Object, PageRequest, merge_patch, page, read_entry};
use crate::audit_log::Entry;
use domain::{AuditAction, Registry, User, Username};
use registration::apply::Plan;
use registration::registrations::Registrations;

impl Administration<'_> {
    /// Users in the order of their names, enabled or not.
    ///
    /// # Errors
    /// The store's.
    pub async fn users(&self, request: &PageRequest) -> Result<Page<UserView>, AdminError> {
        let after = request.after.clone().unwrap_or_default();
        let found = self.service.store.users(after, request.limit() + 1);
        let name = |user: &User| user.username.to_string();
        let Page { items, next } = page(found.await?, request, name);
        Ok(Page {
            items: items.iter().map(UserView::from).collect(),
            next,
        })
    }

    /// One user.
    ///
    /// # Errors
    /// [`AdminError::NotFound`], or the store's.
    pub async fn user(&self, username: &str) -> Result<UserView, AdminError> {
        let found = match Username::parse(username) {
            Some(username) => self.service.store.user(username).await?,
            None => None,
        };
        let user = found.ok_or_else(|| AdminError::not_found("user", username))?;
        Ok(UserView::from(&user))
    }

    /// Registers a user: `registration` is an entry of `users` of a registrations file.
    ///
    /// # Errors
    /// [`AdminError::Conflict`] when the name is taken, [`AdminError::Invalid`] with every problem.
    pub async fn create_user(&self, registration: Object) -> Result<UserView, AdminError> {
        self.changing(async |registry| {
            let registrations = self.read_user(registration.clone(), &registry)?;
            let name = only_user(&registrations)?;
            if find(&registry, &name).is_some() {
                let message = format!("there is a user {name} already");
                return Err(AdminError::Conflict(message));
            }
            self.put_user(registrations, &registry, &name).await
        })
        .await
    }

    /// Changes a user: `patch` is laid over the registration (RFC 7396). A new password or second factor, or being
    /// disabled, ends the user's sessions and grants; an account that is no longer linked, the grants for it.
    ///
    /// # Errors
    /// [`AdminError::NotFound`], [`AdminError::Conflict`], [`AdminError::Invalid`] with every problem.
    pub async fn update_user(&self, username: &str, patch: Object) -> Result<UserView, AdminError> {
        self.change_user(username, |_| Ok(patch.clone())).await
    }

    /// Changes a user by a patch that depends on what is stored; nobody else changes it meanwhile.
    async fn change_user(
        &self,
        username: &str,
        patch: impl Fn(&User) -> Result<Object, AdminError>,
    ) -> Result<UserView, AdminError> {
        self.changing(async |registry| {
            let before = stored(&registry, username)?;
            let mut registration = registration(&before);
            merge_patch(&mut registration, patch(&before)?);
            let registrations = self.read_user(registration, &registry)?;
            let name = only_user(&registrations)?;
            if name != before.username.as_str() {
                let message = "username cannot change: register another user";
                return Err(AdminError::Conflict(message.to_owned()));
            }
            self.put_user(registrations, &registry, &name).await
        })
        .await
    }

    /// Removes a user; everything issued to them is revoked, at the edge too.
    ///
    /// # Errors
    /// [`AdminError::NotFound`], or [`AdminError::Conflict`] while a client is bound to the user.
    pub async fn delete_user(&self, username: &str) -> Result<(), AdminError> {
        self.changing(async |registry| {
            let user = stored(&registry, username)?;
            let bound = registry.clients().find(|client| {
                matches!(
                    &client.integration,
                    domain::IntegrationType::UserBound { bound_user, .. }
                        if *bound_user == user.username
                )
            });
            if let Some(client) = bound {
                let message = format!(
                    "the client {} is bound to {username}: bind it to another user, or delete it first",
                    client.client_id
                );
                return Err(AdminError::Conflict(message));
            }
            let mut plan = Plan::on(&registry);
            plan.remove_user(user.username.clone());
            self.carry_out(plan, &registry).await?;
            Ok(())
        })
        .await
    }

    /// Removes a user's second factor: the one that the person set up, and a registered one. Ends the user's sessions and
    /// grants (D-35).
    ///
    /// # Errors
    /// [`AdminError::NotFound`].
    pub async fn remove_second_factor(&self, username: &str) -> Result<(), AdminError> {
        self.changing(async |registry| {
            let before = stored(&registry, username)?;
            let (store, now) = (&self.service.store, self.service.clock.now());
            store
                .set_second_factor(before.username.clone(), None, None, now)
                .await?;
            if before.totp_secret_sealed.is_some() {
                let mut plan = Plan::on(&registry);
                plan.remove_totp_secret(&before);
                self.carry_out(plan, &registry).await?;
            }
            let entry = Entry::new(AuditAction::SecondFactorRemoved)
                .by_administrator(self.name)
                .user(before.username.as_str());
            self.service.record(self.origin, entry);
            Ok(())
        })
        .await
    }

    /// Links an account: an object with `user_id`, `username` and `site`.
    ///
    /// # Errors
    /// As [`Self::update_user`].
    pub async fn link_account(
        &self,
        username: &str,
        account: Object,
    ) -> Result<UserView, AdminError> {
        self.change_user(username, |user| {
            let linked = user.accounts.iter().map(AccountView::from);
            let mut accounts: Vec<serde_json::Value> =
                linked.map(|account| json!(account)).collect();
            accounts.push(account.clone().into());
            Ok(accounts_patch(accounts))
        })
        .await
    }

    /// Unlinks an account; what was authorized for it is revoked.
    ///
    /// # Errors
    /// [`AdminError::NotFound`].
    pub async fn unlink_account(
        &self,
        username: &str,
        user_id: &str,
        site: &str,
    ) -> Result<UserView, AdminError> {
        self.change_user(username, |user| {
            let kept: Vec<serde_json::Value> = user
                .accounts
                .iter()
                .filter(|account| account.user_id != user_id || account.site != site)
                .map(|account| json!(AccountView::from(account)))
                .collect();
            if kept.len() == user.accounts.len() {
                let name = format!("{user_id} at {site}");
                return Err(AdminError::not_found("linked account", name));
            }
            Ok(accounts_patch(kept))
        })
        .await
    }

    fn read_user(
        &self,
        registration: Object,
        registry: &Registry,
    ) -> Result<Registrations, AdminError> {
        read_entry("users", registration, registry, self.service.clock.now())
    }

    async fn put_user(
        &self,
        registrations: Registrations,
        registry: &Arc<Registry>,
        name: &str,
    ) -> Result<UserView, AdminError> {
        let plan = self.plan(registrations, registry).await?;
        self.carry_out(plan, registry).await?;
        self.user(name).await
    }
}

fn accounts_patch(accounts: Vec<serde_json::Value>) -> Object {
    Object::from_iter([("accounts".to_owned(), accounts.into())])
}

fn only_user(registrations: &Registrations) -> Result<String, AdminError> {
    match registrations.users.as_slice() {
        [registration] => Ok(registration.user.username.to_string()),
        _ => Err(AdminError::Internal("not one user".to_owned())),
    }
}

fn find<'r>(registry: &'r Registry, username: &str) -> Option<&'r Arc<User>> {
    registry.any_user(&Username::parse(username)?)
}

fn stored(registry: &Registry, username: &str) -> Result<Arc<User>, AdminError> {
    find(registry, username)
        .cloned()
        .ok_or_else(|| AdminError::not_found("user", username))
}

/// The user as a registration, without password and second factor: those that a patch does not name stay.
fn registration(user: &User) -> Object {
    let accounts: Vec<AccountView> = user.accounts.iter().map(AccountView::from).collect();
    Object::from_iter(
        [
            ("username", json!(user.username)),
            ("email", json!(user.email)),
            ("organization", json!(user.organization)),
            ("single_sign_on", json!(user.single_sign_on)),
            ("accounts", json!(accounts)),
            ("enabled", json!(user.enabled)),
        ]
        .map(|(key, value)| (key.to_owned(), value)),
    )
}
