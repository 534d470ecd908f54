//! Signing keys: listed, rotated, removed.

use super::views::KeyView;
use super::{AdminError, Administration};
use crate::audit_log::Entry;
use domain::AuditAction;
use protocol::flows;
use protocol::token::rotation::{KeyState, Policy, Signers};

/// When the next key signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rotation {
    /// After the usual announcement: no request notices.
    Announced,
    /// Now: gateways learn the key from its first token.
    Immediate,
    /// Now, and every access token that was issued before ends: clients need one refresh.
    ImmediateWithCutOff,
}

impl Administration<'_> {
    /// All signing keys, oldest first.
    #[must_use]
    pub fn keys(&self) -> Vec<KeyView> {
        let policy = Policy::of(&self.service.config.protocol, &self.service.registry());
        let (ring, now) = (self.service.keys(), self.service.clock.now());
        let signers = Signers::at(ring.sealed(), &policy, now);
        ring.sealed()
            .iter()
            .map(|key| KeyView::new(key, &signers, policy.longest_token, now))
            .collect()
    }

    /// Makes the successor of each signing key.
    ///
    /// # Errors
    /// The store's, or no key can be made.
    pub async fn rotate_keys(&self, rotation: Rotation) -> Result<Vec<KeyView>, AdminError> {
        let announced = rotation == Rotation::Announced;
        self.service.rotate_keys(announced).await?;
        let detail = if announced { "announced" } else { "immediate" };
        if rotation == Rotation::ImmediateWithCutOff {
            self.cut_off_earlier_keys().await?;
        }
        let entry = Entry::new(AuditAction::KeysRotated).by_administrator(self.name);
        self.service.record(self.origin, entry.detail(detail));
        Ok(self.keys())
    }

    /// Ends every access token that was issued until now, with this second: after the rotation, so that clients then get tokens
    /// of the new keys.
    async fn cut_off_earlier_keys(&self) -> Result<(), AdminError> {
        let now = self.service.clock.now();
        let settings = &self.service.config.protocol;
        for issuer in flows::issuers(settings, &self.service.registry()) {
            self.cut_off_up_to(Some(&issuer), now).await?;
        }
        Ok(())
    }

    /// Removes a key that does not sign: every token that it signed is worthless as soon as the gateways have fetched the
    /// keys anew. For a key that got into wrong hands, after an immediate rotation.
    ///
    /// # Errors
    /// [`AdminError::NotFound`], or [`AdminError::Conflict`] while it signs.
    pub async fn delete_key(&self, kid: &str) -> Result<(), AdminError> {
        let policy = Policy::of(&self.service.config.protocol, &self.service.registry());
        let (ring, now) = (self.service.keys(), self.service.clock.now());
        let Some(key) = ring.sealed().iter().find(|key| key.kid == kid) else {
            return Err(AdminError::not_found("signing key", kid));
        };
        let signers = Signers::at(ring.sealed(), &policy, now);
        if signers.state(key, now) == KeyState::Signing {
            let message = format!("{kid} signs: rotate the keys immediately, then delete it");
            return Err(AdminError::Conflict(message));
        }
        self.service
            .store
            .forget_signing_key(kid.to_owned())
            .await?;
        self.service.maintain_keys().await?;
        let entry = Entry::new(AuditAction::KeyDeleted).by_administrator(self.name);
        self.service.record(self.origin, entry.detail(kid));
        Ok(())
    }
}
