//! The configuration (design section 3.4).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use claims::Algorithm;
use ipnet::IpNet;

/// Everything that is configured. [`Default`] is the development configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// {lobby_url}: the base address of this authorization server, without a trailing slash.
    pub issuer: String,
    /// {api_url}: the audience of access tokens.
    pub api_audience: String,
    /// {identity_audience_url}: the audience of assertions, compared byte for byte.
    pub identity_audience: String,
    /// Address of the public listener.
    pub listen: SocketAddr,
    /// Address of the internal listener: health, metrics, revocations, administration.
    pub internal_listen: SocketAddr,
    /// Peers whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Allows an http issuer, and development defaults, on addresses other than loopback.
    pub allow_insecure_http: bool,
    /// Registrations that are applied at start.
    pub registrations: Option<PathBuf>,
    /// Holds the bearer token of the admin API; created with mode 0600 on first start.
    pub admin_token_file: PathBuf,
    /// Holds the key that seals signing keys and TOTP secrets; created with mode 0600 on first start.
    pub encryption_key_file: PathBuf,
    /// Where state lives.
    pub store: StoreUrl,
    /// How tokens are signed.
    pub signing: Signing,
    /// How long things live.
    pub lifetimes: Lifetimes,
    /// Instances of the legacy flow.
    pub legacy_instances: Vec<LegacyInstance>,
}

/// `store.url`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// `redb:PATH`.
    Redb(PathBuf),
}

/// `[signing]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signing {
    /// The algorithm of access, refresh and identity tokens (D-1).
    pub algorithm: Algorithm,
    /// Age at which a signing key is replaced.
    pub rotate_every: Duration,
}

/// `[lifetimes]`; whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// Access tokens of the current flows (spec §8: 1 hour).
    pub access_token: Duration,
    /// Refresh tokens (spec §8: 7 days).
    pub refresh_token: Duration,
    /// Authorization codes of the current flows (D-2).
    pub authorization_code: Duration,
    /// Access tokens of the legacy flow (D-14).
    pub legacy_access_token: Duration,
    /// How long a used refresh token gets the same answer again (D-3).
    pub refresh_reuse_grace: Duration,
    /// Sign-in sessions.
    pub session: Duration,
    /// How far ahead an assertion may expire (D-10).
    pub assertion_max: Duration,
    /// Tolerated difference between this clock and a client's.
    pub clock_skew: Duration,
}

/// `[[legacy_instances]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacyInstance {
    /// {hostname}.
    pub hostname: String,
    /// {auth_server_hostname}.
    pub auth_server_hostname: String,
    /// Whether OAuth2 authentication is enabled on the host.
    pub enabled: bool,
}
