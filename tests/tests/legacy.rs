//! The legacy flow on its hosts (protocol.md §2.5, §3, §4.4 to 4.7, §7.2, §8; D-14, D-15, D-16).

use serde_json::json;

use crate::api::{call, pass, until};
use crate::support::{
    Browser, Client, Form, Instance, LEGACY as OPEN, LEGACY_SECRET as SECRET, OwnPair, Reply, WEB,
    answer, exchange, form_body, lobby, logon, pair, shared,
};
use crate::token::{self, claims};

const US1: &str = "us1.legacy.example";
const SSO: &str = "sso-us1.legacy.example";

fn us1() -> Instance {
    Instance::of(pair())
}

/// Opens the sign-in of [`OPEN`] at a host, with other or further parameters.
fn begin(host: &str, changes: &[(&str, &str)]) -> Reply {
    let mut query = vec![
        ("Action", "StartOAuth"),
        ("client_id", OPEN.id),
        ("redirect_uri", OPEN.redirect_uri),
    ];
    query.retain(|(name, _)| !changes.iter().any(|(changed, _)| changed == name));
    query.extend(changes.iter().filter(|(_, value)| !value.is_empty()));
    us1().get(host, &format!("/Logon?{}", form_body(&query)))
}

/// protocol.md §2.5: exactly these members and lengths.
#[track_caller]
fn assert_tokens(reply: &Reply) -> (String, String) {
    token::assert_tokens(reply, true);
    let (access, refresh) = (reply.text("access_token"), reply.text("refresh_token"));
    assert_eq!((access.len(), refresh.len()), (481, 42));
    (access, refresh)
}

#[test]
fn protocol_s4_4_the_status_of_an_instance() {
    let status = |host: &str| us1().get(host, "/OAuthStatus");
    assert_eq!(status(US1).json(), json!({"uri": SSO, "enabled": true}));
    assert_eq!(
        status("us2.legacy.example").json(),
        json!({"uri": "sso-us2.legacy.example", "enabled": false})
    );
    for unknown in ["us3.legacy.example", SSO, "127.0.0.1"] {
        status(unknown).assert_error(404, "not_found");
    }
}

/// The last redirect is a 302 after a form, too.
#[test]
fn protocol_s4_5_several_accounts_are_chosen_from() {
    let browser = us1().browser();
    let page = browser.open(&logon(&OPEN, &[]));
    let selector = browser.sign_in(&page, "grace@example.com", "demo-password-of-grace");
    let form = Form::of(&selector);
    let (name, value) = &form.buttons[1];
    let done = browser.submit(&form, &[(name, value)]);
    assert_eq!(done.status, 302, "{}", done.body);
    let [(_, code)] = <[_; 1]>::try_from(answer(&done, OPEN.redirect_uri)).unwrap();
    let (access, _) = assert_tokens(&us1().exchange(&OPEN, &code));
    assert_eq!(claims(&access)["sub"], "1879048403");
}

#[test]
fn protocol_s4_5_and_4_6_logon_and_exchange() {
    for client in [OPEN, SECRET] {
        let code = us1().code(&client);
        let (access, refresh_token) = assert_tokens(&us1().exchange(&client, &code));
        let claims = claims(&access);
        assert_eq!(claims["iss"], "https://us1.legacy.example");
        assert_eq!(claims["sub"], "1879048401");
        assert_eq!(claims["client_id"], client.id);
        // protocol.md §4.3 applies to this token too: the filter verifies it like any other token.
        let reply = call(&access);
        assert_eq!(reply.status, 200, "{}", reply.body);
        assert_eq!(reply.json()["x-auth-subject"], "1879048401");
        // The code works once. A second use revokes the tokens of the first use.
        let replayed = us1().exchange(&client, &code);
        replayed.assert_error(400, "invalid_grant");
        let refreshed = us1().refresh(&client, &refresh_token);
        refreshed.assert_error(400, "invalid_grant");
        until("the gateway knows", || call(&access).status == 401);
    }
}

/// D-16: the samples of the specification send the fields in the query.
#[test]
fn protocol_s4_6_fields_may_stand_in_the_query() {
    let code = us1().code(&OPEN);
    let query = format!("?{}", form_body(&exchange(&OPEN, &code)));
    let other = us1().token(&OPEN, &query, &[("code", "another")]);
    other.assert_error(400, "invalid_request");
    let (_, refresh_token) = assert_tokens(&us1().token(&OPEN, &query, &[("code", &code)]));
    let query = format!("?grant_type=refresh_token&refresh_token={refresh_token}");
    assert_tokens(&us1().token(&OPEN, &query, &[]));
}

