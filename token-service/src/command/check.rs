//! `token-service check`.

use std::process::ExitCode;

use super::ConfigFile;
use crate::clock::{Clock as _, SystemClock};
use crate::legacy::access_token;
use crate::registry::Registry;
use crate::registry::registrations::Registrations;

/// Reads configuration and registrations as `serve` would, without touching the store.
pub(super) fn run(arguments: &ConfigFile) -> anyhow::Result<ExitCode> {
    let config = match arguments.load() {
        Ok(config) => config,
        Err(problems) => {
            println!("{problems}");
            return Ok(ExitCode::FAILURE);
        }
    };
    let Some(path) = &config.registrations else {
        println!("The configuration has no problem; it names no registrations.");
        return Ok(ExitCode::SUCCESS);
    };
    match Registrations::load(path, &Registry::default(), SystemClock.now()) {
        Ok(registrations) => {
            for warning in &registrations.warnings {
                println!("warning: {warning}");
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
                    println!("{misfit}");
                }
                return Ok(ExitCode::FAILURE);
            }
            println!(
                "No problem: {} clients, {} users.",
                registrations.clients.len(),
                registrations.users.len()
            );
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => {
            println!("{problems}");
            Ok(ExitCode::FAILURE)
        }
    }
}
