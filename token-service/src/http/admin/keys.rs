//! `/admin/keys`: lists, rotates and removes signing keys.

use std::sync::Arc;
use std::time::Duration;

use actix_web::web::{self, Path, Payload};
use document::Section;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Administration;
use super::access::{Administrator, Reader};
use super::answer::{self, AdminError, Answer, ErrorBody};
use super::body::{self, Form};
use crate::telemetry::audit_log::Entry;
use domain::AuditAction;
use domain::clock::Timestamp;
use protocol::flows;
use protocol::token::rotation::{KeyState, Signers};

/// A signing key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct KeyView {
    /// The key identifier.
    pub kid: String,
    /// The algorithm: `EdDSA`, `ES256` or `RS256`.
    pub algorithm: String,
    /// `announced`, `signing` or `retired`.
    pub state: String,
    /// When it was made, RFC 3339.
    pub created_at: String,
    /// When it begins to sign, RFC 3339.
    pub signs_from: String,
    /// When the service noticed that it no longer signs, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retired_at: Option<String>,
    /// When a retired key is removed: its last token has expired then. RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgotten_at: Option<String>,
}

impl KeyView {
    /// The key, at `now`. `longest_token` is how long the last token of a retired one lives.
    fn new(
        key: &domain::SealedSigningKey,
        signers: &Signers<'_>,
        longest_token: Duration,
        now: Timestamp,
    ) -> Self {
        let state = match signers.state(key, now) {
            KeyState::Announced => "announced",
            KeyState::Signing => "signing",
            KeyState::Retired => "retired",
        };
        Self {
            kid: key.kid.clone(),
            algorithm: key.algorithm.name().to_owned(),
            state: state.to_owned(),
            created_at: key.created_at.rfc3339(),
            signs_from: key.signs_from.rfc3339(),
            retired_at: key.retired_at.map(Timestamp::rfc3339),
            forgotten_at: key.retired_at.map(|at| (at + longest_token).rfc3339()),
        }
    }
}

/// How to rotate.
#[derive(Debug, Clone, Copy, Default, Serialize, ToSchema)]
pub(crate) struct RotationRequest {
    /// The new keys sign at once, for keys that got into wrong hands. Otherwise they are announced first, and no request
    /// notices.
    #[schema(required = false)]
    pub immediate: bool,
    /// With `immediate`: end every access token that was issued until the rotation, of all issuers.
    #[schema(required = false)]
    pub cut_off: bool,
}

impl Form for RotationRequest {
    fn read(section: &mut Section<'_>) -> Self {
        let mut flag = |key| section.flag(key).is_some_and(|flag| flag.value);
        Self {
            immediate: flag("immediate"),
            cut_off: flag("cut_off"),
        }
    }
}

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes
        .service(web::resource("/keys").route(web::get().to(list)))
        .service(web::resource("/keys/rotate").route(web::post().to(rotate)))
        .service(web::resource("/keys/{kid}").route(web::delete().to(delete)));
}

/// Lists signing keys, oldest first.
#[utoipa::path(get, path = "/admin/keys", tag = "keys",
    responses((status = 200, body = Vec<KeyView>)))]
async fn list(reader: Reader) -> Answer {
    answer::ok(reader.keys())
}

/// Creates the successor of each signing key.
#[utoipa::path(post, path = "/admin/keys/rotate", tag = "keys", request_body = RotationRequest,
    responses((status = 200, body = Vec<KeyView>), (status = 400, body = ErrorBody)))]
async fn rotate(administrator: Administrator, payload: Payload) -> Answer {
    let request = body::form::<RotationRequest>(payload).await?;
    answer::ok(administrator.rotate_keys(request).await?)
}

/// Removes a key that does not sign. Gateways refuse its tokens after their next fetch of the keys.
#[utoipa::path(delete, path = "/admin/keys/{kid}", tag = "keys", params(("kid" = String, Path)),
    responses((status = 204), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody)))]
async fn delete(administrator: Administrator, kid: Path<String>) -> Answer {
    let policy = administrator.service.key_policy();
    let (ring, now) = (
        administrator.service.keys(),
        administrator.service.clock.now(),
    );
    let Some(key) = ring.sealed().iter().find(|key| key.kid == *kid) else {
        return Err(AdminError::not_found("signing key", &**kid));
    };
    let signers = Signers::at(ring.sealed(), &policy, now);
    if signers.state(key, now) == KeyState::Signing {
        let message = format!("{kid} signs: rotate the keys immediately, then delete it");
        return Err(AdminError::Conflict(message));
    }
    let events = administrator.events(Entry::new(AuditAction::KeyDeleted).detail(&**kid));
    let store = &administrator.service.store;
    let deleted = store.forget_signing_key(kid.to_string(), Arc::clone(&events));
    // Otherwise another replica has deleted the key, with its own entry.
    if deleted.await? {
        administrator.service.recorded(&events);
    }
    let outcome = administrator.service.maintain_keys().await;
    answer::after_change("the remaining keys are not loaded yet", outcome);
    answer::done()
}

impl Administration {
    /// All signing keys, oldest first.
    fn keys(&self) -> Vec<KeyView> {
        let policy = self.service.key_policy();
        let (ring, now) = (self.service.keys(), self.service.clock.now());
        let signers = Signers::at(ring.sealed(), &policy, now);
        ring.sealed()
            .iter()
            .map(|key| KeyView::new(key, &signers, policy.longest_token, now))
            .collect()
    }

    /// # Errors
    /// [`AdminError::Malformed`] for a cut-off without an immediate rotation, [`AdminError::Store`], or
    /// [`AdminError::Keys`] if no key can be created.
    pub(crate) async fn rotate_keys(
        &self,
        request: RotationRequest,
    ) -> Result<Vec<KeyView>, AdminError> {
        let RotationRequest { immediate, cut_off } = request;
        if cut_off && !immediate {
            let message = "cut_off: only an immediate rotation cuts off what was issued before";
            return Err(AdminError::Malformed(message.to_owned()));
        }
        let detail = if immediate { "immediate" } else { "announced" };
        let event = self.event(Entry::new(AuditAction::KeysRotated).detail(detail));
        self.service.rotate_keys(!immediate, event).await?;
        let loaded = self.service.maintain_keys().await;
        if cut_off {
            self.cut_off_earlier_keys().await?;
        }
        let unloaded = |error| {
            AdminError::Internal(format!(
                "the keys are rotated, but this process has not loaded them yet ({error}): do not rotate again; see `key list`"
            ))
        };
        loaded.map_err(unloaded)?;
        Ok(self.keys())
    }

    /// Revokes all access tokens issued up to and including this second. Called after the rotation, so that clients
    /// then get tokens signed with the new keys.
    async fn cut_off_earlier_keys(&self) -> Result<(), AdminError> {
        let now = self.service.clock.now();
        let settings = &self.service.config.protocol;
        let summary = self.service.directory().summary();
        for issuer in flows::issuers(settings, &summary.legacy_instances) {
            self.cut_off_up_to(Some(&issuer), now).await?;
        }
        Ok(())
    }
}
