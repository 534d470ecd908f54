//! `/admin/grants`.

use std::sync::Arc;

use actix_web::HttpRequest;
use actix_web::web::{self, Path};
use claims::Thumbprint;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Administration;
use super::access::{Administrator, Reader};
use super::answer::{self, AdminError, Answer, ErrorBody};
use super::body;
use super::pages::{Page, entries};
use crate::telemetry::audit_log::Entry;
use crate::telemetry::visible::bounded;
use domain::clock::Timestamp;
use domain::grant::MAX_CODE_LIFETIME;
use domain::{
    AuditAction, Client, ClientId, Extent, Grant, GrantFilter, GrantId, Owner, Revoked, User,
    Username,
};
use registry::describe::Registered;
use registry::objects::AccountView;

/// An authorization by a user for a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct GrantView {
    /// The claim `grant_id` of its tokens.
    pub grant_id: String,
    /// The client.
    pub client_id: String,
    /// The user.
    pub username: String,
    /// The linked account.
    pub account: AccountView,
    /// What was authorized.
    pub scope: String,
    /// When the user signed in for it, RFC 3339.
    pub authenticated_at: String,
    /// When its live tokens were issued, RFC 3339.
    pub last_issued_at: String,
    /// When its live refresh token expires, RFC 3339.
    pub expires_at: String,
    /// SHA-256 thumbprint of the key to which its refresh token is bound, base64url.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jkt: Option<String>,
    /// SHA-256 thumbprint of the certificate to which its refresh token is bound, base64url.
    #[serde(rename = "x5t#S256", default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// When it was revoked, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
}

impl From<&Grant> for GrantView {
    fn from(grant: &Grant) -> Self {
        Self {
            grant_id: grant.grant_id.to_string(),
            client_id: grant.client_id.to_string(),
            username: grant.username.to_string(),
            account: AccountView::from(&grant.account),
            scope: grant.scope.to_string(),
            authenticated_at: grant.authenticated_at.rfc3339(),
            last_issued_at: grant.current.issued_at.rfc3339(),
            expires_at: grant.current.refresh_expires_at.rfc3339(),
            jkt: grant.bound.jkt.map(|key| key.to_string()),
            certificate: (grant.bound.certificate).map(|certificate| certificate.to_string()),
            revoked_at: grant.revoked_at.map(Timestamp::rfc3339),
        }
    }
}

/// What revoking several grants did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct RevokedGrants {
    /// Grants that were live and are revoked now.
    pub revoked: u64,
    /// The latest `iat` of the access tokens that are revoked.
    pub issued_up_to: String,
}

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes
        .service(
            web::resource("/grants")
                .route(web::get().to(list))
                .route(web::delete().to(revoke_all)),
        )
        .service(
            web::resource("/grants/{grant_id}")
                .route(web::get().to(show))
                .route(web::delete().to(revoke)),
        );
}

/// Filter and page of a listing of grants.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct GrantQuery {
    /// Only grants of this client.
    client_id: Option<String>,
    /// Only grants of this user.
    username: Option<String>,
    /// `next` of the previous page.
    after: Option<String>,
    /// Maximum number of entries, 1 to 500. Default: 50.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// Lists grants, oldest first. A revoked grant stays in the list until its last token expires.
#[utoipa::path(get, path = "/admin/grants", tag = "grants", params(GrantQuery),
    responses((status = 200, body = Page<GrantView>), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
async fn list(reader: Reader, http: HttpRequest) -> Answer {
    let query = body::query::<GrantQuery>(http.query_string())?;
    let malformed = |what: &str| AdminError::Malformed(format!("{what} is not one"));
    let username = query
        .username
        .map(|text| Username::parse(&text).ok_or_else(|| malformed("username")))
        .transpose()?;
    let user = match &username {
        // Grants have the registered spelling.
        Some(username) => reader.service.store.user(username.clone()).await?,
        None => None,
    };
    let client_id = query
        .client_id
        .map(|text| ClientId::parse(&text).ok_or_else(|| malformed("client_id")))
        .transpose()?;
    let filter = GrantFilter {
        client_id: client_id.clone(),
        username: user.map(|user| user.username).or_else(|| username.clone()),
    };
    let after = query
        .after
        .as_deref()
        .map(|text| GrantId::parse(text).ok_or_else(|| malformed("after")))
        .transpose()?;
    let limit = entries(query.limit);
    // One more than the limit shows whether there is a next page.
    let grants = reader
        .service
        .store
        .grants(filter, after, limit + 1)
        .await?;
    if grants.is_empty() && after.is_none() {
        // Grants outlive what they name, so only a name without grants may be unknown.
        let client_id = client_id.as_ref().map(|id| id.as_str());
        reader.named::<Client>(client_id).await?;
        let username = username.as_ref().map(|name| name.as_str());
        reader.named::<User>(username).await?;
    }
    let views = grants.iter().map(GrantView::from).collect();
    answer::ok(Page::of(views, limit, |grant: &GrantView| {
        grant.grant_id.clone()
    }))
}

/// Whose grants.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OwnerQuery {
    /// Grants of this client.
    pub client_id: Option<String>,
    /// Grants of this user.
    pub username: Option<String>,
    /// Grants that are bound to the key or certificate with this SHA-256 thumbprint (base64url), of all clients and users.
    pub jkt: Option<String>,
}