/// protocol.md §3, §4.7, D-15.
#[test]
fn protocol_s4_7_refresh_rotates_with_a_grace() {
    let (_, first) = assert_tokens(&us1().exchange(&OPEN, &us1().code(&OPEN)));
    let (access, second) = assert_tokens(&us1().refresh(&OPEN, &first));
    assert_ne!(first, second);
    // The service repeats the tokens of a lost response, with the rest of their lifetime (RFC 6749 §5.1).
    pass(1);
    let repeated = us1().refresh(&OPEN, &first);
    assert_eq!(repeated.text("access_token"), access);
    assert_eq!(repeated.text("refresh_token"), second);
    let lifetime = repeated.json()["expires_in"].as_u64().unwrap();
    assert!((3500..3600).contains(&lifetime), "{lifetime}");
    assert_eq!(call(&access).status, 200);
    for made_up in ["x", &"A".repeat(42)] {
        let reply = us1().refresh(&OPEN, made_up);
        reply.assert_error(400, "invalid_grant");
    }
    assert_tokens(&us1().refresh(&OPEN, &second));
}

#[test]
fn protocol_s4_6_clients_authenticate() {
    let code = us1().code(&SECRET);
    let without = Client {
        secret: None,
        ..SECRET
    };
    let wrong = Client {
        secret: Some("wrong"),
        ..SECRET
    };
    let fields = exchange(&SECRET, &code);
    for (client, fields) in [
        (without, exchange(&without, &code)),
        (without, fields.clone()),
        (wrong, fields),
    ] {
        let reply = us1().token(&client, "", &fields);
        reply.assert_error(401, "invalid_client");
    }
    let (_, refresh_token) = assert_tokens(&us1().exchange(&SECRET, &code));
    let reply = us1().refresh(&without, &refresh_token);
    reply.assert_error(401, "invalid_client");
    assert_tokens(&us1().refresh(&SECRET, &refresh_token));
    let refresh = ("grant_type", "refresh_token");
    for fields in [
        &[][..],
        &[("grant_type", "password")],
        &[("grant_type", "authorization_code")],
        &[refresh, refresh],
    ] {
        let reply = us1().token(&SECRET, "", fields);
        reply.assert_error(400, "invalid_request");
    }
}

/// protocol.md §7.2: the two messages.
#[test]
fn protocol_s7_2_unsafe_logons_are_answered_with_400() {
    let client = "Unknown or invalid client_id";
    let uri = "Invalid redirect_uri";
    let action = "Invalid Action";
    let other_uri = ("redirect_uri", "http://localhost:8765/other");
    let other_instance = [
        ("client_id", SECRET.id),
        ("redirect_uri", SECRET.redirect_uri),
    ];
    for (host, changes, reason) in [
        (US1, &[("client_id", "nobody")][..], client),
        (US1, &[("client_id", "")], client),
        (US1, &[("client_id", WEB.id)], client),
        (US1, &[("redirect_uri", "")], uri),
        (US1, &[other_uri], uri),
        (US1, &[("Action", "")], action),
        (US1, &[("Action", "Other")], action),
        // A client of one instance is unknown to the others.
        ("us2.legacy.example", &other_instance, client),
    ] {
        let reply = begin(host, changes);
        let answered = (reply.status, reply.header("location"));
        assert_eq!(answered, (400, None), "{changes:?}");
        let message = format!("Problem accessing the authorization path. Reason: {reason}");
        assert!(reply.body.contains(&message), "{}", reply.body);
    }
}

/// A request to the wrong host of an instance gets the name of the right host.
#[test]
fn a_wrong_host_names_the_right_one() {
    let turned = Instance::at(pair(), SSO, US1);
    for (reply, path, right) in [
        (us1().get(SSO, "/OAuthStatus"), "/OAuthStatus", US1),
        (begin(SSO, &[]), "/Logon", US1),
        (turned.token(&OPEN, "", &[]), "/as/token.oauth2", SSO),
    ] {
        let description = reply.assert_error(404, "not_found");
        let expected = format!("This host does not serve {path}; {right} does");
        assert_eq!(description, expected);
    }
    let stranger = us1().get("us3.legacy.example", "/OAuthStatus");
    let description = stranger.assert_error(404, "not_found");
    assert!(description.contains("this host is no legacy host"));
}

