//! `/admin/users`, with second factors and linked accounts.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::web::{self, Path, Payload};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lettre::Address;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use zeroize::Zeroizing;

use super::access::Administrator;
use super::answer::{self, AdminError, Answer, ErrorBody, after_change};
use super::objects::{self, Administered, ChangeQuery, Without, found};
use super::{Administration, Object, body};
use crate::http::pages::{invitation, second_factor_removed};
use crate::http::paths;
use crate::telemetry::audit_log::Entry;
use domain::digest::Digest;
use domain::object::ObjectKind;
use domain::{AuditAction, Identity, LinkedAccount, LinkedIdentity, PasswordLink, User, random};
use registry::apply::{Difference, Plan};
use registry::change::Edit;
use registry::objects::{AccountView, IdentityView, UserView};
use registry::registrations::looked_up;
use store::{Store, StoreError};

/// Random bytes of a link for a password.
const LINK: usize = 32;

/// Hours for which such a link may work.
const LINK_HOURS: RangeInclusive<u32> = 1..=720;

impl Administered for User {
    type Created = UserView;

    fn created(view: UserView, _: Option<Zeroizing<String>>) -> UserView {
        view
    }

    fn searched(&self) -> Vec<&str> {
        let texts = [&self.email, &self.organization].into_iter();
        texts.flatten().map(String::as_str).collect()
    }

    fn is_without(view: &UserView, what: Without) -> Option<bool> {
        Some(match what {
            Without::Password => !view.has_password,
            Without::SecondFactor => !view.has_second_factor,
            Without::Account => view.accounts.is_empty(),
            Without::SignIn => view.last_sign_in_at.is_none(),
        })
    }

    fn cannot_sign_in(view: &UserView) -> Option<bool> {
        Some(view.cannot_sign_in.is_some())
    }

    fn has_identity_of(&self, issuer: &str) -> Option<bool> {
        let mut identities = self.identities.iter();
        Some(identities.any(|linked| linked.identity.issuer == issuer))
    }

    async fn page(store: &dyn Store, after: String, limit: usize) -> Result<Vec<Self>, StoreError> {
        store.users(after, limit).await
    }
}

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes
        .configure(objects::routes::<User>)
        .service(
            web::resource("/users/{username}/second-factor")
                .route(web::delete().to(remove_second_factor)),
        )
        .service(
            web::resource("/users/{username}/password-link")
                .route(web::post().to(make_password_link)),
        )
        .service(
            web::resource("/users/{username}/accounts")
                .route(web::post().to(link_account))
                .route(web::delete().to(unlink_account)),
        )
        .service(
            web::resource("/users/{username}/identities")
                .route(web::post().to(link_identity))
                .route(web::delete().to(unlink_identity)),
        );
}

/// Linked account.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct AccountQuery {
    /// User ID of the account.
    pub user_id: String,
    /// URL of the account's instance.
    pub site: String,
}

/// Removes a user's second factor, registered or set up by the user, and ends the user's sessions.
#[utoipa::path(delete, path = "/admin/users/{username}/second-factor", tag = "users",
    params(("username" = String, Path)),
    responses((status = 204), (status = 404, body = ErrorBody)))]
async fn remove_second_factor(administrator: Administrator, username: Path<String>) -> Answer {
    administrator.remove_second_factor(&username).await?;
    answer::done()
}

/// Query of the request for a link.
#[derive(Debug, Clone, Copy, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PasswordLinkQuery {
    /// Only for a user who has no password yet: an invitation.
    pub first: bool,
    /// Hours for which the link works: 1 to 720.
    pub hours: u32,
    /// Send the link to the user's e-mail address, and leave it out of the answer, which waits until the mail server took the message.
    pub mail: bool,
}

impl Default for PasswordLinkQuery {
    fn default() -> Self {
        Self {
            first: false,
            hours: 72,
            mail: false,
        }
    }
}

