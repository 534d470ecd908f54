//! Revocation and introspection (RFC 7009, RFC 7662), and what the gateway makes of it.

use serde_json::json;

use crate::api::{call, until};
use crate::support::{Browser, Client, INSTALLED, Reply, USER_BOUND, WEB, lobby};

fn tokens() -> (String, String) {
    let code = Browser::new(&lobby()).code_for(&WEB, None);
    let reply = WEB.exchange(&lobby(), &code, None);
    (reply.text("access_token"), reply.text("refresh_token"))
}

fn revoke(client: &Client, token: &str) -> Reply {
    client.post(&lobby(), "/auth/revoke", &[("token", token)])
}

fn introspect(client: &Client, token: &str) -> serde_json::Value {
    client
        .post(&lobby(), "/auth/introspect", &[("token", token)])
        .json()
}

/// Checklist row 52: the gateway refuses a token that has not expired.
#[test]
fn rfc7009_s2_1_a_revoked_refresh_token_takes_its_access_tokens_along() {
    let (access, refresh) = tokens();
    assert_eq!(call(&access).status, 200);
    assert_eq!(introspect(&WEB, &access)["active"], true);
    assert_eq!(introspect(&WEB, &refresh)["active"], true);
    assert_eq!(revoke(&WEB, &refresh).status, 200);
    assert_eq!(introspect(&WEB, &access), json!({"active": false}));
    assert_eq!(introspect(&WEB, &refresh), json!({"active": false}));
    WEB.refresh(&lobby(), &refresh)
        .assert_error(400, "invalid_grant");
    until("the gateway knows", || call(&access).status == 401);
    let refusal = call(&access);
    refusal.assert_error(401, "invalid_token");
}

#[test]
fn rfc7009_s2_1_a_revoked_access_token_goes_alone() {
    let (access, refresh) = tokens();
    assert_eq!(revoke(&WEB, &access).status, 200);
    assert_eq!(introspect(&WEB, &access), json!({"active": false}));
    until("the gateway knows", || call(&access).status == 401);
    let next = WEB.refresh(&lobby(), &refresh);
    assert_eq!(call(&next.text("access_token")).status, 200);
}

/// Checklist rows 52, 53: nobody learns of or ends other clients' tokens.
#[test]
fn rfc7009_s2_2_other_clients_and_nonsense_change_nothing() {
    let (access, refresh) = tokens();
    for token in [access.as_str(), &refresh] {
        // RFC 7009 §2.1: "the request is refused and the client is informed of the error".
        revoke(&USER_BOUND, token).assert_error(400, "invalid_grant");
        revoke(&INSTALLED, token).assert_error(400, "invalid_grant");
    }
    for token in ["x", "a.b.c"] {
        let reply = revoke(&USER_BOUND, token);
        assert_eq!(
            (reply.status, reply.json()),
            (200, json!({})),
            "as JSON (D-32)"
        );
    }
    for token in [access.as_str(), &refresh, "x", "a.b.c"] {
        assert_eq!(introspect(&USER_BOUND, token), json!({"active": false}));
    }
    assert_eq!(introspect(&WEB, &access)["active"], true);
    assert_eq!(WEB.refresh(&lobby(), &refresh).status, 200);
    WEB.post(&lobby(), "/auth/revoke", &[])
        .assert_error(400, "invalid_request");
    WEB.post(&lobby(), "/auth/introspect", &[])
        .assert_error(400, "invalid_request");
    let stranger = Client {
        secret: Some("wrong"),
        ..WEB
    };
    revoke(&stranger, &access).assert_error(401, "invalid_client");
    stranger
        .post(&lobby(), "/auth/introspect", &[("token", &access)])
        .assert_error(401, "invalid_client");
    INSTALLED
        .post(&lobby(), "/auth/introspect", &[("token", &access)])
        .assert_error(401, "invalid_client");
}
