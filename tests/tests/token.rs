//! The token endpoint (protocol.md §4.2, §7.1): every variant, every rule, every error.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::support::{
    Assertion, Browser, Client, INSTALLED, NON_INTERACTIVE, Pkce, Reply, USER_BOUND, WEB,
    form_body, get, lobby, now, post,
};

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

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

/// Asserts protocol.md §2.1: exactly these members, never cached.
#[track_caller]
pub(crate) fn assert_tokens(reply: &Reply, refreshable: bool) -> Value {
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    let body = reply.json();
    let mut members: Vec<&str> = body
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    members.sort_unstable();
    if refreshable {
        assert_eq!(
            members,
            ["access_token", "expires_in", "refresh_token", "token_type"]
        );
    } else {
        assert_eq!(members, ["access_token", "expires_in", "token_type"]);
    }
    assert_eq!(
        (&body["token_type"], &body["expires_in"]),
        (&json!("Bearer"), &json!(3600))
    );
    body
}

fn code(client: &Client, pkce: Option<&Pkce>) -> String {
    Browser::new(&lobby()).code_for(client, pkce)
}

fn jwt_bearer(assertion: &str, more: &[(&str, &str)]) -> Reply {
    let mut fields = vec![("grant_type", JWT_BEARER), ("assertion", assertion)];
    fields.extend(more);
    NON_INTERACTIVE.token(&lobby(), &fields)
}

