//! `make soak` puts every grant and the API under load for `SOAK_SECONDS` (600) on each store. Meanwhile signing keys
//! and the encryption key rotate, registrations change, tokens are revoked, and token services restart.
//!
//! `SOAK_STORES` chooses stores: `redb`, `postgres`, or both with a comma. The exit code is 1 if a valid request was
//! refused, if an invalid request was accepted, or if memory, descriptors, rows, files or latency grew.

mod ledger;
mod load;
mod sample;
mod verdict;
mod web;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tests::{Artifacts, Pair, Ports, Postgres, Setup, pace};

use ledger::{Operation, Scope};
use load::{ACCESS_TOKEN_SECONDS, Load, World};
use sample::{Store, Stored, Taken};
use verdict::Bound;
use web::Visitor;

/// Windows of a run. All restarts are in the first four. Of the other windows, the second half is compared with the
/// first half.
const WINDOWS: u32 = 12;

/// Time between two measurements of the token service's memory. The minimum of a window counts, because each password
/// check takes 19 MiB for a short time.
const LOOK: Duration = Duration::from_millis(250);

/// Longest time until the gateway sends requests to a restarted token service again.
const TRUST: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn variable(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

fn run() -> Result<bool> {
    let seconds: u64 = variable("SOAK_SECONDS", "600")
        .parse()
        .context("SOAK_SECONDS")?;
    ensure!(
        (60..=604_800).contains(&seconds),
        "SOAK_SECONDS: must be from 60 to 604800"
    );
    let mut all_well = true;
    for store in variable("SOAK_STORES", "redb,postgres").split(',') {
        let is_replicated = match store {
            "redb" => false,
            "postgres" => true,
            other => bail!("SOAK_STORES: {other}: expected redb or postgres"),
        };
        all_well &= soak(Duration::from_secs(seconds), is_replicated)?;
    }
    Ok(all_well)
}

/// A pair under load.
struct Soak {
    pair: Pair,
    is_replicated: bool,
    world: Arc<World>,
    store: Store,
    encryption_key: PathBuf,
    /// Lines of the key file: the old key and its successor.
    keys: [String; 2],
}

/// One row of the report.
struct Window {
    service: Taken,
    envoy: Taken,
    token_cache_mib: f64,
    stored: Stored,
    times: BTreeMap<Operation, Vec<Duration>>,
}

impl Window {
    /// Percentile of the latency, in milliseconds.
    fn percentile(&self, operation: Operation, percent: usize) -> f64 {
        let mut times = self.times.get(&operation).cloned().unwrap_or_default();
        times.sort_unstable();
        let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
        times
            .get(at)
            .map_or(0.0, |time| time.as_secs_f64() * 1000.0)
    }
}

fn soak(time: Duration, is_replicated: bool) -> Result<bool> {
    let folder = tempfile::TempDir::new()?;
    let state = folder.path();
    let repository = Artifacts::find()?.repository;
    let database = match is_replicated {
        true => Some(Postgres::start(&repository)?),
        false => None,
    };
    let store = match &database {
        Some(database) => {
            let (_, folder) = database
                .url()
                .split_once("host=")
                .context("a socket's folder")?;
            Store::Folder(Path::new(folder).join("data"))
        }
        None => Store::File(state.join("store.redb")),
    };
    let url = match &database {
        Some(database) => database.url().to_owned(),
        None => format!("redb:{}", state.join("store.redb").display()),
    };
    let pair = Pair::start(setup(&repository, state, &url, is_replicated)?)?;
    let admin_token = state.join("admin-token");
    let world = Arc::new(World::of(&pair, &std::fs::read_to_string(&admin_token)?)?);
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
        pair,
        is_replicated,
        world,
        store,
        encryption_key,
        keys: [old, new],
    };
    let load = Load::start(&soak.world);
    let windows = soak.windows(time / WINDOWS);
    load.stop()?;
    let windows = windows?;
    let all_well = soak.report(&windows);
    if !all_well {
        let logs = soak.pair.logs();
        let lines: Vec<&str> = logs
            .lines()
            .filter(|line| line.contains("ERROR") || line.contains("WARN"))
            .collect();
        let last = lines.len().saturating_sub(20);
        println!("{}", lines.get(last..).unwrap_or_default().join("\n"));
    }
    Ok(all_well)
}

