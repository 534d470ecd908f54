//! The configuration. Every table of keys, and every key with longer rules, has a file of its name. The other keys are
//! in `load.rs`.

mod audit;
mod branding;
mod dpop;
mod duration;
mod identity_providers;
mod issuer;
mod lifetimes;
mod listen;
mod load;
mod mail;
mod mutual_tls;
mod passwords;
mod paths;
mod scopes;
mod second_factor;
mod sign_in_page;
mod signing;
mod site_labels;
mod store;
#[cfg(test)]
mod tests;
mod trusted_proxies;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use document::internal_host::HostPattern;
use domain::LegacyInstance;
use ipnet::IpNet;
use protocol::settings::Settings;

pub use self::audit::Audit;
pub(crate) use self::identity_providers::REFRESH_SECONDS;
pub use self::identity_providers::{
    ProviderConnection, ProviderCredential, ProviderKeyPlace, ProviderKeySource,
};
pub use self::mail::{Mail, MailTls};
pub use self::mutual_tls::{LISTEN as MUTUAL_TLS_LISTEN, MutualTls};
pub use self::scopes::{LANGUAGES, ScopeTexts};
pub use self::sign_in_page::{SignInForm, SignInForms};
pub use self::store::StoreUrl;
use crate::branding::Branding;
use duration::DAY;
use secrets::key_file::{exposed_mode, group_readable_mode};
use secrets::password_rules::{self, Lengths};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Settings of the protocol: name, issuer, audiences, signing, lifetimes.
    pub protocol: Settings,
    /// Address of the documentation for integrators; part of the metadata (RFC 8414 §2).
    pub service_documentation: Option<String>,
    pub listen: SocketAddr,
    /// Address of the internal listener: health, metrics, revocations, administration.
    pub internal_listen: SocketAddr,
    /// The listener for clients with certificates; `None` for no such listener.
    pub mutual_tls: Option<MutualTls>,
    /// Host names under which callers reach the internal listener. Addresses and private names are always allowed.
    pub internal_hosts: Vec<HostPattern>,
    /// Addresses of the gateways, whose `X-Forwarded-For` the service believes, and at the listener for mutual TLS the
    /// certificates of clients.
    pub trusted_proxies: Vec<IpNet>,
    /// Allows an http issuer, and the development defaults, on addresses other than loopback.
    pub allow_insecure_http: bool,
    /// Registrations file that the service applies at each start.
    pub registrations: Option<PathBuf>,
    /// File with the bearer tokens of the administration. The first start creates the file with mode 0600.
    pub admin_token_file: PathBuf,
    /// File with the keys that seal signing keys and TOTP secrets. The first start creates the file with mode 0600.
    pub encryption_key_file: PathBuf,
    pub store: StoreUrl,
    /// The file that contains the URL of the store, with its password.
    pub store_url_file: Option<PathBuf>,
    /// Instances of the legacy flow that the service registers at each start.
    pub legacy_instances: Vec<LegacyInstance>,
    /// Logo, colour and addresses of the pages.
    pub branding: Branding,
    /// Which way to sign in pages offer first.
    pub sign_in_page: SignInForms,
    /// Names of the sites of linked accounts, which pages show in place of the sites.
    pub site_labels: BTreeMap<String, String>,
    /// What clients with these scopes may do, in words.
    pub scopes: ScopeTexts,
    /// Average number of access tokens per second that a client revokes at `/auth/revoke`. Each replica counts separately.
    pub revocations_per_second: NonZeroU32,
    /// Lengths of passwords that people choose.
    pub passwords: Lengths,
    /// `None`: the service sends no messages.
    pub mail: Option<Mail>,
    /// How the service reaches the identity providers of the settings, in the same order.
    pub identity_providers: Vec<ProviderConnection>,
    pub audit: Audit,
    /// Time between SIGTERM and shutdown, in which the service still answers.
    pub drain_for: Duration,
    /// OpenTelemetry collector that receives traces by OTLP over HTTP, such as `http://127.0.0.1:4318`.
    pub otlp_endpoint: Option<String>,
    pub log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One line of text per event, in colour on a terminal.
    Text,
    /// One JSON object per line, for log collectors.
    Json,
}

