//! `/admin/revocations`: all tokens of an issuer up to a time, and the identity of the feed.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use actix_web::web::{self, Payload};
use document::Section;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Administration;
use super::access::Administrator;
use super::answer::{self, AdminError, Answer, ErrorBody};
use super::body::{self, Form};
use crate::telemetry::audit_log::Entry;
use domain::clock::Timestamp;
use domain::{AuditAction, Extent, FeedId, Revoked};
use protocol::flows;

/// Which tokens to end.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub(crate) struct CutOffRequest {
    /// The claim `iss` of the tokens: the issuer of the configuration when absent, or `https://` and the hostname of a
    /// legacy instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Tokens issued before this time, RFC 3339; when absent, those issued until now, with this second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

impl Form for CutOffRequest {
    fn read(section: &mut Section<'_>) -> Self {
        let mut text = |key| section.text(key).map(|text| text.value);
        Self {
            issuer: text("issuer"),
            before: text("before"),
        }
    }
}

/// The tokens that a cut-off ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct CutOffView {
    /// Their `iss`.
    pub issuer: String,
    /// The latest `iat` among them, RFC 3339.
    pub issued_up_to: String,
}

/// The revocation feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FeedView {
    /// Identity of the feed.
    pub feed: String,
}

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes
        .service(web::resource("/revocations/cut-off").route(web::post().to(cut_off)))
        .service(web::resource("/revocations/renew-feed").route(web::post().to(renew_feed)));
}

/// Ends every access token that an issuer issued before a time, at gateways and introspection. Refresh tokens stay
/// valid.
#[utoipa::path(post, path = "/admin/revocations/cut-off", tag = "revocations", request_body = CutOffRequest,
    responses((status = 200, body = CutOffView), (status = 400, body = ErrorBody)))]
async fn cut_off(administrator: Administrator, payload: Payload) -> Answer {
    let request = body::form::<CutOffRequest>(payload).await?;
    answer::ok(administrator.cut_off(&request).await?)
}

/// Gives the revocation feed a new identity, so that every gateway reads the feed from its start.
#[utoipa::path(post, path = "/admin/revocations/renew-feed", tag = "revocations",
    responses((status = 200, body = FeedView)))]
async fn renew_feed(administrator: Administrator) -> Answer {
    answer::ok(administrator.renew_feed().await?)
}

impl Administration {
    /// # Errors
    /// [`AdminError::Malformed`] if the service does not have this issuer, if the time is in the future, or if all
    /// tokens issued before the time have expired.
    pub(crate) async fn cut_off(&self, request: &CutOffRequest) -> Result<CutOffView, AdminError> {
        let now = self.service.clock.now();
        let at = match &request.before {
            None => now,
            Some(text) => {
                let before = moment(text).ok_or_else(|| {
                    let message =
                        format!("before: {text} is not a time such as 2026-01-31T12:00:00Z");
                    AdminError::Malformed(message)
                })?;
                if now < before {
                    let message = format!(
                        "before: {text} is in the future; now it is {}",
                        now.rfc3339()
                    );
                    return Err(AdminError::Malformed(message));
                }
                Timestamp::from_seconds(before.seconds().saturating_sub(1))
            }
        };
        self.cut_off_up_to(request.issuer.as_deref(), at).await
    }

    /// Revokes all access tokens of `issuer` with an `iat` up to `at`. Waits until that second is over, because a token that
    /// is issued in it after the revocation would never be valid.
    pub(super) async fn cut_off_up_to(
        &self,
        issuer: Option<&str>,
        at: Timestamp,
    ) -> Result<CutOffView, AdminError> {
        let issuer = self.known_issuer(issuer)?;
        let store = &self.service.store;
        let extent = Extent::of(at, store.longest_token());
        if extent.expires_at <= self.service.clock.now() {
            let message = format!("every token issued up to {} has expired", at.rfc3339());
            return Err(AdminError::Malformed(message));
        }
        let revoked = Revoked::Issuer(issuer.clone());
        let issued_up_to = at.rfc3339();
        self.service.until_after(at).await;
        let detail = format!("{issuer}, issued up to {issued_up_to}");
        let events = self.events(Entry::new(AuditAction::TokensCutOff).detail(detail));
        let announced = store.announce(revoked, extent, Arc::clone(&events));
        if announced.await? {
            self.service.recorded(&events);
        }
        Ok(CutOffView {
            issuer,
            issued_up_to,
        })
    }

    fn known_issuer(&self, issuer: Option<&str>) -> Result<String, AdminError> {
        let Some(issuer) = issuer else {
            return Ok(self.service.config.protocol.issuer.clone());
        };
        let summary = self.service.directory().summary();
        let known = flows::issuers(&self.service.config.protocol, &summary.legacy_instances);
        if known.iter().any(|known| known == issuer) {
            return Ok(issuer.to_owned());
        }
        let message = format!("issuer: {issuer} is none of {}", known.join(", "));
        Err(AdminError::Malformed(message))
    }

    /// # Errors
    /// [`AdminError::Random`] if the random generator fails, or [`AdminError::Store`].
    pub(crate) async fn renew_feed(&self) -> Result<FeedView, AdminError> {
        let feed = FeedId::generate(&*self.service.random)?;
        let events = self.events(Entry::new(AuditAction::RevocationFeedRenewed));
        let store = &self.service.store;
        store.renew_feed(feed, Arc::clone(&events)).await?;
        self.service.recorded(&events);
        Ok(FeedView {
            feed: feed.to_string(),
        })
    }
}

fn moment(text: &str) -> Option<Timestamp> {
    let time = humantime::parse_rfc3339(text).ok()?;
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp::from_seconds(since.as_secs()))
}