fn client_credentials(more: &[(&str, &str)]) -> Reply {
    let mut fields = vec![("grant_type", "client_credentials")];
    fields.extend(more);
    USER_BOUND.token(&lobby(), &fields)
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
    assert_eq!(claims["aud"], crate::support::api());
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

/// Rule 5.
#[test]
fn protocol_s4_2_rule_5_content_types() {
    let body = form_body(&[
        ("grant_type", "client_credentials"),
        SECOND_ACCOUNT[0],
        SECOND_ACCOUNT[1],
    ]);
    let status = |content_type: &str| {
        let request = ureq::http::Request::post(format!("{}/auth/token", lobby()))
            .header("authorization", USER_BOUND.basic())
            .header("content-type", content_type)
            .body(body.as_str())
            .unwrap();
        crate::support::send(&crate::support::agent(), request)
    };
    for good in [
        "application/x-www-form-urlencoded; charset=UTF-8",
        "application/x-www-form-urlencoded;charset=utf-8",
    ] {
        assert_eq!(status(good).status, 200, "{good}");
    }
    for bad in [
        "application/json",
        "multipart/form-data; boundary=x",
        "application/x-www-form-urlencoded; charset=latin1",
    ] {
        status(bad).assert_error(400, "invalid_request");
    }
}

/// protocol.md §4.2 rule 2 and D-6.
#[test]
fn protocol_s4_2_rule_2_accounts_in_assertion_or_body_but_not_both() {
    let grace = || Assertion::of("grace@example.com");
    let named = || {
        grace()
            .with("user_id", json!("1879048403"))
            .with("user_site", json!("https://us1.example.com"))
    };
    let hat = |reply: &Reply| claims(&reply.text("access_token"))["user_hat"].clone();
    assert_eq!(hat(&jwt_bearer(&named().sign(), &[])), "ghopper-navy");
    assert_eq!(
        hat(&jwt_bearer(&grace().sign(), &SECOND_ACCOUNT)),
        "ghopper-navy"
    );
    jwt_bearer(&named().sign(), &SECOND_ACCOUNT).assert_error(400, "invalid_request");
    let description = jwt_bearer(&grace().sign(), &[]).assert_error(400, "invalid_request");
    assert!(description.contains("user_id") && description.contains("user_site"));
    jwt_bearer(&grace().sign(), &SECOND_ACCOUNT[..1]).assert_error(400, "invalid_request");
    jwt_bearer(&grace().sign(), &SECOND_ACCOUNT[1..]).assert_error(400, "invalid_request");
    let half = grace().with("user_id", json!("1879048403")).sign();
    jwt_bearer(&half, &[]).assert_error(400, "invalid_request");
    let foreign = [
        ("user_id", "1879048401"),
        ("user_site", "https://us1.example.com"),
    ];
    jwt_bearer(&grace().sign(), &foreign).assert_error(400, "invalid_grant");
    // A request may also name a user's only account.
    assert_eq!(
        hat(&jwt_bearer(
            &Assertion::of("ada@example.com").sign(),
            &foreign
        )),
        "alovelace"
    );
    jwt_bearer(&Assertion::of("ada@example.com").sign(), &SECOND_ACCOUNT)
        .assert_error(400, "invalid_grant");
    // D-7.
    jwt_bearer(&Assertion::of("mary@example.com").sign(), &[]).assert_error(400, "invalid_grant");
}

#[test]
fn protocol_s4_2_client_credentials_needs_the_account_when_there_are_several() {
    client_credentials(&[]).assert_error(400, "invalid_request");
    client_credentials(&SECOND_ACCOUNT[..1]).assert_error(400, "invalid_request");
    client_credentials(&[("user_id", "1879048401"), SECOND_ACCOUNT[1]])
        .assert_error(400, "invalid_grant");
}

/// protocol.md §2.3, D-10, D-22.
#[test]
fn protocol_s2_3_assertions_are_checked_in_full() {
    let ada = || Assertion::of("ada@example.com");
    let now = now();
    let refused = |assertion: &Assertion, word: &str| {
        let description = jwt_bearer(&assertion.sign(), &[]).assert_error(400, "invalid_grant");
        assert!(
            description.to_lowercase().contains(word),
            "{description} does not speak of {word}"
        );
    };
    let header = |name: &str, value: Value| {
        let mut assertion = ada();
        assertion.header[name] = value;
        assertion
    };
    let aud = jwt_bearer(
        &ada()
            .with("aud", json!("https://identity.example.com"))
            .sign(),
        &[],
    );
    let description = aud.assert_error(400, "invalid_grant");
    assert!(
        description.starts_with("Audience validation failed"),
        "{description}"
    );
    refused(&ada().with("iss", json!("web-demo")), "iss");
    refused(&ada().with("sub", json!("nobody@example.com")), "user");
    for name in ["iss", "sub", "aud", "exp", "iat", "jti"] {
        refused(&ada().without(name), name);
    }
    refused(&ada().with("exp", json!(now - 1)), "expired");
    refused(&ada().with("exp", json!(now + 25 * 3600)), "exp");
    refused(&ada().with("iat", json!(now + 120)), "iat");
    refused(&ada().with("nbf", json!(now + 120)), "nbf");
    for name in ["exp", "iat"] {
        refused(&ada().with(name, json!(now.to_string())), name);
        refused(&ada().with(name, json!(-1)), name);
    }
    refused(&header("typ", json!("at+jwt")), "typ");
    refused(&header("alg", json!("RS512")), "rs256");
    refused(&header("alg", json!("none")), "rs256");
    refused(&header("kid", json!("other")), "kid");
    refused(&header("crit", json!(["exp"])), "crit");
    let mut untyped = ada();
    untyped.header = json!({"type": "JWT", "alg": "RS256", "kid": "demo-2020"});
    refused(&untyped, "typ");
    let mut unnamed = ada();
    unnamed.header = json!({"typ": "JWT", "alg": "RS256"});
    refused(&unnamed, "x5t");
    let mut signed = ada().sign();
    signed.replace_range(signed.len() - 10.., "AAAAAAAAAA");
    jwt_bearer(&signed, &[]).assert_error(400, "invalid_grant");
    for garbage in ["x", "a.b.c", "..", "é.b.c"] {
        jwt_bearer(garbage, &[]).assert_error(400, "invalid_grant");
    }
    jwt_bearer("", &[]).assert_error(400, "invalid_request");
    // Only the client's own certificates count.
    USER_BOUND
        .token(
            &lobby(),
            &[("grant_type", JWT_BEARER), ("assertion", &ada().sign())],
        )
        .assert_error(400, "invalid_grant");
}

#[test]
fn protocol_s2_3_the_certificate_is_named_by_kid_or_x5t_or_both() {
    let with_header = |header: Value| {
        let mut assertion = Assertion::of("ada@example.com");
        assertion.header = header;
        jwt_bearer(&assertion.sign(), &[])
    };
    let x5t = Assertion::x5t();
    assert_eq!(
        with_header(json!({"typ": "JWT", "alg": "RS256", "x5t": x5t})).status,
        200
    );
    assert_eq!(
        with_header(json!({"typ": "JWT", "alg": "RS256", "x5t": x5t, "kid": "demo-2020"})).status,
        200
    );
    with_header(json!({"typ": "JWT", "alg": "RS256", "x5t": x5t, "kid": "x"}))
        .assert_error(400, "invalid_grant");
    let other = "A".repeat(27);
    with_header(json!({"typ": "JWT", "alg": "RS256", "x5t": other}))
        .assert_error(400, "invalid_grant");
}

#[test]
fn protocol_s2_3_a_jti_works_once_also_in_parallel() {
    let assertion = Assertion::of("ada@example.com").sign();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let posts: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| jwt_bearer(&assertion, &[]).status))
            .collect();
        posts.into_iter().map(|post| post.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1);
    assert_eq!(statuses.iter().filter(|status| **status == 400).count(), 19);
}

