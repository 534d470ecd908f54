//! The audit log contains each event once, without secrets.

use serde_json::Value;

use crate::api::until;
use std::process::{Command, Stdio};

use crate::support::{Browser, CREDENTIALS, Form, OwnPair, USER_BOUND, WEB, now};

fn entries(pair: &OwnPair, more: &str) -> Vec<Value> {
    let listed = pair.json(&format!("audit --limit 500{more}"));
    listed["items"].as_array().unwrap().clone()
}

/// Audit entries, oldest first, without the entries of registrations at the start.
fn actions(entries: &[Value]) -> Vec<&str> {
    let registered = |entry: &&Value| {
        let actor = entry["actor"].as_str().unwrap_or_default();
        actor.starts_with("file:") || actor == "configuration"
    };
    let mut actions: Vec<_> = entries
        .iter()
        .filter(|entry| !registered(entry))
        .map(|entry| entry["action"].as_str().unwrap())
        .collect();
    actions.reverse();
    actions.dedup();
    actions
}

/// An auditor can distinguish a repeated refresh, by the client or by a thief, from a first use (D-3).
#[test]
fn a_repeated_refresh_is_told_from_a_first_use() {
    let pair = OwnPair::start(&[("TOKEN_SERVICE__LIFETIMES__REFRESH_REUSE_GRACE", "5m")]);
    let lobby = pair.pair.lobby_url();
    let first = WEB.grant(&lobby).text("refresh_token");
    let answers = [(); 2].map(|()| WEB.refresh(&lobby, &first).text("refresh_token"));
    assert_eq!(answers[0], answers[1]);
    let expected = [
        "sign_in",
        "code_issued",
        "tokens_issued",
        "tokens_refreshed",
        "tokens_repeated",
    ];
    until("the log has it", || {
        actions(&entries(&pair, "")) == expected
    });
    let all = entries(&pair, "");
    let of = |action: &str| all.iter().find(|entry| entry["action"] == action).unwrap();
    let (refreshed, repeated) = (of("tokens_refreshed"), of("tokens_repeated"));
    for field in ["actor", "client_id", "username", "grant_id", "detail"] {
        assert_eq!(repeated[field], refreshed[field], "{field}");
    }
}

#[test]
fn a_flow_leaves_its_trail() {
    let pair = OwnPair::start(&[("TOKEN_SERVICE__LIFETIMES__REFRESH_REUSE_GRACE", "0s")]);
    let lobby = pair.pair.lobby_url();
    let browser = Browser::new(&lobby);
    let code = browser.code_for(&WEB, None);
    let first = WEB.exchange(&lobby, &code, None).text("refresh_token");
    let second = WEB.refresh(&lobby, &first).text("refresh_token");
    // In the second of the first use, a repeat would still get the same response.
    let used_by = now();
    until("the grace is over", || now() > used_by);
    WEB.refresh(&lobby, &first)
        .assert_error(400, "invalid_grant");
    WEB.refresh(&lobby, &second)
        .assert_error(400, "invalid_grant");
    WEB.exchange(&lobby, &code, None)
        .assert_error(400, "invalid_grant");
    let expected = [
        "sign_in",
        "code_issued",
        "tokens_issued",
        "tokens_refreshed",
        "refresh_token_reused",
        "token_request_refused",
        "code_replayed",
    ];
    until("the log has it", || {
        actions(&entries(&pair, "")) == expected
    });
    let all = entries(&pair, "");
    let issued = all
        .iter()
        .find(|entry| entry["action"] == "tokens_issued")
        .unwrap();
    assert_eq!(issued["client_id"], "web-demo");
    assert_eq!(issued["username"], "ada@example.com");
    let address: Result<std::net::IpAddr, _> = issued["address"].as_str().unwrap().parse();
    assert!(address.is_ok(), "{issued}");
    assert_eq!(
        issued["request_id"].as_str().unwrap().len(),
        36,
        "Envoy's x-request-id"
    );
    let reused = all
        .iter()
        .find(|entry| entry["action"] == "refresh_token_reused")
        .unwrap();
    assert_eq!(reused["grant_id"], issued["grant_id"]);

    let of_ada = entries(&pair, " --user ada@example.com --action tokens_refreshed");
    assert_eq!(actions(&of_ada), ["tokens_refreshed"]);
    let log = pair.pair.end();
    let lines: Vec<Value> = log
        .lines()
        .filter(|line| line.starts_with("{\"audit\""))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for action in expected {
        let mut found = lines.iter().map(|line| &line["audit"]["action"]);
        assert!(
            found.any(|found| found == action),
            "{action} on standard output"
        );
    }
    assert_eq!(lines.len(), all.len());
}

