//! `make attack`: attacks a pair on this machine while a legitimate client uses it, and prints the client's results.
//!
//! Each attack is a module with one [`Attack`] and runs for `ATTACK_SECONDS` (60). Arguments choose attacks by name. The
//! exit code is 1 if the client saw an error that the attack does not explain.

mod addresses;
mod client;
mod garbage;
mod outage;
mod passwords;
mod revocations;
mod stalled_logs;
mod tally;
mod target;
mod unfinished;
mod unknown_keys;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tests::{Pair, flood};

use crate::long_run::print_last;
use crate::number;
use client::{Client, KnownBrowser, Operation};
use tally::Tally;
use target::Target;

/// One attack.
struct Attack {
    name: &'static str,
    /// Description in one line.
    about: &'static str,
    /// Outage of the pair during the attack, if any.
    outage: Option<&'static Outage>,
    /// Statuses other than success that the attack explains.
    explains: &'static [(Operation, u16)],
    /// Attacks until the end time, and counts the outcomes.
    run: fn(&Target) -> Result<Tally>,
}

/// A token service that is down or impaired during an attack, and restarts after it.
struct Outage {
    /// Replacements in the gateway's configuration: text, new text.
    gateway: &'static [(&'static str, &'static str)],
    /// Stops or impairs the token service.
    begin: fn(&mut Pair) -> Result<()>,
}

const ATTACKS: [&Attack; 10] = [
    &unknown_keys::ATTACK,
    &outage::NO_KEYS,
    &outage::STALE_FEED,
    &unfinished::HTTP1,
    &unfinished::HTTP2,
    &passwords::ATTACK,
    &garbage::ATTACK,
    &revocations::ATTACK,
    &addresses::ATTACK,
    &stalled_logs::ATTACK,
];

/// Longest time until the API must serve again after a start of the token service.
const RECOVERY: Duration = Duration::from_secs(40);

/// Runs the attacks with these names, or all. Returns true if the client saw only errors that the attacks explain.
pub(crate) fn run(chosen: &[String]) -> Result<bool> {
    let seconds = number("ATTACK_SECONDS", 60)?;
    ensure!(
        (1..=600).contains(&seconds),
        "ATTACK_SECONDS: must be from 1 to 600"
    );
    let names = ATTACKS.map(|attack| attack.name);
    for name in chosen {
        ensure!(
            names.contains(&name.as_str()),
            "{name}: no such attack; there are {}",
            names.join(", ")
        );
    }
    flood::allow_open_files(8_192)?;

    let mut all_well = true;
    for attack in ATTACKS {
        if chosen.is_empty() || chosen.iter().any(|name| name == attack.name) {
            // A new pair for each attack, so that attacks do not affect each other.
            all_well &= stage(attack, Duration::from_secs(seconds))?;
        }
    }
    Ok(all_well)
}

fn stage(attack: &Attack, time: Duration) -> Result<bool> {
    println!(
        "\n{}: {} ({} seconds)",
        attack.name,
        attack.about,
        time.as_secs()
    );
    let state = tempfile::TempDir::new()?;
    let gateway = attack.outage.map_or(&[][..], |outage| outage.gateway);
    let mut pair = Pair::of_demo(state.path(), gateway)?;
    let before = Target::new(&pair, Instant::now());
    let (token, known) = (client::token(&before)?, KnownBrowser::of(&before)?);
    if let Some(outage) = attack.outage {
        (outage.begin)(&mut pair)?;
    }
    let target = Target::new(&pair, Instant::now() + time);
    let client = Client::start(&target, token.clone(), known);
    let sent = (attack.run)(&target)?;
    let seen = client.stop()?;
    println!("  the attacker saw      {sent}");
    let mut all_well = true;
    for (operation, observed) in &seen {
        println!("  the client: {:<27} {observed}", operation.name());
        for (outcome, count) in observed.failures() {
            let explained = attack
                .explains
                .iter()
                .any(|(of, status)| of == operation && outcome == status.to_string());
            if !explained {
                println!(
                    "  NOT EXPLAINED: {} {outcome}, {count} times",
                    operation.name()
                );
                all_well = false;
            }
        }
    }
    if attack.outage.is_some() {
        pair.start_token_service()?;
        let recovered = client::is_let_in(&target, &token, RECOVERY);
        println!("  afterwards the API lets the client in: {recovered}");
        all_well &= recovered;
    }
    if !all_well {
        let logs = pair.end();
        // Omits the access log, because it has a line for each request of the attack.
        print_last(logs.lines().filter(|line| !line.starts_with("{\"method\"")));
    }
    Ok(all_well)
}