/// A link with which a user sets a password, once. Only this answer shows it, or only a message has it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct PasswordLinkView {
    /// The user.
    pub username: String,
    /// Address for the user's browser. Absent if the link was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The e-mail address to which the link was sent. Absent if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_to: Option<String>,
    /// When the link ends, in UTC.
    pub expires_at: String,
    /// What to do before you send the link. Absent if there is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<String>>,
}

/// Makes a link with which the user sets a password, once. The administrator never knows the password. An earlier link of the user
/// stops working. The present password works until the user sets another one, which ends sessions and revokes what was issued. With
/// `mail`, the service sends the link to the user; 503 if the mail server did not take the message.
#[utoipa::path(post, path = "/admin/users/{username}/password-link", tag = "users",
    params(("username" = String, Path), PasswordLinkQuery),
    responses((status = 201, body = PasswordLinkView), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody), (status = 503, body = ErrorBody)))]
async fn make_password_link(
    administrator: Administrator,
    username: Path<String>,
    http: HttpRequest,
) -> Answer {
    let query = body::query::<PasswordLinkQuery>(http.query_string())?;
    answer::made(administrator.make_password_link(&username, query).await?)
}

/// Links an account. If the account is the second one, a warning in the answer names the integrations that are bound to the
/// user and must name an account from now on.
#[utoipa::path(post, path = "/admin/users/{username}/accounts", tag = "users", params(("username" = String, Path)),
    request_body = AccountView,
    responses((status = 201, body = UserView), (status = 400, body = ErrorBody),
        (status = 404, body = ErrorBody)))]
async fn link_account(
    administrator: Administrator,
    username: Path<String>,
    payload: Payload,
) -> Answer {
    let account = body::object(payload).await?;
    answer::made(administrator.link_account(&username, account).await?)
}

/// Unlinks an account and revokes what was authorized for it.
#[utoipa::path(delete, path = "/admin/users/{username}/accounts", tag = "users",
    params(("username" = String, Path), AccountQuery),
    responses((status = 200, body = UserView), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
async fn unlink_account(
    administrator: Administrator,
    username: Path<String>,
    http: HttpRequest,
) -> Answer {
    let account = body::query::<AccountQuery>(http.query_string())?;
    answer::ok(administrator.unlink_account(&username, &account).await?)
}

/// Links an identity at an identity provider. With `move_identities`, takes it from the user who has it; without, that is refused.
#[utoipa::path(post, path = "/admin/users/{username}/identities", tag = "users",
    params(("username" = String, Path), ChangeQuery), request_body = IdentityView,
    responses((status = 201, body = UserView), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody)))]
async fn link_identity(
    administrator: Administrator,
    username: Path<String>,
    http: HttpRequest,
    payload: Payload,
) -> Answer {
    let how = body::query::<ChangeQuery>(http.query_string())?;
    let identity = body::object(payload).await?;
    answer::made(
        administrator
            .link_identity(&username, identity, how)
            .await?,
    )
}

/// Linked identity.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct IdentityQuery {
    /// Issuer of the identity provider.
    pub issuer: String,
    /// `sub` of the provider's tokens for this person.
    pub subject: String,
}

