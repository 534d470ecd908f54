//! `make bench-filter` measures what the filter costs Envoy, compared with the native `jwt_authn`.
//!
//! One Envoy with one worker has a listener for each variant. Short blocks of requests alternate between the variants
//! of a scenario, so that changes in the machine's speed cancel out. The measure is the CPU time of the Envoy process.
//! Absolute times depend on the machine, so the results are ratios of what each variant adds to a request without any
//! filter.
//!
//! Filter and native module read a revocation feed and write metrics.
//!
//! `SHORT=1` measures for a moment, with the native module of the tests, which is not optimized. `BASELINE_MODULE` names another
//! version of the filter to compare with. Arguments choose scenarios by parts of their names; `proof`, `memory` and `size` are
//! three more.

mod feed;
mod gateway;
mod load;
mod memory;
mod proofs;
mod tokens;

use std::collections::HashMap;
use std::{env, fs};

use anyhow::{Context as _, Result};
use tests::{Artifacts, Form};

use crate::measure::{cpu, microseconds, quartiles};
use crate::short;
use gateway::{Enforcer, Gateway, Modules, Variant};
use load::{Client, with_tokens};
use tokens::Issuers;

/// Alternations between the variants of a scenario.
const ROUNDS: usize = 60;
/// Alternations for scenarios in which a variant adds one or two microseconds to twenty, because the noise of the
/// machine is as large.
const MANY_ROUNDS: usize = 300;
/// Requests to one variant before requests to the next.
fn block() -> usize {
    short::count(250)
}
/// Entries of the feed, except where its memory is measured.
const REVOCATIONS: usize = 1000;
/// Number of groups of rounds. The result is their median, with the quartiles as the spread.
const GROUPS: usize = 12;

/// A comparison with the native filter.
struct Scenario {
    name: &'static str,
    algorithm: &'static str,
    tokens: usize,
    issuers: usize,
    /// True to forward six claims.
    claims: bool,
    /// True if the filter caches tokens; otherwise it verifies the token of each request. The native filter runs with
    /// or without its cache accordingly.
    cached: bool,
    /// The bound of the ratio, and the goal.
    bounds: Option<(f64, f64)>,
    /// Those of the native module.
    of_module: Option<(f64, f64)>,
}

impl Scenario {
    fn rounds(&self) -> usize {
        let usual = match (self.cached, self.bounds) {
            (true, Some(_)) => MANY_ROUNDS,
            _ => ROUNDS,
        };
        short::count(usual).max(GROUPS)
    }
}

const fn cached(
    name: &'static str,
    bounds: Option<(f64, f64)>,
    of_module: Option<(f64, f64)>,
) -> Scenario {
    Scenario {
        name,
        algorithm: "EdDSA",
        tokens: 1,
        issuers: 1,
        claims: false,
        cached: true,
        bounds,
        of_module,
    }
}

const fn first_sight(
    name: &'static str,
    algorithm: &'static str,
    of_module: (f64, f64),
) -> Scenario {
    Scenario {
        algorithm,
        cached: false,
        ..cached(name, Some((1.0, 0.7)), Some(of_module))
    }
}

/// As many tokens, of one issuer and of one issuer each.
const ONE_ISSUER: &str = "cached, 100 tokens";
const MANY_ISSUERS: &str = "cached, 100 issuers";

/// The bound of the ratio of their costs: no search through the issuers.
const FLAT: f64 = 1.5;

const SCENARIOS: [Scenario; 10] = [
    cached("cached, no claims", Some((2.2, 1.5)), Some((0.8, 0.7))),
    Scenario {
        claims: true,
        ..cached("cached, six claims", Some((1.7, 1.2)), Some((0.7, 0.6)))
    },
    Scenario {
        algorithm: "RS256",
        ..cached("cached, RS256", Some((2.2, 1.5)), Some((0.8, 0.7)))
    },
    Scenario {
        tokens: 1000,
        ..cached("cached, 1000 tokens", None, None)
    },
    Scenario {
        tokens: 100,
        ..cached(ONE_ISSUER, None, None)
    },
    Scenario {
        issuers: 100,
        tokens: 100,
        ..cached(MANY_ISSUERS, None, None)
    },
    first_sight("first sight, EdDSA", "EdDSA", (0.6, 0.5)),
    first_sight("first sight, ES256", "ES256", (0.9, 0.8)),
    first_sight("first sight, RS256", "RS256", (0.9, 0.8)),
    Scenario {
        issuers: 100,
        tokens: 100,
        bounds: None,
        of_module: None,
        ..first_sight("first sight, 100 issuers", "EdDSA", (0.6, 0.5))
    },
];

