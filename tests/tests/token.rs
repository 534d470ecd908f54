//! The token endpoint (protocol.md §4.2, §7.1): every grant, and the refusals that only a whole request shows. The unit
//! tests of `protocol` have each rule about assertions, accounts, client authentication and parameters.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::support::{
    ADA, Assertion, Browser, Client, INSTALLED, JWT_BEARER, NON_INTERACTIVE, Pkce, Reply,
    USER_BOUND, WEB, answered, api, form_body, lobby, now, post, send,
};

fn pkce() -> Pkce {
    Pkce::of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
}

/// The claims of a JWT.
pub(crate) fn claims(token: &str) -> Value {
    part(token, 1)
}

fn part(token: &str, index: usize) -> Value {
    let part = token.split('.').nth(index).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

/// Asserts protocol.md §2.1 and §2.5: exactly these members, never cached.
#[track_caller]
pub(crate) fn assert_tokens(reply: &Reply, refreshable: bool) -> Value {
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    let body = reply.json();
    let mut members: Vec<&String> = body.as_object().unwrap().keys().collect();
    members.sort_unstable();
    let mut expected = vec!["access_token", "expires_in", "refresh_token", "token_type"];
    expected.retain(|member| refreshable || *member != "refresh_token");
    assert_eq!(members, expected);
    assert_eq!(body["token_type"], "Bearer");
    assert_eq!(body["expires_in"], 3600);
    body
}

fn code(client: &Client, pkce: Option<&Pkce>) -> String {
    Browser::new(&lobby()).code_for(client, pkce)
}

fn jwt_bearer(assertion: &str, more: &[(&str, &str)]) -> Reply {
    NON_INTERACTIVE.assert(&lobby(), assertion, more)
}

fn client_credentials(more: &[(&str, &str)]) -> Reply {
    let grant = ("grant_type", "client_credentials");
    USER_BOUND.token(&lobby(), &[&[grant], more].concat())
}

const SECOND_ACCOUNT: [(&str, &str); 2] = [
    ("user_id", "1879048403"),
    ("user_site", "https://us1.example.com"),
];

#[test]
fn protocol_s4_2_authorization_code_of_a_web_server_application() {
    let reply = WEB.exchange(&lobby(), &code(&WEB, None), None);
    let body = assert_tokens(&reply, true);
    let access = body["access_token"].as_str().unwrap();
    let header = part(access, 0);
    assert_eq!(
        (&header["typ"], &header["alg"]),
        (&json!("at+jwt"), &json!("EdDSA"))
    );
    let claims = claims(access);
    // protocol.md §2.2, and RFC 9068 §2.2.
    assert_eq!(claims["sub"], "ada@example.com");
    assert_eq!(claims["user_hat"], "alovelace");
    assert_eq!(claims["user_id"], "1879048401");
    assert_eq!(claims["user_site"], "https://us1.example.com");
    assert_eq!(claims["scope"], "documents projects");
    assert_eq!(claims["amr"], json!(["USERNAME_PASSWORD"]));
    assert_eq!(claims["client_id"], WEB.id);
    assert_eq!(claims["iss"], lobby());
    assert_eq!(claims["aud"], api());
    let (iat, exp) = (
        claims["iat"].as_u64().unwrap(),
        claims["exp"].as_u64().unwrap(),
    );
    assert_eq!(exp - iat, 3600);
    assert!(now().abs_diff(iat) < 60);
    assert!(claims["jti"].is_string());
    let identity = claims["idcs_access_token"].as_str().unwrap();
    assert_eq!(
        self::claims(identity)["aud"],
        "https://identity.example.com/"
    );
    assert_eq!(
        part(body["refresh_token"].as_str().unwrap(), 0)["typ"],
        "rt+jwt"
    );
}

#[test]
fn protocol_s4_2_authorization_code_with_pkce_of_an_installed_application() {
    let pkce = pkce();
    let reply = INSTALLED.exchange(&lobby(), &code(&INSTALLED, Some(&pkce)), Some(&pkce));
    let body = assert_tokens(&reply, true);
    assert_eq!(
        claims(body["access_token"].as_str().unwrap())["client_id"],
        INSTALLED.id
    );
}

/// Rule 3.
#[test]
fn protocol_s4_2_jwt_bearer_has_no_refresh_token() {
    let body = assert_tokens(
        &jwt_bearer(&Assertion::of("ada@example.com").sign(), &[]),
        false,
    );
    let claims = claims(body["access_token"].as_str().unwrap());
    assert_eq!(claims["sub"], "ada@example.com");
    assert_eq!(claims["user_hat"], "alovelace");
    assert_eq!(claims["amr"], json!(["USER_ASSERTION"]));
}

#[test]
fn protocol_s4_2_client_credentials_acts_as_the_bound_user() {
    let body = assert_tokens(&client_credentials(&SECOND_ACCOUNT), false);
    let claims = claims(body["access_token"].as_str().unwrap());
    assert_eq!(claims["sub"], "grace@example.com");
    assert_eq!(claims["user_hat"], "ghopper-navy");
    assert_eq!(claims["amr"], json!(["CLIENT_CREDENTIALS"]));
}

/// Rule 5, D-31: parameters without a value count as omitted, in the URL too.
#[test]
fn protocol_s4_2_rule_5_content_types() {
    let fields = [("grant_type", "client_credentials"), ("client_secret", "")];
    let body = form_body(&[&fields, &SECOND_ACCOUNT[..]].concat());
    let ask = |content_type: &str| {
        let headers = [
            ("authorization", &*USER_BOUND.basic()),
            ("content-type", content_type),
        ];
        let url = format!("{}/auth/token?code=&scope", lobby());
        send("POST", &url, &headers, body.as_str())
    };
    let good = ask("application/x-www-form-urlencoded; charset=UTF-8");
    assert_eq!(good.status, 200, "{}", good.body);
    for bad in [
        "application/json",
        "multipart/form-data; boundary=x",
        "application/x-www-form-urlencoded; charset=latin1",
    ] {
        ask(bad).assert_error(400, "invalid_request");
    }
}

/// protocol.md §4.2 rule 2, D-6 and D-7. The unit tests of `protocol` have each way to name an account.
#[test]
fn protocol_s4_2_rule_2_accounts_in_assertion_or_body_but_not_both() {
    let grace = || Assertion::of("grace@example.com");
    let named = || {
        grace()
            .with("user_id", json!("1879048403"))
            .with("user_site", json!("https://us1.example.com"))
    };
    for reply in [
        jwt_bearer(&named().sign(), &[]),
        jwt_bearer(&grace().sign(), &SECOND_ACCOUNT),
    ] {
        let claims = claims(&reply.text("access_token"));
        assert_eq!(claims["user_hat"], "ghopper-navy");
    }
    jwt_bearer(&named().sign(), &SECOND_ACCOUNT).assert_error(400, "invalid_request");
    for ambiguous in [
        jwt_bearer(&grace().sign(), &[]),
        client_credentials(&SECOND_ACCOUNT[..1]),
    ] {
        let description = ambiguous.assert_error(400, "invalid_request");
        assert!(description.contains("user_id") && description.contains("user_site"));
    }
    let foreign = ("user_id", "1879048401");
    client_credentials(&[foreign, SECOND_ACCOUNT[1]]).assert_error(400, "invalid_grant");
}

/// protocol.md §2.3, D-10, D-22.
#[test]
fn protocol_s2_3_assertions_are_signed_by_the_client_for_an_enabled_user() {
    let ada = || Assertion::of("ada@example.com");
    let refused = |assertion: &str, start: &str| {
        let description = jwt_bearer(assertion, &[]).assert_error(400, "invalid_grant");
        assert!(description.starts_with(start), "{description}");
    };
    let aud = ada().with("aud", json!("https://identity.example.com"));
    let expected = "Audience validation failed: aud is https://identity.example.com; \
                    expected https://identity.example.com/";
    refused(&aud.sign(), expected);
    let late = ada().with("exp", json!(now() - 100));
    refused(&late.sign(), "The assertion has expired 10");
    let nobody = ada().with("sub", json!("nobody@example.com"));
    refused(&nobody.sign(), "");
    let mut signed = ada().sign();
    signed.replace_range(signed.len() - 10.., "AAAAAAAAAA");
    refused(&signed, "");
    jwt_bearer("", &[]).assert_error(400, "invalid_request");
    // By its thumbprint instead of its alias.
    let mut by_thumbprint = ada();
    by_thumbprint.header = json!({"typ": "JWT", "alg": "RS256", "x5t": Assertion::x5t()});
    assert_eq!(jwt_bearer(&by_thumbprint.sign(), &[]).status, 200);
}

/// D-2.
#[test]
fn rfc6749_s4_1_2_a_code_works_once_and_a_replay_ends_its_tokens() {
    let code = code(&WEB, None);
    let first = assert_tokens(&WEB.exchange(&lobby(), &code, None), true);
    let replayed = WEB.exchange(&lobby(), &code, None);
    let description = replayed.assert_error(400, "invalid_grant");
    assert!(description.contains("used before"), "{description}");
    WEB.refresh(&lobby(), first["refresh_token"].as_str().unwrap())
        .assert_error(400, "invalid_grant");
}

/// D-2: a mismatch leaves the code to its client, and a client learns nothing about codes of others.
#[test]
fn rfc6749_s4_1_3_a_code_is_bound_to_client_redirect_uri_and_verifier() {
    let pkce = pkce();
    let code = code(&INSTALLED, Some(&pkce));
    let refused = |client: Client, code: &str, pkce: Option<&Pkce>| {
        let reply = client.exchange(&lobby(), code, pkce);
        reply.assert_error(400, "invalid_grant")
    };
    let unknown = refused(WEB, "unknown", Some(&pkce));
    assert_eq!(refused(WEB, &code, Some(&pkce)), unknown);
    let elsewhere = Client {
        redirect_uri: "http://127.0.0.1:8766/callback",
        ..INSTALLED
    };
    refused(elsewhere, &code, Some(&pkce));
    refused(INSTALLED, &code, Some(&Pkce::of(&"x".repeat(43))));
    refused(INSTALLED, &code, None);
    assert_eq!(INSTALLED.exchange(&lobby(), &code, Some(&pkce)).status, 200);

    let without = self::code(&WEB, None);
    refused(WEB, &without, Some(&pkce));
    assert_eq!(WEB.exchange(&lobby(), &without, None).status, 200);
}

/// protocol.md §7.1 invalid_client, §5.2, §5.3, D-4.
#[test]
fn protocol_s7_1_invalid_client() {
    let url = format!("{}/auth/token", lobby());
    let grant = ("grant_type", "client_credentials");
    let wrong = Client {
        secret: Some("wrong"),
        ..USER_BOUND
    };
    // A refresh of a web server application always needs its secret (D-25).
    let refresh = [
        ("grant_type", "refresh_token"),
        ("refresh_token", "x"),
        ("client_id", WEB.id),
    ];
    for (headers, fields) in [
        (vec![("authorization", wrong.basic())], &[grant][..]),
        (vec![], &[grant]),
        (vec![], &[grant, ("client_id", USER_BOUND.id)]),
        (vec![], &refresh),
    ] {
        let reply = post(&url, &headers, &form_body(fields));
        reply.assert_error(401, "invalid_client");
        let challenge = reply.header("www-authenticate").unwrap();
        assert!(challenge.starts_with("Basic"), "{challenge}");
        assert_eq!(reply.header("cache-control"), Some("no-store"));
    }
}

/// protocol.md §7.1 invalid_grant: grant_type wrongly specified; D-4.
#[test]
fn protocol_s7_1_invalid_grant() {
    for (client, grant_type) in [
        (USER_BOUND, "password"),
        (USER_BOUND, "Client_Credentials"),
        (WEB, "client_credentials"),
        (WEB, JWT_BEARER),
        (INSTALLED, "client_credentials"),
        (NON_INTERACTIVE, "client_credentials"),
        (NON_INTERACTIVE, "authorization_code"),
        (NON_INTERACTIVE, "refresh_token"),
        (USER_BOUND, JWT_BEARER),
        (USER_BOUND, "authorization_code"),
        (USER_BOUND, "refresh_token"),
    ] {
        let reply = client.token(&lobby(), &[("grant_type", grant_type)]);
        reply.assert_error(400, "invalid_grant");
    }
}

/// protocol.md §7.1 invalid_request.
#[test]
fn protocol_s7_1_invalid_request() {
    let credentials = ("grant_type", "client_credentials");
    let exchange = ("grant_type", "authorization_code");
    let redirect_uri = ("redirect_uri", WEB.redirect_uri);
    let verifier = ("code_verifier", "too-short");
    let scope = ("scope", "everything");
    let [user_id, user_site] = SECOND_ACCOUNT;
    for (client, fields) in [
        (USER_BOUND, &[][..]),
        (USER_BOUND, &[credentials, credentials]),
        (USER_BOUND, &[credentials, ("client_id", WEB.id)]),
        (USER_BOUND, &[credentials, user_id, user_site, scope]),
        (WEB, &[exchange, redirect_uri]),
        (WEB, &[exchange, ("code", "x")]),
        (WEB, &[exchange, ("code", "x"), redirect_uri, verifier]),
        (WEB, &[("grant_type", "refresh_token")]),
    ] {
        let reply = client.token(&lobby(), fields);
        reply.assert_error(400, "invalid_request");
    }
    let url = format!("{}/auth/token?client_secret=x", lobby());
    let headers = [("authorization", USER_BOUND.basic())];
    let reply = post(&url, &headers, &form_body(&[credentials]));
    reply.assert_error(400, "invalid_request");
}

/// D-9.
#[test]
fn rfc6749_s3_3_a_token_may_have_less_scope() {
    let browser = Browser::new(&lobby());
    let page = browser.authorize(&WEB.request(&[("scope", "projects")]));
    let done = browser.follow(&browser.submit(&crate::support::Form::of(&page), &ADA));
    let code = answered(&done, WEB.redirect_uri, "code").unwrap();
    let body = assert_tokens(&WEB.exchange(&lobby(), &code, None), true);
    let access = body["access_token"].as_str().unwrap();
    assert_eq!(claims(access)["scope"], "projects");
    // A refresh never extends the scope.
    let refresh_token = body["refresh_token"].as_str().unwrap();
    let wider = [
        ("grant_type", "refresh_token"),
        ("refresh_token", refresh_token),
        ("scope", "projects documents"),
    ];
    let description = WEB
        .token(&lobby(), &wider)
        .assert_error(400, "invalid_request");
    assert!(description.contains("granted: documents;"), "{description}");
    assert_tokens(&WEB.refresh(&lobby(), refresh_token), true);
}

/// D-9 at the exchange of a code: a client may request fewer scopes than authorized, never more.
#[test]
fn rfc6749_s3_3_scope_is_checked_at_the_exchange_too() {
    let code = code(&WEB, None);
    let exchange = |scope: &str| {
        WEB.token(
            &lobby(),
            &[
                ("grant_type", "authorization_code"),
                ("code", &code),
                ("redirect_uri", WEB.redirect_uri),
                ("scope", scope),
            ],
        )
    };
    exchange("a  b").assert_error(400, "invalid_request");
    exchange("projects everything").assert_error(400, "invalid_request");
    let tokens = exchange("projects");
    assert_eq!(claims(&tokens.text("access_token"))["scope"], "projects");
    let refreshed = WEB.refresh(&lobby(), &tokens.text("refresh_token"));
    let scope = claims(&refreshed.text("access_token"))["scope"].clone();
    assert_eq!(scope, "documents projects", "the grant has all of it");
}

/// Each refusal says what was received, what was expected and what to do.
#[test]
fn refusals_say_what_is_needed_to_act() {
    let ada = Assertion::of("ada@example.com").sign();
    let account = [
        ("user_id", "1879048401"),
        ("user_site", "https://us1.example.com/"),
    ];
    let url = format!("{}/auth/token", lobby());
    let nobody = post(&url, &[], "grant_type=client_credentials");
    let twice = [
        ("grant_type", "refresh_token"),
        ("scope", "a"),
        ("scope", "b"),
    ];
    for (reply, status, error, part) in [
        (
            jwt_bearer(&ada, &account),
            400,
            "invalid_grant",
            "by a slash at its end",
        ),
        (nobody, 401, "invalid_client", "sends client_id in the body"),
        (
            WEB.token(&lobby(), &twice),
            400,
            "invalid_request",
            "The parameter scope is repeated",
        ),
    ] {
        let description = reply.assert_error(status, error);
        assert!(description.contains(part), "{description}");
    }
}
