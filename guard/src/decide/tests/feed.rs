//! Revocations.

use super::*;

fn revoked(kind: &str, id: &str) -> Value {
    json!({"kind": kind, "id": id, "at": NOW, "exp": NOW + 3600})
}

#[test]
fn a_revoked_token_is_refused_cached_or_not() {
    let (mut guard, _, token) = ready_with(&with_feed("deny"));
    guard.feed(&[]);
    assert_eq!(guard.send(&token), PASSES);
    guard.at(NOW + 2).feed(&[revoked("grant", "grant-1")]);
    for _ in 0..2 {
        assert_eq!(guard.send(&token), refused(Refusal::Revoked));
    }
    let path = "/revocations?version=1&feed=A&since=1".to_owned();
    assert_eq!(
        guard.at(NOW + 4).due_paths(),
        [(FetchKind::Revocations, path)]
    );
}

#[test]
fn a_lost_feed_does_what_was_configured() {
    let unavailable = denied(Denial::RevocationsUnavailable);
    for (when_stale, expected) in [("deny", unavailable), ("allow", PASSES)] {
        let (mut guard, _, token) = ready_with(&with_feed(when_stale));
        let mut at = |now, reads| {
            let seen = guard.at(now).send_after(FetchKind::Revocations, &token);
            if reads {
                guard.feed(&[]);
            }
            seen
        };
        assert_eq!(at(NOW, true), expected, "never read");
        assert_eq!(at(NOW + 60, false), PASSES);
        assert_eq!(at(NOW + 61, false), expected, "stale");
    }
}

/// After a backup, a revocation, a restore and another revocation, the same position has a new meaning. A
/// cached token is looked up again.
#[test]
fn a_cached_token_does_not_survive_a_position_that_repeats() {
    let (mut guard, _, token) = ready_with(&with_feed("deny"));
    for (now, feed, id, seen) in [
        (NOW, "A", "another grant", PASSES),
        (NOW + 2, "B", "grant-1", refused(Refusal::Revoked)),
    ] {
        let page = json!({"feed": feed, "since": 0, "position": 1, "more": false, "holds": false, "revocations": [revoked("grant", id)]});
        guard.at(now).due();
        guard.fetch(FetchKind::Revocations, page.to_string());
        assert_eq!(guard.send(&token), seen);
    }
}

/// Up to the last second in which the token's expiry is tolerated.
#[test]
fn a_revoked_token_does_not_come_back_within_the_clock_skew() {
    let mut config = with_feed("allow");
    config["clock_skew_seconds"] = json!(300);
    let (mut guard, _, token) = ready_with(&config);
    guard.feed(&[revoked("grant", "grant-1")]);
    for now in NOW + 3590..NOW + 3900 {
        guard.at(now);
        (0..100).for_each(|_| guard.sweep());
        guard.feed(&[]);
        assert_eq!(
            guard.send(&token),
            refused(Refusal::Revoked),
            "{}",
            now - NOW
        );
    }
    assert_eq!(guard.at(NOW + 3900).send(&token), refused(Refusal::Expired));
}

/// With more revocations than the table holds, cached tokens that may be revoked are refused with a reason of
/// their own, and new tokens are accepted.
#[test]
fn a_full_table_refuses_old_tokens_and_no_new_ones() {
    let mut config = with_feed("deny");
    config["issuers"][0]["revocations"]["max_entries"] = json!(1000);
    let (mut guard, issuer, old) = ready_with(&config);
    guard.feed(&[]);
    let fresh = with(claims(), "exp", json!(NOW + 7200));
    let fresh = issuer.token(&with(fresh, "jti", json!("token-2")));
    for token in [&old, &fresh] {
        assert_eq!(guard.send(token), PASSES);
    }
    for page in 0..2 {
        let entry = |number| {
            with(
                revoked("token", &format!("{page} {number}")),
                "exp",
                json!(NOW + 3600 + page * 1000 + number),
            )
        };
        guard.feed(&(1..1000).map(entry).collect::<Vec<_>>());
    }
    assert_eq!(guard.send(&old), refused(Refusal::Folded));
    assert_eq!(guard.send(&fresh), PASSES);
    assert!(guard.take_counts().revocations_folded > 900);
    assert_eq!(guard.folding_feeds(), 1);
    let remarks = guard.take_remarks();
    assert_eq!(remarks.len(), 1, "{remarks:?}");
    assert!(remarks[0].1.contains("max_entries"));
}

/// Several issuers of one token service share one feed: one request, one table.
#[test]
fn issuers_with_the_same_endpoint_share_a_feed() {
    const LEGACY: &str = "https://us1.legacy.example";
    let issuer = issuer();
    let mut config = with_feed("deny");
    let second = with(config["issuers"][0].clone(), "issuer", json!(LEGACY));
    config["issuers"].as_array_mut().unwrap().push(second);
    let mut guard = Tested::new(&config);
    let due = guard.at(NOW).due_paths().into_iter();
    assert_eq!(
        due.filter(|(kind, _)| *kind == FetchKind::Revocations)
            .count(),
        1
    );
    for index in [0, 1] {
        let keys = guard
            .guard
            .fetched(index, FetchKind::Keys, &issuer.jwks(), NOW);
        keys.unwrap();
    }
    let legacy = issuer.token(&with(claims(), "iss", json!(LEGACY)));
    let waits = guard.send(&legacy);
    assert_eq!(waits, Verdict::Wait((0, FetchKind::Revocations)));
    let user = with(revoked("user", "ada@example.com"), "iss", json!(LEGACY));
    guard.feed(&[user]);
    assert_eq!(guard.send(&legacy), refused(Refusal::Revoked));
    assert_eq!(guard.send(&issuer.token(&claims())), PASSES);
}