/// The demo's pair, with lifetimes so short that as many tokens, grants and sessions end as begin.
fn setup(repository: &Path, state: &Path, store: &str, replica: bool) -> Result<Setup> {
    let at = |name: &str| state.join(name).display().to_string();
    let environment = [
        ("STORE__URL", store.to_owned()),
        ("ENCRYPTION_KEY_FILE", at("encryption-key")),
        ("ADMIN_TOKEN_FILE", at("admin-token")),
        (
            "LIFETIMES__ACCESS_TOKEN",
            format!("{ACCESS_TOKEN_SECONDS}s"),
        ),
        ("LIFETIMES__LEGACY_ACCESS_TOKEN", "15s".to_owned()),
        ("LIFETIMES__REFRESH_TOKEN", "20s".to_owned()),
        ("LIFETIMES__SESSION", "20s".to_owned()),
        ("LIFETIMES__SESSION_IDLE", "20s".to_owned()),
        ("LIFETIMES__AUTHORIZATION_CODE", "10s".to_owned()),
        ("LIFETIMES__CLOCK_SKEW", "5s".to_owned()),
        ("SIGNING__ANNOUNCE_FOR", "2s".to_owned()),
        ("AUDIT__STANDARD_OUTPUT", "false".to_owned()),
        ("DRAIN_FOR", "1s".to_owned()),
    ];
    Ok(Setup {
        ports: Ports::free()?,
        config: Some(repository.join("demo/config.toml")),
        environment: environment
            .map(|(key, value)| (format!("TOKEN_SERVICE__{key}"), value))
            .into(),
        early_access: None,
        replica,
        filter: None,
        feed: None,
        workers: 2,
        gateway: Vec::new(),
        directory: repository.to_owned(),
    })
}

impl Soak {
    fn windows(&mut self, length: Duration) -> Result<Vec<Window>> {
        // Nobody sends: it times the windows.
        let (_open, clock): (_, Receiver<()>) = channel();
        let mut windows = Vec::new();
        println!("{HEADINGS}");
        for number in 0..WINDOWS {
            let end = Instant::now() + length;
            self.disturb(number)?;
            let mut service = Taken::by(self.pair.token_service_pid()?)?;
            while let left = end.saturating_duration_since(Instant::now())
                && !left.is_zero()
            {
                let _ = clock.recv_timeout(left.min(LOOK));
                service = service.least(Taken::by(self.pair.token_service_pid()?)?);
            }
            let window = Window {
                service,
                envoy: Taken::by(self.pair.envoy_pid()?)?,
                token_cache_mib: sample::token_cache_mib(&self.pair)?,
                stored: Stored::look(&self.pair, &self.store)?,
                times: self.world.ledger.take_times(),
            };
            println!("{}", row(number, &window));
            windows.push(window);
        }
        Ok(windows)
    }

