//! `make soak` puts every grant and the API under load for `SOAK_SECONDS` (600) on each store. Meanwhile signing keys
//! and the encryption key rotate, registrations change, tokens are revoked, and token services restart.
//!
//! `SOAK_STORES` chooses stores: `redb`, `postgres`, or both with a comma. The exit code is 1 if a valid request was refused,
//! if an invalid request was accepted, or if memory, descriptors, rows, files, processor time for each answer or latency grew.
//! A latency may grow as much as that of the machine itself, which other programs may keep busy.

mod measures;
mod sample;
pub(crate) mod upgrade;
mod verdict;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tests::load::{Scope, World};
use tests::visitor::Visitor;
use tests::{Artifacts, Pair, Postgres, Setup, pace};

use crate::long_run::{print_last, report_requests};
use crate::{load, long_run, number, variable};
use measures::Window;
use sample::{Store, Stored, Taken};

/// Lifetime of the access tokens.
const ACCESS_TOKEN: Duration = Duration::from_secs(15);

/// Windows of a run. All restarts are in the first four. Of the other windows, the second half is compared with the
/// first half.
const WINDOWS: u32 = 12;

/// Time between two measurements of the token service's memory. The minimum of a window counts, because each password
/// check takes 19 MiB for a short time.
const LOOK: Duration = Duration::from_millis(250);

/// Longest time until the gateway notices that a token service runs again, or runs no more.
const NOTICE: Duration = Duration::from_secs(60);

/// Shortest run whose windows are compared. In a shorter one, most keys and grants are younger than the run.
const COMPARABLE: Duration = Duration::from_secs(60);

/// Why a request may fail.
const RESTARTED: &str = "for want of a service that restarted";

/// Start of the lines in which the gateway says why a request failed.
const FAILED_REQUEST: &str = "lobby: ";

/// The time in the variable `name`, or so many seconds.
fn time(name: &'static str, default: u64) -> Result<Duration> {
    let seconds = number(name, default)?;
    ensure!(
        (20..=604_800).contains(&seconds),
        "{name}: must be from 20 to 604800"
    );
    Ok(Duration::from_secs(seconds))
}

/// Returns true if all is well.
pub(crate) fn run() -> Result<bool> {
    let time = time("SOAK_SECONDS", 600)?;
    let mut all_well = true;
    for store in variable("SOAK_STORES", "redb,postgres").split(',') {
        let is_replicated = match store {
            "redb" => false,
            "postgres" => true,
            other => bail!("SOAK_STORES: {other}: expected redb or postgres"),
        };
        all_well &= soak(time, is_replicated)?;
    }
    Ok(all_well)
}

/// A pair under load.
struct Soak {
    time: Duration,
    pair: Pair,
    is_replicated: bool,
    world: Arc<World>,
    store: Store,
    encryption_key: PathBuf,
    /// Lines of the key file: the old key and its successor.
    keys: [String; 2],
}

fn soak(time: Duration, is_replicated: bool) -> Result<bool> {
    let folder = tempfile::TempDir::new()?;
    let state = folder.path();
    let repository = Artifacts::find()?.repository;
    let database = match is_replicated {
        true => Some(Postgres::start(&repository)?),
        false => None,
    };
    let file = state.join("store.redb");
    let (store, url) = match &database {
        Some(database) => {
            let (_, folder) = database
                .url()
                .split_once("host=")
                .context("a socket's folder")?;
            let data = Path::new(folder).join("data");
            (Store::Folder(data), database.url().to_owned())
        }
        None => {
            let url = format!("redb:{}", file.display());
            (Store::File(file), url)
        }
    };
    let pair = Pair::start(setup(state, &url, is_replicated)?)?;
    let admin_token = state.join("admin-token");
    let world = long_run::world(&pair, state)?;
    println!(
        "\n{}, {} s. Lobby {}, administration {}, admin token in {}",
        match is_replicated {
            true => "Two token services on PostgreSQL",
            false => "One token service on redb",
        },
        time.as_secs(),
        pair.lobby_url(),
        pair.internal_url(),
        admin_token.display()
    );
    let encryption_key = state.join("encryption-key");
    let old = std::fs::read_to_string(&encryption_key)?;
    let mut random = [0; 32];
    aws_lc_rs::rand::fill(&mut random)?;
    let new = format!("{}\n", URL_SAFE_NO_PAD.encode(random));
    let mut soak = Soak {
        time,
        pair,
        is_replicated,
        world,
        store,
        encryption_key,
        keys: [old, new],
    };
    let load = load::start(&soak.world, ACCESS_TOKEN)?;
    let windows = soak.windows(time / WINDOWS);
    load.stop()?;
    let windows = windows?;
    let all_well = soak.report(&windows);
    if !all_well {
        print_failures(&soak.pair.end());
    }
    Ok(all_well)
}

