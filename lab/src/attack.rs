//! `make attack`: attacks a pair on this machine while a legitimate client uses it, and prints the client's results.
//!
//! Each attack is a module with one [`Attack`] and runs for `ATTACK_SECONDS` (60). Arguments choose attacks by name. The
//! exit code is 1 if the client saw an error that the attack does not explain.

mod client;
mod issued;
mod passwords;
mod tally;
mod target;
mod tokens;
mod unfinished;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tests::Pair;
use tests::flood::{self, UnfinishedPosts};
use tests::load::World;
use tests::visitor::Visitor;

use crate::long_run::print_last;
use crate::number;
use client::{Browser, Client, Operation};
use tally::Tally;
use target::Target;

/// One attack.
struct Attack {
    name: &'static str,
    /// Description in one line.
    about: &'static str,
    /// Outage of the pair during the attack, if any.
    outage: Option<Outage>,
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

impl Attack {
    const fn new(
        name: &'static str,
        about: &'static str,
        run: fn(&Target) -> Result<Tally>,
    ) -> Self {
        Self {
            name,
            about,
            outage: None,
            explains: &[],
            run,
        }
    }
}

const ATTACKS: [Attack; 10] = [
    Attack::new(
        "unknown-keys",
        "500 streams at once with tokens of the right issuer and unknown keys",
        tokens::of_unknown_keys,
    ),
    // While the token service is down, all requests wait, and all end at the same time.
    Attack {
        outage: Some(Outage {
            gateway: &[],
            begin: |pair| {
                pair.stop_token_service();
                pair.restart_envoy()
            },
        }),
        explains: UNAVAILABLE,
        ..Attack::new(
            "no-keys",
            "the flood of unknown keys at a gateway that starts while the token service is away",
            tokens::of_unknown_keys,
        )
    },
    Attack {
        outage: Some(Outage {
            gateway: &[(
                r#""max_staleness_seconds": 60, "when_stale": "allow""#,
                r#""max_staleness_seconds": 2, "when_stale": "deny""#,
            )],
            begin: |pair| {
                pair.stop_token_service();
                Ok(())
            },
        }),
        explains: UNAVAILABLE,
        ..Attack::new(
            "stale-feed",
            "the flood of unknown keys while revocations are stale and the gateway denies",
            tokens::of_unknown_keys,
        )
    },
    Attack::new(
        "unfinished-http1",
        "up to 3,300 unfinished forms over HTTP/1.1",
        |target| unfinished::hold(target, UnfinishedPosts::http1),
    ),
    Attack::new(
        "unfinished-http2",
        "up to 3,300 unfinished forms over HTTP/2",
        |target| unfinished::hold(target, UnfinishedPosts::http2),
    ),
    Attack {
        explains: THROTTLED,
        ..Attack::new(
            "wrong-passwords",
            "64 wrong passwords at once, for people who exist and people who do not",
            passwords::wrong,
        )
    },
    Attack::new(
        "garbage",
        "200 streams at once with broken tokens at the API",
        tokens::garbage,
    ),
    Attack::new(
        "revocations",
        "32 streams at once that get a token and revoke it five times",
        |target| issued::revoked(target, 5),
    ),
    Attack {
        explains: THROTTLED,
        ..Attack::new(
            "forged-addresses",
            "64 wrong passwords at once, each with an address that is made up",
            passwords::with_forged_addresses,
        )
    },
    Attack {
        outage: Some(Outage {
            gateway: &[],
            begin: |pair| {
                pair.set_environment("TOKEN_SERVICE_LOG", "debug");
                pair.stop_token_service();
                pair.leave_output_unread();
                pair.start_token_service()
            },
        }),
        ..Attack::new(
            "stalled-logs",
            "32 streams at once that get tokens, while nobody reads log and audit log",
            issued::unread,
        )
    },
];

/// The API can accept no request, and nobody gets a token.
const UNAVAILABLE: &[(Operation, u16)] = &[
    (Operation::Keys, 503),
    (Operation::Token, 503),
    (Operation::Call, 503),
    (Operation::SignIn, 503),
    (Operation::KnownDevice, 503),
];

/// Envoy reports the same address for the attacker and the client, because both run on this machine. The service therefore
/// delays an unknown browser together with the attacker, and has no hashing place for it. A known device has its own delays
/// and places.
const THROTTLED: &[(Operation, u16)] = &[(Operation::SignIn, 429), (Operation::SignIn, 503)];

/// Longest time until the API must serve again after a start of the token service.
const RECOVERY: Duration = Duration::from_secs(40);

/// Runs the attacks with these names, or all. Returns true if the client saw only errors that the attacks explain.
pub(crate) fn run(chosen: &[String]) -> Result<bool> {
    let seconds = number("ATTACK_SECONDS", 60)?;
    ensure!(
        (1..=600).contains(&seconds),
        "ATTACK_SECONDS: must be from 1 to 600"
    );
    let names = ATTACKS.each_ref().map(|attack| attack.name);
    for name in chosen {
        ensure!(
            names.contains(&name.as_str()),
            "{name}: no such attack; there are {}",
            names.join(", ")
        );
    }
    flood::allow_open_files(8_192)?;

    let mut all_well = true;
    for attack in &ATTACKS {
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
    let gateway = attack
        .outage
        .as_ref()
        .map_or(&[][..], |outage| outage.gateway);
    let mut pair = Pair::of_demo(state.path(), gateway)?;
    let world = Arc::new(World::of(&pair, ""));
    let (token, known) = (client::token(&world)?, Browser::known(&world)?);
    if let Some(outage) = &attack.outage {
        (outage.begin)(&mut pair)?;
    }
    let client = Client::start(&world, token.clone(), known);
    let target = Target {
        ports: pair.ports(),
        world,
        end: Instant::now() + time,
    };
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
                .any(|(of, status)| of == operation && *outcome == status.to_string());
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
        let visitor = Visitor::default();
        let recovered = target.world.soon(RECOVERY, &|| {
            let answer = target.world.call_with(&visitor, &token);
            answer.is_ok_and(|answer| answer.status == 200)
        });
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
