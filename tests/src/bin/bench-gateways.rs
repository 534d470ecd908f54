//! `make bench-gateways` measures what the guard costs each gateway, in requests a second and in latency.
//!
//! Each gateway runs twice: with its configuration, and with the guard removed from it. A few connections send requests
//! to both in short alternating rounds, so that changes in the machine's speed affect both. All programs share the
//! machine's cores with the client. So use the results to compare gateways, not as the capacity of a gateway on its own
//! machine. `SHORT=1` measures for a moment.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tests::gateways::{Gateway, Kind, Neighbours, TokenGuard};
use tests::wire::Connection;
use tests::{Issuer, Upstream, short};

/// Number of concurrent requests.
const CONNECTIONS: usize = 8;

/// Rounds of each gateway, with and without the guard in turn.
const ROUNDS: usize = 6;

/// Time of a round.
const ROUND: Duration = Duration::from_secs(2);

/// Tokens in turn.
const TOKENS: usize = 100;

const AUDIENCE: &str = "https://api.example.com";

/// The replacements that remove the guard from a configuration.
fn unguarded(kind: Kind) -> [(&'static str, &'static str); 1] {
    [match kind {
        Kind::Nginx | Kind::DebianNginx => ("auth_request /token-guard;", ""),
        Kind::Caddy => (
            "forward_auth 127.0.0.1:9090",
            "forward_auth /never 127.0.0.1:9090",
        ),
        Kind::Traefik => ("no-forged-identity, token-guard]", "no-forged-identity]"),
        Kind::HaProxy => (
            "http-request lua.token_guard unless metadata",
            "http-request set-var(txn.token_guard) str(allowed)",
        ),
        Kind::EnvoyExtAuthz => (
            "- name: envoy.filters.http.ext_authz\n",
            "- name: envoy.filters.http.ext_authz\n                    disabled: true\n",
        ),
        Kind::EnvoyFilter => (
            "- name: token-filter\n",
            "- name: token-filter\n                    disabled: true\n",
        ),
    }]
}

fn main() -> Result<()> {
    let issuer = Issuer::new()?;
    let configuration = json!({
        "issuers": [issuer.configuration(AUDIENCE)],
        "rules": [{"path_prefix": "/"}],
        "forward": {"x-user-id": "user_id", "x-client-id": "client_id", "x-scope": "scope"},
    })
    .to_string();
    let tokens: Vec<String> = (0..TOKENS)
        .map(|number| issuer.token(AUDIENCE, &[("jti", json!(number.to_string()))]))
        .collect::<Result<_>>()?;
    let upstream = Upstream::start(false)?;
    let mut guard = TokenGuard::start(&configuration, &[], &[])?;
    guard.until_ready()?;

    let seconds = ROUND.as_secs();
    println!(
        "{CONNECTIONS} connections, {TOKENS} tokens that the guard knows, {ROUNDS} rounds of {seconds} s each way.\n"
    );
    let asked = Load::direct(guard.port(), &tokens).run(ROUND * 2)?;
    println!(
        "token-guard itself: {:.0} decisions/s, p99 {} us\n",
        asked.rate(),
        asked.p99()
    );
    println!(
        "{:<18} {:>12} {:>12} {:>7} {:>11} {:>11} {:>11} {:>13}",
        "", "bare, req/s", "guarded", "ratio", "p99 bare", "guarded", "added, us", "guard CPU, us"
    );
    for kind in Kind::ALL {
        measure(kind, &guard, &upstream, &configuration, &tokens)?;
    }
    Ok(())
}

