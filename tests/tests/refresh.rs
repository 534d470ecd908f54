//! Refresh tokens (protocol.md §3, §4.2 rule 1; D-3).

use serde_json::Value;

use crate::api::pass;
use crate::support::{Browser, Client, INSTALLED, OwnPair, Pkce, WEB, lobby, now};
use crate::token::{assert_tokens, claims};

fn refresh_token(client: &Client, lobby: &str) -> String {
    let pkce = client.secret.is_none().then(|| Pkce::of(&"v".repeat(43)));
    let code = Browser::new(lobby).code_for(client, pkce.as_ref());
    client
        .exchange(lobby, &code, pkce.as_ref())
        .text("refresh_token")
}

#[test]
fn protocol_s4_2_rule_1_a_refresh_gives_a_complete_new_answer() {
    for client in [WEB, INSTALLED] {
        let first = refresh_token(&client, &lobby());
        let second = assert_tokens(&client.refresh(&lobby(), &first), true);
        let next = second["refresh_token"].as_str().unwrap();
        assert_ne!(next, first);
        assert_eq!(
            claims(second["access_token"].as_str().unwrap())["client_id"],
            client.id
        );
        assert_tokens(&client.refresh(&lobby(), next), true);
    }
}

/// A lost response must not sign the user out: the same request gets the same tokens.
#[test]
fn d_3_a_repeated_refresh_gets_the_same_tokens() {
    let first = refresh_token(&WEB, &lobby());
    let url = lobby();
    let replies: Vec<Value> = std::thread::scope(|scope| {
        let posts: Vec<_> = (0..10)
            .map(|_| scope.spawn(|| WEB.refresh(&url, &first).json()))
            .collect();
        posts.into_iter().map(|post| post.join().unwrap()).collect()
    });
    for reply in &replies {
        assert!(reply["refresh_token"].is_string(), "{reply}");
        for token in ["access_token", "refresh_token"] {
            assert_eq!(reply[token], replies[0][token], "{token}");
        }
    }
}

/// RFC 6749 §5.1: `expires_in` counts from the response, also if the access token is older.
#[test]
fn rfc6749_s5_1_a_repeated_refresh_gets_the_rest_of_the_lifetime() {
    let first = refresh_token(&WEB, &lobby());
    let issued = WEB.refresh(&lobby(), &first).json();
    assert_eq!(issued["expires_in"], 3600);
    let expiry = claims(issued["access_token"].as_str().unwrap())["exp"].as_u64();
    pass(1);
    let earliest = now();
    let repeated = WEB.refresh(&lobby(), &first).json();
    let latest = now();
    assert_eq!(repeated["access_token"], issued["access_token"]);
    let lifetime = repeated["expires_in"].as_u64().unwrap();
    let expiry = expiry.unwrap();
    let true_lifetimes = expiry - latest..=expiry - earliest;
    assert!(
        true_lifetimes.contains(&lifetime),
        "{lifetime}: {true_lifetimes:?}"
    );
}

/// If the grace is longer than an access token lives.
#[test]
fn a_repeated_refresh_never_gets_an_expired_access_token() {
    let pair = OwnPair::start(&[
        ("TOKEN_SERVICE__LIFETIMES__ACCESS_TOKEN", "1s"),
        ("TOKEN_SERVICE__LIFETIMES__REFRESH_REUSE_GRACE", "5m"),
    ]);
    let lobby = pair.lobby();
    let first = refresh_token(&WEB, &lobby);
    let issued = WEB.refresh(&lobby, &first).json();
    pass(1);
    let repeated = WEB.refresh(&lobby, &first).json();
    assert_eq!(repeated["expires_in"], 1);
    let ids = |name: &str| {
        [&issued, &repeated].map(|reply| claims(reply[name].as_str().unwrap())["jti"].clone())
    };
    let [before, after] = ids("access_token");
    assert_ne!(before, after);
    let [before, after] = ids("refresh_token");
    assert_eq!(before, after);
}

#[test]
fn rfc6749_s6_a_refresh_token_is_bound_to_its_client() {
    let token = refresh_token(&WEB, &lobby());
    INSTALLED
        .refresh(&lobby(), &token)
        .assert_error(400, "invalid_grant");
    for garbage in ["x", "a.b.c", &token[..token.len() - 1]] {
        WEB.refresh(&lobby(), garbage)
            .assert_error(400, "invalid_grant");
    }
    assert_eq!(WEB.refresh(&lobby(), &token).status, 200);
}

/// An access token does not refresh.
#[test]
fn rfc8725_s3_11_an_access_token_is_no_refresh_token() {
    let code = Browser::new(&lobby()).code_for(&WEB, None);
    let access = WEB.exchange(&lobby(), &code, None).text("access_token");
    WEB.refresh(&lobby(), &access)
        .assert_error(400, "invalid_grant");
}
