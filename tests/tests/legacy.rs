//! The legacy flow on its hosts (protocol.md §2.5, §3, §4.4 to 4.7, §7.2, §8; D-14, D-15, D-16).

use serde_json::json;
use ureq::http::Request;

use crate::api::{call, until};
use crate::support::{
    Browser, Client, Form, OwnPair, Reply, WEB, agent, form_body, lobby, pair, send,
};

const US1: &str = "us1.legacy.example";
const SSO: &str = "sso-us1.legacy.example";
const CALLBACK: &str = "http://localhost:8765/callback";

/// The client without a secret.
pub(crate) const OPEN: Client = Client {
    id: "legacy-demo",
    secret: None,
    redirect_uri: CALLBACK,
};

/// The client with a secret, known to one instance.
pub(crate) const SECRET: Client = Client {
    id: "legacy-secret-demo",
    secret: Some("demo-secret-of-legacy-secret-demo-not-for-real-use"),
    redirect_uri: "https://app.example.com/legacy",
};

fn get(host: &str, path: &str) -> Reply {
    let url = format!("{}{path}", pair().legacy_url());
    let request = Request::get(url).header("host", host).body(()).unwrap();
    send(&agent(), request)
}

fn logon(host: &str, changes: &[(&str, &str)]) -> Reply {
    let mut query = vec![
        ("Action", "StartOAuth"),
        ("client_id", OPEN.id),
        ("redirect_uri", CALLBACK),
    ];
    query.retain(|(name, _)| !changes.iter().any(|(changed, _)| changed == name));
    query.extend(changes.iter().filter(|(_, value)| !value.is_empty()));
    get(host, &format!("/Logon?{}", form_body(&query)))
}

/// Signs in as Ada on the instance and returns the code.
pub(crate) fn code_for(client: &Client, more: &[(&str, &str)]) -> String {
    code_of("ada@example.com", client, more)
}

/// Signs in with this spelling of Ada's name.
pub(crate) fn code_of(username: &str, client: &Client, more: &[(&str, &str)]) -> String {
    let browser = Browser::on_host(&pair().legacy_url(), US1);
    let mut query = vec![
        ("Action", "StartOAuth"),
        ("client_id", client.id),
        ("redirect_uri", client.redirect_uri),
    ];
    query.extend(more);
    let page = browser.open(&format!("/Logon?{}", form_body(&query)));
    assert_eq!(page.status, 200, "{}", page.body);
    let done = browser.sign_in(&page, username, "demo-password-of-ada");
    let answer = crate::support::answer(&done, client.redirect_uri);
    let [(name, code)] = answer.as_slice() else {
        panic!("{answer:?}");
    };
    assert_eq!((name.as_str(), code.len()), ("code", 40));
    code.clone()
}

/// A request to the instance's authorization server, with the client's authentication.
fn token(host: &str, client: &Client, query: &str, fields: &[(&str, &str)]) -> Reply {
    let url = format!("{}/as/token.oauth2{query}", pair().legacy_url());
    let mut request = Request::post(url)
        .header("host", host)
        .header("content-type", "application/x-www-form-urlencoded");
    if client.secret.is_some() {
        request = request.header("authorization", client.basic());
    }
    send(&agent(), request.body(form_body(fields)).unwrap())
}

pub(crate) fn exchange(client: &Client, code: &str) -> Reply {
    let mut fields = vec![
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", client.redirect_uri),
    ];
    if client.secret.is_none() {
        fields.push(("client_id", client.id));
    }
    token(SSO, client, "", &fields)
}

pub(crate) fn refresh(client: &Client, refresh_token: &str) -> Reply {
    token(
        SSO,
        client,
        "",
        &[
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh_token),
        ],
    )
}

/// protocol.md §2.5: exactly these members and lengths.
#[track_caller]
fn assert_tokens(reply: &Reply) -> (String, String) {
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
    assert_eq!(
        members,
        ["access_token", "expires_in", "refresh_token", "token_type"]
    );
    assert_eq!(
        (&body["token_type"], &body["expires_in"]),
        (&json!("Bearer"), &json!(3600))
    );
    let (access, refresh) = (reply.text("access_token"), reply.text("refresh_token"));
    assert_eq!((access.len(), refresh.len()), (481, 42));
    (access, refresh)
}

#[test]
fn protocol_s4_4_the_status_of_an_instance() {
    assert_eq!(
        get(US1, "/OAuthStatus").json(),
        json!({"uri": SSO, "enabled": true})
    );
    let disabled = get("us2.legacy.example", "/OAuthStatus");
    assert_eq!(
        disabled.json(),
        json!({"uri": "sso-us2.legacy.example", "enabled": false})
    );
    for unknown in ["us3.legacy.example", SSO, "127.0.0.1"] {
        get(unknown, "/OAuthStatus").assert_error(404, "not_found");
    }
}

