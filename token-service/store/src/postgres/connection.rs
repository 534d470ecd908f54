//! The pool of connections.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime, Timeouts,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::OpenError;
use super::settings::PostgresSettings;

/// Maximum number of connections. An operation uses a connection for a few round trips, so 16 connections carry
/// thousands of operations per second. Several replicas fit into PostgreSQL's default limit of 100 connections.
const CONNECTIONS: usize = 16;

/// The name of the service at the server.
pub(super) const APPLICATION: &str = "token-service";

/// How long an operation waits for a free connection before it fails.
const WAIT: Duration = Duration::from_secs(2);

/// Time limit for connecting to one host. Opening a connection tries the hosts of the URL one after the other.
const CONNECT: Duration = Duration::from_secs(3);

/// Time without an acknowledgement after which a peer counts as gone, because a crashed machine does not close its
/// connections.
const SILENCE: Duration = Duration::from_secs(5);

/// Session settings: time limits, and when the database confirms a commit. The second time limit bounds how long a
/// crashed replica can block rows that it locked. The third setting keeps confirmed commits safe from a crash of the
/// server, even if the database, the role or the URL turns `synchronous_commit` off. Other values, which decide about
/// waiting for standby servers, stay unchanged.
const SESSION: &str = "
    SET statement_timeout = '10s';
    SET idle_in_transaction_session_timeout = '5s';
    SELECT set_config('synchronous_commit', 'on', false)
        WHERE current_setting('synchronous_commit', true) = 'off';
";

/// Creates a pool. The pool opens connections on demand.
pub(super) fn pool(settings: &PostgresSettings) -> Result<Pool, OpenError> {
    let mut config = settings.url.config().clone();
    config
        .application_name(APPLICATION)
        .connect_timeout(CONNECT)
        .tcp_user_timeout(SILENCE)
        .keepalives_idle(SILENCE)
        .keepalives_interval(Duration::from_secs(1));
    let hosts = config.get_hosts().len().max(config.get_hostaddrs().len());
    let create = CONNECT.saturating_mul(u32::try_from(hosts.max(1)).unwrap_or(u32::MAX));
    let manager = Manager::from_config(
        config,
        MakeRustlsConnect::new(tls(settings)?),
        ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        },
    );
    Pool::builder(manager)
        .max_size(CONNECTIONS)
        .runtime(Runtime::Tokio1)
        .timeouts(Timeouts {
            wait: Some(WAIT),
            create: Some(create),
            recycle: Some(CONNECT),
        })
        .post_create(Hook::async_fn(|client, _| {
            Box::pin(async move {
                client
                    .batch_execute(SESSION)
                    .await
                    .map_err(HookError::Backend)
            })
        }))
        .build()
        .map_err(|error| OpenError::Tls(error.to_string()))
}

fn tls(settings: &PostgresSettings) -> Result<ClientConfig, OpenError> {
    let mut roots = RootCertStore::empty();
    match &settings.ca_file {
        Some(path) => {
            let unreadable = |error: &dyn std::fmt::Display| {
                OpenError::Tls(format!("{}: {error}", path.display()))
            };
            let certificates: Vec<_> = CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect)
                .map_err(|error| unreadable(&error))?;
            if certificates.is_empty() {
                return Err(unreadable(&"the file contains no certificate"));
            }
            for certificate in certificates {
                roots.add(certificate).map_err(|error| unreadable(&error))?;
            }
        }
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