fn measure(
    kind: Kind,
    guard: &TokenGuard,
    upstream: &Upstream,
    configuration: &str,
    tokens: &[String],
) -> Result<()> {
    let neighbours = Neighbours {
        guard: guard.port(),
        resource_server: upstream.port(),
        token_service: (1, 1),
        plugin: configuration,
    };
    let bare = Gateway::start(kind, &neighbours, &unguarded(kind))?;
    let guarded = Gateway::start(kind, &neighbours, &[])?;
    let loads = [
        Load::through(bare.port(), tokens),
        Load::through(guarded.port(), tokens),
    ];
    for load in &loads {
        load.run(ROUND / 4)?;
    }
    let mut results = [Measured::default(), Measured::default()];
    let mut guard_cpu = 0;
    for _ in 0..short::count(ROUNDS) {
        for (place, load) in loads.iter().enumerate() {
            let before = cpu_nanoseconds(guard)?;
            results[place].add(load.run(ROUND)?);
            if place == 1 {
                guard_cpu += cpu_nanoseconds(guard)? - before;
            }
        }
    }
    let [bare, guarded] = results;
    println!(
        "{:<18} {:>12.0} {:>12.0} {:>7.2} {:>11} {:>11} {:>11} {:>13.1}",
        kind.name(),
        bare.rate(),
        guarded.rate(),
        guarded.rate() / bare.rate(),
        bare.p99(),
        guarded.p99(),
        guarded.p99().saturating_sub(bare.p99()),
        guard_cpu as f64 / 1000.0 / guarded.microseconds.len() as f64,
    );
    Ok(())
}

/// CPU time of all threads of token-guard so far.
fn cpu_nanoseconds(guard: &TokenGuard) -> Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{}/task", guard.pid()?))? {
        // A thread for a fetch may have ended meanwhile.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else {
            continue;
        };
        let spent = text.split(' ').next().unwrap_or_default();
        sum += spent
            .parse::<u64>()
            .context("schedstat begins with a time")?;
    }
    Ok(sum)
}

/// Latencies of requests, in microseconds, and the time in which they were sent.
#[derive(Debug, Default)]
struct Measured {
    microseconds: Vec<u64>,
    took: Duration,
}

impl Measured {
    fn add(&mut self, other: Self) {
        self.microseconds.extend(other.microseconds);
        self.took += other.took;
    }

    fn rate(&self) -> f64 {
        self.microseconds.len() as f64 / self.took.as_secs_f64()
    }

    fn p99(&self) -> u64 {
        let mut sorted = self.microseconds.clone();
        sorted.sort_unstable();
        let place = sorted.len() * 99 / 100;
        sorted.get(place).copied().unwrap_or_default()
    }
}

/// Requests for one port.
struct Load {
    port: u16,
    requests: Vec<String>,
}

impl Load {
    fn of(port: u16, tokens: &[String], head: &str) -> Self {
        let requests = tokens
            .iter()
            .map(|token| {
                format!("{head}Host: localhost\r\nUser-Agent: bench\r\nAuthorization: Bearer {token}\r\n\r\n")
            })
            .collect();
        Self { port, requests }
    }

    /// Requests through a gateway.
    fn through(port: u16, tokens: &[String]) -> Self {
        Self::of(port, tokens, "GET /api/projects HTTP/1.1\r\n")
    }

    /// Requests to token-guard.
    fn direct(port: u16, tokens: &[String]) -> Self {
        let head = "GET /forward-auth HTTP/1.1\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /api/projects\r\n";
        Self::of(port, tokens, head)
    }

    /// Sends requests for this time on new connections.
    fn run(&self, time: Duration) -> Result<Measured> {
        let time = short::time(time);
        let start = Instant::now();
        let mut all = Measured::default();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..CONNECTIONS)
                .map(|number| scope.spawn(move || self.connection(number, start, time)))
                .collect();
            for thread in threads {
                let one = thread.join().ok().context("a thread panicked")??;
                all.microseconds.extend(one);
            }
            anyhow::Ok(())
        })?;
        all.took = start.elapsed();
        Ok(all)
    }

    fn connection(&self, number: usize, start: Instant, time: Duration) -> Result<Vec<u64>> {
        let mut connection = Connection::open(self.port)?;
        let mut latencies = Vec::new();
        for request in self.requests.iter().cycle().skip(number) {
            if start.elapsed() >= time {
                break;
            }
            let sent = Instant::now();
            let is_sent = connection.send(request).is_ok();
            let answer = if is_sent { connection.receive()? } else { None };
            let Some(answer) = answer else {
                // nginx closes a connection after 1,000 requests.
                connection = Connection::open(self.port)?;
                continue;
            };
            ensure!(answer.status == 200, "a good token was refused: {answer:?}");
            let latency = sent.elapsed().as_micros();
            latencies.push(u64::try_from(latency)?);
        }
        Ok(latencies)
    }
}
