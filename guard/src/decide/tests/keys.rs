//! Where keys come from, and how long they serve.

use super::*;

const DOCUMENT: &str = "/.well-known/openid-configuration";

fn discovering() -> Value {
    with_members(&json!({"jwks": null, "discovery": {"cluster": "sso"}}))
}

fn metadata(jwks_path: &str) -> String {
    let uri = format!("https://lobby.example.com{jwks_path}");
    json!({"issuer": "https://lobby.example.com", "jwks_uri": uri}).to_string()
}

fn due_keys(path: &str) -> [(FetchKind, String); 1] {
    [(FetchKind::Keys, path.to_owned())]
}

fn due_metadata() -> [(FetchKind, String); 1] {
    [(FetchKind::Metadata, DOCUMENT.to_owned())]
}

/// The configuration changes while the issuer is away.
#[test]
fn a_new_vm_takes_over_the_keys_of_the_others() {
    let (issuer, other) = (issuer(), issuer());
    let store = Store::default();
    let new = |config: &Value| Tested::new(config).sharing(store.clone());
    for (source, config) in [("jwks", fixtures::config()), ("discovery", discovering())] {
        let mut first = new(&config);
        first.at(NOW).fetch(FetchKind::Metadata, metadata("/certs"));
        // The last good answer counts.
        first.keys(&other);
        first.keys(&issuer);
        assert!(first.try_fetch(FetchKind::Keys, "{}").is_err());

        let mut second = new(&with(config.clone(), "realm", json!("changed")));
        assert_eq!(second.send(&issuer.token(&claims())), PASSES);
        assert_eq!(second.keys_age(NOW + 7), Some(7));
        assert_eq!(second.due().len(), 1, "keys are fetched all the same");
        // Keys from elsewhere, keys of another issuer, and keys of an algorithm that is not accepted.
        for (place, value) in [
            (format!("{source}/cluster"), json!("c")),
            (format!("{source}/authority"), json!("a.example")),
            ("issuer".to_owned(), json!("https://lobby.example.com/x")),
            ("algorithms".to_owned(), json!(["ES256"])),
        ] {
            let mut other = config.clone();
            match place.split_once('/') {
                Some((source, member)) => other["issuers"][0][source][member] = value,
                None => other["issuers"][0][&place] = value,
            }
            assert!(!new(&other).has_keys(0), "{place}");
        }
    }
}

/// Without keys, no token is accepted, and no client is told that its token is invalid.
#[test]
fn rfc8725_s3_3_without_keys_requests_wait_and_then_fail() {
    let issuer = issuer();
    let token = issuer.token(&claims());
    let mut guard = Tested::new(&fixtures::config());
    assert_eq!(guard.send(&token), WAITS_FOR_KEYS);
    assert_eq!(guard.due().len(), 1);
    guard.fail(FetchKind::Keys);
    let over = guard.send_after(FetchKind::Keys, &token);
    assert_eq!(over, denied(Denial::KeysUnavailable));
    assert_eq!(guard.at(NOW + 1).due().len(), 1);
    guard.keys(&issuer);
    assert_eq!(guard.send_after(FetchKind::Keys, &token), PASSES);
}

#[test]
fn a_rotation_refuses_nothing() {
    let (mut guard, old, old_token) = ready();
    let new = issuer();
    let new_token = token_of(&new, "key-2");
    assert_eq!(guard.send(&old_token), PASSES);
    assert_eq!(guard.at(NOW + 10).send(&new_token), WAITS_FOR_KEYS);
    assert_eq!(guard.due().len(), 1, "the fetch comes before its time");
    guard.fetch(FetchKind::Keys, both(&old, &new));
    assert_eq!(guard.send_after(FetchKind::Keys, &new_token), PASSES);
    guard.take_counts();
    assert_eq!(guard.send(&old_token), PASSES);
    let hits = guard.take_counts().cache_hits;
    assert_eq!(hits, 1, "a key that stays keeps its tokens");

    // The key is retired, so a cached token that it signed is refused.
    guard.at(NOW + 400).due();
    guard.fetch(FetchKind::Keys, new.jwks_of("key-2"));
    let retired = guard.send_after(FetchKind::Keys, &old_token);
    assert_eq!(retired, refused(Refusal::KeyUnknown));
}