/// D-2.
#[test]
fn rfc6749_s4_1_2_a_code_works_once_and_a_replay_ends_its_tokens() {
    let code = code(&WEB, None);
    let first = assert_tokens(&WEB.exchange(&lobby(), &code, None), true);
    WEB.exchange(&lobby(), &code, None)
        .assert_error(400, "invalid_grant");
    WEB.refresh(&lobby(), first["refresh_token"].as_str().unwrap())
        .assert_error(400, "invalid_grant");
}

/// Clients can neither read nor change what a code contains.
#[test]
fn rfc6749_s10_10_a_changed_code_is_none() {
    let code = code(&WEB, None);
    for position in [0, 20, code.len() / 2, code.len() - 1] {
        let mut changed = code.clone().into_bytes();
        changed[position] = if changed[position] == b'A' {
            b'B'
        } else {
            b'A'
        };
        let changed = String::from_utf8(changed).unwrap();
        WEB.exchange(&lobby(), &changed, None)
            .assert_error(400, "invalid_grant");
    }
    for changed in [format!("{code}="), format!("{code}A"), code[1..].to_owned()] {
        WEB.exchange(&lobby(), &changed, None)
            .assert_error(400, "invalid_grant");
    }
    assert_tokens(&WEB.exchange(&lobby(), &code, None), true);
}

/// D-2: a mismatch leaves the code to its client.
#[test]
fn rfc6749_s4_1_3_a_code_is_bound_to_client_redirect_uri_and_verifier() {
    let pkce = pkce();
    let code = code(&INSTALLED, Some(&pkce));
    let refused = |client: Client, pkce: Option<&Pkce>| {
        client
            .exchange(&lobby(), &code, pkce)
            .assert_error(400, "invalid_grant")
    };
    refused(WEB, Some(&pkce));
    refused(
        Client {
            redirect_uri: "http://127.0.0.1:8766/callback",
            ..INSTALLED
        },
        Some(&pkce),
    );
    refused(INSTALLED, Some(&Pkce::of(&"x".repeat(43))));
    refused(INSTALLED, None);
    assert_eq!(INSTALLED.exchange(&lobby(), &code, Some(&pkce)).status, 200);

    let without = self::code(&WEB, None);
    WEB.exchange(&lobby(), &without, Some(&pkce))
        .assert_error(400, "invalid_grant");
    assert_eq!(WEB.exchange(&lobby(), &without, None).status, 200);
    WEB.exchange(&lobby(), "unknown", None)
        .assert_error(400, "invalid_grant");
}

#[test]
fn rfc7636_s4_1_verifiers_have_their_form() {
    let fields = |verifier: &str| {
        INSTALLED.token(
            &lobby(),
            &[
                ("grant_type", "authorization_code"),
                ("code", "x"),
                ("redirect_uri", INSTALLED.redirect_uri),
                ("code_verifier", verifier),
            ],
        )
    };
    for bad in [
        "a".repeat(42),
        "a".repeat(129),
        format!("{}!", "a".repeat(50)),
    ] {
        fields(&bad).assert_error(400, "invalid_request");
    }
    fields(&"a".repeat(128)).assert_error(400, "invalid_grant");
}

