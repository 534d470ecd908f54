//! Users and their linked accounts, changed while the service runs.

use crate::api::until;
use crate::support::{Browser, OwnPair, Reply, WEB, get};

struct Signed {
    browser: Browser,
    access: String,
    refresh: String,
}

fn ada(lobby: &str) -> Signed {
    let browser = Browser::new(lobby);
    let code = browser.code_for(&WEB, None);
    let tokens = WEB.exchange(lobby, &code, None);
    Signed {
        browser,
        access: tokens.text("access_token"),
        refresh: tokens.text("refresh_token"),
    }
}

fn authorize(browser: &Browser) -> Reply {
    browser.authorize(&[
        ("response_type", "code"),
        ("client_id", WEB.id),
        ("redirect_uri", WEB.redirect_uri),
    ])
}

fn call(pair: &OwnPair, token: &str) -> u16 {
    let url = format!("{}/api/projects", pair.pair.api_url());
    get(&url, &[("authorization", &format!("Bearer {token}"))]).status
}

fn ends_everything(change: &[&str], input: &str) -> OwnPair {
    let pair = OwnPair::start(&[]);
    let lobby = pair.pair.lobby_url();
    let signed = ada(&lobby);
    assert_eq!(call(&pair, &signed.access), 200);
    assert_eq!(authorize(&signed.browser).status, 302, "the session lives");
    pair.operate(change, input).done();
    WEB.refresh(&lobby, &signed.refresh)
        .assert_error(400, "invalid_grant");
    until("the gateway knows", || call(&pair, &signed.access) == 401);
    assert_eq!(
        authorize(&signed.browser).status,
        200,
        "the session has ended"
    );
    pair
}

#[test]
fn rfc9700_s4_14_2_disabling_a_user_ends_sessions_and_revokes_tokens() {
    ends_everything(&["user", "update", "ada@example.com", "--disable"], "");
}

#[test]
fn rfc9700_s4_14_2_a_new_password_ends_sessions_and_revokes_tokens() {
    let change = ["user", "update", "ada@example.com", "--password-file", "-"];
    let pair = ends_everything(&change, "another-password\n");
    let browser = Browser::new(&pair.pair.lobby_url());
    let page = authorize(&browser);
    let done = browser.sign_in(&page, "ada@example.com", "another-password");
    assert_eq!(done.status, 302, "{}", done.body);
}

#[test]
fn unlinking_an_account_revokes_what_was_authorized_for_it() {
    let pair = OwnPair::start(&[]);
    let lobby = pair.pair.lobby_url();
    let signed = ada(&lobby);
    let user = pair.operate_json(&["user", "show", "ada@example.com"]);
    let account = &user["accounts"][0];
    let text = |member: &str| account[member].as_str().unwrap();
    pair.operate(
        &[
            "user",
            "unlink",
            "ada@example.com",
            text("user_id"),
            text("site"),
        ],
        "",
    )
    .done();
    WEB.refresh(&lobby, &signed.refresh)
        .assert_error(400, "invalid_grant");
    until("the gateway knows", || call(&pair, &signed.access) == 401);
    pair.operate(
        &[
            "user",
            "link",
            "ada@example.com",
            "--account",
            "77,ada,https://eu1.example.com",
        ],
        "",
    )
    .done();
    let linked = pair.operate_json(&["user", "show", "ada@example.com"]);
    assert_eq!(linked["accounts"][0]["user_id"], "77");
}

#[test]
fn a_user_lives_from_registration_to_removal() {
    let pair = OwnPair::start(&[]);
    let account = "4711,newton,https://us1.example.com";
    let add = [
        "user",
        "add",
        "isaac@example.com",
        "--password-file",
        "-",
        "--account",
        account,
    ];
    pair.operate(&add, "an-apple-a-day\n").done();
    let again = pair.operate(&add, "an-apple-a-day\n").failed(1);
    assert!(again.contains("already"), "{again}");
    let browser = Browser::new(&pair.pair.lobby_url());
    let page = authorize(&browser);
    let done = browser.sign_in(&page, "isaac@example.com", "an-apple-a-day");
    assert_eq!(done.status, 302, "{}", done.body);
    pair.operate(&["user", "remove", "isaac@example.com"], "")
        .done();
    assert_eq!(authorize(&browser).status, 200, "the session has ended");
    let bound = pair
        .operate(&["user", "remove", "grace@example.com"], "")
        .failed(1);
    assert!(bound.contains("user-bound-demo is bound to"), "{bound}");
    let short = ["user", "add", "x@example.com", "--password-file", "-"];
    let short = pair.operate(&short, "short").failed(1);
    assert!(
        short.contains("password: must have 8 to 1024 bytes") && !short.contains("short\n"),
        "{short}"
    );
}

#[test]
fn a_grant_is_listed_and_revoked() {
    let pair = OwnPair::start(&[]);
    let lobby = pair.pair.lobby_url();
    let signed = ada(&lobby);
    let listed = pair.operate_json(&["grant", "list", "--user", "ada@example.com"]);
    let grants = listed["items"].as_array().unwrap();
    assert_eq!(grants.len(), 1);
    assert_eq!(grants[0]["client_id"], "web-demo");
    let id = grants[0]["grant_id"].as_str().unwrap();
    pair.operate(&["grant", "revoke", id], "").done();
    WEB.refresh(&lobby, &signed.refresh)
        .assert_error(400, "invalid_grant");
    until("the gateway knows", || call(&pair, &signed.access) == 401);
    let shown = pair.operate_json(&["grant", "show", id]);
    assert!(shown["revoked_at"].is_string());
    let none = pair.operate_json(&["grant", "list", "--client", "installed-demo"]);
    assert_eq!(none["items"].as_array().unwrap().len(), 0);
}

#[test]
fn all_grants_of_a_user_and_client_are_revoked_at_once() {
    let pair = OwnPair::start(&[]);
    let lobby = pair.pair.lobby_url();
    let (one, other) = (ada(&lobby), ada(&lobby));
    pair.operate(&["grant", "revoke"], "").failed(2);
    let nobody = ["grant", "revoke", "--user", "grace@example.com"];
    let nobody = pair.operate(&nobody, "").done();
    assert!(
        nobody.starts_with("0 grants revoked, and every access token "),
        "{nobody}"
    );
    let all = [
        "grant",
        "revoke",
        "--user",
        "ada@example.com",
        "--client",
        WEB.id,
    ];
    assert!(
        pair.operate(&all, "")
            .done()
            .starts_with("2 grants revoked, ")
    );
    for signed in [one, other] {
        WEB.refresh(&lobby, &signed.refresh)
            .assert_error(400, "invalid_grant");
        until("the gateway knows", || call(&pair, &signed.access) == 401);
    }
}
