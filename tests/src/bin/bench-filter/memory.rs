//! Memory of the filter and of the native module.

use std::time::{Duration, Instant};

use anyhow::Result;
use tests::{Artifacts, pace, short};

use crate::feed;
use crate::gateway::{Enforcer, Gateway, Modules, Variant};
use crate::load::{Client, with_tokens};
use crate::tokens::Issuers;

/// A feed that fills the filter's table (`max_entries`).
const REVOCATIONS: usize = 1_000_000;

/// How long the memory of a settled gateway stays the same.
const SETTLED: Duration = Duration::from_secs(3);

/// A change of resident memory that means nothing, in KiB.
const NOISE: i64 = 256;

/// Prints what each form adds to an Envoy with as many workers.
pub(crate) fn print(artifacts: &Artifacts, modules: &Modules) -> Result<()> {
    let entries = short::count(REVOCATIONS);
    println!("\nmemory that Envoy takes more than without a filter, MiB, every worker in use:");
    println!("{:<32} {:>8} {:>8}", "", "filter", "module");
    for workers in [2, 16].into_iter().take(short::count(2)) {
        for (name, issuers, entries) in [
            ("1 issuer".to_owned(), 1, 0),
            ("100 issuers".to_owned(), 100, 0),
            (format!("{entries} revocations"), 1, entries),
        ] {
            let issuers = Issuers::new("EdDSA", issuers)?;
            let feed = feed::start(entries)?;
            let resident = |enforcer| {
                let variant = Variant {
                    enforcer,
                    claims: false,
                    cached: true,
                    proofs: false,
                };
                let gateway =
                    Gateway::start(artifacts, modules, &issuers, &[variant], feed, workers)?;
                if enforcer != Enforcer::None {
                    while gateway.metric("revocation_entries")? < entries as u64 {
                        pace();
                    }
                    settle(&gateway)?;
                }
                let tokens = issuers.tokens(100)?;
                // The kernel distributes the connections: enough of them reach every worker.
                for _ in 0..2 * workers {
                    for port in gateway.ports() {
                        Client::connect(*port, with_tokens(&tokens))?.send(tokens.len() * 4)?;
                    }
                }
                settle(&gateway)
            };
            let without = resident(Enforcer::None)?;
            let added = |enforcer| Ok::<_, anyhow::Error>((resident(enforcer)? - without) / 1024);
            let (filter, module) = (added(Enforcer::Filter)?, added(Enforcer::Module)?);
            println!("{workers:>2} workers, {name:<20} {filter:>8} {module:>8}");
        }
    }
    Ok(())
}

/// Waits until the resident memory stays the same, and until every worker knows all revocations. Returns the memory in KiB.
fn settle(gateway: &Gateway) -> Result<i64> {
    let mut resident = gateway.resident_kilobytes()?;
    let mut since = Instant::now();
    while since.elapsed() < short::time(SETTLED) {
        pace();
        let now = gateway.resident_kilobytes()?;
        if (now - resident).abs() > NOISE || gateway.metric("revocations_missing")? > 0 {
            (resident, since) = (now, Instant::now());
        }
    }
    Ok(resident)
}
