//! Where keys come from, and how long they serve.

use super::*;

/// The configuration changes while the issuer is away.
#[test]
fn a_new_vm_takes_over_the_keys_of_the_others() {
    let (issuer, other) = (Issuer::new(Algorithm::EdDsa), Issuer::new(Algorithm::EdDsa));
    let token = issuer.token(&claims());
    let store = Store::default();
    for config in [fixtures::config(), discovering()] {
        let new = |config: &Value| guard(config).with_shared_data(Box::new(store.clone()));
        let mut first = new(&config);
        first.set_time(at(NOW));
        let document = issuer_metadata("https://lobby.example.com/certs");
        let _ = first.fetched(0, FetchKind::Metadata, &document, NOW);
        // The last good answer counts.
        for jwks in [&other.jwks(), &issuer.jwks()] {
            first.fetched(0, FetchKind::Keys, jwks, NOW).unwrap();
        }
        assert!(first.fetched(0, FetchKind::Keys, b"{}", NOW).is_err());

        let mut changed = config.clone();
        changed["realm"] = json!("changed");
        let mut second = new(&changed);
        assert!(is_allowed(&decide(&mut second, "/api/x", Some(&token))));
        assert_eq!(second.keys_age(NOW + 7), Some(7));
        assert_eq!(second.due(NOW).len(), 1, "keys are fetched all the same");
        // Keys from elsewhere, and keys of another issuer, are other keys.
        let source = if config["issuers"][0]["jwks"].is_null() {
            "discovery"
        } else {
            "jwks"
        };
        for (place, value) in [("cluster", "c"), ("authority", "a.example")] {
            let mut elsewhere = config.clone();
            elsewhere["issuers"][0][source][place] = json!(value);
            assert!(!new(&elsewhere).has_keys(0), "{place}");
        }
        let mut renamed = config.clone();
        renamed["issuers"][0]["issuer"] = json!("https://lobby.example.com/x");
        assert!(!new(&renamed).has_keys(0));
        // Keys of an algorithm that the new configuration does not accept.
        let mut strict = config.clone();
        strict["issuers"][0]["algorithms"] = json!(["ES256"]);
        assert!(!new(&strict).has_keys(0));
    }
}

/// Without keys, no token is accepted, and no client is told that its token is invalid.
#[test]
fn rfc8725_s3_3_without_keys_requests_wait_and_then_fail() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut guard = guard(&fixtures::config());
    let token = issuer.token(&claims());
    assert_eq!(
        decide(&mut guard, "/api/x", Some(&token)),
        Decision::Wait {
            issuer: 0,
            kind: FetchKind::Keys
        }
    );
    assert_eq!(guard.due(NOW).len(), 1);
    guard.failed(0, FetchKind::Keys, None, NOW);
    let over = decide_at(&mut guard, "/api/x", Some(&token), OVER, NOW);
    assert_eq!(over, Decision::Deny(Denial::KeysUnavailable));
    fetch_keys(&mut guard, &issuer, NOW + 1);
    let over = decide_at(&mut guard, "/api/x", Some(&token), OVER, NOW + 1);
    assert!(is_allowed(&over));
}

#[test]
fn a_rotation_refuses_nothing() {
    let (old, new) = (Issuer::new(Algorithm::EdDsa), Issuer::new(Algorithm::EdDsa));
    let mut guard = ready(&old);
    let old_token = old.token(&claims());
    assert!(is_allowed(&decide(&mut guard, "/api/x", Some(&old_token))));

    let header = with(new.header(), "kid", json!("key-2")).to_string();
    let new_token = new.sign(&header, &claims().to_string());
    let waits = decide_at(
        &mut guard,
        "/api/x",
        Some(&new_token),
        Patience::Left,
        NOW + 10,
    );
    assert_eq!(
        waits,
        Decision::Wait {
            issuer: 0,
            kind: FetchKind::Keys
        }
    );
    assert_eq!(
        guard.due(NOW + 10).len(),
        1,
        "the fetch comes before its time"
    );
    let both = json!({"keys": [old.jwk("key-1"), new.jwk("key-2")]}).to_string();
    guard
        .fetched(0, FetchKind::Keys, both.as_bytes(), NOW + 10)
        .unwrap();
    let over = decide_at(&mut guard, "/api/x", Some(&new_token), OVER, NOW + 10);
    assert!(is_allowed(&over));
    guard.take_counts();
    assert!(is_allowed(&decide(&mut guard, "/api/x", Some(&old_token))));
    assert_eq!(
        guard.take_counts().cache_hits,
        1,
        "a key that stays keeps its tokens"
    );

    // The key is retired, so a cached token that it signed is refused.
    guard.due(NOW + 400);
    let only_new = json!({"keys": [new.jwk("key-2")]}).to_string();
    guard
        .fetched(0, FetchKind::Keys, only_new.as_bytes(), NOW + 400)
        .unwrap();
    let retired = decide_at(&mut guard, "/api/x", Some(&old_token), OVER, NOW + 400);
    assert_eq!(retired, refused(Refusal::KeyUnknown));
}