    /// Changes during a window, beside the load.
    fn disturb(&mut self, number: u32) -> Result<()> {
        let visitor = Visitor::new();
        let [old, new] = &self.keys;
        let lines = match number {
            1 => Some(format!("{old}{new}")),
            2 => Some(format!("{new}{old}")),
            3 => Some(new.clone()),
            _ => None,
        };
        if let Some(lines) = lines {
            std::fs::write(&self.encryption_key, lines)?;
            self.restart_all()?;
        }
        if number == 2 {
            // The old key must stay until this has finished.
            let resealed = self
                .world
                .administrate(&visitor, "POST", "/encryption-keys/reseal", "");
            ensure!(resealed.is_some(), "the store could not be sealed anew");
        }
        if number > 3 && self.is_replicated {
            self.until_the_gateway_trusts_all()?;
            self.pair.stop_replica();
            self.pair.start_replica()?;
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

    /// Restarts each token service, one after the other.
    fn restart_all(&mut self) -> Result<()> {
        self.until_the_gateway_trusts_all()?;
        let (pair, world) = (&mut self.pair, &self.world);
        let scope = match self.is_replicated {
            true => Scope::Administration,
            false => Scope::Service,
        };
        world.ledger.during_outage(scope, || {
            pair.stop_token_service();
            pair.start_token_service()
        })?;
        if self.is_replicated {
            self.until_the_gateway_trusts_all()?;
            self.pair.stop_replica();
            self.pair.start_replica()?;
        }
        Ok(())
    }

    /// Waits until the gateway sends requests to every token service again. After a restart the gateway sends none to
    /// the restarted token service for some time, and after the next restart no token service would be left.
    fn until_the_gateway_trusts_all(&self) -> Result<()> {
        let visitor = Visitor::new();
        let url = format!(
            "http://127.0.0.1:{}/clusters",
            self.pair.ports().envoy_admin
        );
        let start = Instant::now();
        while visitor
            .get(&url, &[])?
            .body
            .contains("failed_outlier_check")
        {
            ensure!(
                start.elapsed() < TRUST,
                "the gateway trusts a token service no more"
            );
            pace();
        }
        Ok(())
    }

    /// Prints the results. Returns true if all are as expected.
    fn report(&self, windows: &[Window]) -> bool {
        println!();
        let ledger = &self.world.ledger;
        let mut all_well = true;
        for operation in Operation::ALL {
            let count = ledger.count(operation);
            println!(
                "{:<24} {:>7} as expected, {:>4} failed for want of a service that restarted",
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
        for (name, bound, measure) in MEASURES {
            let series: Vec<f64> = windows.iter().map(measure).collect();
            match verdict::check(&series, bound) {
                Ok(()) => println!("{name:<32} as before"),
                Err(problem) => {
                    println!("{name:<32} GREW: {problem}");
                    all_well = false;
                }
            }
        }
        println!("{}", if all_well { "All is well." } else { "FAILED" });
        all_well
    }
}

type Measure = (&'static str, Bound, fn(&Window) -> f64);

const fn bound(ratio: f64, slack: f64) -> Bound {
    Bound { ratio, slack }
}

/// The measurements that must not grow. Latency varies more by other load on the machine than by the service.
const MEASURES: [Measure; 10] = [
    (
        "memory of the token service, MiB",
        bound(1.1, 4.0),
        |window| window.service.memory_mib,
    ),
    (
        "Envoy without token cache, MiB",
        bound(1.1, 16.0),
        |window| window.envoy.memory_mib - window.token_cache_mib,
    ),
    (
        "descriptors of the token service",
        bound(1.1, 8.0),
        |window| window.service.descriptors,
    ),
    ("descriptors of Envoy", bound(1.1, 8.0), |window| {
        window.envoy.descriptors
    }),
    ("store without audit log, MiB", bound(1.25, 4.0), |window| {
        window.stored.mib_without_audit
    }),
    (
        "grants, sessions, revocations",
        bound(1.25, 50.0),
        |window| window.stored.rows,
    ),
    ("published keys", bound(1.0, 1.0), |window| {
        window.stored.keys
    }),
    ("API call, p50, ms", bound(1.5, 5.0), |window| {
        window.percentile(Operation::Call, 50)
    }),
    ("token request, p50, ms", bound(1.5, 5.0), |window| {
        window.percentile(Operation::ClientCredentials, 50)
    }),
    ("token request, p99, ms", bound(2.0, 50.0), |window| {
        window.percentile(Operation::ClientCredentials, 99)
    }),
];

const HEADINGS: &str = "window   service MiB  fds   Envoy MiB  fds   store MiB  rows  keys   \
                        API call p50, p99 ms   token p50, p99 ms";

fn row(number: u32, window: &Window) -> String {
    let times = |operation| [50, 99].map(|percent| window.percentile(operation, percent));
    let [call, slow_call] = times(Operation::Call);
    let [token, slow_token] = times(Operation::ClientCredentials);
    format!(
        "{number:>6}   {:>11.1} {:>4}   {:>9.1} {:>4}   {:>9.1} {:>5} {:>5}   {call:>12.1} {slow_call:>7.1}   {token:>9.1} \
         {slow_token:>7.1}",
        window.service.memory_mib,
        window.service.descriptors,
        window.envoy.memory_mib,
        window.envoy.descriptors,
        window.stored.mib,
        window.stored.rows,
        window.stored.keys,
    )
}
