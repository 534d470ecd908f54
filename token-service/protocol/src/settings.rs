//! What the protocol is configured with.

use std::time::Duration;

use claims::Algorithm;

/// The part of the configuration that decides what is issued, and what is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The name of the service, which people see on pages and in their authenticator app.
    pub name: String,
    /// {lobby_url}: the base address of this authorization server, without a trailing slash.
    pub issuer: String,
    /// {api_url}: the audience of access tokens.
    pub api_audience: String,
    /// {identity_audience_url}: the audience of assertions, compared byte for byte.
    pub identity_audience: String,
    /// How tokens are signed.
    pub signing: Signing,
    /// How long things live.
    pub lifetimes: Lifetimes,
}

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Default for Settings {
    /// What is in force where nothing else is configured.
    fn default() -> Self {
        Self {
            name: "Gatepass".to_owned(),
            issuer: "http://127.0.0.1:8081".to_owned(),
            api_audience: "http://127.0.0.1:8080".to_owned(),
            identity_audience: "https://identity.example.com/".to_owned(),
            signing: Signing {
                algorithm: Algorithm::EdDsa,
                rotate_every: 30 * DAY,
                announce_for: 10 * MINUTE,
            },
            lifetimes: Lifetimes {
                access_token: HOUR,
                refresh_token: 7 * DAY,
                authorization_code: MINUTE,
                legacy_access_token: HOUR,
                refresh_reuse_grace: Duration::from_secs(10),
                session: 8 * HOUR,
                session_idle: HOUR,
                assertion_max: DAY,
                clock_skew: Duration::from_secs(30),
            },
        }
    }
}

/// `[signing]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signing {
    /// The algorithm of access, refresh and identity tokens (D-1).
    pub algorithm: Algorithm,
    /// How long a key signs before its successor does.
    pub rotate_every: Duration,
    /// How long a new key is published before it signs: at least the time for which gateways keep the keys.
    pub announce_for: Duration,
}

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