/// D-55. The issuer adds a key of another type under the `kid` of its first key.
#[test]
fn rfc7517_s4_5_a_key_of_another_type_under_a_known_kid_is_fetched() {
    let (old, new) = (Issuer::new(Algorithm::EdDsa), Issuer::new(Algorithm::Es256));
    let mut guard = ready(&old);
    let token = new.token(&claims());
    let waits = Decision::Wait {
        issuer: 0,
        kind: FetchKind::Keys,
    };
    let at_once = decide_at(&mut guard, "/api/x", Some(&token), Patience::Left, NOW + 10);
    assert_eq!(at_once, waits);
    let over = decide_at(&mut guard, "/api/x", Some(&token), OVER, NOW + 10);
    assert_eq!(over, refused(Refusal::KeyAlgorithm));
    assert_eq!(
        guard.due(NOW + 10).len(),
        1,
        "the fetch comes before its time"
    );
    let both = json!({"keys": [old.jwk(Issuer::KID), new.jwk(Issuer::KID)]}).to_string();
    let fetched = guard.fetched(0, FetchKind::Keys, both.as_bytes(), NOW + 10);
    fetched.unwrap();
    for token in [&token, &old.token(&claims())] {
        let decision = decide_at(&mut guard, "/api/x", Some(token), OVER, NOW + 10);
        assert!(is_allowed(&decision));
    }
}

#[test]
fn a_key_of_the_same_name_with_other_material_is_another_key() {
    let (old, new) = (Issuer::new(Algorithm::EdDsa), Issuer::new(Algorithm::EdDsa));
    let mut guard = ready(&old);
    let token = old.token(&claims());
    assert!(is_allowed(&decide(&mut guard, "/api/x", Some(&token))));
    guard.due(NOW + 301);
    guard
        .fetched(0, FetchKind::Keys, &new.jwks(), NOW + 301)
        .unwrap();
    assert_eq!(
        decide(&mut guard, "/api/x", Some(&token)),
        refused(Refusal::Signature)
    );
}

#[test]
fn known_keys_outlive_bad_answers() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut guard = ready(&issuer);
    let token = issuer.token(&claims());
    for bad in [
        b"".as_slice(),
        b"<html>",
        b"{}",
        b"{\"keys\":[]}",
        b"{\"keys\":[{\"kty\":\"oct\"}]}",
        b"{\"keys\":1}",
    ] {
        assert!(guard.fetched(0, FetchKind::Keys, bad, NOW + 301).is_err());
    }
    guard.failed(0, FetchKind::Keys, None, NOW + 302);
    assert!(is_allowed(&decide(&mut guard, "/api/x", Some(&token))));
    // A key that cannot be looked up does not make the token invalid.
    let header = with(issuer.header(), "kid", json!("key-2")).to_string();
    let unknown = issuer.sign(&header, &claims().to_string());
    let over = decide_at(&mut guard, "/api/x", Some(&unknown), OVER, NOW + 303);
    assert_eq!(over, Decision::Deny(Denial::KeysUnavailable));
}

/// A replica stops while a gateway fetches a new key from it. The request waits for the answer of another replica.
#[test]
fn a_fetch_that_a_stopped_replica_ends_is_repeated_at_once() {
    let (old, new) = (Issuer::new(Algorithm::EdDsa), Issuer::new(Algorithm::EdDsa));
    let mut guard = ready(&old);
    let header = with(new.header(), "kid", json!("key-2")).to_string();
    let token = new.sign(&header, &claims().to_string());
    let decide =
        |guard: &mut Guard, patience, now| decide_at(guard, "/api/x", Some(&token), patience, now);
    let waits = Decision::Wait {
        issuer: 0,
        kind: FetchKind::Keys,
    };
    assert_eq!(decide(&mut guard, Patience::Left, NOW + 10), waits);
    let first = guard.due(NOW + 10);
    guard.failed(0, FetchKind::Keys, None, NOW + 11);
    assert!(guard.goes_on(&first[0], false, NOW + 11));
    assert_eq!(guard.due(NOW + 11), first);
    // The second failure is the result.
    guard.failed(0, FetchKind::Keys, None, NOW + 11);
    assert!(!guard.goes_on(&first[0], false, NOW + 11));
    assert_eq!(guard.due(NOW + 11), []);
    let over = decide(&mut guard, OVER, NOW + 11);
    assert_eq!(over, Decision::Deny(Denial::KeysUnavailable));
    let both = json!({"keys": [old.jwk("key-1"), new.jwk("key-2")]}).to_string();
    guard
        .fetched(0, FetchKind::Keys, both.as_bytes(), NOW + 13)
        .unwrap();
    assert!(!guard.goes_on(&first[0], true, NOW + 13));
    assert!(is_allowed(&decide(&mut guard, OVER, NOW + 13)));
}