/// Unlinks an identity and ends the sessions and grants from sign-ins with it.
#[utoipa::path(delete, path = "/admin/users/{username}/identities", tag = "users",
    params(("username" = String, Path), IdentityQuery),
    responses((status = 200, body = UserView), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
async fn unlink_identity(
    administrator: Administrator,
    username: Path<String>,
    http: HttpRequest,
) -> Answer {
    let IdentityQuery { issuer, subject } = body::query(http.query_string())?;
    let identity = Identity { issuer, subject };
    answer::ok(administrator.unlink_identity(&username, &identity).await?)
}

/// The identities that registrations list, in the form of a registration.
fn registered(identities: &[LinkedIdentity]) -> Vec<Value> {
    let identities = identities.iter().filter(|linked| !linked.by_email);
    let view = |linked: &LinkedIdentity| json!(IdentityView::from(&linked.identity));
    identities.map(view).collect()
}

fn mailbox(user: &User) -> Option<Address> {
    user.email.as_deref()?.parse().ok()
}

impl Administration {
    pub(crate) async fn link_identity(
        &self,
        username: &str,
        identity: Object,
        how: ChangeQuery,
    ) -> Result<UserView, AdminError> {
        self.patch(username, how, |user: &User| {
            let mut identities = registered(&user.identities);
            identities.push(identity.clone().into());
            Ok(Object::from_iter([(
                "identities".to_owned(),
                identities.into(),
            )]))
        })
        .await
    }

    /// An identity that a sign-in linked is state, which commands may change although a file defines the user (D-27).
    pub(crate) async fn unlink_identity(
        &self,
        username: &str,
        identity: &Identity,
    ) -> Result<UserView, AdminError> {
        let without = |user: &User| {
            let mut identities = user.identities.clone();
            identities.retain(|linked| linked.identity != *identity);
            identities
        };
        if !self
            .stored::<User>(username)
            .await?
            .is_linked_by_email(identity)
        {
            return self
                .patch(username, ChangeQuery::default(), |user: &User| {
                    if !user.has_identity(identity) {
                        let name = identity.to_string();
                        return Err(AdminError::not_found("linked identity", name));
                    }
                    let identities = registered(&without(user)).into();
                    Ok(Object::from_iter([("identities".to_owned(), identities)]))
                })
                .await;
        }
        let changed = self.change(false, async || {
            let stored = self.excerpt(looked_up(ObjectKind::User, username)).await?;
            let before = found::<User>(&stored, username)?;
            let after = User {
                identities: without(before),
                ..before.clone()
            };
            let mut plan = Plan::on(&stored);
            plan.put(after.clone(), Some(before));
            let mut effects = self.effects(&plan, &stored, false).await?;
            let differences = plan.differences.iter();
            effects
                .changes
                .extend(differences.flat_map(Difference::lines));
            Ok(Edit::of(plan).map(|_| (after, effects)))
        });
        Ok(self.changed(changed.await?).await)
    }

    pub(crate) async fn remove_second_factor(&self, username: &str) -> Result<(), AdminError> {
        self.change(false, async || {
            let stored = self.excerpt(looked_up(ObjectKind::User, username)).await?;
            let before = found::<User>(&stored, username)?;
            let entry = Entry::new(AuditAction::SecondFactorRemoved);
            let entry = entry.user(before.username.as_str());
            if before.totp_secret_sealed.is_some() {
                // The second factor that the user set up goes with the registered one.
                let mut plan = Plan::on(&stored);
                let totp_secret_sealed = None;
                let without = User {
                    totp_secret_sealed,
                    ..before.clone()
                };
                plan.put(without, Some(before));
                let notice = second_factor_removed(&self.service, before);
                plan.change.notices = notice.into_iter().collect();
                let mut edit = Edit::of(plan).map(drop);
                edit.entries.push(entry);
                return Ok(edit);
            }
            let (store, now) = (&self.service.store, self.service.clock.now());
            if store
                .second_factor(before.username.clone())
                .await?
                .is_none()
            {
                // Nothing ends: the request may be one that is repeated.
                return Ok(Edit::nothing(()));
            }
            let events = self.events(entry);
            let audit = Arc::clone(&events);
            let notice = second_factor_removed(&self.service, before);
            let name = before.username.clone();
            let set = store.set_second_factor(name, None, None, notice, audit, now);
            if set.await?.is_none() {
                return Ok(Edit::overtaken(()));
            }
            self.service.owed.notify_one();
            self.service.recorded(&events);
            Ok(Edit::nothing(()))
        })
        .await
    }

    pub(crate) async fn make_password_link(
        &self,
        username: &str,
        PasswordLinkQuery { first, hours, mail }: PasswordLinkQuery,
    ) -> Result<PasswordLinkView, AdminError> {
        if !LINK_HOURS.contains(&hours) {
            let message = format!("hours: must be from 1 to {}", LINK_HOURS.end());
            return Err(AdminError::Malformed(message));
        }
        let random = &*self.service.random;
        let link = Zeroizing::new(URL_SAFE_NO_PAD.encode(random::bytes::<LINK>(random)?));
        let lifetime = Duration::from_secs(u64::from(hours) * 3600);
        let expires_at = self.service.clock.now() + lifetime;
        let with_mail = match mail {
            true => Some(self.service.mailer.as_ref().ok_or_else(|| {
                let message = "mail: the configuration has no [mail]; make the link without mail, and send it yourself";
                AdminError::Conflict(message.to_owned())
            })?),
            false => None,
        };
        let user = self.change(false, async || {
            let stored = self.excerpt(looked_up(ObjectKind::User, username)).await?;
            let before = found::<User>(&stored, username)?;
            let name = &before.username;
            if !before.enabled {
                return Err(AdminError::Conflict(format!(
                    "{name} is disabled: enable the user first"
                )));
            }
            if first && before.password_hash.is_some() {
                let message = format!("{name} has a password: make a link without first=true");
                return Err(AdminError::Conflict(message));
            }
            if mail && mailbox(before).is_none() {
                return Err(AdminError::Conflict(format!(
                    "mail: {name} has no e-mail address that the mail server takes; register one, or make the link without mail"
                )));
            }
            let with_link = User {
                password_link: Some(PasswordLink {
                    digest: Digest::of(link.as_bytes()),
                    expires_at,
                    rests_on: before.credentials_version,
                }),
                ..before.clone()
            };
            let mut plan = Plan::on(&stored);
            plan.put(with_link, Some(before));
            let entry = Entry::new(AuditAction::PasswordLinkMade).user(name.as_str());
            let entry = entry.detail(match first {
                true => "an invitation",
                false => "for another password",
            });
            let mut edit = Edit::of(plan).map(|_| before.clone());
            edit.entries.push(entry);
            Ok(edit)
        });
        let user = user.await?;
        let name = &user.username;
        let own = self.service.store.second_factor(name.clone());
        let own = after_change("its second factor is unknown", own.await);
        let warning = own.map(|_| {
            format!(
                "{name} has set up an authenticator app. Ask the person whether the app is theirs: somebody who knew the password may \
                 have set it up. If not, run `token-service user remove-second-factor {name}`, which ends this link, and make another \
                 link"
            )
        });
        let issuer = &self.service.config.protocol.issuer;
        let url = format!("{issuer}{}?{}={}", paths::NEW_PASSWORD, paths::LINK, *link);
        let sent = with_mail.zip(mailbox(&user));
        if let Some((mailer, to)) = sent {
            let (subject, text) = invitation(&self.service.config, &user, first, (&url, lifetime));
            if !mailer.send(to, &subject, text).await {
                return Err(AdminError::NotSent(name.to_string()));
            }
            let entry = Entry::new(AuditAction::PasswordLinkSent).user(name.as_str());
            self.record(entry);
        }
        Ok(PasswordLinkView {
            username: name.to_string(),
            url: (!mail).then_some(url),
            sent_to: user.email.filter(|_| mail),
            expires_at: expires_at.rfc3339(),
            warnings: warning.map(|warning| vec![warning]),
        })
    }

    pub(crate) async fn link_account(
        &self,
        username: &str,
        account: Object,
    ) -> Result<UserView, AdminError> {
        self.patch(username, ChangeQuery::default(), |user: &User| {
            let mut accounts = json!(user.accounts);
            if let Some(accounts) = accounts.as_array_mut() {
                accounts.push(account.clone().into());
            }
            Ok(Object::from_iter([("accounts".to_owned(), accounts)]))
        })
        .await
    }

    pub(crate) async fn unlink_account(
        &self,
        username: &str,
        account: &AccountQuery,
    ) -> Result<UserView, AdminError> {
        let AccountQuery { user_id, site } = account;
        self.patch(username, ChangeQuery::default(), |user: &User| {
            let is_other =
                |account: &&LinkedAccount| account.user_id != *user_id || account.site != *site;
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
