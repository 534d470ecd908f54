//! Revocations.

use super::*;

fn grant_revoked() -> Value {
    json!({"kind": "grant", "id": "grant-1", "at": NOW, "exp": NOW + 3600})
}

#[test]
fn a_revoked_token_is_refused_cached_or_not() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut guard = ready_with(&with_feed("deny"), &issuer);
    feed(&mut guard, &[], NOW);
    let token = issuer.token(&claims());
    assert!(is_allowed(&decide(&mut guard, "/api/x", Some(&token))));
    feed(&mut guard, &[grant_revoked()], NOW + 2);
    for _ in 0..2 {
        let decision = decide_at(&mut guard, "/api/x", Some(&token), Patience::Left, NOW + 2);
        assert_eq!(decision, refused(Refusal::Revoked));
    }
    let due = guard.due(NOW + 4);
    let paths: Vec<&str> = due
        .iter()
        .map(|fetch| fetch.endpoint.path.as_str())
        .collect();
    assert_eq!(paths, ["/revocations?version=1&feed=A&since=1"]);
}

#[test]
fn a_lost_feed_does_what_was_configured() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let token = issuer.token(&claims());
    let over = Patience::Over(FetchKind::Revocations);
    for (when_stale, expected) in [("deny", false), ("allow", true)] {
        let mut guard = ready_with(&with_feed(when_stale), &issuer);
        let first = decide_at(&mut guard, "/api/x", Some(&token), over, NOW);
        assert_eq!(is_allowed(&first), expected, "never read, {when_stale}");
        feed(&mut guard, &[], NOW);
        let fresh = decide_at(&mut guard, "/api/x", Some(&token), over, NOW + 60);
        assert!(is_allowed(&fresh));
        let stale = decide_at(&mut guard, "/api/x", Some(&token), over, NOW + 61);
        assert_eq!(is_allowed(&stale), expected, "stale, {when_stale}");
        if !expected {
            assert_eq!(stale, Decision::Deny(Denial::RevocationsUnavailable));
        }
    }
}

/// After a backup, a revocation, a restore and another revocation, the same position has a new meaning. A
/// cached token is looked up again.
#[test]
fn a_cached_token_does_not_survive_a_position_that_repeats() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut guard = ready_with(&with_feed("deny"), &issuer);
    let page = |feed: &str, entries: Value| {
        json!({"feed": feed, "since": 0, "position": 1, "more": false, "holds": false, "revocations": entries}).to_string()
    };
    let entry = |id: &str| json!([{"kind": "grant", "id": id, "at": NOW, "exp": NOW + 3600}]);
    let read = |guard: &mut Guard, page: String, now| {
        guard.set_time(at(now));
        guard.due(now);
        guard
            .fetched(0, FetchKind::Revocations, page.as_bytes(), now)
            .unwrap();
    };
    read(&mut guard, page("A", entry("another grant")), NOW);
    let token = issuer.token(&claims());
    assert!(is_allowed(&decide(&mut guard, "/api/x", Some(&token))));
    read(&mut guard, page("B", entry("grant-1")), NOW + 2);
    assert_eq!(
        decide(&mut guard, "/api/x", Some(&token)),
        refused(Refusal::Revoked)
    );
}

/// Up to the last second in which the token's expiry is tolerated.
#[test]
fn a_revoked_token_does_not_come_back_within_the_clock_skew() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut config = with_feed("allow");
    config["clock_skew_seconds"] = json!(300);
    let mut guard = ready_with(&config, &issuer);
    feed(&mut guard, &[grant_revoked()], NOW);
    let token = issuer.token(&claims());
    for now in NOW + 3590..NOW + 3900 {
        guard.set_time(at(now));
        (0..100).for_each(|_| guard.sweep());
        feed(&mut guard, &[], now);
        let decision = decide_at(&mut guard, "/api/x", Some(&token), Patience::Left, now);
        assert_eq!(decision, refused(Refusal::Revoked), "{}", now - NOW);
    }
    let decision = decide_at(
        &mut guard,
        "/api/x",
        Some(&token),
        Patience::Left,
        NOW + 3900,
    );
    assert_eq!(decision, refused(Refusal::Expired));
}

/// With more revocations than the table holds, cached tokens that may be revoked are refused with a reason of
/// their own, and new tokens are accepted.
#[test]
fn a_full_table_refuses_old_tokens_and_no_new_ones() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut config = with_feed("deny");
    config["issuers"][0]["revocations"]["max_entries"] = json!(1000);
    let mut guard = ready_with(&config, &issuer);
    feed(&mut guard, &[], NOW);
    let old = issuer.token(&claims());
    let fresh = with(with(claims(), "iat", json!(NOW)), "exp", json!(NOW + 7200));
    let fresh = issuer.token(&with(fresh, "jti", json!("token-2")));
    for token in [&old, &fresh] {
        assert!(is_allowed(&decide(&mut guard, "/api/x", Some(token))));
    }
    for page in 0..2 {
        let entry = |number| {
            let exp = NOW + 3600 + page * 1000 + number;
            json!({"kind": "token", "id": format!("{page} {number}"), "at": NOW, "exp": exp})
        };
        let entries: Vec<Value> = (1..1000).map(entry).collect();
        feed(&mut guard, &entries, NOW);
    }
    assert_eq!(
        decide(&mut guard, "/api/x", Some(&old)),
        refused(Refusal::Folded)
    );
    assert!(is_allowed(&decide(&mut guard, "/api/x", Some(&fresh))));
    let counts = guard.take_counts();
    assert!(counts.revocations_folded > 900);
    assert_eq!(guard.folding_feeds(), 1);
    let remarks = guard.take_remarks();
    assert_eq!(remarks.len(), 1, "{remarks:?}");
    assert!(remarks[0].1.contains("max_entries"));
}

/// Several issuers of one token service share one feed: one request, one table.
#[test]
fn issuers_with_the_same_endpoint_share_a_feed() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut config = with_feed("deny");
    let mut second = config["issuers"][0].clone();
    second["issuer"] = json!("https://us1.legacy.example");
    config["issuers"].as_array_mut().unwrap().push(second);
    let mut guard = guard(&config);
    guard.set_time(at(NOW));
    let due = guard.due(NOW);
    let feeds = due
        .iter()
        .filter(|fetch| fetch.kind == FetchKind::Revocations);
    assert_eq!(feeds.count(), 1);
    for index in [0, 1] {
        guard
            .fetched(index, FetchKind::Keys, &issuer.jwks(), NOW)
            .unwrap();
    }
    let legacy = issuer.token(&with(claims(), "iss", json!("https://us1.legacy.example")));
    let waits = decide(&mut guard, "/api/x", Some(&legacy));
    assert_eq!(
        waits,
        Decision::Wait {
            issuer: 0,
            kind: FetchKind::Revocations
        }
    );
    let user = json!({"feed": "A", "since": 0, "position": 1, "more": false, "holds": false, "revocations": [
        {"kind": "user", "id": "ada@example.com", "iss": "https://us1.legacy.example", "at": NOW, "exp": NOW + 3600},
    ]});
    guard
        .fetched(0, FetchKind::Revocations, user.to_string().as_bytes(), NOW)
        .unwrap();
    assert_eq!(
        decide(&mut guard, "/api/x", Some(&legacy)),
        refused(Refusal::Revoked)
    );
    let other = issuer.token(&claims());
    assert!(is_allowed(&decide(&mut guard, "/api/x", Some(&other))));
}