/// Prints the last lines about failures in the logs.
fn print_failures(logs: &str) {
    let is_failure = |line: &&str| {
        line.contains("ERROR") || line.contains("WARN") || line.starts_with(FAILED_REQUEST)
    };
    print_last(logs.lines().filter(is_failure));
}

/// A line of the listener of the authorization server in `envoy.yaml`.
const LISTENER: &str = "                early_header_mutation_extensions: &no_forged_headers";

/// An access log of failures: what failed, at which token service, and why.
const FAILURE_LOG: &str = r#"                access_log:
                  - name: envoy.access_loggers.stdout
                    filter:
                      status_code_filter:
                        comparison: { op: GE, value: { default_value: 500, runtime_key: none } }
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog
                      log_format:
                        text_format_source:
                          inline_string: "lobby: %START_TIME% %REQ(:method)% %PATH(NQ)% %RESPONSE_CODE% %RESPONSE_FLAGS%
                            %RESPONSE_CODE_DETAILS% %UPSTREAM_HOST% after %DURATION% ms\n"
"#;

/// The demo's pair, with lifetimes so short that as many tokens, grants and sessions end as begin.
fn setup(state: &Path, store: &str, replica: bool) -> Result<Setup> {
    let access_token = format!("{}s", ACCESS_TOKEN.as_secs());
    let changes = [
        ("LIFETIMES__ACCESS_TOKEN", &*access_token),
        ("LIFETIMES__LEGACY_ACCESS_TOKEN", "15s"),
        ("LIFETIMES__REFRESH_TOKEN", "20s"),
        ("LIFETIMES__SESSION", "20s"),
        ("LIFETIMES__SESSION_IDLE", "20s"),
        ("LIFETIMES__AUTHORIZATION_CODE", "10s"),
        ("LIFETIMES__CLOCK_SKEW", "5s"),
        ("SIGNING__ANNOUNCE_FOR", "2s"),
        ("DRAIN_FOR", "2s"),
    ];
    Ok(Setup {
        replica,
        holds_sockets: !replica,
        workers: 2,
        gateway: vec![(LISTENER.to_owned(), format!("{FAILURE_LOG}{LISTENER}"))],
        ..long_run::setup(state, store, &changes)?
    })
}

/// Which token services get no requests from the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Avoids {
    None,
    Some,
}

impl Soak {
    fn windows(&mut self, length: Duration) -> Result<Vec<Window>> {
        // Nobody sends: it times the windows.
        let (_open, clock): (_, Receiver<()>) = channel();
        let mut windows: Vec<Window> = Vec::new();
        println!("{}", measures::HEADINGS);
        let take = |pair: &Pair| {
            let pids = [pair.token_service_pid()?, pair.envoy_pid()?];
            anyhow::Ok((Taken::by(pids[0])?, Taken::by(pids[1])?))
        };
        let mut before = take(&self.pair)?;
        for number in 0..WINDOWS {
            let end = Instant::now() + length;
            self.disturb(number)?;
            let (mut service, mut envoy) = take(&self.pair)?;
            while let left = end.saturating_duration_since(Instant::now())
                && !left.is_zero()
            {
                let _ = clock.recv_timeout(left.min(LOOK));
                let now = take(&self.pair)?;
                (service, envoy) = (now.0.least(service), now.1);
            }
            let stored = Stored::look(&self.pair, &self.store)?;
            let times = self.world.ledger.take_times();
            let answered = windows.last().map_or(0.0, |last| last.stored.answers);
            let requests: usize = times.operations.values().map(Vec::len).sum();
            let window = Window {
                service,
                envoy,
                token_cache_mib: sample::token_cache_mib(&self.pair)?,
                service_work: service.work(before.0, stored.answers - answered),
                envoy_work: envoy.work(before.1, requests as f64),
                stored,
                times,
            };
            println!("{}", measures::row(number, &window));
            windows.push(window);
            before = (service, envoy);
        }
        Ok(windows)
    }

