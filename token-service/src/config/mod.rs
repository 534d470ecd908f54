//! The configuration.

mod host;
mod load;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;

use std::time::Duration;
use store::postgres::PostgresSettings;

use ipnet::IpNet;
use protocol::settings::{Lifetimes, Settings, Signing};

pub use self::host::{HostPattern, is_internal_host};
use crate::key_file::exposed_mode;
use domain::LegacyInstance;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Everything that is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// What the protocol needs: issuer, audiences, signing, lifetimes.
    pub protocol: Settings,
    /// Address of the documentation for integrators; part of the metadata (RFC 8414 §2).
    pub service_documentation: Option<String>,
    /// Address of the public listener.
    pub listen: SocketAddr,
    /// Address of the internal listener: health, metrics, revocations, administration.
    pub internal_listen: SocketAddr,
    /// Names under which the internal listener is asked for, beside addresses and private names.
    pub internal_hosts: Vec<HostPattern>,
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
    /// Instances of the legacy flow that are registered at start.
    pub legacy_instances: Vec<LegacyInstance>,
    /// How often clients may do what is expensive.
    pub limits: Limits,
    /// The audit log.
    pub audit: Audit,
    /// How long the service goes on serving after it was told to stop.
    pub drain_for: Duration,
    /// An OpenTelemetry collector that gets traces by OTLP over HTTP, such as `http://127.0.0.1:4318`.
    pub otlp_endpoint: Option<String>,
    /// How the log is written.
    pub log_format: LogFormat,
}

/// `[limits]`: for each client and replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Revocations per second at `/auth/revoke`, in the long run.
    pub revocations_per_second: NonZeroU32,
    /// Revocations at once, after a time without.
    pub revocations_burst: NonZeroU32,
}

impl Limits {
    /// As many as a person signs out, and a burst for an integrator that signs all its users out.
    pub(super) const DEFAULT: Self = Self {
        revocations_per_second: NonZeroU32::MIN.saturating_add(19),
        revocations_burst: NonZeroU32::MIN.saturating_add(999),
    };
}

/// `[audit]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Audit {
    /// How long entries are kept.
    pub keep_for: Duration,
    /// Whether each entry is also a line of JSON on standard output.
    pub standard_output: bool,
}

/// `log_format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people: one line of text per event, in colour on a terminal.
    Text,
    /// For log collectors: one JSON object per line.
    Json,
}

/// `store.url`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// `redb:PATH`.
    Redb(PathBuf),
    /// `postgres://...`.
    Postgres(Box<PostgresSettings>),
}

impl Config {
    /// What is allowed but unwise, for the operator.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let StoreUrl::Postgres(settings) = &self.store
            && settings.url.is_plain_to_another_machine()
        {
            warnings.push(format!(
                "store.url does not insist on TLS (sslmode), and {} is another machine: who reads this network reads everything \
                 that the service stores, and may change it. Remove sslmode, or set sslmode=verify-full",
                settings.url.place()
            ));
        }
        if !self.internal_listen.ip().is_loopback() {
            warnings.push(format!(
                "internal_listen {} is reachable from other machines and speaks plain http: the admin token and client \
                 secrets cross the network in the clear. Listen on loopback, or let only your gateway, your \
                 monitoring and your administrators reach the port",
                self.internal_listen
            ));
        }
        // An http issuer is for development, with registrations from a checkout.
        if let Some(path) = &self.registrations
            && self.protocol.issuer.starts_with("https://")
            && let Some(mode) = exposed_mode(path)
        {
            let path = path.display();
            warnings.push(format!(
                "registrations {path} may be read by everybody on this machine, or changed by others than its owner (mode \
                 {mode:o}), and holds passwords and secrets: chmod 640 {path}"
            ));
        }
        warnings
    }
}

impl Default for Config {
    /// What is in force where nothing else is configured: everything on loopback, state under `data/` in the working folder.
    fn default() -> Self {
        let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Self {
            protocol: Settings::default(),
            service_documentation: None,
            listen: loopback(9080),
            internal_listen: loopback(9081),
            internal_hosts: Vec::new(),
            trusted_proxies: vec![IpNet::from(IpAddr::from(Ipv4Addr::LOCALHOST))],
            allow_insecure_http: false,
            registrations: None,
            admin_token_file: PathBuf::from("data/admin-token"),
            encryption_key_file: PathBuf::from("data/encryption-key"),
            store: StoreUrl::Redb(PathBuf::from("data/token-service.redb")),
            legacy_instances: Vec::new(),
            limits: Limits::DEFAULT,
            audit: Audit {
                keep_for: 90 * DAY,
                standard_output: true,
            },
            drain_for: Duration::from_secs(1),
            otlp_endpoint: None,
            log_format: LogFormat::Text,
        }
    }
}
