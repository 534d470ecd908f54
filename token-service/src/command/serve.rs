//! `token-service serve`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use super::ConfigFile;
use super::telemetry::Telemetry;
use super::variables;
use crate::admin::registrations::{self, MOST_PLANS};
use crate::admin_tokens::AdminTokens;
use crate::audit_log::{Entry, Origin};
use crate::config::{Config, StoreUrl};
use crate::encryption_key;
use crate::http::Application;
use crate::planning::{self, OwnFiles};
use crate::service::Service;
use domain::clock::{Clock, SystemClock};
use domain::random::OsRandom;
use domain::remembered::{ObjectKind, ObjectName};
use domain::{AuditEvent, RegistryChange, RegistryOutcome};
use protocol::sealing::EncryptionKey;
use registration::apply::{Kept, Listed, Occasion, Plan};
use registration::describe::Registered;
use registration::protection::AtRest;
use registration::registrations::{Draft, Registrations};
use store::Store;
use store::postgres::PostgresStore;
use store::redb::RedbStore;

const DEVELOPMENT_BANNER: &str = "
  ************************************************************************
  * No --config: running with DEVELOPMENT DEFAULTS.                      *
  * Plain http, loopback only, state in ./data, nobody registered.       *
  * Never run it like this for real.                                     *
  ************************************************************************
";

pub(super) fn run(arguments: &ConfigFile) -> anyhow::Result<ExitCode> {
    let config = arguments.load()?;
    let telemetry = Telemetry::start(&config)?;
    if arguments.path().is_none() {
        eprintln!("{DEVELOPMENT_BANNER}");
    }
    if config.protocol.issuer.starts_with("http://") {
        tracing::warn!(
            issuer = config.protocol.issuer,
            "the issuer is plain http: for development only"
        );
    }
    let variables = std::env::vars_os().map(|(name, _)| name);
    for warning in config
        .warnings()
        .into_iter()
        .chain(variables::warnings(variables))
    {
        tracing::warn!("{warning}");
    }
    let served = actix_web::rt::System::new().block_on(serve(config));
    telemetry.finish();
    served?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(config: Config) -> anyhow::Result<()> {
    // Each connection needs a file descriptor, and the usual soft limit of 1,024 is too low.
    match rlimit::increase_nofile_limit(rlimit::INFINITY) {
        Ok(limit) => tracing::debug!(limit, "open files"),
        Err(error) => tracing::warn!(%error, "the limit of open files stays as it is"),
    }
    let service = prepare(config).await?;
    let application = Application::bind(Arc::new(service))?;
    tracing::info!(
        public = %application.public_address(),
        internal = %application.internal_address(),
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
    service.recorded(&registered);
    Ok(service)
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

/// Applies changes of the configuration and the registrations file since the last start (D-27). Returns the entries of
/// the audit log.
async fn register(
    config: &Config,
    store: &dyn Store,
    encryption_key: &EncryptionKey,
) -> anyhow::Result<Arc<[AuditEvent]>> {
    for _ in 0..MOST_PLANS {
        let now = SystemClock.now();
        let plan = plan(config, store, encryption_key).await?;
        tell(config, &plan);
        if plan.is_empty() {
            tracing::info!("registrations are up to date");
            return Ok(Arc::default());
        }
        let event = |entry: Entry| entry.event(&Origin::default(), now, config.audit.keep_for);
        let events: Arc<[AuditEvent]> = entries(config, &plan).into_iter().map(event).collect();
        let change = RegistryChange {
            audit: Arc::clone(&events),
            ..plan.change
        };
        // Another replica may have applied the same file a moment ago.
        if store.change_registry(change, now).await? == RegistryOutcome::Changed {
            for difference in &plan.differences {
                tracing::info!("registered: {difference}");
            }
            return Ok(events);
        }
    }
    anyhow::bail!("other replicas are changing the registry at the same time: start again")
}

async fn plan(
    config: &Config,
    store: &dyn Store,
    encryption_key: &EncryptionKey,
) -> anyhow::Result<Plan> {
    let protection = AtRest(encryption_key);
    let instances = &config.legacy_instances;
    let mut names: Vec<ObjectName> = instances.iter().map(Registered::object_name).collect();
    let registrations = config.registrations.as_ref();
    let draft = registrations.map(|path| Registrations::load(path, SystemClock.now()));
    names.extend(draft.iter().flat_map(Draft::names));
    let stored = store.excerpt(names).await?;
    let mut places = BTreeMap::new();
    let (mut plan, mut listed, files) = match draft {
        None => (
            Plan::on(&stored),
            Listed::default(),
            OwnFiles::Configuration,
        ),
        Some(draft) => {
            let registrations = draft.check(&stored)?;
            for warning in &registrations.warnings {
                tracing::warn!("{warning}");
            }
            places.clone_from(&registrations.client_places);
            let listed = Listed::of(&registrations);
            let plan = Plan::merge(registrations, &stored, Occasion::Start, &protection)?;
            (plan, listed, OwnFiles::ConfigurationAndRegistrations)
        }
    };
    plan.merge_legacy_instances(instances, &stored, &protection)?;
    listed.add(instances);
    planning::forget_left(&mut plan, files, &listed, store).await?;
    let api_audience = &config.protocol.api_audience;
    let misfits = planning::misfits(
        &plan,
        &stored,
        api_audience,
        &places,
        planning::Occasion::Start,
        store,
    )
    .await?;
    if !misfits.is_empty() {
        anyhow::bail!("{}", misfits.join("\n"));
    }
    Ok(plan)
}

/// Logs all fields in which the registry keeps its value: new conflicts as warnings, known ones as information.
fn tell(config: &Config, plan: &Plan) {
    for kept in &plan.kept {
        let of_configuration = kept.object.kind == ObjectKind::LegacyInstance;
        let file = match &config.registrations {
            Some(path) if !of_configuration => path.display().to_string(),
            _ => "the configuration".to_owned(),
        };
        if kept.conflict {
            tracing::warn!(
                file,
                "kept, because a command changed it or the service never applied the file to it: {kept}. \
                 To let a registrations file count, run token-service apply FILE --overwrite"
            );
        } else {
            tracing::info!(file, "kept as a command left it: {kept}");
        }
    }
}

/// The audit entries for a start that carried out `plan`.
fn entries(config: &Config, plan: &Plan) -> Vec<Entry> {
    let of_configuration = |object: &ObjectName| object.kind == ObjectKind::LegacyInstance;
    let (mut configured, mut registered) = (Vec::new(), Vec::new());
    for difference in &plan.differences {
        let part = match of_configuration(&difference.object) {
            true => &mut configured,
            false => &mut registered,
        };
        part.push(difference.clone());
    }
    let (kept_configured, kept_registered): (Vec<Kept>, Vec<Kept>) = plan
        .kept
        .iter()
        .cloned()
        .partition(|kept| of_configuration(&kept.object));
    let configured = registrations::entries(&configured, &kept_configured);
    let mut entries: Vec<Entry> = configured.map(Entry::by_configuration).collect();
    if let Some(path) = &config.registrations {
        let registered = registrations::entries(&registered, &kept_registered);
        entries.extend(registered.map(|entry| entry.by_file(path)));
    }
    entries
}

#[cfg(test)]
mod planning_tests;

#[cfg(test)]
mod restart_tests;

#[cfg(test)]
mod tests;