/// Two instances may share an authorization server: code and refresh token identify the instance.
#[test]
fn instances_that_share_an_authorization_server_both_work() {
    let server = "TOKEN_SERVICE__LEGACY_INSTANCES__1__AUTH_SERVER_HOSTNAME";
    let enabled = "TOKEN_SERVICE__LEGACY_INSTANCES__1__ENABLED";
    let shared = OwnPair::start(&[(server, SSO), (enabled, "true")]);
    for host in ["us2.legacy.example", US1] {
        let instance = Instance::at(&shared.pair, host, SSO);
        let reply = instance.exchange(&OPEN, &instance.code(&OPEN));
        let (first, refresh_token) = assert_tokens(&reply);
        let (second, _) = assert_tokens(&instance.refresh(&OPEN, &refresh_token));
        for access in [first, second] {
            assert_eq!(claims(&access)["iss"], format!("https://{host}"));
        }
    }
}

/// protocol.md §4.5 finds single-sign-on users by e-mail. The page does not reveal the username for an address.
#[test]
fn the_page_of_an_e_mail_address_shows_that_address_alone() {
    shared().done("user add secret-name --email known@example.com --single-sign-on");
    let email = ("email", "known@example.com");
    let page = us1().browser().open(&logon(&OPEN, &[email]));
    assert_eq!(page.status, 200, "{}", page.body);
    assert!(page.body.contains("known@example.com"), "{}", page.body);
    assert!(!page.body.contains("secret-name"), "{}", page.body);
}

#[test]
fn protocol_s7_2_errors_at_the_redirect_uri() {
    let us2 = "us2.legacy.example";
    // The query of a registered URI is kept.
    let uri = "https://app.example.com/tenant-7/callback?source=legacy";
    for (reply, start, error) in [
        (begin(us2, &[]), "?", "SO_IS_DISABLED"),
        (begin(us2, &[("redirect_uri", uri)]), "&", "SO_IS_DISABLED"),
        (
            begin(US1, &[("email", "nobody@example.com")]),
            "?",
            "NO_UNIQUE_USER_FOUND",
        ),
        (
            begin(US1, &[("email", "grace@example.com")]),
            "?",
            "NO_UNIQUE_USER_FOUND",
        ),
    ] {
        assert_eq!(reply.status, 302, "{}", reply.body);
        let uri = if start == "&" { uri } else { OPEN.redirect_uri };
        let expected = format!("{uri}{start}error={error}");
        assert_eq!(reply.header("location"), Some(expected.as_str()));
    }
}

/// protocol.md §4.5: `email` selects a single-sign-on user, who only enters the password.
#[test]
fn protocol_s4_5_an_email_names_the_person() {
    let browser = us1().browser();
    let page = browser.open(&logon(&OPEN, &[("email", "ADA@example.com")]));
    assert!(
        page.body.contains("value=\"ADA@example.com\"") && page.body.contains("readonly"),
        "{}",
        page.body
    );
    // No other user can sign in here.
    let form = Form::of(&page);
    let grace = [
        ("username", "grace@example.com"),
        ("password", "demo-password-of-grace"),
    ];
    assert_eq!(browser.submit(&form, &grace).status, 403);
    let done = browser.follow(&browser.submit(&form, &[("password", "demo-password-of-ada")]));
    assert_eq!(answer(&done, OPEN.redirect_uri)[0].0, "code");
}

/// Codes and tokens of one flow are unknown to the other flow.
#[test]
fn legacy_and_current_flows_know_nothing_of_each_other() {
    let legacy_code = us1().code(&OPEN);
    let reply = WEB.exchange(&lobby(), &legacy_code, None);
    reply.assert_error(400, "invalid_grant");
    let (_, refresh_token) = assert_tokens(&us1().exchange(&OPEN, &legacy_code));
    let reply = WEB.refresh(&lobby(), &refresh_token);
    reply.assert_error(400, "invalid_grant");
    let reply = OPEN.refresh(&lobby(), &refresh_token);
    reply.assert_error(401, "invalid_client");
    let us2 = Instance::at(pair(), "us2.legacy.example", "sso-us2.legacy.example");
    assert_eq!(us2.refresh(&OPEN, &refresh_token).status, 400);

    let code = Browser::new(&lobby()).code_for(&WEB, None);
    let reply = us1().exchange(&OPEN, &code);
    reply.assert_error(400, "invalid_grant");
    let reply = us1().exchange(&WEB, &code);
    reply.assert_error(401, "invalid_client");
    let tokens = WEB.exchange(&lobby(), &code, None);
    let reply = us1().refresh(&OPEN, &tokens.text("refresh_token"));
    reply.assert_error(400, "invalid_grant");
    assert_tokens(&us1().refresh(&OPEN, &refresh_token));
}
