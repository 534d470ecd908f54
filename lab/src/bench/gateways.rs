//! `make bench-gateways` measures what the guard costs each gateway, in requests a second and in latency.
//!
//! Each gateway runs twice: with its configuration, and with the guard removed from it. A few connections send requests
//! to both in short alternating rounds, so that changes in the machine's speed affect both. All programs share the
//! machine's cores with the client. So use the results to compare gateways, not as the capacity of a gateway on its own
//! machine. `SHORT=1` measures for a moment.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tests::gateways::{Gateway, Kind, Neighbours, TokenGuard};
use tests::{Issuer, Upstream};

use crate::http::{Block, InTurn, Load, block, scripts};
use crate::measure::{cpu, percentile};
use crate::short;

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

pub(crate) async fn measure_all() -> Result<()> {
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
    let asked = Subject::direct(guard.port(), &tokens).run(ROUND * 2).await;
    println!(
        "token-guard itself: {:.0} decisions/s, p99 {} us\n",
        asked.per_second(),
        p99(&asked)
    );
    println!(
        "{:<18} {:>12} {:>12} {:>7} {:>11} {:>11} {:>11} {:>13}",
        "", "bare, req/s", "guarded", "ratio", "p99 bare", "guarded", "added, us", "guard CPU, us"
    );
    for kind in Kind::ALL {
        measure(kind, &guard, &upstream, &configuration, &tokens).await?;
    }
    Ok(())
}

async fn measure(
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
    let subjects = [
        Subject::through(bare.port(), tokens),
        Subject::through(guarded.port(), tokens),
    ];
    for subject in &subjects {
        subject.run(ROUND / 4).await;
    }
    let mut results = [Block::default(), Block::default()];
    let mut guard_cpu = 0;
    for _ in 0..short::count(ROUNDS) {
        for (place, subject) in subjects.iter().enumerate() {
            // A thread for a fetch may have ended meanwhile.
            let before = cpu(guard.pid()?);
            results[place].add(subject.run(ROUND).await);
            if place == 1 {
                guard_cpu += cpu(guard.pid()?).saturating_sub(before);
            }
        }
    }
    let [bare, guarded] = results;
    println!(
        "{:<18} {:>12.0} {:>12.0} {:>7.2} {:>11} {:>11} {:>11} {:>13.1}",
        kind.name(),
        bare.per_second(),
        guarded.per_second(),
        guarded.per_second() / bare.per_second(),
        p99(&bare),
        p99(&guarded),
        p99(&guarded).saturating_sub(p99(&bare)),
        guard_cpu as f64 / 1000.0 / guarded.times.len() as f64,
    );
    Ok(())
}

/// In microseconds.
fn p99(block: &Block) -> u64 {
    (percentile(&block.times, 990) * 1000.0) as u64
}

/// A port, and the requests for it.
struct Subject {
    port: u16,
    requests: Arc<[Vec<u8>]>,
}

impl Subject {
    fn of(port: u16, tokens: &[String], head: &str) -> Self {
        let requests = tokens.iter().map(|token| {
            format!("{head}Host: localhost\r\nUser-Agent: bench\r\nAuthorization: Bearer {token}\r\n\r\n").into_bytes()
        });
        let requests = requests.collect();
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
    async fn run(&self, time: Duration) -> Block {
        let script = |number| InTurn::new(Arc::clone(&self.requests), number);
        let mut scripts = scripts(CONNECTIONS, script);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        block(address, &mut scripts, Load { time, rate: None }).await
    }
}
