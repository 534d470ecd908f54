//! `token-service check`.

use std::process::ExitCode;

use super::{ConfigFile, output};
use crate::clock::{Clock as _, SystemClock};
use crate::legacy::access_token;
use crate::registry::Registry;
use crate::registry::registrations::Registrations;

/// Reads configuration and registrations as `serve` would, without touching the store.
pub(super) fn run(arguments: &ConfigFile) -> anyhow::Result<ExitCode> {
    let config = match arguments.load() {
        Ok(config) => config,
        Err(problems) => {
            output::line(problems)?;
            return Ok(ExitCode::FAILURE);
        }
    };
    for warning in config.warnings() {
        output::line(format_args!("warning: {warning}"))?;
    }
    let Some(path) = &config.registrations else {
        output::line("The configuration has no problem; it names no registrations.")?;
        return Ok(ExitCode::SUCCESS);
    };
    match Registrations::load(path, &Registry::default(), SystemClock.now()) {
        Ok(registrations) => {
            for warning in &registrations.warnings {
                output::line(format_args!("warning: {warning}"))?;
            }
            let users = registrations
                .users
                .iter()
                .map(|registration| &registration.user);
            let misfits = access_token::misfits(
                &config.api_audience,
                &config.legacy_instances,
                &registrations.clients,
                users,
            );
            if !misfits.is_empty() {
                for misfit in misfits {
                    output::line(misfit)?;
                }
                return Ok(ExitCode::FAILURE);
            }
            output::line(format_args!(
                "No problem: {} clients, {} users.",
                registrations.clients.len(),
                registrations.users.len()
            ))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => {
            output::line(problems)?;
            Ok(ExitCode::FAILURE)
        }
    }
}