/// Cost of each variant in one round, in microseconds of CPU time per request; 0 for a missing baseline.
#[derive(Clone, Copy, Default)]
struct Round {
    plain: f64,
    native: f64,
    cached: f64,
    crossing: f64,
    filter: f64,
    module: f64,
    baseline: f64,
}

impl Round {
    const fn of(&mut self, enforcer: Enforcer) -> &mut f64 {
        match enforcer {
            Enforcer::None => &mut self.plain,
            Enforcer::Native => &mut self.native,
            Enforcer::NativeWithCache => &mut self.cached,
            Enforcer::Crossing => &mut self.crossing,
            Enforcer::Filter => &mut self.filter,
            Enforcer::Module => &mut self.module,
            Enforcer::Baseline => &mut self.baseline,
        }
    }
}

pub(crate) async fn measure_all(wanted: &[String]) -> Result<()> {
    let artifacts = Artifacts::of(Form::Wasm)?;
    let modules = Modules {
        filter: artifacts.filter.clone(),
        native: Artifacts::of(Form::Native)?.filter,
        baseline: env::var_os("BASELINE_MODULE").map(Into::into),
    };
    println!(
        "{ROUNDS} rounds of {} requests, {MANY_ROUNDS} where little is added. \"plain\" is Envoy's CPU time per request \
         without a filter, the next ones what each adds to it; \"crossing\" is a module that only reads the headers, \"base\" \
         is BASELINE_MODULE. The second line of a request is about the native module in place of the filter.\n",
        block()
    );
    println!(
        "{:<26} {:>8} {:>9} {:>9} {:>11} {:>9} {:>7}  {:>18}  {:>18}  {:>18}  {:>18}  bound, aim",
        "",
        "plain us",
        "native us",
        "+cache us",
        "crossing us",
        "filter us",
        "base us",
        "filter/native",
        "filter/+cache",
        "filter/crossing",
        "filter/base",
    );
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part));
    let feed = feed::start(REVOCATIONS)?;
    let mut costs = HashMap::new();
    for scenario in SCENARIOS.iter().filter(|scenario| is_wanted(scenario.name)) {
        let cost = measure(&artifacts, &modules, scenario, feed).await?;
        costs.insert(scenario.name, cost);
    }
    if let (Some(one), Some(many)) = (costs.get(ONE_ISSUER), costs.get(MANY_ISSUERS)) {
        for (name, one, many) in [("filter", one.0, many.0), ("native module", one.1, many.1)] {
            let ratio = many / one;
            let verdict = if ratio <= FLAT { "meets" } else { "misses" };
            println!("{name}: 100 issuers cost {ratio:.2} times as much as one  {verdict} {FLAT}");
        }
    }
    for algorithm in proofs::ALGORITHMS {
        if is_wanted(&format!("proof, {algorithm}")) {
            proofs::measure(&artifacts, &modules, algorithm, feed).await?;
        }
    }
    println!();
    if is_wanted("size") {
        sizes(&modules)?;
    }
    if is_wanted("memory") {
        memory::print(&artifacts, &modules).await?;
    }
    Ok(())
}

/// Measures a scenario and prints its row. Returns what the filter and the native module add, in microseconds.
async fn measure(
    artifacts: &Artifacts,
    modules: &Modules,
    scenario: &Scenario,
    feed: u16,
) -> Result<(f64, f64)> {
    let issuers = Issuers::new(scenario.algorithm, scenario.issuers)?;
    let mut enforcers = vec![
        Enforcer::None,
        Enforcer::Native,
        Enforcer::NativeWithCache,
        Enforcer::Crossing,
        Enforcer::Filter,
        Enforcer::Module,
    ];
    enforcers.extend(modules.baseline.as_ref().map(|_| Enforcer::Baseline));
    let variants: Vec<Variant> = enforcers
        .iter()
        .map(|enforcer| Variant {
            enforcer: *enforcer,
            claims: scenario.claims,
            cached: scenario.cached,
            proofs: false,
        })
        .collect();
    let gateway = Gateway::start(artifacts, modules, &issuers, &variants, feed, 1)?;
    let tokens = issuers.tokens(scenario.tokens)?;
    let mut clients = Vec::new();
    for port in gateway.ports() {
        let mut client = Client::connect(*port, with_tokens(&tokens)).await;
        // Each variant gets each token once before the measurement starts.
        client.send(tokens.len().max(block())).await;
        clients.push(client);
    }
    let count = scenario.rounds();
    let mut rounds = Vec::with_capacity(count);
    for round in 0..count {
        let mut costs = Round::default();
        for turn in 0..clients.len() {
            // Each round begins with another variant and alternates the direction, so that no variant always follows the
            // same other one.
            let step = (turn + round / 2) % clients.len();
            let place = if round % 2 == 0 {
                step
            } else {
                clients.len() - 1 - step
            };
            let client = clients.get_mut(place).context("a client per variant")?;
            let before = cpu(gateway.pid()?);
            client.send(block()).await;
            let enforcer = enforcers.get(place).context("a client per variant")?;
            *costs.of(*enforcer) = microseconds(before, cpu(gateway.pid()?), block());
        }
        rounds.push(costs);
    }
    print_row(scenario, &rounds, modules.baseline.is_some());
    Ok((
        added(&rounds, |round| round.filter),
        added(&rounds, |round| round.module),
    ))
}

