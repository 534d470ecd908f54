//! How long tokens, codes and sessions live (protocol.md §8), unless something else is configured.

use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// `[lifetimes]`; whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// Access tokens of the current flows (protocol.md §8: 1 hour).
    pub access_token: Duration,
    /// Refresh tokens (protocol.md §8: 7 days).
    pub refresh_token: Duration,
    /// Authorization codes of the current flows (D-2).
    pub authorization_code: Duration,
    /// Access tokens of the legacy flow (D-14).
    pub legacy_access_token: Duration,
    /// How long a used refresh token gets the same answer again (D-3).
    pub refresh_reuse_grace: Duration,
    /// Sign-in sessions, however much they are used.
    pub session: Duration,
    /// Sign-in sessions that are not used.
    pub session_idle: Duration,
    /// How far ahead an assertion may expire (D-10).
    pub assertion_max: Duration,
    /// Tolerated difference between this clock and a client's.
    pub clock_skew: Duration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self {
            access_token: HOUR,
            refresh_token: 7 * DAY,
            authorization_code: MINUTE,
            legacy_access_token: HOUR,
            refresh_reuse_grace: Duration::from_secs(10),
            session: 8 * HOUR,
            session_idle: HOUR,
            assertion_max: DAY,
            clock_skew: Duration::from_secs(30),
        }
    }
}
