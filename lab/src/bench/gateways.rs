//! `make bench-gateways` measures what the guard costs each gateway, in requests a second and in latency.
//!
//! Each gateway runs twice: with its configuration, and with the guard removed from it. A few connections send requests
//! to both in short alternating rounds, so that changes in the machine's speed affect both. All programs share the
//! machine's cores with the client. So use the results to compare gateways, not as the capacity of a gateway on its own
//! machine. `SHORT=1` measures for a moment.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::json;
use tests::gateways::{Gateway, Kind, Neighbours, TokenGuard};
use tests::{Issuer, Upstream};

use super::http::{Load, scripts};
use super::subject::{Measured, Subject, alternate};
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
    let head = "GET /forward-auth HTTP/1.1\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /api/projects\r\n";
    let mut direct = subject(guard.port(), head, &tokens);
    alternate([&mut direct], 2).await;
    let asked = direct.together().context("it was measured")?;
    println!(
        "token-guard itself: {:.0} decisions/s, p99 {} us\n",
        asked.rate(),
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
    let pid = guard.pid()?;
    let mut subjects = [bare.port(), guarded.port()]
        .map(|port| subject(port, "GET /api/projects HTTP/1.1\r\n", tokens).counting_cpu(pid));
    for subject in &mut subjects {
        subject.warm_up(ROUND / 4).await;
    }
    alternate(&mut subjects, short::count(ROUNDS)).await;
    let [Some(bare), Some(guarded)] = subjects.map(Subject::together) else {
        bail!("nothing was measured");
    };
    println!(
        "{:<18} {:>12.0} {:>12.0} {:>7.2} {:>11} {:>11} {:>11} {:>13.1}",
        kind.name(),
        bare.rate(),
        guarded.rate(),
        guarded.rate() / bare.rate(),
        p99(&bare),
        p99(&guarded),
        p99(&guarded).saturating_sub(p99(&bare)),
        guarded.cost(0),
    );
    Ok(())
}

/// In microseconds.
fn p99(measured: &Measured) -> u64 {
    (measured.percentile(990) * 1000.0) as u64
}

/// Requests to a port that begin with `head`, with these tokens in turn.
fn subject(port: u16, head: &str, tokens: &[String]) -> Subject {
    let requests = tokens.iter().map(|token| {
        format!(
            "{head}Host: localhost\r\nUser-Agent: bench\r\nAuthorization: Bearer {token}\r\n\r\n"
        )
        .into_bytes()
    });
    let requests: Vec<Vec<u8>> = requests.collect();
    let in_turn = |first| {
        let mut requests = requests.clone().into_iter().cycle().skip(first);
        move || requests.next()
    };
    let load = Load::fastest(ROUND);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    Subject::new("", address, scripts(CONNECTIONS, in_turn), load)
}
