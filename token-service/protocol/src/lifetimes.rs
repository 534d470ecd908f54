//! Lifetimes of tokens, codes and sessions, with the defaults (protocol.md §8).

use std::time::Duration;

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
    /// Time for which a used refresh token gets the same response again (D-3).
    pub refresh_reuse_grace: Duration,
    /// Maximum lifetime of sign-in sessions, even if they are used.
    pub session: Duration,
    /// Idle timeout of sign-in sessions.
    pub session_idle: Duration,
    /// Time for which a sign-in is enough for a change on the person's own pages.
    pub recent_sign_in: Duration,
    /// Maximum time until the `exp` of an assertion (D-10).
    pub assertion_max: Duration,
    /// Tolerated difference between the clocks of the service and a client.
    pub clock_skew: Duration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self {
            access_token: Duration::from_hours(1),
            refresh_token: Duration::from_hours(7 * 24),
            authorization_code: Duration::from_mins(1),
            legacy_access_token: Duration::from_hours(1),
            refresh_reuse_grace: Duration::from_mins(1),
            session: Duration::from_hours(8),
            session_idle: Duration::from_hours(1),
            recent_sign_in: Duration::from_mins(10),
            assertion_max: Duration::from_hours(24),
            clock_skew: Duration::from_secs(30),
        }
    }
}