    /// Changes during a window, under the load.
    fn disturb(&mut self, number: u32) -> Result<()> {
        let visitor = Visitor::default();
        let [old, new] = &self.keys;
        let lines = match number {
            1 => Some(format!("{old}{new}")),
            2 => Some(format!("{new}{old}")),
            3 => Some(new.clone()),
            _ => None,
        };
        if let Some(lines) = lines {
            std::fs::write(&self.encryption_key, lines)?;
            // The last time as after a crash.
            self.restart_all(number == 3)?;
        }
        if number == 2 {
            // The old key must stay until this has finished.
            let resealed = self
                .world
                .administrate(&visitor, "POST", "/encryption-keys/reseal", "");
            ensure!(resealed.is_some(), "the store could not be sealed again");
        }
        if number > 3 && self.is_replicated {
            self.restart_replica(number.is_multiple_of(2))?;
        }
        // A replica may publish a new key up to a second after another replica signs with it.
        let rotation = match number.is_multiple_of(2) && !self.is_replicated {
            true => r#"{"immediate": true}"#,
            false => "{}",
        };
        self.world
            .administrate(&visitor, "POST", "/keys/rotate", rotation);
        Ok(())
    }

    /// Restarts each token service, one after the other. With `crash`, the first one ends with SIGKILL. An orderly restart of
    /// the only token service fails no request, because the pair holds its sockets.
    fn restart_all(&mut self, crash: bool) -> Result<()> {
        self.until_the_gateway(Avoids::None)?;
        let (pair, world) = (&mut self.pair, &self.world);
        let mut restart = || {
            match crash {
                true => pair.kill_token_service()?,
                false => pair.stop_token_service(),
            }
            pair.start_token_service()
        };
        match (crash, self.is_replicated) {
            (true, _) => world.ledger.during_outage(Scope::Service, restart)?,
            (false, true) => world.ledger.during_outage(Scope::Administration, restart)?,
            (false, false) => restart()?,
        }
        if self.is_replicated {
            self.restart_replica(false)?;
        }
        Ok(())
    }

    /// Restarts the second token service, as soon as the gateway sends requests to the first one. An orderly stop fails no
    /// request. With `crash`, the second one ends with SIGKILL, and fails the requests that it has.
    fn restart_replica(&mut self, crash: bool) -> Result<()> {
        self.until_the_gateway(Avoids::None)?;
        if crash {
            let world = Arc::clone(&self.world);
            world.ledger.during_outage(Scope::Service, || {
                self.pair.kill_replica()?;
                self.until_the_gateway(Avoids::Some)
            })?;
        } else {
            self.pair.stop_replica();
        }
        self.pair.start_replica()
    }

    fn until_the_gateway(&self, avoids: Avoids) -> Result<()> {
        until_the_gateway(&self.pair, avoids)
    }

    /// Prints the results. Returns true if all are as expected.
    fn report(&self, windows: &[Window]) -> bool {
        let mut all_well = report_requests(&self.world.ledger, RESTARTED);
        if self.time < COMPARABLE {
            println!("\nToo short to compare the windows: that takes {COMPARABLE:?}.");
            return all_well;
        }
        all_well &= measures::compare(windows);
        println!("{}", if all_well { "All is well." } else { "FAILED" });
        all_well
    }
}

/// Waits until the gateway sends requests to every token service, or until it avoids one.
fn until_the_gateway(pair: &Pair, avoids: Avoids) -> Result<()> {
    let start = Instant::now();
    while pair.gateway_avoids_a_service()? != (avoids == Avoids::Some) {
        ensure!(
            start.elapsed() < NOTICE,
            "the gateway does not notice which token services run"
        );
        pace();
    }
    Ok(())
}
