//! Revocations beyond one grant: all tokens of an issuer up to a time, and the identity of the feed.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use super::views::{CutOffView, FeedView};
use super::{AdminError, Administration};
use crate::audit_log::Entry;
use domain::clock::Timestamp;
use domain::{AuditAction, Extent, FeedId, Revoked};
use protocol::flows;

/// How often a cut-off looks whether its second is over.
const TICK: Duration = Duration::from_millis(20);

impl Administration<'_> {
    /// Revokes all access tokens of `issuer` (`None`: of the current flows) issued before `before` (RFC 3339); without
    /// `before`, those issued up to and including this second. Refresh tokens stay valid.
    ///
    /// # Errors
    /// [`AdminError::Malformed`] if the service does not have this issuer, if the time is in the future, or if all
    /// tokens issued before the time have expired.
    pub async fn cut_off(
        &self,
        issuer: Option<&str>,
        before: Option<&str>,
    ) -> Result<CutOffView, AdminError> {
        let now = self.service.clock.now();
        let at = match before {
            None => now,
            Some(text) => {
                let before = moment(text).ok_or_else(|| {
                    let message =
                        format!("before: {text} is not a time such as 2026-01-31T12:00:00Z");
                    AdminError::Malformed(message)
                })?;
                if now < before {
                    let message = format!("before: {text} lies ahead; it is {}", now.rfc3339());
                    return Err(AdminError::Malformed(message));
                }
                Timestamp::from_seconds(before.seconds().saturating_sub(1))
            }
        };
        self.cut_off_up_to(issuer, at).await
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
        let mut ticks = tokio::time::interval(TICK);
        while self.service.clock.now() <= at {
            ticks.tick().await;
        }
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
        let summary = self.service.registrations().summary();
        let known = flows::issuers(&self.service.config.protocol, &summary.legacy_instances);
        if known.iter().any(|known| known == issuer) {
            return Ok(issuer.to_owned());
        }
        let message = format!("issuer: {issuer} is none of {}", known.join(", "));
        Err(AdminError::Malformed(message))
    }

    /// Gives the revocation feed a new identity, so that every gateway reads the feed from its start. For use after the
    /// database was restored from a copy.
    ///
    /// # Errors
    /// [`AdminError::Random`] if the random generator fails, or [`AdminError::Store`].
    pub async fn renew_feed(&self) -> Result<FeedView, AdminError> {
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

/// Reads a time of RFC 3339.
fn moment(text: &str) -> Option<Timestamp> {
    let time = humantime::parse_rfc3339(text).ok()?;
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp::from_seconds(since.as_secs()))
}
