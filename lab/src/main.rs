//! The laboratory: benchmarks, attacks, and long runs under load.
//!
//! `make` sets the environment variables that the modules describe.

mod attack;
mod bench;
mod corpus;
mod failover;
mod load;
mod long_run;
mod measure;
mod short;
mod soak;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;

/// Measures, attacks and tires out a pair of token service and gateway on this machine.
#[derive(Debug, Parser)]
#[command(name = "lab")]
enum Lab {
    /// Measure. SHORT=1 measures for a moment, to see that it works.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Put every grant and the API under load for SOAK_SECONDS (600) on each store.
    Soak,
    /// Upgrade two replicas under load, in UPGRADE_SECONDS (70) and the restarts.
    Upgrade {
        /// What tests/tools/earlier-version.sh made.
        earlier: PathBuf,
    },
    /// Attack a pair for ATTACK_SECONDS (60) with each attack, together with a client that must not notice.
    Attack {
        /// Names of attacks; all when absent.
        names: Vec<String>,
    },
    /// Let the database fail over under load, FAILOVER_ROUNDS (10) times in each of four ways.
    Failover,
    /// Run each fuzz target over its corpus.
    Corpus,
}

fn variable(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

/// The number in the environment variable `name`.
fn number(name: &'static str, default: u64) -> Result<u64> {
    variable(name, &default.to_string()).parse().context(name)
}

fn main() -> Result<ExitCode> {
    let is_well = match Lab::parse() {
        Lab::Bench(bench) => bench.run()?,
        Lab::Soak => soak::run()?,
        Lab::Upgrade { earlier } => soak::upgrade::run(&earlier)?,
        Lab::Attack { names } => attack::run(&names)?,
        Lab::Failover => failover::run()?,
        Lab::Corpus => corpus::run()?,
    };
    Ok(ExitCode::from(u8::from(!is_well)))
}