/// protocol.md §7.1 invalid_client, §5.2, §5.3, D-4.
#[test]
fn protocol_s7_1_invalid_client() {
    let url = format!("{}/auth/token", lobby());
    let with = |headers: &[(&str, String)], fields: &[(&str, &str)]| {
        post(&url, headers, &form_body(fields))
    };
    let grant = ("grant_type", "client_credentials");
    let challenged = |reply: Reply| {
        reply.assert_error(401, "invalid_client");
        assert!(
            reply
                .header("www-authenticate")
                .unwrap()
                .starts_with("Basic")
        );
        assert_eq!(reply.header("cache-control"), Some("no-store"));
    };
    let wrong = Client {
        secret: Some("wrong"),
        ..USER_BOUND
    };
    challenged(with(&[("authorization", wrong.basic())], &[grant]));
    let unknown = Client {
        id: "nobody",
        ..USER_BOUND
    };
    challenged(with(&[("authorization", unknown.basic())], &[grant]));
    let public = Client {
        secret: Some(""),
        ..INSTALLED
    };
    challenged(with(
        &[("authorization", public.basic())],
        &[("grant_type", "refresh_token")],
    ));
    challenged(with(&[("authorization", "Basic ?".to_owned())], &[grant]));
    for fields in [
        vec![grant],
        vec![grant, ("client_id", "nobody")],
        vec![grant, ("client_id", USER_BOUND.id)],
    ] {
        challenged(with(&[], &fields));
    }
    let secret = ("client_secret", USER_BOUND.secret.unwrap());
    with(&[], &[grant, ("client_id", USER_BOUND.id), secret]).assert_error(401, "invalid_client");
    with(&[("authorization", USER_BOUND.basic())], &[grant, secret])
        .assert_error(400, "invalid_request");
    with(
        &[("authorization", USER_BOUND.basic())],
        &[grant, ("client_id", "web-demo")],
    )
    .assert_error(400, "invalid_request");
    // A refresh of a web server application always needs its secret (D-25).
    with(
        &[],
        &[
            ("grant_type", "refresh_token"),
            ("refresh_token", "x"),
            ("client_id", WEB.id),
        ],
    )
    .assert_error(401, "invalid_client");
}

/// protocol.md §7.1 invalid_grant: grant_type wrongly specified; D-4.
#[test]
fn protocol_s7_1_invalid_grant() {
    for grant_type in [
        "password",
        "implicit",
        "urn:ietf:params:oauth:grant-type:device_code",
        "Client_Credentials",
        "x",
    ] {
        USER_BOUND
            .token(&lobby(), &[("grant_type", grant_type)])
            .assert_error(400, "invalid_grant");
    }
    for (client, grant_type) in [
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
        client
            .token(&lobby(), &[("grant_type", grant_type)])
            .assert_error(400, "invalid_grant");
    }
}

/// protocol.md §7.1 invalid_request.
#[test]
fn protocol_s7_1_invalid_request() {
    USER_BOUND
        .token(&lobby(), &[])
        .assert_error(400, "invalid_request");
    USER_BOUND
        .token(&lobby(), &[("grant_type", "")])
        .assert_error(400, "invalid_request");
    let twice = [
        ("grant_type", "client_credentials"),
        ("grant_type", "client_credentials"),
    ];
    USER_BOUND
        .token(&lobby(), &twice)
        .assert_error(400, "invalid_request");
    let unknown_twice = [("grant_type", "client_credentials"), ("x", "1"), ("x", "2")];
    USER_BOUND
        .token(&lobby(), &unknown_twice)
        .assert_error(400, "invalid_request");
    for missing in ["code", "redirect_uri"] {
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", "x"),
            ("redirect_uri", WEB.redirect_uri),
        ];
        fields.retain(|(name, _)| *name != missing);
        WEB.token(&lobby(), &fields)
            .assert_error(400, "invalid_request");
    }
    WEB.token(&lobby(), &[("grant_type", "refresh_token")])
        .assert_error(400, "invalid_request");
    client_credentials(&[
        SECOND_ACCOUNT[0],
        SECOND_ACCOUNT[1],
        ("scope", "everything"),
    ])
    .assert_error(400, "invalid_request");
    client_credentials(&[SECOND_ACCOUNT[0], SECOND_ACCOUNT[1], ("scope", "a  b")])
        .assert_error(400, "invalid_request");

    let in_url = format!("{}/auth/token?client_secret=x", lobby());
    post(
        &in_url,
        &[("authorization", USER_BOUND.basic())],
        "grant_type=client_credentials",
    )
    .assert_error(400, "invalid_request");
    let reply = get(&format!("{}/auth/token", lobby()), &[]);
    reply.assert_error(405, "method_not_allowed");
    assert_eq!(reply.header("allow"), Some("POST, OPTIONS"));
}

