//! `token-service serve`.

use std::process::ExitCode;
use std::sync::Arc;

use super::{ConfigFile, exit_code, variables};
use crate::admin_tokens::AdminTokens;
use crate::config::{Config, StoreUrl};
use crate::http::Application;
use crate::service::Service;
use crate::telemetry::log::{self, Telemetry};
use crate::telemetry::traces;
use domain::clock::Clock;
use domain::password_scheme::UsedScheme;
use process::PassedSockets;
use registry::start::{Applied, Start};
use secrets::encryption_key;
use secrets::key_file;
use secrets::password;
use secrets::sealing::EncryptionKey;
use store::Store;
use store::postgres::PostgresStore;
use store::redb::RedbStore;
use system::{OsRandom, SystemClock};

/// Runs the service. Everything that it writes to standard error is a line of the log, also why it ends.
pub(super) fn run(arguments: &ConfigFile) -> ExitCode {
    // Before the first thread.
    let passed = PassedSockets::from_environment();
    let config = arguments.load();
    let (format, endpoint) = match &config {
        Ok(config) => (config.log_format, config.otlp_endpoint.as_deref()),
        Err(_) => (arguments.log_format(), None),
    };
    let outcome = Telemetry::start(format, endpoint).and_then(|telemetry| {
        let served = config.map_err(Into::into).and_then(|config| {
            warn(arguments, &config);
            actix_web::rt::System::new().block_on(serve(config, passed?))
        });
        telemetry.finish();
        served
    });
    let code = match &outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::log_fatal(error);
            exit_code(error)
        }
    };
    log::write_last_lines();
    code
}

fn warn(arguments: &ConfigFile, config: &Config) {
    if arguments.path().is_none() {
        tracing::warn!(
            "no --config: these are DEVELOPMENT DEFAULTS, with plain http, on loopback only, the state in ./data and \
             nobody registered; never run the service like this for real"
        );
    }
    if config.protocol.issuer.starts_with("http://") {
        tracing::warn!(
            issuer = config.protocol.issuer,
            "the issuer is plain http: for development only"
        );
    }
    let variables = std::env::vars_os().map(|(name, _)| name);
    for warning in config
        .warnings(key_file::is_in_container())
        .into_iter()
        .chain(variables::warnings(variables))
        .chain(
            config
                .otlp_endpoint
                .as_ref()
                .and_then(|_| traces::problem_of_attributes()),
        )
    {
        tracing::warn!("{warning}");
    }
}

async fn serve(config: Config, passed: PassedSockets) -> anyhow::Result<()> {
    process::raise_open_files();
    let service = prepare(config).await?;
    let application = Application::bind(Arc::new(service), passed)?;
    tracing::info!(
        public = %application.public_address(),
        internal = %application.internal_address(),
        mutual_tls = application.mutual_tls_address().map(tracing::field::display),
        sockets_opened_by = ?application.opener(),
        "listening"
    );
    application.run().await?;
    tracing::info!("stopped");
    Ok(())
}

/// Prepares everything except the listeners: keys, store and registrations.
async fn prepare(config: Config) -> anyhow::Result<Service> {
    let store = open_store(&config).await?;
    prepare_on(config, store, Arc::new(SystemClock)).await
}

async fn prepare_on(
    config: Config,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
) -> anyhow::Result<Service> {
    // Created and checked at start, so that the file exists before operators need it.
    let admin_tokens = AdminTokens::open(&config.admin_token_file, &OsRandom)?;
    let encryption_key =
        encryption_key::open(&config.encryption_key_file, &*store, &OsRandom).await?;
    let registered = register(&config, &*store, &encryption_key).await?;
    let random = Arc::new(OsRandom);
    let service = Service::new(config, store, clock, random, encryption_key, admin_tokens);
    let service = service.await?;
    let summary = service.moment().summary;
    if let Some((unfit, reason)) = password::unfit(&summary.password_schemes) {
        let UsedScheme { scheme, users } = unfit;
        anyhow::bail!("the password hash {scheme} (users: {users}) {reason}");
    }
    service.recorded(&registered.events);
    for (action, count) in registered.more {
        service.recorded_unlisted(action, count);
    }
    Ok(service)
}

/// Applies what the configuration and the registrations file have changed since the last start.
async fn register(
    config: &Config,
    store: &dyn Store,
    encryption_key: &EncryptionKey,
) -> anyhow::Result<Applied> {
    let start = Start {
        legacy_instances: &config.legacy_instances,
        registrations: config.registrations.as_deref(),
        protocol: &config.protocol,
        takes_certificates: config.mutual_tls.is_some(),
        keep_audit_for: config.audit.keep_for,
        store,
        encryption_key,
        now: SystemClock.now(),
    };
    start.register().await
}

async fn open_store(config: &Config) -> anyhow::Result<Arc<dyn Store>> {
    // Revocations stay in the feed as long as a token that they affect may be valid.
    let longest = config
        .protocol
        .lifetimes
        .access_token
        .max(config.protocol.lifetimes.legacy_access_token);
    Ok(match &config.store {
        StoreUrl::Redb(path) => Arc::new(RedbStore::open(path, longest)?),
        StoreUrl::Postgres(settings) => Arc::new(PostgresStore::open(settings, longest).await?),
    })
}

#[cfg(test)]
mod apply_tests;
#[cfg(test)]
mod explain_tests;
#[cfg(test)]
mod file_tests;
#[cfg(test)]
mod identity_tests;
#[cfg(test)]
mod planning_tests;

#[cfg(test)]
mod restart_tests;

#[cfg(test)]
mod tests;
