//! Refresh tokens, used `jti` values and used codes survive a restart, and also a crash. A restart with held sockets fails no
//! request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tests::{Series, wire};

use crate::api::until;
use crate::support::{
    Assertion, Browser, CREDENTIALS, Load, NON_INTERACTIVE, OwnPair, Pkce, USER_BOUND, WEB, get,
};

fn survives(restart: impl Fn(&mut OwnPair)) {
    // A code outlasts the restart, on a busy machine too.
    let mut pair = OwnPair::start(&[("TOKEN_SERVICE__LIFETIMES__AUTHORIZATION_CODE", "10m")]);
    let lobby = pair.pair.lobby_url();
    let used_code = Browser::new(&lobby).code_for(&WEB, None);
    let tokens = WEB.exchange(&lobby, &used_code, None);
    let refresh_token = tokens.text("refresh_token");
    let assertion = Assertion::of("ada@example.com").sign();
    assert_eq!(NON_INTERACTIVE.assert(&lobby, &assertion, &[]).status, 200);
    let pkce = Pkce::of(&"p".repeat(64));
    let fresh_code = Browser::new(&lobby).code_for(&WEB, Some(&pkce));

    restart(&mut pair);

    NON_INTERACTIVE
        .assert(&lobby, &assertion, &[])
        .assert_error(400, "invalid_grant");
    let refreshed = WEB.refresh(&lobby, &refresh_token).done();
    let status = pair.call(&tokens.text("access_token"));
    assert_eq!(status, 200, "the keys are the same");
    assert_eq!(WEB.exchange(&lobby, &fresh_code, Some(&pkce)).status, 200);
    WEB.exchange(&lobby, &used_code, None)
        .assert_error(400, "invalid_grant");
    WEB.refresh(&lobby, &refreshed.text("refresh_token"))
        .assert_error(400, "invalid_grant");
}

#[test]
fn nothing_is_lost_in_a_restart() {
    survives(OwnPair::restart);
}

#[test]
fn nothing_is_lost_in_a_crash() {
    survives(|pair| {
        pair.pair.kill_token_service().unwrap();
        pair.pair.start_token_service().unwrap();
    });
}

/// The alerts of a crash, with the metrics that Prometheus reads before and after it: one fires while no service answers, and
/// ends. Here nobody starts the service for two minutes.
#[test]
fn a_crash_is_noticed_and_nothing_else_is() {
    let mut pair = OwnPair::start(&[]);
    let internal = pair.pair.ports().internal;
    let mut series = Series::of_rules(&pair.pair.artifacts().repository).unwrap();
    let mut take = |is_up: bool| {
        let metrics = is_up.then(|| get(&format!("http://127.0.0.1:{internal}/metrics"), &[]).body);
        series.take(
            "token-service",
            "service",
            series.count(),
            metrics.as_deref(),
        );
        series.repeat(8);
    };
    take(true);
    pair.pair.kill_token_service().unwrap();
    take(false);
    pair.pair.start_token_service().unwrap();
    take(true);
    let down = r#"ALERTS{alertname="TokenServiceDown", alertstate="firing", instance="service", job="token-service", severity="critical"}"#;
    let firing = r#"ALERTS{alertstate="firing"}"#;
    // A sample for 15 seconds: the service is missing from 2:15 to 4:15.
    let expected = json!([
        {"expr": firing, "eval_time": "3m", "exp_samples": []},
        {"expr": firing, "eval_time": "3m15s", "exp_samples": [{"labels": down, "value": 1}]},
        {"expr": firing, "eval_time": "4m15s", "exp_samples": [{"labels": down, "value": 1}]},
        {"expr": "ALERTS", "eval_time": "4m30s", "exp_samples": []},
    ]);
    series.expect(pair.state(), ("15s", 0), &expected).unwrap();
}

/// D-27. The unit tests of the service have what files and commands may change.
#[test]
fn a_restart_keeps_state_and_commands_keep_the_definitions_of_a_file() {
    let mut pair = OwnPair::start(&[]);
    let demo = pair.registrations();
    let id = NON_INTERACTIVE.id;
    let update = format!("client update {id} --name Other");
    let refused = pair.failed(&update);
    let text = std::fs::read_to_string(&demo).unwrap();
    let mut lines = text.lines();
    let named = lines.position(|line| line == format!("client_id = \"{id}\""));
    // The line before has the head of the entry.
    let place = format!("{demo}:{} defines the client", named.unwrap());
    let release = format!("release client {id}");
    for part in [&*place, "token-service apply FILE", &*release] {
        assert!(refused.contains(part), "{part} in {refused}");
    }
    pair.done("user update ada@example.com --disable");
    let released = pair.done(&release);
    assert!(!released.contains(&demo), "{released}");
    pair.done(&update);
    pair.restart();
    let user = pair.json("user show ada@example.com");
    assert_eq!(user["enabled"], false);
    pair.run(&format!("apply {demo} --dry-run --exit-code"))
        .failed(2);
    let kept = pair.done(&format!("apply {demo}"));
    let adopt = format!("adopt client {id}");
    assert!(kept.contains(&adopt), "{kept}");
    pair.done(&adopt);
    let adopted = pair.done(&format!("apply {demo}"));
    assert!(adopted.contains("name: \"Other\" -> "), "{adopted}");
    pair.done(&format!("apply {demo} --dry-run --exit-code"));
}