#[test]
fn refused_sign_ins_are_in_the_log_without_the_password() {
    let pair = OwnPair::start(&[]);
    let lobby = pair.pair.lobby_url();
    pair.done("user update grace@example.com --disable");
    let browser = Browser::new(&lobby);
    let form = Form::of(&browser.authorize(&WEB.request(&[])));
    let guess = |username| {
        let fields = [("username", username), ("password", "a-wrong-password")];
        assert_eq!(browser.submit(&form, &fields).status, 403);
    };
    for username in ["ADA@example.com", "grace@example.com", "typed-by-mistake"] {
        guess(username);
    }
    until("the log has them", || {
        entries(&pair, " --action sign_in_refused").len() == 3
    });
    let refused = entries(&pair, " --action sign_in_refused");
    let of = |entry: &Value| (entry["username"].clone(), entry["detail"].clone());
    let expected = [
        (Value::Null, "unknown user".into()),
        ("grace@example.com".into(), Value::Null),
        ("ada@example.com".into(), Value::Null),
    ];
    assert_eq!(refused.iter().map(of).collect::<Vec<_>>(), expected);
    let log = pair.pair.end();
    for secret in ["a-wrong-password", "typed-by-mistake"] {
        assert!(!log.contains(secret), "{secret}");
    }
}

#[test]
fn names_of_nothing_are_told() {
    let pair = OwnPair::start(&[]);
    for (arguments, expected) in [
        (
            "--action nonsense",
            "--action: nonsense: unknown action; expected one of sign_in, ",
        ),
        (
            "--action sign_inn",
            "sign_inn: unknown action; did you mean sign_in?",
        ),
        ("--user nosuch", "there is no user nosuch"),
        ("--client nosuch", "there is no client nosuch"),
    ] {
        let refused = pair.failed(&format!("audit {arguments}"));
        assert!(refused.contains(expected), "{refused}");
    }
    // A removed client still has entries.
    pair.release(&[&WEB]);
    pair.done(&format!("client remove {}", WEB.id));
    pair.done(&format!("audit --client {}", WEB.id));
    // So far nothing has happened to this user.
    pair.done("audit --user ada@example.com --action sign_out");
}

#[test]
fn the_log_survives_a_restart() {
    let mut pair = OwnPair::start(&[]);
    pair.done("key rotate");
    pair.restart();
    assert_eq!(actions(&entries(&pair, "")), ["keys_rotated"]);
}

/// More entries than one page of the administration contains.
#[test]
fn the_log_is_paged_and_a_reader_may_stop_reading() {
    const ISSUED: usize = 510;
    let pair = OwnPair::start(&[]);
    let lobby = pair.pair.lobby_url();
    for _ in 0..ISSUED {
        assert_eq!(USER_BOUND.token(&lobby, &CREDENTIALS).status, 200);
    }
    let numbers = |arguments: &str| -> Vec<u64> {
        let listed = pair.json(&format!("audit --action tokens_issued{arguments}"));
        let items = listed["items"].as_array().unwrap().iter();
        items
            .map(|item| item["sequence"].as_u64().unwrap())
            .collect()
    };
    let all = numbers(" --limit 1000");
    assert_eq!(all.len(), ISSUED);
    assert!(all.is_sorted_by(|one, next| one > next), "newest first");
    assert_eq!(numbers(""), all[..50]);
    let before_tenth = format!(" --before {} --limit 3", all[10]);
    assert_eq!(numbers(&before_tenth), all[11..14]);
    let oldest: Vec<u64> = all.iter().rev().copied().take(3).collect();
    assert_eq!(numbers(" --after 0 --limit 3"), oldest);
    assert_eq!(numbers(" --after 0 --limit 1000").len(), ISSUED);
    assert_eq!(numbers(" --since 1h").len(), ISSUED);
    assert_eq!(numbers(" --since 2999-01-01T00:00:00Z"), [0; 0]);
    pair.run("audit --since yesterday").failed(2);
    let some = pair.run("audit --limit 5");
    assert!(
        some.errors.contains("There are more: --before "),
        "{}",
        some.errors
    );

    let mut listing = Command::new(&pair.pair.artifacts().token_service)
        .args(["audit", "--limit", "1000"])
        .envs(pair.environment())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(listing.stdout.take());
    let ended = listing.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
}
