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
use std::fmt::Display;
use std::{env, fs};

use anyhow::Result;
use tests::{Artifacts, Form};

use crate::measure::quartiles;
use crate::short;
use gateway::{Enforcer, Gateway, Modules, Variant};
use load::{Client, block, rounds, with_tokens};
use tokens::Issuers;

/// Alternations between the variants of a scenario.
const ROUNDS: usize = 60;
/// Alternations for scenarios in which a variant adds one or two microseconds to twenty, because the noise of the
/// machine is as large.
const MANY_ROUNDS: usize = 300;
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
    /// The bound of the filter's cost.
    bound: Option<Bound>,
    /// The bound of the native module's.
    of_module: Option<Bound>,
}

/// How much a form of the filter may cost.
#[derive(Clone, Copy)]
struct Bound {
    /// What it is compared with.
    to: Enforcer,
    most: f64,
    aim: Option<f64>,
}

/// At most `most` times the cost of `to`.
const fn bound(most: f64, to: Enforcer, aim: Option<f64>) -> Option<Bound> {
    Some(Bound { to, most, aim })
}

impl Scenario {
    fn rounds(&self) -> usize {
        let usual = match (self.cached, self.bound) {
            (true, Some(_)) => MANY_ROUNDS,
            _ => ROUNDS,
        };
        short::count(usual).max(GROUPS)
    }
}

const fn cached(name: &'static str, bound: Option<Bound>, of_module: Option<Bound>) -> Scenario {
    Scenario {
        name,
        algorithm: "EdDSA",
        tokens: 1,
        issuers: 1,
        claims: false,
        cached: true,
        bound,
        of_module,
    }
}

const fn first_sight(name: &'static str, algorithm: &'static str, of_module: f64) -> Scenario {
    let of_module = bound(of_module, Enforcer::Native, None);
    Scenario {
        algorithm,
        cached: false,
        ..cached(name, bound(1.15, Enforcer::Native, Some(1.0)), of_module)
    }
}

/// The bounds of a known token without claims.
const KNOWN: Option<Bound> = bound(1.4, Enforcer::Crossing, Some(1.25));
const KNOWN_OF_MODULE: Option<Bound> = bound(0.8, Enforcer::NativeWithCache, Some(0.7));

/// As many tokens, of one issuer and of one issuer each.
const ONE_ISSUER: &str = "cached, 100 tokens";
const MANY_ISSUERS: &str = "cached, 100 issuers";

/// The bound of the ratio of their costs: no search through the issuers.
const FLAT: f64 = 1.5;

const SCENARIOS: [Scenario; 10] = [
    cached("cached, no claims", KNOWN, KNOWN_OF_MODULE),
    Scenario {
        claims: true,
        ..cached(
            "cached, six claims",
            bound(2.0, Enforcer::NativeWithCache, Some(1.6)),
            bound(0.7, Enforcer::NativeWithCache, Some(0.6)),
        )
    },
    Scenario {
        algorithm: "RS256",
        ..cached("cached, RS256", KNOWN, KNOWN_OF_MODULE)
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
    first_sight("first sight, EdDSA", "EdDSA", 0.6),
    first_sight("first sight, ES256", "ES256", 0.9),
    first_sight("first sight, RS256", "RS256", 0.9),
    Scenario {
        issuers: 100,
        tokens: 100,
        bound: None,
        of_module: None,
        ..first_sight("first sight, 100 issuers", "EdDSA", 0.6)
    },
];

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
            let verdict = verdict(ratio, FLAT);
            println!("{name}: 100 issuers cost {ratio:.2} times as much as one  {verdict}");
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
    let mut enforcers = Enforcer::ALL.to_vec();
    enforcers.retain(|enforcer| *enforcer != Enforcer::Baseline || modules.baseline.is_some());
    let variants: Vec<Variant> = enforcers
        .iter()
        .map(|enforcer| Variant {
            claims: scenario.claims,
            cached: scenario.cached,
            ..enforcer.with_cache()
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
    let rounds = rounds(&gateway, &mut clients, scenario.rounds()).await?;
    print_rows(scenario, &rounds, modules.baseline.is_some());
    Ok((
        added(&rounds, Enforcer::Filter),
        added(&rounds, Enforcer::Module),
    ))
}

/// What a variant adds, the median of the rounds, in microseconds; 0 for a missing baseline.
fn added(rounds: &[Vec<f64>], variant: Enforcer) -> f64 {
    let adds = rounds.iter().filter_map(|costs| {
        let plain = costs.get(Enforcer::None as usize)?;
        Some(costs.get(variant as usize)? - plain)
    });
    quartiles(adds.collect())[1]
}

/// Prints a line about the filter and one about the native module.
fn print_rows(scenario: &Scenario, rounds: &[Vec<f64>], has_baseline: bool) {
    let plain = rounds.iter().map(|round| round[Enforcer::None as usize]);
    let mut others = vec![format!("{:.1}", quartiles(plain.collect())[1])];
    let compared = [
        Enforcer::Native,
        Enforcer::NativeWithCache,
        Enforcer::Crossing,
    ];
    others.extend(compared.map(|variant| format!("{:.1}", added(rounds, variant))));
    let of_baseline = |text: String| if has_baseline { text } else { "-".to_owned() };
    let base = of_baseline(format!("{:.1}", added(rounds, Enforcer::Baseline)));
    let none = vec![String::new(); others.len()];
    for (name, others, variant, base, bound) in [
        (
            scenario.name,
            others,
            Enforcer::Filter,
            &*base,
            scenario.bound,
        ),
        (
            "  as a native module",
            none,
            Enforcer::Module,
            "",
            scenario.of_module,
        ),
    ] {
        let ratio = |to: Enforcer| {
            let groups = rounds.chunks(rounds.len() / GROUPS);
            let groups = groups.map(|group| added(group, variant) / added(group, to));
            quartiles(groups.collect())
        };
        let spread = |[low, median, high]: [f64; 3]| format!("{median:.2} ({low:.2}-{high:.2})");
        let ratios = compared.map(ratio);
        let verdict = bound.map_or_else(String::new, |bound| {
            let [_, median, _] = ratio(bound.to);
            let limits = std::iter::once(bound.most).chain(bound.aim);
            let words = limits.map(|limit| verdict(median, limit));
            words.collect::<Vec<_>>().join(", ")
        });
        let [plain, native, cache, crossing] = &*others else {
            continue;
        };
        let [of_native, with_cache, of_crossing] = ratios.map(spread);
        let own = format!("{:.1}", added(rounds, variant));
        let of_base = of_baseline(spread(ratio(Enforcer::Baseline)));
        println!(
            "{name:<26} {plain:>8} {native:>9} {cache:>9} {crossing:>11} {own:>9} {base:>7}  {of_native:>18}  \
             {with_cache:>18}  {of_crossing:>18}  {of_base:>18}  {verdict}"
        );
    }
}

fn verdict<T: PartialOrd + Display>(value: T, limit: T) -> String {
    let word = if value <= limit { "meets" } else { "misses" };
    format!("{word} {limit}")
}

/// The bound of `filter.wasm`, which is compiled for speed.
const MOST_KILOBYTES: u64 = 1100;

fn sizes(modules: &Modules) -> Result<()> {
    let size = fs::metadata(&modules.filter)?.len() / 1000;
    let verdict = verdict(size, MOST_KILOBYTES);
    println!("filter.wasm                {size} KB  {verdict}");
    let native = fs::metadata(&modules.native)?.len() / 1000;
    println!("libtoken_filter.so         {native} KB");
    Ok(())
}
