//! Questions to introspection endpoints.

use super::*;

fn introspecting(when_unavailable: &str) -> Value {
    with_members(&json!({"introspection": {
        "cluster": "sso", "path": "/introspect", "client_id": "gate way", "client_secret": "s:3",
        "when_unavailable": when_unavailable,
    }}))
}

/// Returns the question that is due.
#[track_caller]
fn question(guard: &mut Guard, now: u64) -> Fetch {
    let mut due = guard.due(now);
    due.retain(|fetch| fetch.kind != FetchKind::Keys);
    assert_eq!(due.len(), 1, "{due:?}");
    due.remove(0)
}

#[test]
fn rfc7662_a_verified_token_is_asked_about_and_its_answer_counts_for_a_while() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut guard = ready_with(&introspecting("deny"), &issuer);
    let token = issuer.token(&claims());
    let at = |guard: &mut Guard, now| decide_at(guard, "/api/x", Some(&token), Patience::Left, now);
    let waits = at(&mut guard, NOW);
    let asked = question(&mut guard, NOW);
    let Decision::Wait { kind, .. } = waits else {
        panic!("{waits:?}");
    };
    assert_eq!(asked.source(), (0, kind));
    let body = format!("token={token}&token_type_hint=access_token");
    assert_eq!(
        (asked.method(), asked.body()),
        ("POST", Some(body.as_str()))
    );
    // `gate%20way:s%3A3`
    let authorization = ("authorization", "Basic Z2F0ZSUyMHdheTpzJTNBMw==");
    assert!(
        asked.headers().contains(&authorization),
        "{:?}",
        asked.headers()
    );
    let shown = format!("{asked:?} {:?}", guard.config());
    assert!(
        !shown.contains("Basic") && !shown.contains(&token),
        "{shown}"
    );

    guard.fetched(0, kind, br#"{"active":true}"#, NOW).unwrap();
    for now in [NOW, NOW + 29] {
        assert!(is_allowed(&at(&mut guard, now)), "{now}");
    }
    assert_eq!(guard.take_counts().cache_hits, 1);
    assert!(matches!(at(&mut guard, NOW + 30), Decision::Wait { .. }));
    let asked = question(&mut guard, NOW + 30);
    guard
        .fetched(0, asked.kind, br#"{"active":false}"#, NOW + 30)
        .unwrap();
    assert_eq!(at(&mut guard, NOW + 30), refused(Refusal::Revoked));
    assert_eq!(at(&mut guard, NOW + 31), refused(Refusal::Revoked));
}

/// A client without a valid signature cannot cause a question.
#[test]
fn only_verified_tokens_are_asked_about() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut guard = ready_with(&introspecting("allow"), &issuer);
    let good = issuer.token(&claims());
    let (signed, _) = good.rsplit_once('.').unwrap();
    let expired = issuer.token(&with(claims(), "exp", json!(NOW - 100)));
    let elsewhere = issuer.token(&with(claims(), "aud", json!("https://other.example.com")));
    for number in 0..100 {
        let forged = format!("{signed}.{}", "A".repeat(80 + number % 6));
        for token in [
            forged.as_str(),
            expired.as_str(),
            elsewhere.as_str(),
            "a.b.c",
        ] {
            let decision = decide(&mut guard, "/api/x", Some(token));
            assert!(
                matches!(decision, Decision::Deny(Denial::Token(_))),
                "{decision:?}"
            );
        }
    }
    assert_eq!(guard.due(NOW), []);
}