#[test]
fn protocol_s4_5_and_4_6_logon_and_exchange() {
    for client in [OPEN, SECRET] {
        let code = code_for(&client, &[]);
        let (access, refresh_token) = assert_tokens(&exchange(&client, &code));
        let claims = crate::token::claims(&access);
        assert_eq!(claims["iss"], "https://us1.legacy.example");
        assert_eq!(
            (&claims["sub"], &claims["client_id"]),
            (&json!("1879048401"), &json!(client.id))
        );
        // protocol.md §4.3 applies to this token too: the filter verifies it like any other token.
        let reply = call(&access);
        assert_eq!(reply.status, 200, "{}", reply.body);
        assert_eq!(reply.json()["x-auth-subject"], "1879048401");
        // The code works once. A second use revokes the tokens of the first use.
        exchange(&client, &code).assert_error(400, "invalid_grant");
        refresh(&client, &refresh_token).assert_error(400, "invalid_grant");
        until("the gateway knows", || call(&access).status == 401);
    }
}

/// D-16: the samples of the specification send the fields in the query.
#[test]
fn protocol_s4_6_fields_may_stand_in_the_query() {
    let code = code_for(&OPEN, &[]);
    let query = format!(
        "?{}",
        form_body(&[
            ("grant_type", "authorization_code"),
            ("client_id", OPEN.id),
            ("redirect_uri", CALLBACK),
            ("code", &code)
        ])
    );
    token(SSO, &OPEN, &query, &[("code", "another")]).assert_error(400, "invalid_request");
    let (_, refresh_token) = assert_tokens(&token(SSO, &OPEN, &query, &[("code", &code)]));
    let query = format!("?grant_type=refresh_token&refresh_token={refresh_token}");
    assert_tokens(&token(SSO, &OPEN, &query, &[]));
}

/// protocol.md §3, §4.7, D-15.
#[test]
fn protocol_s4_7_refresh_rotates_with_a_grace() {
    let (_, first) = assert_tokens(&exchange(&OPEN, &code_for(&OPEN, &[])));
    let (access, second) = assert_tokens(&refresh(&OPEN, &first));
    assert_ne!(first, second);
    // The service repeats a lost response.
    assert_eq!(
        assert_tokens(&refresh(&OPEN, &first)),
        (access.clone(), second.clone())
    );
    assert_eq!(call(&access).status, 200);
    let (_, third) = assert_tokens(&refresh(&OPEN, &second));
    let mut altered = third.clone();
    let other = if third.as_bytes()[30] == b'A' {
        "B"
    } else {
        "A"
    };
    altered.replace_range(30..31, other);
    for made_up in ["x", &"A".repeat(42), &altered] {
        refresh(&OPEN, made_up).assert_error(400, "invalid_grant");
    }
    assert_tokens(&refresh(&OPEN, &third));
}

#[test]
fn protocol_s4_6_clients_authenticate() {
    let code = code_for(&SECRET, &[]);
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", code.as_str()),
        ("redirect_uri", SECRET.redirect_uri),
    ];
    let without = Client {
        secret: None,
        ..SECRET
    };
    let mut named = fields.to_vec();
    named.push(("client_id", SECRET.id));
    token(SSO, &without, "", &named).assert_error(401, "invalid_client");
    token(SSO, &without, "", &fields).assert_error(401, "invalid_client");
    let wrong = Client {
        secret: Some("wrong"),
        ..SECRET
    };
    let reply = token(SSO, &wrong, "", &fields);
    reply.assert_error(401, "invalid_client");
    assert!(reply.header("www-authenticate").is_some());
    let (_, refresh_token) = assert_tokens(&exchange(&SECRET, &code));
    refresh(&without, &refresh_token).assert_error(401, "invalid_client");
    assert_tokens(&refresh(&SECRET, &refresh_token));
    for fields in [
        vec![],
        vec![("grant_type", "password")],
        vec![("grant_type", "authorization_code")],
    ] {
        token(SSO, &SECRET, "", &fields).assert_error(400, "invalid_request");
    }
    let twice = [
        ("grant_type", "refresh_token"),
        ("grant_type", "refresh_token"),
    ];
    token(SSO, &SECRET, "", &twice).assert_error(400, "invalid_request");
}

