//! The early-access authorization server (protocol.md §1): its own issuer, store and keys, and the same resource
//! server.

use crate::api::call;
use crate::support::{Browser, CREDENTIALS, USER_BOUND, WEB, get, lobby, lobby_ea};

#[forms::each]
fn protocol_s1_the_resource_server_accepts_both_issuers() {
    for issuer in [lobby(), lobby_ea()] {
        let token = USER_BOUND.token(&issuer, &CREDENTIALS).text("access_token");
        assert_eq!(crate::token::claims(&token)["iss"], issuer);
        assert_eq!(call(&token).status, 200, "{issuer}");
    }
    let keys = |issuer: &str| get(&format!("{issuer}/auth/jwks"), &[]).body;
    assert_ne!(keys(&lobby()), keys(&lobby_ea()));
}

#[forms::each]
fn protocol_s1_nothing_of_one_server_is_usable_at_the_other() {
    let code = Browser::new(&lobby_ea()).code_for(&WEB, None);
    WEB.exchange(&lobby(), &code, None)
        .assert_error(400, "invalid_grant");
    let tokens = WEB.exchange(&lobby_ea(), &code, None);
    let refresh_token = tokens.text("refresh_token");
    WEB.refresh(&lobby(), &refresh_token)
        .assert_error(400, "invalid_grant");
    assert_eq!(WEB.refresh(&lobby_ea(), &refresh_token).status, 200);
    let active = WEB.post(
        &lobby(),
        "/auth/introspect",
        &[("token", &tokens.text("access_token"))],
    );
    assert_eq!(active.json()["active"], false);
}
