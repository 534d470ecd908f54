//! `token-service check`.

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;

use actix_web::rt::System;

use super::{ConfigFile, output};
use crate::config::{Config, ProviderCredential};
use crate::jwt;
use crate::mail::Mailer;
use crate::providers::Providers;
use crate::telemetry::metrics::{MailMetrics, ProviderMetrics};
use domain::clock::Clock as _;
use domain::{Excerpt, ObjectName, SecondFactorRules};
use registry::file::load;
use registry::identities;
use registry::planning;
use secrets::key_file;
use system::SystemClock;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    file: ConfigFile,
    /// Do not connect to the mail server and the identity providers.
    #[arg(long)]
    offline: bool,
}

/// Reads configuration and registrations like `serve`, without touching the store, and tries the mail server and the identity providers.
/// Prints the problems of both files together, so that a single run shows all problems.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let (config, path) = match arguments.file.load() {
        Ok(config) => {
            for warning in config.warnings(key_file::is_in_container()) {
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
    let mut places = HashMap::new();
    let registrations = match path {
        None => None,
        Some(path) => {
            let draft = load(&path, SystemClock.now());
            let found = draft.places();
            places.extend(
                found.map(|(kind, name, place)| (ObjectName::new(kind, name), place.clone())),
            );
            match draft.check(&Excerpt::default()) {
                Ok(registrations) => Some(registrations),
                Err(problems) => {
                    output::line(problems)?;
                    return Ok(ExitCode::FAILURE);
                }
            }
        }
    };
    for warning in registrations.iter().flat_map(|read| &read.warnings) {
        output::line(format_args!("warning: {warning}"))?;
    }
    let Some(config) = config else {
        return Ok(ExitCode::FAILURE);
    };
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
    let instances = &config.legacy_instances;
    let is_known = |host: &str| instances.iter().any(|one| one.hostname == host);
    let takes_certificates = config.mutual_tls.is_some();
    for (_, warning) in registrations.unserved(is_known, takes_certificates, &config.protocol) {
        output::line(format_args!("warning: {warning} in the configuration"))?;
    }
    let users = registrations.users.iter();
    let linked = users.flat_map(|user| &user.object.identities);
    let linked = linked.map(|linked| &linked.identity);
    for warning in identities::unconfigured(linked, &config.protocol) {
        output::line(format_args!("warning: {warning}"))?;
    }
    for organization in config.protocol.second_factor.organizations.keys() {
        let mut users = registrations.users.iter();
        let of = |name: &String| SecondFactorRules::folded(name) == *organization;
        if !users.any(|user| user.object.organization.as_ref().is_some_and(of)) {
            output::line(format_args!(
                "warning: organizations.{organization:?} in the configuration: no user of the registrations has this organization"
            ))?;
        }
    }
    let place = |object: &ObjectName| places.get(object).cloned();
    let has_legacy = !instances.is_empty();
    let misfits = planning::misfits_of(&registrations, place, has_legacy, &config.protocol);
    if !misfits.is_empty() {
        output::line(misfits.join("\n"))?;
        return Ok(ExitCode::FAILURE);
    }
    output::line(format_args!(
        "{verdict}: {} clients, {} users.",
        registrations.clients.len(),
        registrations.users.len()
    ))?;
    Ok(code)
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