/// D-9.
#[test]
fn rfc6749_s3_3_a_token_may_have_less_scope() {
    let browser = Browser::new(&lobby());
    let request = [
        ("response_type", "code"),
        ("client_id", WEB.id),
        ("redirect_uri", WEB.redirect_uri),
        ("scope", "projects"),
    ];
    let page = browser.authorize(&request);
    let done = browser.sign_in(&page, "ada@example.com", "demo-password-of-ada");
    let answer = crate::support::answer(&done, WEB.redirect_uri);
    let body = assert_tokens(&WEB.exchange(&lobby(), &answer[0].1, None), true);
    assert_eq!(
        claims(body["access_token"].as_str().unwrap())["scope"],
        "projects"
    );
    // A refresh never extends the scope.
    let refresh_token = body["refresh_token"].as_str().unwrap();
    WEB.token(
        &lobby(),
        &[
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh_token),
            ("scope", "projects documents"),
        ],
    )
    .assert_error(400, "invalid_request");
    assert_tokens(&WEB.refresh(&lobby(), refresh_token), true);
}

#[test]
fn rfc6749_s2_3_1_form_encoded_basic_credentials_are_read() {
    use base64::engine::general_purpose::STANDARD;
    let encoded = STANDARD.encode(format!(
        "{}:{}",
        USER_BOUND.id,
        USER_BOUND.secret.unwrap().replace('-', "%2D")
    ));
    let body = form_body(&[
        ("grant_type", "client_credentials"),
        SECOND_ACCOUNT[0],
        SECOND_ACCOUNT[1],
    ]);
    let reply = post(
        &format!("{}/auth/token", lobby()),
        &[("authorization", format!("Basic {encoded}"))],
        &body,
    );
    assert_eq!(reply.status, 200);
}

/// D-31: a parameter without a value counts as omitted.
#[test]
fn rfc6749_s3_2_parameters_without_a_value_count_as_omitted() {
    let pkce = Pkce::of(&"e".repeat(43));
    let code = code(&INSTALLED, Some(&pkce));
    let reply = INSTALLED.post(
        &lobby(),
        "/auth/token?code=&client_secret",
        &[
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("code", ""),
            ("redirect_uri", INSTALLED.redirect_uri),
            ("code_verifier", &pkce.verifier),
            ("client_secret", ""),
            ("scope", ""),
        ],
    );
    assert_eq!(reply.status, 200, "{}", reply.body);
    let reply = USER_BOUND.token(
        &lobby(),
        &[
            ("grant_type", "client_credentials"),
            ("client_id", ""),
            ("client_secret", ""),
            ("user_id", "1879048403"),
            ("user_site", "https://us1.example.com"),
        ],
    );
    assert_eq!(reply.status, 200, "{}", reply.body);
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
    let assertion = |assertion: Assertion, more: &[(&str, &str)]| {
        let signed = assertion.sign();
        let mut fields = vec![
            ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
            ("assertion", signed.as_str()),
        ];
        fields.extend(more);
        NON_INTERACTIVE.token(&lobby(), &fields)
    };
    let ada = || Assertion::of("ada@example.com");
    let reply = assertion(
        ada().with("aud", serde_json::json!("https://identity.example.com")),
        &[],
    );
    assert_eq!(
        reply.assert_error(400, "invalid_grant"),
        "Audience validation failed: aud is https://identity.example.com; expected https://identity.example.com/"
    );
    let reply = assertion(
        ada().with("exp", serde_json::json!(crate::support::now() - 100)),
        &[],
    );
    let description = reply.assert_error(400, "invalid_grant");
    assert!(
        description.starts_with("The assertion has expired 10"),
        "{description}"
    );
    assert!(
        description.contains("the time of the server 20"),
        "{description}"
    );
    let site = [
        ("user_id", "1879048401"),
        ("user_site", "https://us1.example.com/"),
    ];
    let description = assertion(ada(), &site).assert_error(400, "invalid_grant");
    assert!(
        description.contains("by a slash at its end"),
        "{description}"
    );

    let url = format!("{}/auth/token", lobby());
    let none = crate::support::post(&url, &[], "grant_type=client_credentials");
    let description = none.assert_error(401, "invalid_client");
    assert!(
        description.contains("sends client_id in the body"),
        "{description}"
    );
    let twice = [
        ("grant_type", "refresh_token"),
        ("scope", "a"),
        ("scope", "b"),
    ];
    let description = WEB
        .token(&lobby(), &twice)
        .assert_error(400, "invalid_request");
    assert_eq!(description, "The parameter scope is repeated");
}