impl Config {
    /// Settings that are allowed but unwise, each as a text for the operator. `in_container`: orchestrators give secrets
    /// to the service through its group, which has no other members there.
    pub fn warnings(&self, in_container: bool) -> Vec<String> {
        let mut warnings = Vec::new();
        for (key, path) in [
            ("encryption_key_file", &self.encryption_key_file),
            ("admin_token_file", &self.admin_token_file),
        ] {
            if !in_container && let Some(mode) = group_readable_mode(path) {
                let path = path.display();
                warnings.push(format!(
                    "{key} {path} may be read by everybody in its group (mode {mode:o}): chmod 600 {path}"
                ));
            }
        }
        if !in_container
            && let Some(path) = &self.store_url_file
            && let Some(mode) = exposed_mode(path).or_else(|| group_readable_mode(path))
        {
            let path = path.display();
            warnings.push(format!(
                "store.url_file {path} may be read or changed by others than its owner (mode {mode:o}), and holds the \
                 password of the database: chmod 600 {path}"
            ));
        }
        let login = self.mail.as_ref().and_then(|mail| mail.login.as_ref());
        if !in_container
            && let Some(path) = login.map(|login| &login.password_file)
            && let Some(mode) = exposed_mode(path).or_else(|| group_readable_mode(path))
        {
            let path = path.display();
            warnings.push(format!(
                "mail.password_file {path} may be read or changed by others than its owner (mode {mode:o}): chmod 600 {path}"
            ));
        }
        let providers = self.protocol.identity_providers.iter();
        for (provider, connection) in providers.zip(&self.identity_providers) {
            let file = connection.credential.as_ref().map(ProviderCredential::file);
            if !in_container
                && let Some((key, path)) = file
                && let Some(mode) = exposed_mode(path).or_else(|| group_readable_mode(path))
            {
                let (id, path) = (&provider.id, path.display());
                warnings.push(format!(
                    "{key} {path} of the identity provider {id} may be read or changed by others than its owner (mode {mode:o}): \
                     chmod 600 {path}"
                ));
            }
        }
        if let StoreUrl::Postgres(settings) = &self.store
            && settings.url.is_plain_to_another_machine()
        {
            warnings.push(format!(
                "store.url allows a connection without TLS to {}: anybody on the network path can read and change all stored \
                 data. Remove sslmode, or set sslmode=verify-full",
                settings.url.place()
            ));
        }
        if !self.internal_listen.ip().is_loopback() {
            warnings.push(format!(
                "internal_listen {} accepts connections of other machines over plain http: the admin token and client \
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
    /// The defaults: every listener on loopback, and all state under `data/`.
    fn default() -> Self {
        let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Self {
            protocol: Settings::default(),
            service_documentation: None,
            listen: loopback(9080),
            internal_listen: loopback(9081),
            mutual_tls: None,
            internal_hosts: Vec::new(),
            trusted_proxies: vec![IpNet::from(IpAddr::from(Ipv4Addr::LOCALHOST))],
            allow_insecure_http: false,
            registrations: None,
            admin_token_file: PathBuf::from("data/admin-token"),
            encryption_key_file: PathBuf::from("data/encryption-key"),
            store: StoreUrl::Redb(PathBuf::from(store::DEFAULT_FILE)),
            store_url_file: None,
            legacy_instances: Vec::new(),
            branding: Branding::default(),
            sign_in_page: SignInForms::default(),
            site_labels: BTreeMap::new(),
            scopes: ScopeTexts::default(),
            // Enough for users who sign out.
            revocations_per_second: NonZeroU32::MIN.saturating_add(19),
            passwords: password_rules::DEFAULT,
            mail: None,
            identity_providers: Vec::new(),
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
