//! Memory of the filter and of the native module.

use std::time::{Duration, Instant};

use anyhow::Result;
use tests::{Artifacts, pace};

use super::feed;
use super::gateway::{Enforcer, Gateway, Modules};
use super::load::{Client, with_tokens};
use super::tokens::Issuers;
use crate::measure::resident;
use crate::short;

/// A feed that fills the filter's table (`max_entries`).
const REVOCATIONS: usize = 1_000_000;

/// How long the memory of a settled gateway stays the same.
const SETTLED: Duration = Duration::from_secs(3);

/// A change of resident memory that means nothing, in MiB.
const NOISE: f64 = 0.25;

/// Prints what each form adds to an Envoy with as many workers.
pub(crate) async fn print(artifacts: &Artifacts, modules: &Modules) -> Result<()> {
    let entries = short::objects(REVOCATIONS);
    println!("\nmemory that Envoy takes more than without a filter, MiB, every worker in use:");
    println!("{:<32} {:>8} {:>8}", "", "filter", "module");
    for workers in [2, 16].into_iter().take(short::count(2)) {
        let rows = [
            ("1 issuer".to_owned(), 1, 0),
            ("100 issuers".to_owned(), 100, 0),
            (format!("{entries} revocations"), 1, entries),
        ];
        // A short run has only the last row.
        for (name, issuers, entries) in rows.into_iter().skip(3 - short::count(3)) {
            let issuers = Issuers::new("EdDSA", issuers)?;
            let feed = feed::start(entries)?;
            let settled = async |enforcer| {
                let variants = [Enforcer::with_cache(enforcer)];
                let gateway =
                    Gateway::start(artifacts, modules, &issuers, &variants, feed, workers)?;
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
                        let mut client = Client::connect(*port, with_tokens(&tokens)).await;
                        client.send(tokens.len() * 4).await;
                    }
                }
                settle(&gateway)
            };
            let without = settled(Enforcer::None).await?;
            let filter = settled(Enforcer::Filter).await? - without;
            let module = settled(Enforcer::Module).await? - without;
            println!("{workers:>2} workers, {name:<20} {filter:>8.0} {module:>8.0}");
        }
    }
    Ok(())
}

/// Waits until the resident memory stays the same, and until every worker knows all revocations. Returns the memory in MiB.
fn settle(gateway: &Gateway) -> Result<f64> {
    let mut before = resident(gateway.pid()?);
    let mut since = Instant::now();
    while since.elapsed() < short::time(SETTLED) {
        pace();
        let now = resident(gateway.pid()?);
        if (now - before).abs() > NOISE || gateway.metric("revocations_missing")? > 0 {
            (before, since) = (now, Instant::now());
        }
    }
    Ok(before)
}