/// protocol.md §7.2: the two messages.
#[test]
fn protocol_s7_2_unsafe_logons_are_answered_with_400() {
    let refused = |host: &str, changes: &[(&str, &str)], reason: &str| {
        let reply = logon(host, changes);
        assert_eq!(
            (reply.status, reply.header("location")),
            (400, None),
            "{changes:?}"
        );
        let message = format!("Problem accessing the authorization path. Reason: {reason}");
        assert!(reply.body.contains(&message), "{}", reply.body);
    };
    let client = "Unknown or invalid client_id";
    refused(US1, &[("client_id", "nobody")], client);
    refused(US1, &[("client_id", "")], client);
    refused(US1, &[("client_id", WEB.id)], client);
    let uri = "Invalid redirect_uri";
    for bad in [
        "",
        "http://127.0.0.1:8765/callback",
        "http://localhost/callback",
        "http://localhost:8765/other",
        "https://app.example.com/a/b/callback?source=legacy",
        "https://app.example.com/a/callback",
        "https://evil.example.com/a/callback?source=legacy",
    ] {
        refused(US1, &[("redirect_uri", bad)], uri);
    }
    refused(US1, &[("Action", "")], "Invalid Action");
    refused(US1, &[("Action", "Other")], "Invalid Action");
    // A client of one instance is unknown to the others.
    refused(
        "us2.legacy.example",
        &[
            ("client_id", SECRET.id),
            ("redirect_uri", SECRET.redirect_uri),
        ],
        client,
    );
    logon("us3.legacy.example", &[]).assert_error(404, "not_found");
}

/// A request to the wrong host of an instance gets the name of the right host.
#[test]
fn a_wrong_host_names_the_right_one() {
    let description = get(SSO, "/OAuthStatus").assert_error(404, "not_found");
    assert_eq!(
        description,
        format!("This host does not serve /OAuthStatus; {US1} does")
    );
    let description = logon(SSO, &[]).assert_error(404, "not_found");
    assert_eq!(
        description,
        format!("This host does not serve /Logon; {US1} does")
    );
    let description = token(US1, &OPEN, "", &[]).assert_error(404, "not_found");
    assert_eq!(
        description,
        format!("This host does not serve /as/token.oauth2; {SSO} does")
    );
    let stranger = get("us3.legacy.example", "/OAuthStatus");
    assert!(
        stranger
            .assert_error(404, "not_found")
            .contains("this host is no legacy host")
    );
}

/// Two instances may share an authorization server: code and refresh token identify the instance.
#[test]
fn instances_that_share_an_authorization_server_both_work() {
    let shared = OwnPair::start(&[
        (
            "TOKEN_SERVICE__LEGACY_INSTANCES__1__AUTH_SERVER_HOSTNAME",
            SSO,
        ),
        ("TOKEN_SERVICE__LEGACY_INSTANCES__1__ENABLED", "true"),
    ]);
    let address = shared.pair.legacy_url();
    let token = |fields: &[(&str, &str)]| {
        let request = Request::post(format!("{address}/as/token.oauth2"))
            .header("host", SSO)
            .header("content-type", "application/x-www-form-urlencoded");
        send(&agent(), request.body(form_body(fields)).unwrap())
    };
    for host in ["us2.legacy.example", US1] {
        let browser = Browser::on_host(&address, host);
        let query = [
            ("Action", "StartOAuth"),
            ("client_id", OPEN.id),
            ("redirect_uri", CALLBACK),
        ];
        let page = browser.open(&format!("/Logon?{}", form_body(&query)));
        let done = browser.sign_in(&page, "ada@example.com", "demo-password-of-ada");
        let answer = crate::support::answer(&done, CALLBACK);
        let reply = token(&[
            ("grant_type", "authorization_code"),
            ("client_id", OPEN.id),
            ("code", &answer[0].1),
            ("redirect_uri", CALLBACK),
        ]);
        let (access, refresh_token) = assert_tokens(&reply);
        assert_eq!(
            crate::token::claims(&access)["iss"],
            format!("https://{host}")
        );
        let reply = token(&[
            ("grant_type", "refresh_token"),
            ("refresh_token", &refresh_token),
        ]);
        let (access, _) = assert_tokens(&reply);
        assert_eq!(
            crate::token::claims(&access)["iss"],
            format!("https://{host}")
        );
    }
    token(&[("grant_type", "refresh_token"), ("refresh_token", "x")])
        .assert_error(400, "invalid_grant");
}

/// protocol.md §4.5 finds single-sign-on users by e-mail. The page does not reveal the username for an address.
#[test]
fn the_page_of_an_e_mail_address_shows_that_address_alone() {
    let pair = OwnPair::start(&[]);
    pair.operate(
        &[
            "user",
            "add",
            "secret-name",
            "--email",
            "known@example.com",
            "--single-sign-on",
        ],
        "",
    )
    .done();
    let browser = Browser::on_host(&pair.pair.legacy_url(), US1);
    let query = [
        ("Action", "StartOAuth"),
        ("client_id", OPEN.id),
        ("redirect_uri", CALLBACK),
        ("email", "known@example.com"),
    ];
    let page = browser.open(&format!("/Logon?{}", form_body(&query)));
    assert_eq!(page.status, 200, "{}", page.body);
    assert!(page.body.contains("known@example.com"), "{}", page.body);
    assert!(!page.body.contains("secret-name"), "{}", page.body);
}

