//! `make failover` lets the database fail over under load: Patroni and etcd with three PostgreSQL servers, two token
//! services whose `store.url` names the three servers, and Envoy with the filter. All grants and the API are in use.
//!
//! The primary is killed, frozen, cut off and switched over, `FAILOVER_ROUNDS` (10) times each; `FAILOVER_FAULTS` chooses,
//! with commas. The exit code is 1 if a request failed without naming a retry, if the API refused a good token or accepted
//! a revoked one, or if a code, rotation, assertion or revocation that was acknowledged was lost or accepted twice.

mod cluster;
mod runbook;
mod watch;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tests::load::{ExactlyOnce, NOTICE, Operation, Scope, World};
use tests::{Artifacts, Pair, Setup, pace};

use crate::long_run::report_requests;
use crate::measure::{Spread, spread};
use crate::{load, long_run, number, variable};
use cluster::{Cluster, Fault, TTL};
use watch::Watch;

/// Lifetime of the access tokens: longer than any failover, because the API must not refuse a good token meanwhile.
const ACCESS_TOKEN: Duration = Duration::from_secs(300);

/// Longest time until all works again, before the run gives up.
const PATIENCE: Duration = Duration::from_secs(180);

/// The aim: seconds until all works again after Patroni has made another server the primary.
const AIM: f64 = 10.0;

/// Most lines of two services about one failover.
const LINES: f64 = 40.0;

/// What must work again. Requests to refuse are no grants, and administration takes long rounds.
const GRANTS: [Operation; 8] = [
    Operation::ClientCredentials,
    Operation::JwtBearer,
    Operation::Page,
    Operation::SignIn,
    Operation::Code,
    Operation::Refresh,
    Operation::Legacy,
    Operation::Revoke,
];

/// Measurements of one round, in seconds.
struct Round {
    /// From the fault until Patroni has another primary.
    elected: f64,
    /// From then until every grant works.
    worked: f64,
    failed: u64,
    lines: usize,
}

/// Returns true if all is well.
pub(crate) fn run() -> Result<bool> {
    let rounds = number("FAILOVER_ROUNDS", 10)?;
    ensure!(
        (1..=1000).contains(&rounds),
        "FAILOVER_ROUNDS: must be from 1 to 1000"
    );
    let names = Fault::ALL.map(Fault::name).join(",");
    let chosen = variable("FAILOVER_FAULTS", &names);
    let faults = chosen.split(',').map(|name| {
        let fault = Fault::ALL.into_iter().find(|fault| fault.name() == name);
        fault.with_context(|| format!("FAILOVER_FAULTS: {name}: expected {names}"))
    });
    let faults: Vec<Fault> = faults.collect::<Result<_>>()?;

    let repository = Artifacts::find()?.repository;
    let begun = Instant::now();
    let mut cluster = Cluster::start(&repository)?;
    let state = tempfile::TempDir::new()?;
    let pair = Pair::start(setup(state.path(), &cluster.url())?)?;
    println!(
        "Patroni with three servers, two token services and Envoy run after {:.0} s. store.url: {}",
        begun.elapsed().as_secs_f64(),
        cluster.url()
    );
    let world = long_run::world(&pair, state.path())?;
    let mut load = load::start(&world, ACCESS_TOKEN)?;
    load::hold_a_token(&mut load, &world, ACCESS_TOKEN);
    ExactlyOnce::of(&world, NOTICE).start(&mut load);
    let watch = Watch::start(&pair, &world)?;
    let mut measured = BTreeMap::new();
    let outcome = faults.iter().try_for_each(|fault| {
        for number in 1..=rounds {
            let round = fail_over(&mut cluster, *fault, &world, &watch)?;
            println!(
                "{:<13} {number:>2}: a new primary after {:>4.1} s, every grant after {:>4.1} s more; {} requests failed, \
                 {} lines in the logs",
                fault.name(),
                round.elected,
                round.worked,
                round.failed,
                round.lines
            );
            measured.entry(fault.name()).or_insert_with(Vec::new).push(round);
        }
        anyhow::Ok(())
    });
    load.stop()?;
    let mut all_well = report(&world, &measured);
    if let Err(error) = outcome {
        println!("{error:#}\n{}", cluster.last_lines());
        all_well = false;
    }
    match cluster.follow_the_runbook(&watch) {
        Ok(()) => println!("What docs/runbook.md says about Patroni was done."),
        Err(error) => {
            let lines = cluster.last_lines();
            println!("docs/runbook.md, What Patroni says: {error:#}\n{lines}");
            all_well = false;
        }
    }
    all_well &= watch.judge(&repository, state.path())?;
    println!("{}", if all_well { "All is well." } else { "FAILED" });
    Ok(all_well)
}