/// What a variant adds, the median of the rounds, in microseconds.
fn added(rounds: &[Round], variant: fn(&Round) -> f64) -> f64 {
    let adds = rounds.iter().map(|round| variant(round) - round.plain);
    quartiles(adds.collect())[1]
}

/// Prints a line about the filter and one about the native module.
fn print_row(scenario: &Scenario, rounds: &[Round], has_baseline: bool) {
    let plain = quartiles(rounds.iter().map(|round| round.plain).collect())[1];
    let adds = |variant| format!("{:.1}", added(rounds, variant));
    let of_baseline = |text: String| if has_baseline { text } else { "-".to_owned() };
    let columns = [
        format!("{plain:.1}"),
        adds(|round| round.native),
        adds(|round| round.cached),
        adds(|round| round.crossing),
        adds(|round| round.filter),
        of_baseline(adds(|round| round.baseline)),
    ];
    let filter = |round: &Round| round.filter - round.plain;
    print_line(
        scenario,
        scenario.name,
        &columns,
        rounds,
        filter,
        scenario.bounds,
        has_baseline,
    );
    let module = |round: &Round| round.module - round.plain;
    let mut columns = <[String; 6]>::default();
    columns[4] = adds(|round| round.module);
    print_line(
        scenario,
        "  as a native module",
        &columns,
        rounds,
        module,
        scenario.of_module,
        has_baseline,
    );
}

fn print_line(
    scenario: &Scenario,
    name: &str,
    [plain, native, cache, crossing, own, base]: &[String; 6],
    rounds: &[Round],
    measured: fn(&Round) -> f64,
    bounds: Option<(f64, f64)>,
    has_baseline: bool,
) {
    let ratio = |measure: fn(&Round) -> f64| {
        let groups = rounds.chunks(rounds.len() / GROUPS).map(|group| {
            let median = |pick: fn(&Round) -> f64| quartiles(group.iter().map(pick).collect())[1];
            median(measured) / median(measure)
        });
        quartiles(groups.collect())
    };
    let of_native = ratio(|round| round.native - round.plain);
    let with_cache = ratio(|round| round.cached - round.plain);
    let of_crossing = ratio(|round| round.crossing - round.plain);
    let of_baseline = ratio(|round| round.baseline - round.plain);
    let decisive = if scenario.cached {
        with_cache
    } else {
        of_native
    };
    let verdict = bounds.map_or_else(String::new, |(bound, aim)| {
        let word = |limit| {
            if decisive[1] <= limit {
                "meets"
            } else {
                "misses"
            }
        };
        format!("{} {bound}, {} {aim}", word(bound), word(aim))
    });
    let spread = |[low, median, high]: [f64; 3]| format!("{median:.2} ({low:.2}-{high:.2})");
    let of_baseline = if has_baseline {
        spread(of_baseline)
    } else {
        "-".to_owned()
    };
    println!(
        "{name:<26} {plain:>8} {native:>9} {cache:>9} {crossing:>11} {own:>9} {base:>7}  {:>18}  {:>18}  {:>18}  {of_baseline:>18}  {verdict}",
        spread(of_native),
        spread(with_cache),
        spread(of_crossing),
    );
}

fn sizes(modules: &Modules) -> Result<()> {
    let size = fs::metadata(&modules.filter)?.len() / 1024;
    let verdict = |limit| if size <= limit { "meets" } else { "misses" };
    println!(
        "filter.wasm                {size} KiB  {} 600, {} 350",
        verdict(600),
        verdict(350)
    );
    let native = fs::metadata(&modules.native)?.len() / 1024;
    println!("libtoken_filter.so         {native} KiB");
    Ok(())
}