/// An attacker's unknown keys cause fetches, but each of these logs only what the one before did not.
#[test]
fn unusable_keys_are_remarked_once() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut guard = guard(&fixtures::config());
    let set = |others: &[Value]| {
        let keys = [&[issuer.jwk("key-1")], others].concat();
        json!({ "keys": keys }).to_string()
    };
    let (none, one, other) = (
        json!({"kty": "oct"}),
        json!({"kid": "x", "use": "enc"}),
        json!({}),
    );
    let mut fetch = |body: String| {
        let remarks = guard.fetched(0, FetchKind::Keys, body.as_bytes(), NOW);
        remarks.unwrap().concat()
    };
    assert_eq!(fetch(set(&[])), "");
    assert_eq!(
        fetch(set(std::slice::from_ref(&none))),
        "1 key cannot be used: key 1: it has no kid"
    );
    for _ in 0..3 {
        assert_eq!(fetch(set(std::slice::from_ref(&none))), "");
    }
    let two = "2 keys cannot be used: key 1: not for signatures; key 2: it has no kid";
    assert_eq!(fetch(set(&[one.clone(), other.clone()])), two);
    assert_eq!(fetch(set(&[one, other])), "");
    assert_eq!(fetch(set(&[])), "all keys can be used now");
    assert_eq!(fetch(set(&[])), "");
}

#[test]
fn a_fetch_takes_over_the_keys_that_it_finds_again() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut guard = ready(&issuer);
    let key = |guard: &Guard| {
        Arc::clone(
            guard.issuers[0]
                .keys
                .get(Issuer::KID, Algorithm::EdDsa)
                .unwrap(),
        )
    };
    let before = key(&guard);
    guard
        .fetched(0, FetchKind::Keys, &issuer.jwks(), NOW + 301)
        .unwrap();
    assert!(Arc::ptr_eq(&before, &key(&guard)));
}

/// The due fetches, as kind and path.
fn due_paths(guard: &mut Guard, now: u64) -> Vec<(FetchKind, String)> {
    let due = guard.due(now).into_iter();
    due.map(|fetch| (fetch.kind, fetch.endpoint.path)).collect()
}

#[test]
fn discovered_keys_are_fetched_after_the_metadata() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut guard = guard(&discovering());
    let token = issuer.token(&claims());
    let waits = Decision::Wait {
        issuer: 0,
        kind: FetchKind::Keys,
    };
    assert_eq!(decide(&mut guard, "/api/x", Some(&token)), waits);
    let due = guard.due(NOW);
    let [fetch] = due.as_slice() else {
        panic!("{due:?}");
    };
    assert_eq!(
        (
            fetch.endpoint.path.as_str(),
            fetch.endpoint.authority.as_str()
        ),
        (DOCUMENT, "lobby.example.com")
    );
    assert_eq!(
        fetch.source(),
        (0, FetchKind::Keys),
        "who needs keys waits for it"
    );
    assert!(!guard.goes_on(fetch, false, NOW));
    let document = issuer_metadata("https://lobby.example.com/certs");
    guard
        .fetched(0, FetchKind::Metadata, &document, NOW)
        .unwrap();
    assert!(guard.goes_on(fetch, true, NOW));
    assert_eq!(
        due_paths(&mut guard, NOW),
        [(FetchKind::Keys, "/certs".to_owned())]
    );
    guard
        .fetched(0, FetchKind::Keys, &issuer.jwks(), NOW)
        .unwrap();
    assert!(is_allowed(&decide(&mut guard, "/api/x", Some(&token))));

    // For an unknown key, the guard fetches the keys from the known address. When the time is over, it fetches
    // the metadata again.
    let header = with(issuer.header(), "kid", json!("key-2")).to_string();
    let unknown = issuer.sign(&header, &claims().to_string());
    let later = decide_at(
        &mut guard,
        "/api/x",
        Some(&unknown),
        Patience::Left,
        NOW + 10,
    );
    assert_eq!(later, waits);
    assert_eq!(
        due_paths(&mut guard, NOW + 10),
        [(FetchKind::Keys, "/certs".to_owned())]
    );
    guard
        .fetched(0, FetchKind::Keys, &issuer.jwks(), NOW + 10)
        .unwrap();
    assert_eq!(
        due_paths(&mut guard, NOW + 310),
        [(FetchKind::Metadata, DOCUMENT.to_owned())]
    );
    let moved = issuer_metadata("https://lobby.example.com/moved");
    guard
        .fetched(0, FetchKind::Metadata, &moved, NOW + 310)
        .unwrap();
    assert_eq!(
        due_paths(&mut guard, NOW + 310),
        [(FetchKind::Keys, "/moved".to_owned())]
    );
}