/// D-55. The issuer adds a key of another type under the `kid` of its first key.
#[test]
fn rfc7517_s4_5_a_key_of_another_type_under_a_known_kid_is_fetched() {
    let (mut guard, old, old_token) = ready();
    let new = Issuer::new(Algorithm::Es256);
    let token = new.token(&claims());
    assert_eq!(guard.at(NOW + 10).send(&token), WAITS_FOR_KEYS);
    let over = guard.send_after(FetchKind::Keys, &token);
    assert_eq!(over, refused(Refusal::KeyAlgorithm));
    assert_eq!(guard.due().len(), 1, "the fetch comes before its time");
    let set = json!({"keys": [old.jwk(Issuer::KID), new.jwk(Issuer::KID)]});
    guard.fetch(FetchKind::Keys, set.to_string());
    for token in [&token, &old_token] {
        assert_eq!(guard.send_after(FetchKind::Keys, token), PASSES);
    }
}

#[test]
fn a_key_of_the_same_name_with_other_material_is_another_key() {
    let (mut guard, _, token) = ready();
    assert_eq!(guard.send(&token), PASSES);
    guard.at(NOW + 301).due();
    guard.keys(&issuer());
    assert_eq!(guard.send(&token), refused(Refusal::Signature));
}

#[test]
fn known_keys_outlive_bad_answers() {
    let (mut guard, issuer, token) = ready();
    guard.at(NOW + 301);
    for bad in [
        "",
        "<html>",
        "{}",
        "{\"keys\":[]}",
        "{\"keys\":[{\"kty\":\"oct\"}]}",
        "{\"keys\":1}",
    ] {
        assert!(guard.try_fetch(FetchKind::Keys, bad).is_err());
    }
    guard.fail(FetchKind::Keys);
    assert_eq!(guard.send(&token), PASSES);
    // A key that cannot be looked up does not make the token invalid.
    let over = guard.send_after(FetchKind::Keys, &token_of(&issuer, "key-2"));
    assert_eq!(over, denied(Denial::KeysUnavailable));
}

/// A replica stops while a gateway fetches a new key from it. The request waits for the answer of another replica.
#[test]
fn a_fetch_that_a_stopped_replica_ends_is_repeated_at_once() {
    let (mut guard, old, _) = ready();
    let new = issuer();
    let token = token_of(&new, "key-2");
    assert_eq!(guard.at(NOW + 10).send(&token), WAITS_FOR_KEYS);
    let first = guard.due();
    guard.at(NOW + 11).fail(FetchKind::Keys);
    assert!(guard.goes_on(&first[0], false, NOW + 11));
    assert_eq!(guard.due(), first);
    // The second failure is the result.
    guard.fail(FetchKind::Keys);
    assert!(!guard.goes_on(&first[0], false, NOW + 11));
    assert_eq!(guard.due(), []);
    let over = guard.send_after(FetchKind::Keys, &token);
    assert_eq!(over, denied(Denial::KeysUnavailable));
    guard.at(NOW + 13).fetch(FetchKind::Keys, both(&old, &new));
    assert!(!guard.goes_on(&first[0], true, NOW + 13));
    assert_eq!(guard.send_after(FetchKind::Keys, &token), PASSES);
}

/// An attacker's unknown keys cause fetches, but each of these logs only what the one before did not.
#[test]
fn unusable_keys_are_remarked_once() {
    let (mut guard, issuer, _) = ready();
    let (none, one, other) = (
        json!({"kty": "oct"}),
        json!({"kid": "x", "use": "enc"}),
        json!({}),
    );
    let of_one = "1 key cannot be used: key 1: it has no kid";
    let of_two = "2 keys cannot be used: key 1: not for signatures; key 2: it has no kid";
    for (others, remark) in [
        (vec![], ""),
        (vec![&none], of_one),
        (vec![&none], ""),
        (vec![&none], ""),
        (vec![&one, &other], of_two),
        (vec![&one, &other], ""),
        (vec![], "all keys can be used now"),
        (vec![], ""),
    ] {
        let own = issuer.jwk("key-1");
        let keys: Vec<&Value> = [&own].into_iter().chain(others).collect();
        let body = json!({ "keys": keys }).to_string();
        assert_eq!(guard.fetch(FetchKind::Keys, body), remark);
    }
}

#[test]
fn a_fetch_takes_over_the_keys_that_it_finds_again() {
    let (mut guard, issuer, _) = ready();
    let key = |guard: &Guard| {
        let key = guard.issuers[0].keys.get(Issuer::KID, Algorithm::EdDsa);
        Arc::clone(key.unwrap())
    };
    let before = key(&guard);
    guard.at(NOW + 301).keys(&issuer);
    assert!(Arc::ptr_eq(&before, &key(&guard)));
}

