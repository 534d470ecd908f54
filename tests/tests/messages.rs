//! What refusals tell the integrator (protocol.md §7.1).

use crate::support::{Browser, INSTALLED, Pkce, Reply, USER_BOUND, WEB, answer, lobby};

/// The description of a refusal with status 400.
#[track_caller]
fn refused(reply: &Reply, error: &str) -> String {
    reply.assert_error(400, error);
    reply.text("error_description")
}

#[test]
fn a_code_is_unknown_or_used() {
    let exchange = |code: &str| WEB.exchange(&lobby(), code, None);
    let unknown = refused(&exchange("x"), "invalid_grant");
    assert!(unknown.contains("unknown"), "{unknown}");
    let code = Browser::new(&lobby()).code_for(&WEB, None);
    let pkce = Pkce::of(&"v".repeat(43));
    let other_client = INSTALLED.exchange(&lobby(), &code, Some(&pkce));
    assert_eq!(refused(&other_client, "invalid_grant"), unknown);
    assert_eq!(exchange(&code).status, 200);
    let used = refused(&exchange(&code), "invalid_grant");
    assert!(used.contains("used before"), "{used}");
}

#[test]
fn a_refresh_token_is_unknown_or_used() {
    let code = Browser::new(&lobby()).code_for(&WEB, None);
    let tokens = WEB.exchange(&lobby(), &code, None);
    let token = tokens.text("refresh_token");
    let unknown = refused(&WEB.refresh(&lobby(), "x"), "invalid_grant");
    assert!(unknown.contains("unknown"), "{unknown}");
    let other_client = INSTALLED.refresh(&lobby(), &token);
    assert_eq!(refused(&other_client, "invalid_grant"), unknown);
    let access_token = WEB.refresh(&lobby(), &tokens.text("access_token"));
    assert_eq!(refused(&access_token, "invalid_grant"), unknown);
}

#[test]
fn a_scope_that_goes_too_far_is_named() {
    let scope = ("scope", "projects roof");
    let browser = Browser::new(&lobby());
    let refusal = browser.authorize(&[
        ("response_type", "code"),
        ("client_id", WEB.id),
        ("redirect_uri", WEB.redirect_uri),
        scope,
    ]);
    let parameters = answer(&refusal, WEB.redirect_uri);
    let description = parameters
        .into_iter()
        .find(|(name, _)| name == "error_description");
    let (_, description) = description.unwrap();
    assert!(
        description.ends_with("registered for: roof"),
        "{description}"
    );
    let code = browser.code_for(&WEB, None);
    let refresh_token = WEB.exchange(&lobby(), &code, None).text("refresh_token");
    for (client, fields, part) in [
        (
            USER_BOUND,
            vec![("grant_type", "client_credentials"), scope],
            "registered for: roof",
        ),
        (
            WEB,
            vec![
                ("grant_type", "refresh_token"),
                ("refresh_token", &refresh_token),
                scope,
            ],
            "granted: roof;",
        ),
    ] {
        let description = refused(&client.token(&lobby(), &fields), "invalid_request");
        assert!(description.contains(part), "{description}");
    }
}

#[test]
fn an_unknown_grant_type_is_answered_with_the_known_ones() {
    let reply = WEB.token(&lobby(), &[("grant_type", "password")]);
    let description = refused(&reply, "invalid_grant");
    for grant_type in [
        "authorization_code",
        "refresh_token",
        "client_credentials",
        "urn:ietf:params:oauth:grant-type:jwt-bearer",
    ] {
        assert!(description.contains(grant_type), "{description}");
    }
}
