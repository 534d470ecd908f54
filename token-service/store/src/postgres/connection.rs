//! The pool of connections.

use std::sync::Arc;
use std::time::Duration;

use claims::json::unmarked;
use deadpool::{Runtime, managed};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::OpenError;
use super::limits::{CONNECT, LEASE, SILENCE};
use super::servers::Servers;
use super::settings::PostgresSettings;

pub(super) type Pool = managed::Pool<Servers>;

/// A connection that belongs to a pool.
pub(super) type Client = managed::Object<Servers>;

/// Maximum number of connections. An operation uses a connection for a few round trips, so 16 connections carry
/// thousands of operations per second. Several replicas fit into PostgreSQL's default limit of 100 connections.
const CONNECTIONS: usize = 16;

/// The name of the service at the server.
pub(super) const APPLICATION: &str = "token-service";

/// Creates a pool. The pool opens connections on demand.
pub(super) fn pool(settings: &PostgresSettings) -> Result<Pool, OpenError> {
    let mut servers = settings.url.servers();
    for server in &mut servers {
        server
            .config
            .application_name(APPLICATION)
            .connect_timeout(CONNECT)
            .tcp_user_timeout(SILENCE)
            .keepalives_idle(SILENCE)
            .keepalives_interval(Duration::from_secs(1));
    }
    let is_encrypted = servers
        .iter()
        .any(|server| server.config.get_ssl_mode() != SslMode::Disable);
    let tls = MakeRustlsConnect::new(tls(settings, is_encrypted)?);
    Pool::builder(Servers::new(servers, tls))
        .max_size(CONNECTIONS)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(LEASE))
        .build()
        .map_err(|error| OpenError::Tls(error.to_string()))
}

/// `is_encrypted`: whether the service may connect to any server by TLS.
fn tls(settings: &PostgresSettings, is_encrypted: bool) -> Result<ClientConfig, OpenError> {
    let mut roots = RootCertStore::empty();
    match &settings.ca_file {
        Some(path) => {
            let unreadable = |error: &dyn std::fmt::Display| {
                OpenError::Tls(format!("{}: {error}", path.display()))
            };
            let text = std::fs::read(path).map_err(|error| unreadable(&error))?;
            let certificates = CertificateDer::pem_slice_iter(unmarked(&text))
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| unreadable(&error))?;
            if certificates.is_empty() {
                return Err(unreadable(&"the file contains no certificate"));
            }
            for certificate in certificates {
                roots.add(certificate).map_err(|error| unreadable(&error))?;
            }
        }
        // No certificate will be verified.
        None if !is_encrypted => {}
        None => {
            // An invalid certificate among the system's certificates does not affect the valid certificates.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| OpenError::Tls(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth())
}