#[test]
fn protocol_s7_2_errors_at_the_redirect_uri() {
    let error = |reply: Reply, uri: &str| {
        let answer = crate::support::answer(&reply, uri);
        assert_eq!(reply.status, 302);
        assert_eq!(answer.len(), 1, "{answer:?}");
        answer[0].clone()
    };
    let disabled = logon("us2.legacy.example", &[]);
    assert_eq!(
        error(disabled, CALLBACK),
        ("error".into(), "SO_IS_DISABLED".into())
    );
    for nobody in ["nobody@example.com", "grace@example.com"] {
        let reply = logon(US1, &[("email", nobody)]);
        assert_eq!(
            error(reply, CALLBACK),
            ("error".into(), "NO_UNIQUE_USER_FOUND".into())
        );
    }
    // The query of a registered URI is kept.
    let uri = "https://app.example.com/tenant-7/callback?source=legacy";
    let reply = logon("us2.legacy.example", &[("redirect_uri", uri)]);
    assert_eq!(
        reply.header("location"),
        Some(format!("{uri}&error=SO_IS_DISABLED").as_str())
    );
}

/// protocol.md §4.5: `email` selects a single-sign-on user, who only enters the password.
#[test]
fn protocol_s4_5_an_email_names_the_person() {
    let browser = Browser::on_host(&pair().legacy_url(), US1);
    let query = form_body(&[
        ("Action", "StartOAuth"),
        ("client_id", OPEN.id),
        ("redirect_uri", CALLBACK),
        ("email", "ADA@example.com"),
    ]);
    let page = browser.open(&format!("/Logon?{query}"));
    assert!(
        page.body.contains("value=\"ADA@example.com\"") && page.body.contains("readonly"),
        "{}",
        page.body
    );
    // No other user can sign in here.
    let form = Form::of(&page);
    let other = browser.submit(
        &form,
        &[
            ("username", "grace@example.com"),
            ("password", "demo-password-of-grace"),
        ],
    );
    assert_eq!(other.status, 403);
    let done = browser.follow(&browser.submit(&form, &[("password", "demo-password-of-ada")]));
    assert_eq!(crate::support::answer(&done, CALLBACK)[0].0, "code");
}

/// Codes and tokens of one flow are unknown to the other flow.
#[test]
fn legacy_and_current_flows_know_nothing_of_each_other() {
    let legacy_code = code_for(&OPEN, &[]);
    let fields = |code| {
        [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", WEB.redirect_uri),
        ]
    };
    WEB.token(&lobby(), &fields(&legacy_code))
        .assert_error(400, "invalid_grant");
    let (_, refresh_token) = assert_tokens(&exchange(&OPEN, &legacy_code));
    WEB.refresh(&lobby(), &refresh_token)
        .assert_error(400, "invalid_grant");
    OPEN.refresh(&lobby(), &refresh_token)
        .assert_error(401, "invalid_client");
    let other_host = token(
        "sso-us2.legacy.example",
        &OPEN,
        "",
        &[
            ("grant_type", "refresh_token"),
            ("refresh_token", &refresh_token),
        ],
    );
    assert_eq!(other_host.status, 400);

    let code = Browser::new(&lobby()).code_for(&WEB, None);
    let mut current = fields(&code).to_vec();
    current.push(("client_id", OPEN.id));
    token(SSO, &OPEN, "", &current).assert_error(400, "invalid_grant");
    token(SSO, &WEB, "", &fields(&code)).assert_error(401, "invalid_client");
    let tokens = WEB.exchange(&lobby(), &code, None);
    refresh(&OPEN, &tokens.text("refresh_token")).assert_error(400, "invalid_grant");
    assert_tokens(&refresh(&OPEN, &refresh_token));
}

/// protocol.md §2.5: a name that does not fit into 481 characters is refused, and the bound is named.
#[test]
fn protocol_s2_5_names_that_do_not_fit_are_refused_at_start() {
    let mut own = OwnPair::start(&[]);
    own.pair.stop_token_service();
    let long = format!("{}.legacy.example", "a".repeat(50));
    own.pair
        .set_environment("TOKEN_SERVICE__LEGACY_INSTANCES__0__HOSTNAME", &long);
    let refusal = own.pair.start_token_service().unwrap_err().to_string();
    assert!(
        refusal.contains("has 65 characters; legacy_hostname_max is 24"),
        "{refusal}"
    );
}