/// The demo's pair with two token services. The filter refuses tokens if it does not know the revocations of the last
/// minute.
fn setup(state: &Path, store: &str) -> Result<Setup> {
    let access_token = format!("{}s", ACCESS_TOKEN.as_secs());
    let changes = [
        ("LIFETIMES__ACCESS_TOKEN", &*access_token),
        // A client may repeat a request after the failover. That must not count as theft.
        ("LIFETIMES__REFRESH_REUSE_GRACE", "5m"),
        ("LIFETIMES__AUTHORIZATION_CODE", "5m"),
    ];
    Ok(Setup {
        replica: true,
        gateway: vec![(
            r#""when_stale": "allow""#.to_owned(),
            r#""when_stale": "deny""#.to_owned(),
        )],
        ..long_run::setup(state, store, &changes)?
    })
}

/// Waits until all grants have worked since `start`. Returns the time from which on they worked.
fn until_all_work(world: &World, start: Instant) -> Result<Instant> {
    loop {
        // What fails again within a second has not worked.
        if let Some(since) = world.ledger.all_work(&GRANTS, start)
            && since.elapsed() > Duration::from_secs(1)
        {
            return Ok(since);
        }
        ensure!(
            start.elapsed() < PATIENCE,
            "not every grant works after {PATIENCE:?}"
        );
        pace();
    }
}

fn fail_over(cluster: &mut Cluster, fault: Fault, world: &World, watch: &Watch) -> Result<Round> {
    let (leader, standby) = cluster.until_complete()?;
    world.ledger.watch();
    until_all_work(world, Instant::now())?;
    world.ledger.watch();
    let lines = watch.lines()?;
    let unready = watch.unready();
    let ledger = &world.ledger;
    let start = Instant::now();
    let (elected, worked) = ledger.during_outage(Scope::Retryable, || {
        cluster.strike(fault, leader, standby)?;
        while !cluster.has_new_primary(leader) {
            ensure!(start.elapsed() < PATIENCE, "no new primary");
            pace();
        }
        let elected = Instant::now();
        anyhow::Ok((elected, until_all_work(world, elected)?))
    })?;
    let failed = ledger.failures();
    ensure!(
        fault == Fault::SwitchedOver || watch.unready() > unready,
        "/readyz did not name the store"
    );
    cluster.mend(fault, leader)?;
    cluster.until_complete()?;
    Ok(Round {
        elected: elected.duration_since(start).as_secs_f64(),
        worked: worked.duration_since(elected).as_secs_f64(),
        failed,
        lines: watch.lines()? - lines,
    })
}

/// Prints the table of docs/failover.md and what went wrong. Returns true if nothing did.
fn report(world: &World, measured: &BTreeMap<&str, Vec<Round>>) -> bool {
    let mut all_well = true;
    println!("\nTTL of the leader: {TTL} s. Seconds, p50 and longest:");
    println!(
        "| primary | rounds | until Patroni has a new primary | from then until every grant works | requests that failed, each time | lines in the logs of two services, most |"
    );
    println!("|---|---|---|---|---|---|");
    for (fault, rounds) in measured {
        let of = |value: fn(&Round) -> f64| {
            let values: Vec<f64> = rounds.iter().map(value).collect();
            let Spread { median, most, .. } = spread(&values);
            (median, most)
        };
        let ((elected, longest), (worked, slowest)) =
            (of(|round| round.elected), of(|round| round.worked));
        let (failed, most) = of(|round| round.failed as f64);
        let (_, lines) = of(|round| round.lines as f64);
        println!(
            "| {fault} | {} | {elected:.1}, {longest:.1} | {worked:.1}, {slowest:.1} | {failed:.0}, {most:.0} | {lines:.0} |",
            rounds.len()
        );
        if slowest > AIM {
            println!("  LONGER than {AIM} s");
            all_well = false;
        }
        if lines > LINES {
            println!(
                "  MORE than {LINES} lines: the log names the cause once, and not for each request"
            );
            all_well = false;
        }
    }
    all_well & report_requests(&world.ledger, "and named a retry")
}
