//! `token-service serve`.

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

use super::ConfigFile;
use crate::clock::{Clock as _, SystemClock};
use crate::config::{Config, LogFormat, StoreUrl};
use crate::http::Application;
use crate::key_file;
use crate::random::OsRandom;
use crate::registry::Registry;
use crate::registry::apply::Plan;
use crate::registry::registrations::Registrations;
use crate::sealing::EncryptionKey;
use crate::service::Service;
use crate::sign_in::protection::AtRest;
use crate::store::Store;
use crate::store::redb::RedbStore;

/// Read for the log's filter, such as `debug` or `token_service=debug,actix_server=warn`.
const LOG_VARIABLE: &str = "TOKEN_SERVICE_LOG";

/// The server's own notes of each worker's start are of no use to operators.
const LOG_DEFAULT: &str = "info,actix_server=warn";

const DEVELOPMENT_BANNER: &str = "
  ************************************************************************
  * No --config: running with DEVELOPMENT DEFAULTS.                      *
  * Plain http, loopback only, state in ./data, nobody registered.       *
  * Never run it like this for real.                                     *
  ************************************************************************
";

pub(super) fn run(arguments: &ConfigFile) -> anyhow::Result<ExitCode> {
    let config = arguments.load()?;
    start_log(config.log_format)?;
    if arguments.path().is_none() {
        eprintln!("{DEVELOPMENT_BANNER}");
    }
    if config.issuer.starts_with("http://") {
        tracing::warn!(
            issuer = config.issuer,
            "the issuer is plain http: for development only"
        );
    }
    actix_web::rt::System::new().block_on(serve(config))?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(config: Config) -> anyhow::Result<()> {
    let encryption_key = key_file::load_or_create(&config.encryption_key_file, &OsRandom)?;
    let encryption_key = EncryptionKey::new(&encryption_key)?;
    let store = open_store(&config)?;
    if let Some(path) = &config.registrations {
        apply_registrations(path, &*store, &encryption_key).await?;
    }
    let service = Service::new(
        config,
        store,
        Arc::new(SystemClock),
        Arc::new(OsRandom),
        encryption_key,
    )
    .await?;
    let application = Application::bind(Arc::new(service)).context("the listeners")?;
    tracing::info!(
        public = %application.public_address(),
        internal = %application.internal_address(),
        "listening"
    );
    application.run().await?;
    tracing::info!("stopped");
    Ok(())
}

fn open_store(config: &Config) -> anyhow::Result<Arc<dyn Store>> {
    let StoreUrl::Redb(path) = &config.store;
    // Revocations stay in the feed for as long as any token that they may concern.
    let longest = config
        .lifetimes
        .access_token
        .max(config.lifetimes.legacy_access_token);
    Ok(Arc::new(RedbStore::open(path, longest)?))
}

async fn apply_registrations(
    path: &Path,
    store: &dyn Store,
    encryption_key: &EncryptionKey,
) -> anyhow::Result<()> {
    let now = SystemClock.now();
    let (clients, users) = store.registry().await?;
    let stored = Registry::new(clients, users);
    let registrations = Registrations::load(path, &stored, now)?;
    for warning in &registrations.warnings {
        tracing::warn!("{warning}");
    }
    let plan = Plan::new(registrations, &stored, &AtRest(encryption_key))?;
    if plan.differences.is_empty() {
        tracing::info!(path = %path.display(), "registrations are up to date");
        return Ok(());
    }
    store.change_registry(plan.change, now).await?;
    for difference in &plan.differences {
        tracing::info!("registered: {difference}");
    }
    Ok(())
}

fn start_log(format: LogFormat) -> anyhow::Result<()> {
    let directives = std::env::var(LOG_VARIABLE).unwrap_or_else(|_| LOG_DEFAULT.to_owned());
    let filter = EnvFilter::try_new(directives).context(LOG_VARIABLE)?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stdout().is_terminal());
    let started = match format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("the log cannot be started: {error}"))
}
