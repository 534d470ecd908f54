//! Refresh tokens (protocol.md §3, §4.2 rule 1; D-3).

use crate::api::until;
use crate::support::{Browser, Client, INSTALLED, OwnPair, Pkce, WEB, lobby};
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

/// A lost response must not sign the user out: the same request gets the same response.
#[test]
fn d_3_a_repeated_refresh_gets_the_same_answer() {
    let first = refresh_token(&WEB, &lobby());
    let replies: Vec<serde_json::Value> = std::thread::scope(|scope| {
        let posts: Vec<_> = (0..10)
            .map(|_| scope.spawn(|| WEB.refresh(&lobby(), &first).json()))
            .collect();
        posts.into_iter().map(|post| post.join().unwrap()).collect()
    });
    assert!(replies[0]["refresh_token"].is_string(), "{}", replies[0]);
    assert!(replies.iter().all(|reply| *reply == replies[0]));
}

#[test]
fn rfc9700_s4_14_2_reuse_after_the_grace_ends_the_grant_and_no_other() {
    let pair = OwnPair::start(&[("TOKEN_SERVICE__LIFETIMES__REFRESH_REUSE_GRACE", "0s")]);
    let lobby = pair.pair.lobby_url();
    let stolen = refresh_token(&WEB, &lobby);
    let other_device = refresh_token(&WEB, &lobby);
    let next = WEB.refresh(&lobby, &stolen).text("refresh_token");
    // The grace includes its last second, so the reuse must happen in a later second.
    let used_at = crate::support::now();
    until("the grace is over", || crate::support::now() > used_at + 1);
    WEB.refresh(&lobby, &stolen)
        .assert_error(400, "invalid_grant");
    WEB.refresh(&lobby, &next)
        .assert_error(400, "invalid_grant");
    assert_eq!(WEB.refresh(&lobby, &other_device).status, 200);
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
