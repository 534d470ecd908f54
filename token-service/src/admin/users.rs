//! Operations only for users: second factor and linked accounts.

use std::sync::Arc;

use serde_json::json;
use zeroize::Zeroizing;

use super::objects::{Administered, Listed, found};
use super::schema::UserView;
use super::{AdminError, Administration, Object};
use crate::audit_log::Entry;
use domain::remembered::ObjectKind;
use domain::{AuditAction, LinkedAccount, User, Username};
use registration::apply::Plan;
use registration::registrations::looked_up;
use store::{Store, StoreError};

impl Administered for User {
    type Created = UserView;

    fn created(view: UserView, _: Option<Zeroizing<String>>) -> UserView {
        view
    }

    async fn may_go(&self, store: &dyn Store) -> Result<(), AdminError> {
        match store.client_bound_to(self.username.clone()).await? {
            None => Ok(()),
            Some(client_id) => Err(AdminError::Conflict(format!(
                "the client {client_id} is bound to {}: bind it to another user, or delete it first",
                self.username
            ))),
        }
    }

    async fn stored(store: &dyn Store, name: &str) -> Result<Option<Self>, StoreError> {
        match Username::parse(name) {
            Some(username) => store.user(username).await,
            None => Ok(None),
        }
    }
}

impl Listed for User {
    async fn page(store: &dyn Store, after: String, limit: usize) -> Result<Vec<Self>, StoreError> {
        store.users(after, limit).await
    }
}

impl Administration<'_> {
    /// Removes a user's second factor, set up by the user or registered. Ends the user's sessions and revokes the
    /// user's grants (D-35).
    ///
    /// # Errors
    /// [`AdminError::NotFound`].
    pub async fn remove_second_factor(&self, username: &str) -> Result<(), AdminError> {
        self.changing(async || {
            let stored = self.excerpt(looked_up(ObjectKind::User, username)).await?;
            let before = found::<User>(&stored, username)?;
            let entry = Entry::new(AuditAction::SecondFactorRemoved);
            let entry = entry.user(before.username.as_str());
            if before.totp_secret_sealed.is_some() {
                // The second factor that the user set up goes with the registered one.
                let mut plan = Plan::on(&stored);
                plan.remove_totp_secret(before);
                self.make(plan, Some(entry)).await?;
                return Ok(());
            }
            let (store, now) = (&self.service.store, self.service.clock.now());
            let events = self.events(entry);
            let audit = Arc::clone(&events);
            let set = store.set_second_factor(before.username.clone(), None, None, audit, now);
            if set.await?.is_none() {
                return Err(AdminError::Overtaken);
            }
            self.service.recorded(&events);
            Ok(())
        })
        .await
    }

    /// Links an account: an object with `user_id`, `username` and `site`.
    ///
    /// # Errors
    /// As [`Self::update`].
    pub async fn link_account(
        &self,
        username: &str,
        account: Object,
    ) -> Result<UserView, AdminError> {
        self.patch(username, |user: &User| {
            let mut accounts = json!(user.accounts);
            if let Some(accounts) = accounts.as_array_mut() {
                accounts.push(account.clone().into());
            }
            Ok(Object::from_iter([("accounts".to_owned(), accounts)]))
        })
        .await
    }

    /// Unlinks an account and revokes its grants.
    ///
    /// # Errors
    /// [`AdminError::NotFound`].
    pub async fn unlink_account(
        &self,
        username: &str,
        user_id: &str,
        site: &str,
    ) -> Result<UserView, AdminError> {
        self.patch(username, |user: &User| {
            let is_other =
                |account: &&LinkedAccount| account.user_id != user_id || account.site != site;
            let kept: Vec<&LinkedAccount> = user.accounts.iter().filter(is_other).collect();
            if kept.len() == user.accounts.len() {
                let name = format!("{user_id} at {site}");
                return Err(AdminError::not_found("linked account", name));
            }
            Ok(Object::from_iter([("accounts".to_owned(), json!(kept))]))
        })
        .await
    }
}
