//! What `soak`, `upgrade` and `failover` share: the pair, the ledger's report, and the last lines of a log.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use tests::load::{Ledger, Operation, World};
use tests::{Artifacts, Pair, Ports, Setup, setting, state_in};

/// The demo's pair with this store and these settings.
pub(crate) fn setup(state: &Path, store: &str, changes: &[(&str, &str)]) -> Result<Setup> {
    let mut environment = state_in(state);
    let common = [("STORE__URL", store), ("AUDIT__STANDARD_OUTPUT", "false")];
    let changes = common.iter().chain(changes);
    environment.extend(changes.map(|(key, value)| setting((key, (*value).to_owned()))));
    let repository = Artifacts::find()?.repository;
    Ok(Setup::of_demo(Ports::free()?, repository, environment))
}

/// What the load knows about a pair with its state in this folder.
pub(crate) fn world(pair: &Pair, state: &Path) -> Result<Arc<World>> {
    let token = std::fs::read_to_string(state.join("admin-token"))?;
    Ok(Arc::new(World::of(pair, &token)))
}

/// Prints what became of the requests. `excused`: why a request may have failed. Returns true if all were answered as
/// expected.
pub(crate) fn report_requests(ledger: &Ledger, excused: &str) -> bool {
    println!();
    let mut all_well = true;
    for operation in Operation::ALL {
        let count = ledger.count(operation);
        println!(
            "{:<24} {:>7} as expected, {:>4} failed {excused}",
            operation.name(),
            count.as_expected,
            count.excused
        );
        if count.as_expected == 0 {
            println!("  NOT DONE at all");
            all_well = false;
        }
    }
    match ledger.standstills() {
        0 => {}
        count => println!(
            "  The machine stood still, {count} times: refusals of these times are excused."
        ),
    }
    for (what, count) in ledger.surprises() {
        println!("  {count} times: {what}");
        all_well = false;
    }
    all_well
}

/// Prints the last 20 of `lines`.
pub(crate) fn print_last<'a>(lines: impl Iterator<Item = &'a str>) {
    let lines: Vec<&str> = lines.collect();
    let last = lines.len().saturating_sub(20);
    println!("{}", lines.get(last..).unwrap_or_default().join("\n"));
}