#[test]
fn without_an_answer_tokens_are_refused_or_accepted_as_configured() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let token = issuer.token(&claims());
    for (when_unavailable, is_open) in [("deny", false), ("allow", true)] {
        let mut guard = ready_with(&introspecting(when_unavailable), &issuer);
        decide(&mut guard, "/api/x", Some(&token));
        let asked = question(&mut guard, NOW);
        guard.failed(0, asked.kind, Some(503), NOW);
        let patience = Patience::Over(asked.kind);
        let over = decide_at(&mut guard, "/api/x", Some(&token), patience, NOW);
        match is_open {
            true => assert!(is_allowed(&over)),
            false => assert_eq!(over, Decision::Deny(Denial::RevocationsUnavailable)),
        }
        // The next answer counts at once.
        let again = decide_at(&mut guard, "/api/x", Some(&token), Patience::Left, NOW + 2);
        assert!(matches!(again, Decision::Wait { .. }), "{again:?}");
        let asked = question(&mut guard, NOW + 2);
        guard
            .fetched(0, asked.kind, br#"{"active":false}"#, NOW + 2)
            .unwrap();
        let known = decide_at(&mut guard, "/api/x", Some(&token), patience, NOW + 2);
        assert_eq!(known, refused(Refusal::Revoked));
    }
}

#[test]
fn a_token_that_cannot_be_introspected_is_refused_and_no_other() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let [bad, good] = ["bad", "good"].map(|jti| issuer.token(&with(claims(), "jti", json!(jti))));
    for when_unavailable in ["deny", "allow"] {
        for body in [
            None,
            Some(b"{\"active\":1}".as_slice()),
            Some(&[b' '; 70_000]),
        ] {
            let mut guard = ready_with(&introspecting(when_unavailable), &issuer);
            decide(&mut guard, "/api/x", Some(&bad));
            let kind = question(&mut guard, NOW).kind;
            match body {
                Some(body) => drop(guard.fetched(0, kind, body, NOW).unwrap_err()),
                None => guard.failed(0, kind, Some(400), NOW),
            }
            for patience in [Patience::Over(kind), Patience::Left] {
                let refused = decide_at(&mut guard, "/api/x", Some(&bad), patience, NOW);
                assert_eq!(refused, Decision::Deny(Denial::RevocationsUnavailable));
            }
            decide(&mut guard, "/api/x", Some(&good));
            let kind = question(&mut guard, NOW).kind;
            let active = guard.fetched(0, kind, br#"{"active":true}"#, NOW);
            active.unwrap();
            assert!(is_allowed(&decide(&mut guard, "/api/x", Some(&good))));
        }
    }
}

/// The wait for keys takes nothing from the wait for what must be known next about the token.
#[test]
fn a_request_that_waited_for_keys_waits_for_the_next_source_too() {
    let (old, new) = (Issuer::new(Algorithm::EdDsa), Issuer::new(Algorithm::EdDsa));
    let header = with(new.header(), "kid", json!("key-2")).to_string();
    let token = new.sign(&header, &claims().to_string());
    let both = json!({"keys": [old.jwk("key-1"), new.jwk("key-2")]}).to_string();
    let waiting = |config: &Value| {
        let mut guard = ready_with(config, &old);
        let waits = decide(&mut guard, "/api/x", Some(&token));
        assert!(matches!(
            waits,
            Decision::Wait {
                kind: FetchKind::Keys,
                ..
            }
        ));
        guard
            .fetched(0, FetchKind::Keys, both.as_bytes(), NOW)
            .unwrap();
        let over = Patience::Over(FetchKind::Keys);
        let waits = decide_at(&mut guard, "/api/x", Some(&token), over, NOW);
        let Decision::Wait { kind, .. } = waits else {
            panic!("{waits:?}");
        };
        (guard, kind)
    };
    for when_unavailable in ["deny", "allow"] {
        let (mut guard, kind) = waiting(&introspecting(when_unavailable));
        assert_eq!(question(&mut guard, NOW).kind, kind);
        guard.fetched(0, kind, br#"{"active":false}"#, NOW).unwrap();
        let over = Patience::Over(kind);
        let decision = decide_at(&mut guard, "/api/x", Some(&token), over, NOW);
        assert_eq!(decision, refused(Refusal::Revoked));
    }
    let (mut guard, kind) = waiting(&with_feed("deny"));
    assert_eq!(kind, FetchKind::Revocations);
    feed(&mut guard, &[], NOW);
    let over = Patience::Over(kind);
    assert!(is_allowed(&decide_at(
        &mut guard,
        "/api/x",
        Some(&token),
        over,
        NOW
    )));
}