#[test]
fn discovered_keys_are_fetched_after_the_metadata() {
    let issuer = issuer();
    let token = issuer.token(&claims());
    let mut guard = Tested::new(&discovering());
    assert_eq!(guard.send(&token), WAITS_FOR_KEYS);
    let due = guard.due();
    let [fetch] = due.as_slice() else {
        panic!("{due:?}");
    };
    let endpoint = &fetch.endpoint;
    assert_eq!(
        (&*endpoint.path, &*endpoint.authority),
        (DOCUMENT, "lobby.example.com")
    );
    assert_eq!(
        fetch.source(),
        (0, FetchKind::Keys),
        "who needs keys waits for it"
    );
    assert!(!guard.goes_on(fetch, false, NOW));
    guard.fetch(FetchKind::Metadata, metadata("/certs"));
    assert!(guard.goes_on(fetch, true, NOW));
    assert_eq!(guard.due_paths(), due_keys("/certs"));
    guard.keys(&issuer);
    assert_eq!(guard.send(&token), PASSES);

    // For an unknown key, the guard fetches the keys from the known address. When the time is over, it fetches
    // the metadata again.
    let unknown = token_of(&issuer, "key-2");
    assert_eq!(guard.at(NOW + 10).send(&unknown), WAITS_FOR_KEYS);
    assert_eq!(guard.due_paths(), due_keys("/certs"));
    guard.keys(&issuer);
    assert_eq!(guard.at(NOW + 310).due_paths(), due_metadata());
    guard.fetch(FetchKind::Metadata, metadata("/moved"));
    assert_eq!(guard.due_paths(), due_keys("/moved"));
}

/// Keys that cannot be fetched may have moved, so the metadata are fetched first again. The pauses grow all the same, whether
/// the metadata can be fetched or not.
#[test]
fn keys_that_fail_are_looked_for_with_growing_pauses() {
    for has_metadata in [true, false] {
        let mut guard = Tested::new(&discovering());
        let read_metadata = |guard: &mut Tested| {
            guard.due();
            guard.fetch(FetchKind::Metadata, metadata("/certs"));
        };
        read_metadata(&mut guard);
        guard.due();
        guard.keys(&issuer());
        read_metadata(guard.at(NOW + 310));
        // After the first failure at once, because another replica may answer.
        for pause in [0, 2, 4, 8] {
            assert_eq!(guard.due_paths(), due_keys("/certs"));
            guard.fail(FetchKind::Keys);
            let next = guard.now + pause;
            if pause > 0 {
                assert_eq!(guard.at(next - 1).due_paths(), []);
            }
            assert_eq!(guard.at(next).due_paths(), due_metadata());
            match has_metadata {
                true => drop(guard.fetch(FetchKind::Metadata, metadata("/certs"))),
                false => guard.fail(FetchKind::Metadata),
            }
        }
    }
}

#[test]
fn metadata_that_cannot_be_used_leads_nowhere() {
    let issuer = issuer();
    let elsewhere =
        metadata("/certs").replace("https://lobby.example.com/", "https://evil.example/");
    let mut guard = Tested::new(&discovering());
    guard.due();
    assert!(guard.try_fetch(FetchKind::Metadata, &elsewhere).is_err());
    assert_eq!(guard.due_paths(), due_metadata());
    guard.fail(FetchKind::Metadata);
    assert_eq!(guard.at(NOW + 1).due_paths(), []);
    assert_eq!(guard.at(NOW + 2).due_paths(), due_metadata());

    // After the keys were found, the guard fetches them from the same address until the metadata is valid
    // again.
    guard.fetch(FetchKind::Metadata, metadata("/certs"));
    guard.due();
    guard.keys(&issuer);
    for (now, bad) in [(NOW + 302, Some(&elsewhere)), (NOW + 604, None)] {
        assert_eq!(guard.at(now).due_paths(), due_metadata());
        match bad {
            Some(body) => drop(guard.try_fetch(FetchKind::Metadata, body).unwrap_err()),
            None => guard.fail(FetchKind::Metadata),
        }
        assert_eq!(guard.due_paths(), due_keys("/certs"));
        guard.keys(&issuer);
    }
}
