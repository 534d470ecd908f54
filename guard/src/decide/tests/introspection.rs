//! Questions to introspection endpoints.

use super::*;

const ACTIVE: &str = r#"{"active":true}"#;
const INACTIVE: &str = r#"{"active":false}"#;

fn introspecting(when_unavailable: &str) -> (Tested, Issuer, String) {
    ready_with(&configured(when_unavailable))
}

fn configured(when_unavailable: &str) -> Value {
    with_members(&json!({"introspection": {
        "cluster": "sso", "path": "/introspect", "client_id": "gate way", "client_secret": "s:3",
        "when_unavailable": when_unavailable,
    }}))
}

/// Sends a token, which must wait. Returns the question about it.
#[track_caller]
fn asked(guard: &mut Tested, token: &str) -> Fetch {
    let seen = guard.send(token);
    let mut due = guard.due();
    due.retain(|fetch| fetch.kind != FetchKind::Keys);
    assert_eq!(due.len(), 1, "{due:?}");
    assert_eq!(seen, Verdict::Wait(due[0].source()));
    due.remove(0)
}

#[test]
fn rfc7662_a_verified_token_is_asked_about_and_its_answer_counts_for_a_while() {
    let (mut guard, _, token) = introspecting("deny");
    let question = asked(&mut guard, &token);
    let body = format!("token={token}&token_type_hint=access_token");
    assert_eq!(
        (question.method(), question.body()),
        ("POST", Some(body.as_str()))
    );
    // `gate%20way:s%3A3`
    let authorization = ("authorization", "Basic Z2F0ZSUyMHdheTpzJTNBMw==");
    let headers = question.headers();
    assert!(headers.contains(&authorization), "{headers:?}");
    let shown = format!("{question:?} {:?}", guard.config());
    assert!(
        !shown.contains("Basic") && !shown.contains(&token),
        "{shown}"
    );

    guard.fetch(question.kind, ACTIVE);
    for now in [NOW, NOW + 29] {
        assert_eq!(guard.at(now).send(&token), PASSES, "{now}");
    }
    assert_eq!(guard.take_counts().cache_hits, 1);
    let question = asked(guard.at(NOW + 30), &token);
    guard.fetch(question.kind, INACTIVE);
    for now in [NOW + 30, NOW + 31] {
        assert_eq!(guard.at(now).send(&token), refused(Refusal::Revoked));
    }
}

/// A client without a valid signature cannot cause a question.
#[test]
fn only_verified_tokens_are_asked_about() {
    let (mut guard, issuer, good) = introspecting("allow");
    let (signed, _) = good.rsplit_once('.').unwrap();
    let expired = issuer.token(&with(claims(), "exp", json!(NOW - 100)));
    let elsewhere = issuer.token(&with(claims(), "aud", json!("https://other.example.com")));
    for number in 0..100 {
        let forged = format!("{signed}.{}", "A".repeat(80 + number % 6));
        for token in [&forged, &expired, &elsewhere, "a.b.c"] {
            let seen = guard.send(token);
            assert!(
                matches!(seen, Verdict::Deny(Denial::Token(_), _)),
                "{seen:?}"
            );
        }
    }
    assert_eq!(guard.due(), []);
}

#[test]
fn without_an_answer_tokens_are_refused_or_accepted_as_configured() {
    let unavailable = denied(Denial::RevocationsUnavailable);
    for (when_unavailable, expected) in [("deny", unavailable), ("allow", PASSES)] {
        let (mut guard, _, token) = introspecting(when_unavailable);
        let kind = asked(&mut guard, &token).kind;
        let before = guard.send_after(kind, &token);
        assert_eq!(before, expected, "the wait is over before the answer comes");
        guard.guard.failed(0, kind, Some(503), NOW);
        assert_eq!(guard.send_after(kind, &token), expected);
        // The next answer counts at once.
        let question = asked(guard.at(NOW + 2), &token);
        guard.fetch(question.kind, INACTIVE);
        assert_eq!(guard.send_after(kind, &token), refused(Refusal::Revoked));
    }
}

#[test]
fn a_token_that_cannot_be_introspected_is_refused_and_no_other() {
    for when_unavailable in ["deny", "allow"] {
        for body in [None, Some("{\"active\":1}"), Some(&" ".repeat(70_000))] {
            let (mut guard, issuer, bad) = introspecting(when_unavailable);
            let good = issuer.token(&with(claims(), "jti", json!("good")));
            let kind = asked(&mut guard, &bad).kind;
            match body {
                Some(body) => drop(guard.try_fetch(kind, body).unwrap_err()),
                None => guard.guard.failed(0, kind, Some(400), NOW),
            }
            for seen in [guard.send_after(kind, &bad), guard.send(&bad)] {
                assert_eq!(seen, denied(Denial::RevocationsUnavailable));
            }
            let kind = asked(&mut guard, &good).kind;
            guard.fetch(kind, ACTIVE);
            assert_eq!(guard.send(&good), PASSES);
        }
    }
}

/// The wait for keys takes nothing from the wait for what must be known next about the token.
#[test]
fn a_request_that_waited_for_keys_waits_for_the_next_source_too() {
    let (old, new) = (issuer(), issuer());
    let token = token_of(&new, "key-2");
    let waiting = |config: &Value| {
        let mut guard = Tested::ready(config, &old);
        assert_eq!(guard.send(&token), WAITS_FOR_KEYS);
        guard.fetch(FetchKind::Keys, both(&old, &new));
        match guard.send_after(FetchKind::Keys, &token) {
            Verdict::Wait((_, kind)) => (guard, kind),
            seen => panic!("{seen:?}"),
        }
    };
    for when_unavailable in ["deny", "allow"] {
        let (mut guard, kind) = waiting(&configured(when_unavailable));
        assert_eq!(asked(&mut guard, &token).kind, kind);
        guard.fetch(kind, INACTIVE);
        assert_eq!(guard.send_after(kind, &token), refused(Refusal::Revoked));
    }
    let (mut guard, kind) = waiting(&with_feed("deny"));
    assert_eq!(kind, FetchKind::Revocations);
    guard.feed(&[]);
    assert_eq!(guard.send_after(kind, &token), PASSES);
}