/// Keys that cannot be fetched may have moved, so the metadata are fetched first again. The pauses grow all the same, whether
/// the metadata can be fetched or not.
#[test]
fn keys_that_fail_are_looked_for_with_growing_pauses() {
    for has_metadata in [true, false] {
        let issuer = Issuer::new(Algorithm::EdDsa);
        let mut guard = guard(&discovering());
        let document = issuer_metadata("https://lobby.example.com/certs");
        guard.due(NOW);
        guard
            .fetched(0, FetchKind::Metadata, &document, NOW)
            .unwrap();
        guard.due(NOW);
        guard
            .fetched(0, FetchKind::Keys, &issuer.jwks(), NOW)
            .unwrap();
        let mut now = NOW + 310;
        guard.due(now);
        guard
            .fetched(0, FetchKind::Metadata, &document, now)
            .unwrap();
        // After the first failure at once, because another replica may answer.
        for pause in [0, 2, 4, 8] {
            let keys = [(FetchKind::Keys, "/certs".to_owned())];
            assert_eq!(due_paths(&mut guard, now), keys);
            guard.failed(0, FetchKind::Keys, None, now);
            if pause > 0 {
                assert_eq!(due_paths(&mut guard, now + pause - 1), []);
            }
            now += pause;
            let metadata = [(FetchKind::Metadata, DOCUMENT.to_owned())];
            assert_eq!(due_paths(&mut guard, now), metadata);
            match has_metadata {
                true => guard
                    .fetched(0, FetchKind::Metadata, &document, now)
                    .map(drop)
                    .unwrap(),
                false => guard.failed(0, FetchKind::Metadata, None, now),
            }
        }
    }
}

#[test]
fn metadata_that_cannot_be_used_leads_nowhere() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut guard = guard(&discovering());
    guard.due(NOW);
    let elsewhere = issuer_metadata("https://evil.example/certs");
    assert!(
        guard
            .fetched(0, FetchKind::Metadata, &elsewhere, NOW)
            .is_err()
    );
    assert_eq!(
        due_paths(&mut guard, NOW),
        [(FetchKind::Metadata, DOCUMENT.to_owned())]
    );
    guard.failed(0, FetchKind::Metadata, None, NOW);
    assert_eq!(due_paths(&mut guard, NOW + 1), []);
    assert_eq!(
        due_paths(&mut guard, NOW + 2),
        [(FetchKind::Metadata, DOCUMENT.to_owned())]
    );

    // After the keys were found, the guard fetches them from the same address until the metadata is valid
    // again.
    let good = issuer_metadata("https://lobby.example.com/certs");
    guard
        .fetched(0, FetchKind::Metadata, &good, NOW + 2)
        .unwrap();
    guard.due(NOW + 2);
    guard
        .fetched(0, FetchKind::Keys, &issuer.jwks(), NOW + 2)
        .unwrap();
    for (now, bad) in [(NOW + 302, Some(&elsewhere)), (NOW + 604, None)] {
        assert_eq!(
            due_paths(&mut guard, now),
            [(FetchKind::Metadata, DOCUMENT.to_owned())]
        );
        match bad {
            Some(body) => drop(
                guard
                    .fetched(0, FetchKind::Metadata, body, now)
                    .unwrap_err(),
            ),
            None => guard.failed(0, FetchKind::Metadata, None, now),
        }
        assert_eq!(
            due_paths(&mut guard, now),
            [(FetchKind::Keys, "/certs".to_owned())]
        );
        guard
            .fetched(0, FetchKind::Keys, &issuer.jwks(), now)
            .unwrap();
    }
}