/// Revokes all live grants of a client, of a user, of a user at a client, or of a key or certificate, and every access
/// token issued to them until now, also without a grant in the list. The answer comes when this second is over, because
/// tokens that are issued in it are revoked too. Name a client, a user or both, or only `jkt`.
#[utoipa::path(delete, path = "/admin/grants", tag = "grants", params(OwnerQuery),
    responses((status = 200, body = RevokedGrants), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
async fn revoke_all(administrator: Administrator, http: HttpRequest) -> Answer {
    let owner = body::query::<OwnerQuery>(http.query_string())?;
    // A name that is empty by mistake must not revoke the grants of everybody.
    let mut named = url::form_urlencoded::parse(http.query_string().as_bytes());
    if let Some((name, _)) = named.find(|(_, value)| value.is_empty()) {
        return Err(AdminError::Malformed(format!(
            "{}: is empty",
            bounded(&name)
        )));
    }
    answer::ok(administrator.revoke_grants(&owner).await?)
}

/// Shows a grant.
#[utoipa::path(get, path = "/admin/grants/{grant_id}", tag = "grants", params(("grant_id" = String, Path)),
    responses((status = 200, body = GrantView), (status = 404, body = ErrorBody)))]
async fn show(reader: Reader, grant_id: Path<String>) -> Answer {
    let not_found = || AdminError::not_found("grant", &**grant_id);
    let id = GrantId::parse(&grant_id).ok_or_else(not_found)?;
    let grant = reader.service.store.grant(id).await?;
    answer::ok(GrantView::from(&grant.ok_or_else(not_found)?))
}

/// Revokes a grant. The service refuses its refresh token, and gateways refuse its access tokens.
#[utoipa::path(delete, path = "/admin/grants/{grant_id}", tag = "grants", params(("grant_id" = String, Path)),
    responses((status = 204), (status = 404, body = ErrorBody)))]
async fn revoke(administrator: Administrator, grant_id: Path<String>) -> Answer {
    // Revoking a grant twice is not an error. Access tokens without a refresh token (JWT bearer, client credentials)
    // have the id of a grant that is not stored; such an id revokes them too.
    let not_found = || AdminError::not_found("grant", &**grant_id);
    let id = GrantId::parse(&grant_id).ok_or_else(not_found)?;
    let store = &administrator.service.store;
    let now = administrator.service.clock.now();
    let entry = Entry::new(AuditAction::GrantRevoked).grant(id);
    let (ended, events) = match store.grant(id).await? {
        Some(grant) => {
            let events = administrator.events(entry.client(grant.client_id).user(grant.username));
            let ended = store.revoke_grant(id, Arc::clone(&events), now).await?;
            (ended, events)
        }
        None => {
            // Another replica may have drawn the id, and its clock may be ahead.
            let latest = now + administrator.service.config.protocol.lifetimes.clock_skew;
            let made_at = id.made_at().filter(|made_at| *made_at <= latest);
            // A code contains the id of its grant, so the tokens may be younger than the id. The grant itself may be
            // missing after a restore.
            let youngest = made_at.map(|made_at| made_at + MAX_CODE_LIFETIME);
            let expires_at = youngest.map(|issued_at| issued_at + store.longest_token());
            let expires_at = expires_at.filter(|expires_at| now < *expires_at);
            let extent = Extent {
                at: now,
                expires_at: expires_at.ok_or_else(not_found)?,
            };
            let events = administrator.events(entry);
            let announced = store.announce(Revoked::Grant(id), extent, Arc::clone(&events));
            (announced.await?, events)
        }
    };
    if ended {
        administrator.service.recorded(&events);
    }
    answer::done()
}

fn read_key(jkt: &str) -> Result<Thumbprint, AdminError> {
    Thumbprint::parse(jkt).ok_or_else(|| {
        let message = "jkt is not a SHA-256 thumbprint: 43 characters of base64url";
        AdminError::Malformed(message.to_owned())
    })
}

impl Administration {
    /// # Errors
    /// [`AdminError::Malformed`] if nobody is named, or a key together with a client or user; [`AdminError::NotFound`]
    /// if a name is unknown.
    pub(crate) async fn revoke_grants(
        &self,
        owner: &OwnerQuery,
    ) -> Result<RevokedGrants, AdminError> {
        let client = self.named::<Client>(owner.client_id.as_deref()).await?;
        let user = self.named::<User>(owner.username.as_deref()).await?;
        let client_id = client.map(|client| client.client_id);
        let username = user.map(|user| user.username);
        let key = owner.jkt.as_deref().map(read_key).transpose()?;
        let now = self.service.clock.now();
        let issued_up_to = now.rfc3339();
        let of_key = key.map(|key| format!(" bound to the key or certificate {key}"));
        let of_key = of_key.unwrap_or_default();
        let mut entry = Entry::new(AuditAction::GrantRevoked).detail(format!(
            "all{of_key}, and access tokens issued up to {issued_up_to}"
        ));
        if let Some(client_id) = &client_id {
            entry = entry.client(client_id.as_str());
        }
        if let Some(username) = &username {
            entry = entry.user(username.as_str());
        }
        let owner = match (key, Owner::of(client_id, username)) {
            (Some(key), None) => Owner::Key(key),
            (None, Some(owner)) => owner,
            (None, None) | (Some(_), Some(_)) => {
                let message = "name client_id, username or both, or only jkt".to_owned();
                return Err(AdminError::Malformed(message));
            }
        };
        let events = self.events(entry);
        let store = &self.service.store;
        let revoked = store.revoke_all(owner, Arc::clone(&events), now).await?;
        self.service.recorded(&events);
        // A token that is issued in the same second is revoked too.
        self.service.until_after(now).await;
        Ok(RevokedGrants {
            revoked,
            issued_up_to,
        })
    }

    /// The registered object with this name, if a name is given.
    async fn named<T: Registered>(&self, name: Option<&str>) -> Result<Option<T>, AdminError> {
        match name {
            Some(name) => Ok(Some(self.stored(name).await?)),
            None => Ok(None),
        }
    }
}
