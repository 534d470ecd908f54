//! Lists, rotates and removes signing keys.

use std::sync::Arc;

use super::views::KeyView;
use super::{AdminError, Administration};
use crate::audit_log::Entry;
use domain::AuditAction;
use protocol::flows;
use protocol::token::rotation::{KeyState, Signers};

/// Start time of the next key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rotation {
    /// After the usual announcement, so all tokens stay valid.
    Announced,
    /// Now. Gateways fetch the key when they receive its first token.
    Immediate,
    /// Now, and all earlier access tokens are revoked. Each client needs one refresh.
    ImmediateWithCutOff,
}

impl Administration<'_> {
    /// All signing keys, oldest first.
    #[must_use]
    pub fn keys(&self) -> Vec<KeyView> {
        let policy = self.service.key_policy();
        let (ring, now) = (self.service.keys(), self.service.clock.now());
        let signers = Signers::at(ring.sealed(), &policy, now);
        ring.sealed()
            .iter()
            .map(|key| KeyView::new(key, &signers, policy.longest_token, now))
            .collect()
    }

    /// Creates the successor of each signing key.
    ///
    /// # Errors
    /// [`AdminError::Store`], or [`AdminError::Keys`] if no key can be created.
    pub async fn rotate_keys(&self, rotation: Rotation) -> Result<Vec<KeyView>, AdminError> {
        let announced = rotation == Rotation::Announced;
        let detail = if announced { "announced" } else { "immediate" };
        let entry = Entry::new(AuditAction::KeysRotated)
            .by_administrator(self.name)
            .detail(detail);
        let event = self.service.event(self.origin, entry);
        self.service.rotate_keys(announced, event).await?;
        if rotation == Rotation::ImmediateWithCutOff {
            self.cut_off_earlier_keys().await?;
        }
        Ok(self.keys())
    }

    /// Revokes all access tokens issued up to and including this second. Called after the rotation, so that clients
    /// then get tokens signed with the new keys.
    async fn cut_off_earlier_keys(&self) -> Result<(), AdminError> {
        let now = self.service.clock.now();
        let settings = &self.service.config.protocol;
        let summary = self.service.registrations().summary();
        for issuer in flows::issuers(settings, &summary.legacy_instances) {
            self.cut_off_up_to(Some(&issuer), now).await?;
        }
        Ok(())
    }

    /// Removes a key that does not sign. Gateways refuse its tokens as soon as they have fetched the keys again. For a
    /// leaked key, after an immediate rotation.
    ///
    /// # Errors
    /// [`AdminError::NotFound`], or [`AdminError::Conflict`] if the key signs.
    pub async fn delete_key(&self, kid: &str) -> Result<(), AdminError> {
        let policy = self.service.key_policy();
        let (ring, now) = (self.service.keys(), self.service.clock.now());
        let Some(key) = ring.sealed().iter().find(|key| key.kid == kid) else {
            return Err(AdminError::not_found("signing key", kid));
        };
        let signers = Signers::at(ring.sealed(), &policy, now);
        if signers.state(key, now) == KeyState::Signing {
            let message = format!("{kid} signs: rotate the keys immediately, then delete it");
            return Err(AdminError::Conflict(message));
        }
        let events = self.events(Entry::new(AuditAction::KeyDeleted).detail(kid));
        let store = &self.service.store;
        let deleted = store.forget_signing_key(kid.to_owned(), Arc::clone(&events));
        // Otherwise another replica has deleted the key, with an entry of its own.
        if deleted.await? {
            self.service.recorded(&events);
        }
        self.service.maintain_keys().await?;
        Ok(())
    }
}
