//! `token-service check`.

use std::path::Path;
use std::process::ExitCode;

use actix_web::rt::System;

use super::{ConfigFile, output, variables};
use crate::admin_tokens::AdminTokens;
use crate::config::{Config, ProviderCredential, StoreUrl};
use crate::jwt;
use crate::mail::Mailer;
use crate::providers::Providers;
use crate::telemetry::metrics::{MailMetrics, ProviderMetrics};
use domain::clock::Clock as _;
use domain::{Excerpt, SecondFactorRules};
use registry::file::load;
use registry::identities;
use registry::planning::Surroundings;
use registry::registrations::Registrations;
use secrets::{encryption_key, key_file};
use store::{Look, postgres, redb};
use system::SystemClock;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    file: ConfigFile,
    /// Do not connect to PostgreSQL, the mail server and the identity providers.
    #[arg(long)]
    offline: bool,
}

/// Reads configuration, registrations, keys and the store like `serve`, without changing anything, and tries the mail server and the
/// identity providers. Prints the problems of both files together, so that a single run shows all problems.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let (config, path) = match arguments.file.load() {
        Ok(config) => {
            let variables = std::env::vars_os().map(|(name, _)| name);
            let warnings = config.warnings(key_file::is_in_container()).into_iter();
            for warning in warnings.chain(variables::warnings(variables)) {
                output::line(format_args!("warning: {warning}"))?;
            }
            let path = config.registrations.clone();
            (Some(config), path)
        }
        Err(problems) => {
            output::line(problems)?;
            (None, arguments.file.registrations())
        }
    };
    let read = path.map(|path| load(&path, SystemClock.now()).check(&Excerpt::default()));
    let registrations = match read.transpose() {
        Ok(registrations) => registrations,
        Err(problems) => {
            output::line(problems)?;
            return Ok(ExitCode::FAILURE);
        }
    };
    let Some(config) = config else {
        return Ok(ExitCode::FAILURE);
    };
    let found = registrations.as_ref().map(|registrations| {
        registrations.problems(Surroundings {
            settings: &config.protocol,
            legacy_instances: &config.legacy_instances,
            takes_certificates: config.mutual_tls.is_some(),
            at_start: true,
        })
    });
    for warning in found.iter().flat_map(|found| &found.warnings) {
        output::line(format_args!("warning: {warning}"))?;
    }
    match try_store(&config, registrations.as_ref(), arguments.offline) {
        Ok(warnings) => {
            for warning in warnings {
                output::line(format_args!("warning: {warning}"))?;
            }
        }
        Err(error) => {
            output::line(format_args!("{error:#}"))?;
            return Ok(ExitCode::FAILURE);
        }
    }
    if let Some(mail) = &config.mail {
        match Mailer::new(mail, MailMetrics::default()) {
            Ok(mailer) => {
                let connect = || System::new().block_on(mailer.try_connection());
                if !arguments.offline
                    && let Err(error) = connect()
                {
                    output::line(format_args!("warning: mail cannot be sent: {error:#}"))?;
                }
            }
            Err(error) => {
                output::line(format_args!("{error:#}"))?;
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    let (verdict, code) = match try_providers(&config, arguments.offline) {
        Ok(0) => ("No problem".to_owned(), ExitCode::SUCCESS),
        Ok(failed) => (
            format!("Identity providers that failed: {failed}. Otherwise no problem"),
            ExitCode::FAILURE,
        ),
        Err(error) => {
            output::line(format_args!("{error:#}"))?;
            return Ok(ExitCode::FAILURE);
        }
    };
    for (key, path) in paths(&config) {
        output::line(format_args!("{key}: {path}"))?;
    }
    let Some(registrations) = registrations else {
        output::line(format_args!(
            "{verdict}. The configuration names no registrations."
        ))?;
        return Ok(code);
    };
    for organization in config.protocol.second_factor.organizations.keys() {
        let mut users = registrations.users.iter();
        let of = |name: &String| SecondFactorRules::folded(name) == *organization;
        if !users.any(|user| user.object.organization.as_ref().is_some_and(of)) {
            output::line(format_args!(
                "warning: organizations.{organization:?} in the configuration: no user of the registrations has this organization"
            ))?;
        }
    }
    if let Some(found) = found.filter(|found| !found.refused.is_empty()) {
        output::line(found.refused.join("\n"))?;
        return Ok(ExitCode::FAILURE);
    }
    output::line(format_args!(
        "{verdict}: {}, {}.",
        output::counted(registrations.clients.len() as u64, "client"),
        output::counted(registrations.users.len() as u64, "user")
    ))?;
    Ok(code)
}

/// Reads the files with keys, and compares them and the registrations with the store. Returns what a start would warn of.
///
/// # Errors
/// Why a start would fail.
fn try_store(
    config: &Config,
    registrations: Option<&Registrations>,
    offline: bool,
) -> anyhow::Result<Vec<String>> {
    let mut warnings = AdminTokens::check(&config.admin_token_file)?;
    let values = registrations.map(identities::values_of).unwrap_or_default();
    let look = match &config.store {
        StoreUrl::Redb(path) => Some(redb::look(path, &values)?),
        StoreUrl::Postgres(_) if offline => None,
        StoreUrl::Postgres(settings) => {
            let look = postgres::look(settings, values);
            Some(System::new().block_on(look)?)
        }
    };
    let sealed_root = match &look {
        Some(Look::Found { sealed_root, .. }) => sealed_root.as_deref(),
        Some(Look::Unread) => {
            warnings.push(format!(
                "{}: a process has the store open, or did not close it, so the encryption key and the registrations were not compared \
                 with it",
                config.store
            ));
            None
        }
        Some(Look::Absent) | None => None,
    };
    encryption_key::check(&config.encryption_key_file, sealed_root)?;
    if let (Some(Look::Found { holders, .. }), Some(registrations)) = (&look, registrations) {
        let held = identities::kept_by_others(registrations, holders);
        warnings.extend(held.iter().map(ToString::to_string));
    }
    Ok(warnings)
}

/// Fetches metadata and keys of each identity provider, and prints what was found and what to register there. Returns how many failed.
fn try_providers(config: &Config, offline: bool) -> anyhow::Result<usize> {
    let settings = &config.protocol.identity_providers;
    let providers = Providers::new(config, &ProviderMetrics::default())?;
    let mut failed = 0;
    for (provider, connection) in settings.iter().zip(&config.identity_providers) {
        let id = &provider.id;
        let say = |text: &str| output::line(format_args!("identity provider {id}: {text}"));
        if !offline {
            match System::new().block_on(providers.probe(provider)) {
                Ok((keys, endpoints)) => {
                    say(&format!("usable keys: {keys}"))?;
                    if let Some(endpoints) = endpoints {
                        say(&format!(
                            "people sign in at {}",
                            endpoints.authorization_endpoint
                        ))?;
                        say(&format!(
                            "codes are redeemed at {}",
                            endpoints.token_endpoint
                        ))?;
                    }
                }
                Err(unavailable) => {
                    failed += 1;
                    say(&format!("does not answer usably: {}", unavailable.why))?;
                }
            }
        }
        if provider.client_id.is_some() {
            let issuer = &config.protocol.issuer;
            say(&format!(
                "redirect URI to register at the provider: {}",
                provider.redirect_uri(issuer)
            ))?;
            say(&format!(
                "back-channel logout URI to register at the provider: {}",
                provider.logout_uri(issuer)
            ))?;
        }
        if let Some(ProviderCredential::KeyFile(path)) = &connection.credential {
            let key = serde_json::to_string(jwt::read_key(path)?.jwk())?;
            say(&format!("public key to register at the provider: {key}"))?;
        }
    }
    Ok(failed)
}

/// The files and the store that the service would use, by the key that sets them.
fn paths(config: &Config) -> Vec<(&'static str, String)> {
    let text = |path: &Path| path.display().to_string();
    let mut paths = vec![
        ("store.url", config.store.to_string()),
        ("encryption_key_file", text(&config.encryption_key_file)),
        ("admin_token_file", text(&config.admin_token_file)),
    ];
    paths.extend(
        config
            .registrations
            .as_deref()
            .map(|path| ("registrations", text(path))),
    );
    paths
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Arc;

    use super::*;
    use domain::testing::{identity, username};
    use domain::{LinkedIdentity, RegistryChange, User};
    use store::redb::RedbStore;
    use store::{RegistrationStore as _, Store};
    use system::OsRandom;

    #[tokio::test]
    async fn what_would_stop_or_surprise_a_start_is_told_before() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| {
            std::fs::write(at(name), text).unwrap();
            let mode = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(at(name), mode).unwrap();
        };
        write(
            "registrations.toml",
            "[[users]]\nusername = \"mary\"\n[[users.identities]]\nissuer = \"https://sso.example.com\"\nsubject = \"1\"\n",
        );
        let config = Config {
            encryption_key_file: at("key"),
            admin_token_file: at("token"),
            store: StoreUrl::Redb(at("store")),
            ..Config::default()
        };
        let registrations = load(&at("registrations.toml"), SystemClock.now());
        let registrations = registrations.check(&Excerpt::default()).unwrap();
        let told = || match try_store(&config, Some(&registrations), true) {
            Ok(warnings) => warnings.join("\n"),
            Err(error) => format!("fails: {error:#}"),
        };
        assert_eq!(told(), "");
        assert!(!at("store").exists(), "nothing is created");
        write("key", "");
        assert!(told().contains("fails: the key file"), "{}", told());
        std::fs::remove_file(at("key")).unwrap();

        let store = RedbStore::open(&at("store"), Default::default()).unwrap();
        let opened = encryption_key::open(&at("key"), &store, &OsRandom).await;
        drop(opened.unwrap());
        let mut grace = User::new(username("grace"));
        grace.identities.push(LinkedIdentity {
            identity: identity("1"),
            by_email: true,
        });
        let change = RegistryChange {
            put_users: vec![grace],
            ..RegistryChange::default()
        };
        store
            .change_registry(change, SystemClock.now())
            .await
            .unwrap();
        assert!(
            told().contains("a process has the store open"),
            "{}",
            told()
        );
        let store: Arc<dyn Store> = Arc::new(store);
        store.close().await;
        drop(store);
        let held = "user mary: identities: grace has 1 of https://sso.example.com";
        assert!(told().starts_with(held), "{}", told());
        assert_eq!(told().lines().count(), 1);

        write("token", "# nobody\n");
        assert!(told().contains("there is no admin token"), "{}", told());
        write("token", "short ada full\n");
        assert!(told().contains("line 1: expected TOKEN"), "{}", told());
        let key = std::fs::read_to_string(at("key")).unwrap();
        write("key", &"A".repeat(43));
        assert!(told().contains("fails: none of the keys"), "{}", told());
        write("key", "garbage");
        assert!(told().contains("fails: the key file"), "{}", told());
        std::fs::remove_file(at("key")).unwrap();
        assert!(told().contains("is missing"), "{}", told());
        write("key", &key);
        write("store", "no store");
        assert!(told().contains("is damaged or not a store"), "{}", told());
    }
}
