//! The benchmarks.

#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that meets the unexpected has nothing to report"
)]

mod copy;
mod distance;
mod filter;
mod gateways;
mod http;
mod peers;
mod registrations;
mod revocation;
mod scripts;
mod seed;
mod server;
mod service;
mod store;
mod subject;

use anyhow::Result;
use clap::Subcommand;
use tokio::runtime::Runtime;

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// What the filter costs Envoy in both forms, against Envoy's own jwt_authn.
    Filter {
        /// Parts of names of scenarios; `proof`, `memory` and `size` are three more. All when absent.
        names: Vec<String>,
    },
    /// What token-guard costs each gateway.
    Gateways,
    /// How soon the API refuses a revoked token.
    Revocation,
    /// The running token service on each store.
    Service {
        /// costs, rates, held, distance, sizes. All when absent.
        parts: Vec<String>,
    },
    /// Many registered clients and users.
    Registrations,
    /// Only the redb store.
    Store,
    /// Copies of a store, from redb to PostgreSQL and back.
    Copy,
    /// What a token costs here, at oidc-provider and at Glewlwyd.
    Peers,
    /// Serve what `service` compares the token service with.
    #[command(hide = true)]
    Floor { port: u16 },
}

impl Bench {
    /// Returns true: a bound that is missed is printed, and no failure.
    pub(crate) fn run(self) -> Result<bool> {
        let runtime = Runtime::new()?;
        match self {
            Self::Filter { names } => runtime.block_on(filter::measure_all(&names))?,
            Self::Gateways => runtime.block_on(gateways::measure_all())?,
            Self::Revocation => revocation::measure()?,
            Self::Service { parts } => runtime.block_on(service::measure(&parts)),
            Self::Registrations => runtime.block_on(registrations::measure()),
            Self::Store => runtime.block_on(store::measure()),
            Self::Copy => runtime.block_on(copy::measure()),
            Self::Peers => runtime.block_on(peers::measure()),
            Self::Floor { port } => service::floor(port)?,
        }
        Ok(true)
    }
}
