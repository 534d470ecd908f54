//! Rotation of signing keys under load through the gateway.

use serde_json::Value;

use crate::api::until;
use crate::support::{CREDENTIALS, Load, OwnPair, USER_BOUND, call, get};

fn states(pair: &OwnPair) -> Vec<(String, String, String)> {
    states_in(&pair.json("key list"))
}

/// `kid`, algorithm and state of each key in the output of a command.
fn states_in(keys: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    keys.as_array()
        .unwrap()
        .iter()
        .map(|key| {
            (
                text(&key["kid"]),
                text(&key["algorithm"]),
                text(&key["state"]),
            )
        })
        .collect()
}

fn signing(pair: &OwnPair) -> (String, String) {
    let signing: Vec<_> = states(pair)
        .into_iter()
        .filter(|(_, _, state)| state == "signing")
        .collect();
    let [(kid, algorithm, _)] = signing.as_slice() else {
        panic!("{signing:?}");
    };
    (kid.clone(), algorithm.clone())
}

fn issue(lobby: &str) -> String {
    let reply = USER_BOUND.token(lobby, &CREDENTIALS).done();
    reply.text("access_token")
}

/// A gateway that waits for keys in vain asks the client to come back.
fn accepted(api: &str, token: &str) {
    until("the gateway decides", || {
        let reply = call(api, token);
        let is_late = reply.status == 503 && reply.header("retry-after").is_some();
        assert!(is_late || reply.status == 200, "{reply:?}");
        !is_late
    });
}

#[test]
fn three_rotations_under_load_refuse_no_request() {
    // Longer than the pause between two fetches of unknown keys by the gateway.
    let pair = OwnPair::start(&[("TOKEN_SERVICE__SIGNING__ANNOUNCE_FOR", "4s")]);
    let (lobby, api) = (pair.pair.lobby_url(), pair.pair.api_url());
    let old = issue(&lobby);
    let load = {
        let (lobby, api, old) = (lobby.clone(), api.clone(), old.clone());
        Load::start(3, move || {
            accepted(&api, &issue(&lobby));
            accepted(&api, &old);
        })
    };
    for _ in 0..3 {
        let (before, _) = signing(&pair);
        // The state at the moment of the rotation, because the next list may come after the announcement.
        let rotated = states_in(&pair.json("key rotate"));
        assert_eq!(rotated.last().unwrap().2, "announced", "{rotated:?}");
        let signs = rotated.iter().find(|(_, _, state)| state == "signing");
        assert_eq!(
            signs.unwrap().0,
            before,
            "a key is announced before it signs"
        );
        until("the successor signs", || signing(&pair).0 != before);
    }
    let requests = load.stop();
    assert!(requests > 10, "{requests}");
    let states: Vec<_> = states(&pair)
        .into_iter()
        .map(|(_, _, state)| state)
        .collect();
    assert_eq!(states, ["retired", "retired", "retired", "signing"]);
    accepted(&api, &old);
}

#[test]
fn another_algorithm_is_a_rotation_that_refuses_nothing() {
    let mut pair = OwnPair::start(&[("TOKEN_SERVICE__SIGNING__ANNOUNCE_FOR", "2s")]);
    let (lobby, api) = (pair.pair.lobby_url(), pair.pair.api_url());
    let mut tokens = vec![issue(&lobby)];
    for algorithm in ["ES256", "RS256", "EdDSA"] {
        pair.pair.stop_token_service();
        pair.pair
            .set_environment("TOKEN_SERVICE__SIGNING__ALGORITHM", algorithm);
        pair.pair.start_token_service().unwrap();
        until("the algorithm signs", || {
            let mut keys = states(&pair).into_iter();
            keys.any(|(_, found, state)| found == algorithm && state == "signing")
        });
        tokens.push(issue(&lobby));
        for token in &tokens {
            accepted(&api, token);
        }
    }
}

#[test]
fn a_key_in_wrong_hands_is_replaced_at_once_and_removed() {
    let pair = OwnPair::start(&[]);
    let (lobby, api) = (pair.pair.lobby_url(), pair.pair.api_url());
    let (stolen, _) = signing(&pair);
    let token = issue(&lobby);
    let signs = pair.failed(&format!("key remove {stolen}"));
    assert!(signs.contains("rotate the keys immediately"), "{signs}");
    pair.done("key rotate --immediate");
    until("the successor signs", || signing(&pair).0 != stolen);
    accepted(&api, &issue(&lobby));
    pair.done(&format!("key remove {stolen}"));
    let introspected = USER_BOUND.post(&lobby, "/auth/introspect", &[("token", &token)]);
    assert_eq!(introspected.json()["active"], false);
    let published = get(&format!("{lobby}/auth/jwks"), &[]);
    assert!(!published.body.contains(&stolen));
}