/// Number of restarts. `make restarts` sets more.
fn restarts() -> usize {
    std::env::var("RESTARTS").map_or(5, |restarts| restarts.parse().unwrap())
}

/// Requests between a start and the next restart: the gateway has opened new connections, and keeps some idle ones.
const REQUESTS: usize = 30;

/// Clients of every grant and of both listeners, through the gateway and directly. Each response must be as without a restart.
fn undisturbed(pair: &OwnPair, done: &Arc<AtomicUsize>) -> Vec<Load> {
    let lobby = pair.lobby();
    let counted = |request: Arc<dyn Fn() + Send + Sync>| {
        let done = Arc::clone(done);
        move || {
            request();
            done.fetch_add(1, Ordering::SeqCst);
        }
    };
    let issuing = {
        let lobby = lobby.clone();
        move || {
            USER_BOUND.token(&lobby, &CREDENTIALS).done();
        }
    };
    let asserting = {
        let lobby = lobby.clone();
        move || {
            let assertion = Assertion::of("ada@example.com").sign();
            NON_INTERACTIVE.assert(&lobby, &assertion, &[]).done();
            let second = NON_INTERACTIVE.assert(&lobby, &assertion, &[]);
            second.assert_error(400, "invalid_grant");
        }
    };
    let signing_in = {
        let lobby = lobby.clone();
        move || {
            let tokens = WEB.grant(&lobby);
            WEB.refresh(&lobby, &tokens.text("refresh_token")).done();
        }
    };
    let ports = pair.pair.ports();
    let reading = move || {
        for url in [
            format!("{lobby}/auth/jwks"),
            format!("http://127.0.0.1:{}/auth/jwks", ports.public),
            // A restart is no reason to send requests elsewhere.
            format!("http://127.0.0.1:{}/readyz", ports.internal),
        ] {
            let reply = get(&url, &[]);
            assert_eq!(reply.status, 200, "{url}: {}", reply.body);
        }
    };
    vec![
        Load::start(4, counted(Arc::new(issuing))),
        Load::start(1, counted(Arc::new(asserting))),
        Load::start(2, counted(Arc::new(signing_in))),
        Load::start(1, counted(Arc::new(reading))),
    ]
}

/// `sd_listen_fds(3)`: connections wait at the sockets, which the parent keeps open, until the next process serves them. To
/// Prometheus too the service is never down: no alert fires.
#[test]
fn a_restart_with_held_sockets_fails_no_request() {
    let mut pair = OwnPair::holding_sockets(&[("TOKEN_SERVICE__DRAIN_FOR", "1s")]);
    let done = Arc::new(AtomicUsize::new(0));
    let load = undisturbed(&pair, &done);
    let mut series = Series::of_rules(&pair.pair.artifacts().repository).unwrap();
    for number in 0..restarts() {
        let goal = done.load(Ordering::SeqCst) + REQUESTS;
        until("the service answers", || {
            done.load(Ordering::SeqCst) >= goal
        });
        let ports = pair.pair.ports();
        // Before the restart with what the service has counted, and after it from zero.
        let metrics = get(&format!("http://127.0.0.1:{}/metrics", ports.internal), &[]);
        series.take("token-service", "service", 2 * number, Some(&metrics.body));
        pair.pair.stop_token_service();
        // No process accepts these connections yet.
        let waiting = [(ports.public, "/auth/jwks"), (ports.internal, "/metrics")];
        let waiting = waiting.map(|(port, path)| {
            let request = format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
            wire::begin(port, &request).unwrap()
        });
        pair.pair.start_token_service().unwrap();
        let responses = waiting.map(|mut connection| {
            let response = wire::answer(&mut connection).unwrap();
            assert_eq!(response.status, 200, "{response:?}");
            response.body
        });
        series.take(
            "token-service",
            "service",
            2 * number + 1,
            Some(&responses[1]),
        );
    }
    let requests: usize = load.into_iter().map(Load::stop).sum();
    assert!(requests >= restarts() * REQUESTS);
    println!("{} restarts, {requests} requests", restarts());
    let end = format!("{}m", series.count() + 5);
    // The load sends used assertions on purpose, and on a busy machine requests are slow.
    let expected = "TokenServiceSecretsGuessed|TokenServiceSlow|TokenServiceTokensReplayed";
    let alerts = format!("count_over_time(ALERTS{{alertname!~\"{expected}\"}}[{end}])");
    let expected = json!([{"expr": alerts, "eval_time": end, "exp_samples": []}]);
    series.expect(pair.state(), ("1m", 10), &expected).unwrap();
    let log = pair.pair.end();
    for (line, count) in [("sockets_opened_by", 2), ("serve: stopped", 1)] {
        let count = count * (restarts() + 1);
        assert_eq!(log.matches(line).count(), count, "{line}: {log}");
    }
    assert!(
        !log.contains("\"sockets_opened_by\":\"Program\"")
            && !log.contains("sockets_opened_by=Program")
    );
}
