//! What people must do before a code is issued: a second factor that is required (D-56), another password (D-58).

use serde_json::{Value, json};

use crate::support::{
    ADA, Browser, Form, Instance, LEGACY, OwnPair, Reply, WEB, answered, get, lasting_code, logon,
    now, wrong_code,
};
use crate::token::claims;

const MULTI_FACTOR: &str = "http://schemas.openid.net/pape/policies/2007/06/multi-factor";
const CHOSEN: &str = "apples fall down, not up";

/// The secret that the page offers to an app.
fn offered(page: &Reply) -> String {
    assert!(
        page.body.contains("Set up an authenticator app"),
        "{}",
        page.body
    );
    let secret = page.body.split_once("secret=").unwrap().1;
    secret.split(['&', '"']).next().unwrap().to_owned()
}

/// Sets up what the page offers, and continues from the recovery codes. Returns the first code too. The form asks for the
/// `password` if an application asked for the set-up.
fn set_up(browser: &Browser, page: &Reply, password: Option<&str>) -> (String, Reply) {
    let secret = offered(page);
    let code = lasting_code(&secret);
    let form = Form::of(page);
    let asked = form.fields.contains(&"password".to_owned());
    assert_eq!(asked, password.is_some(), "{:?}", form.fields);
    let password = password.map(|password| ("password", password));
    let fields: Vec<_> = [("code", &*code)].into_iter().chain(password).collect();
    let codes = browser.submit(&form, &fields);
    assert!(codes.body.contains("Your recovery codes"), "{}", codes.body);
    let first = codes.body.split_once("<li><code>").unwrap().1;
    let first = first.split_once('<').unwrap().0.to_owned();
    (first, browser.open(&Form::of(&codes).address()))
}

fn signed_in(pair: &OwnPair, name: &str) -> (Browser, Reply) {
    let browser = Browser::new(&pair.lobby());
    let page = browser.authorize(&WEB.request(&[]));
    let username = format!("{name}@example.com");
    let password = format!("demo-password-of-{name}");
    let next = browser.sign_in(&page, &username, &password);
    (browser, next)
}

fn tokens(pair: &OwnPair, done: &Reply) -> Reply {
    let code = answered(done, WEB.redirect_uri, "code").unwrap();
    let reply = WEB.exchange(&pair.lobby(), &code, None);
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply
}

fn refreshed(pair: &OwnPair, tokens: &Reply) -> Reply {
    WEB.refresh(&pair.lobby(), &tokens.text("refresh_token"))
}

/// The forms that issue codes, sent from this page: none gives a code.
fn cannot_be_passed_by(browser: &Browser, page: &Reply) {
    for (action, field) in [
        (
            "/auth/select-account",
            ("account", "https://us1.example.com 1879048401"),
        ),
        ("/auth/continue", ("", "")),
        ("/auth/second-factor", ("code", "000000")),
    ] {
        let form = Form {
            action: action.to_owned(),
            ..Form::of(page)
        };
        let reply = browser.submit(&form, &[field]);
        assert_eq!(reply.status, 303, "{action}: {}", reply.body);
        let location = reply.header("location").unwrap();
        assert!(
            location.starts_with("/auth/authorize?") || location.starts_with("/Logon?"),
            "{action}: {location}"
        );
    }
}

/// The rule comes after the sign-in and after the first grant.
#[test]
fn a_code_needs_the_second_factor_that_is_required() {
    let pair = OwnPair::start(&[]);
    let (browser, done) = signed_in(&pair, "ada");
    let before = tokens(&pair, &done);
    let one = claims(&before.text("access_token"));
    assert_eq!(
        (&one["acr"], &one["amr"]),
        (&Value::Null, &json!(["USERNAME_PASSWORD"]))
    );
    let signed_in_at = one["auth_time"].as_u64().unwrap();
    assert!(now() - signed_in_at < 60, "{one}");
    let live = before.text("refresh_token");
    let is_active = || {
        WEB.post(&pair.lobby(), "/auth/introspect", &[("token", &live)])
            .json()
    };
    assert_eq!(is_active()["active"], true);
    let done = browser.authorize(&WEB.request(&[]));
    let code = answered(&done, WEB.redirect_uri, "code").unwrap();
    pair.release(&[&WEB]);
    pair.done("client update web-demo --second-factor required");

    let refused = WEB.exchange(&pair.lobby(), &code, None);
    refused.assert_error(400, "invalid_grant");
    assert!(refused.body.contains("second factor"), "{}", refused.body);
    assert_eq!(is_active(), json!({"active": false}));
    let refused = refreshed(&pair, &before);
    refused.assert_error(400, "invalid_grant");
    assert!(refused.body.contains("second factor"), "{}", refused.body);
    let explained = pair.run(&format!("explain {}", before.text("refresh_token")));
    let why = "from a sign-in without one";
    assert!(explained.output.contains(why), "{explained:?}");
    let silent = browser.authorize(&WEB.request(&[("prompt", "none")]));
    let error = answered(&silent, WEB.redirect_uri, "error");
    assert_eq!(error.as_deref(), Some("interaction_required"));
    let page = browser.authorize(&WEB.request(&[("state", "a b&c")]));
    let secret = offered(&page);
    cannot_be_passed_by(&browser, &page);
    // Where no rule needs one, one factor stays enough.
    let home = browser.open("/auth/");
    assert!(home.body.contains("You are signed in"), "{}", home.body);

    let form = Form::of(&page);
    // An application asks for it, so the sign-in of the browser is not enough.
    let alone = browser.submit(&form, &[("code", &lasting_code(&secret))]);
    assert_eq!(alone.status, 403, "{}", alone.body);
    let wrong_code = wrong_code(&secret);
    let fields = [("code", &*wrong_code), ("password", ADA[1].1)];
    let wrong = browser.submit(&form, &fields);
    assert_eq!(wrong.status, 403, "{}", wrong.body);
    let other_tab = Form::of(&browser.authorize(&WEB.request(&[])));
    let (recovery_code, done) = set_up(&browser, &wrong, None);
    let state = answered(&done, WEB.redirect_uri, "state");
    assert_eq!(state.as_deref(), Some("a b&c"));
    let after = tokens(&pair, &done);
    let two = claims(&after.text("access_token"));
    assert_eq!(two["amr"], json!(["USERNAME_PASSWORD", "TOTP"]));
    assert_eq!(two["acr"], MULTI_FACTOR);
    let again = refreshed(&pair, &after);
    assert_eq!(again.status, 200, "{}", again.body);
    let again = claims(&again.text("access_token"));
    for member in ["amr", "acr", "auth_time"] {
        assert_eq!(again[member], two[member], "{member}");
    }
    // The offer of another tab is for a session that has ended.
    let late = browser.submit(&other_tab, &[("code", "000000")]);
    let next = browser.follow(&late);
    assert!(answered(&next, WEB.redirect_uri, "code").is_some());
    // A recovery code is a second factor.
    let (browser, page) = signed_in(&pair, "ada");
    assert!(page.body.contains("Enter your code"), "{}", page.body);
    cannot_be_passed_by_code(&browser, &page);
    let form = Form::of(&page);
    let told = browser.submit(&form, &[("recovery_code", &recovery_code)]);
    assert!(
        told.body.contains("You used a recovery code"),
        "{}",
        told.body
    );
    let done = browser.submit(&Form::of(&told), &[]);
    let token = tokens(&pair, &done).text("access_token");
    assert_eq!(claims(&token)["acr"], MULTI_FACTOR);
    // The set-up ended what rested only on the password.
    refreshed(&pair, &before).assert_error(400, "invalid_grant");
}

/// While the second factor is owed, nobody sets up another one, or another password.
fn cannot_be_passed_by_code(browser: &Browser, page: &Reply) {
    for (action, fields) in [
        (
            "/auth/authenticator",
            [("code", "000000"), ("password", ADA[1].1)],
        ),
        (
            "/auth/password",
            [("password", ADA[1].1), ("new_password", CHOSEN)],
        ),
    ] {
        for request in [None, Some("/auth/")] {
            let mut form = Form {
                action: action.to_owned(),
                ..Form::of(page)
            };
            for (name, value) in &mut form.hidden {
                if let Some(request) = request.filter(|_| name == "request") {
                    *value = request.to_owned();
                }
            }
            let reply = browser.submit(&form, &fields);
            assert_eq!(reply.status, 303, "{action}: {}", reply.body);
        }
    }
    let page = browser.open("/auth/authenticator");
    assert_eq!(page.status, 303, "{}", page.body);
}

#[test]
fn organizations_and_legacy_clients_have_a_rule() {
    let rule = "\n[organizations.majestic]\nsecond_factor = \"required\"\n\
        [organizations.Contoso]\nsecond_factor = \"optional\"\n";
    let pair = OwnPair::with_configuration(rule, &[]);
    let config = pair.state().join("config.toml");
    let checked = pair.done(&format!("check --config {}", config.display()));
    let warning = "organizations.\"contoso\" in the configuration: no user";
    assert!(checked.contains(warning), "{checked}");
    assert!(!checked.contains("majestic"), "{checked}");
    let instance = Instance::of(&pair.pair);
    // Several accounts: the set-up comes before the choice.
    let grace = instance.browser();
    let page = grace.open(&logon(&LEGACY, &[]));
    let page = grace.sign_in(&page, "grace@example.com", "demo-password-of-grace");
    cannot_be_passed_by(&grace, &page);
    let (_, selector) = set_up(&grace, &page, None);
    assert!(
        selector.body.contains("Choose an account"),
        "{}",
        selector.body
    );
    // The own page asks for it too.
    let (ada, page) = signed_in(&pair, "ada");
    let request = |page: &Reply| Form::of(page).hidden;
    let at_home = ada.open("/auth/");
    offered(&at_home);
    assert_ne!(request(&page), request(&at_home));
    let (_, home) = set_up(&ada, &at_home, None);
    assert!(home.body.contains("You are signed in"), "{}", home.body);
    assert!(answered(&ada.authorize(&WEB.request(&[])), WEB.redirect_uri, "code").is_some());
    // Joan has one, and belongs to no organization.
    let (joan, page) = signed_in(&pair, "joan");
    assert!(page.body.contains("Enter your code"), "{}", page.body);
    drop(joan);
    // No person takes part here.
    assert_eq!(pair.call(&pair.token()), 200);
}

/// RFC 9470 §4, §5.
#[test]
fn a_client_asks_for_a_second_factor() {
    let rule = r#"{"path_prefix": "/api/documents", "#;
    let strict = format!("{rule}\"acr\": \"{MULTI_FACTOR}\", \"max_age\": 600, ");
    let pair = OwnPair::with_gateway(&[(rule, &strict)]);
    let (browser, done) = signed_in(&pair, "ada");
    // The gateway says what the client has to ask for.
    let documents = |token: &str| {
        let authorization = format!("Bearer {token}");
        let url = format!("{}/api/documents", pair.pair.api_url());
        get(&url, &[("authorization", &authorization)])
    };
    let challenged = documents(&tokens(&pair, &done).text("access_token"));
    challenged.assert_error(401, "insufficient_user_authentication");
    let challenge = challenged.header("www-authenticate").unwrap();
    let parameters = format!("scope=\"documents\", acr_values=\"{MULTI_FACTOR}\", max_age=\"600\"");
    assert!(challenge.contains(&parameters), "{challenge}");
    let ask = |more: &[(&str, &str)]| browser.authorize(&WEB.request(more));
    let error = |reply: &Reply| answered(reply, WEB.redirect_uri, "error").unwrap();
    let unmet = ask(&[("acr_values", "silver gold")]);
    assert_eq!(error(&unmet), "unmet_authentication_requirements");
    let values = format!("silver {MULTI_FACTOR}");
    let silent = ask(&[("acr_values", &values), ("prompt", "none")]);
    assert_eq!(error(&silent), "interaction_required");
    // Pushed, where only a reference is carried on.
    let mut pushed = WEB.request(&[("acr_values", &values)]);
    pushed.retain(|(name, _)| *name != "client_id");
    let pushed = WEB.post(&pair.lobby(), "/auth/par", &pushed);
    let request_uri = pushed.text("request_uri");
    let page = browser.authorize(&[("client_id", WEB.id), ("request_uri", &request_uri)]);
    cannot_be_passed_by(&browser, &page);
    let (_, done) = set_up(&browser, &page, Some(ADA[1].1));
    let token = tokens(&pair, &done).text("access_token");
    assert_eq!(claims(&token)["acr"], MULTI_FACTOR);
    assert_eq!(documents(&token).status, 404, "the API has no such page");
    let metadata = browser.open("/.well-known/oauth-authorization-server");
    assert_eq!(
        metadata.json()["acr_values_supported"],
        json!([MULTI_FACTOR])
    );
}

#[test]
fn another_password_is_asked_for_once() {
    let pair = OwnPair::start(&[]);
    let (old, done) = signed_in(&pair, "ada");
    let before = tokens(&pair, &done);
    pair.done("release user ada@example.com");
    pair.done("user update ada@example.com --must-change-password");
    let shown = pair.json("user show ada@example.com");
    assert_eq!(shown["must_change_password"], true);
    // What was issued goes on: `user reset-password` ends it.
    assert_eq!(refreshed(&pair, &before).status, 200);
    let silent = old.authorize(&WEB.request(&[("prompt", "none")]));
    let error = answered(&silent, WEB.redirect_uri, "error");
    assert_eq!(error.as_deref(), Some("interaction_required"));

    let (browser, page) = signed_in(&pair, "ada");
    assert!(
        page.body.contains("choose another password"),
        "{}",
        page.body
    );
    cannot_be_passed_by(&browser, &page);
    let form = Form::of(&page);
    let change = |present: &str, chosen: &str| {
        let fields = [("password", present), ("new_password", chosen)];
        browser.submit(&form, &fields)
    };
    let present = ADA[1].1;
    for (sent, chosen, status) in [
        (CHOSEN, CHOSEN, 403),
        (present, present, 400),
        (present, "short", 400),
    ] {
        let refused = change(sent, chosen);
        assert_eq!(refused.status, status, "{}", refused.body);
        assert!(
            refused.body.contains("choose another password"),
            "still the way"
        );
    }
    let other_tab = form.clone();
    let done = browser.follow(&change(present, CHOSEN));
    tokens(&pair, &done);
    assert_eq!(
        refreshed(&pair, &before).status,
        400,
        "as after every new password"
    );
    // The other tab goes on, and asks nothing twice.
    let fields = [
        ("password", present),
        ("new_password", "pears fall down as well"),
    ];
    let next = browser.follow(&browser.submit(&other_tab, &fields));
    assert!(answered(&next, WEB.redirect_uri, "code").is_some());
    let ended = old.authorize(&WEB.request(&[]));
    assert!(ended.body.contains("Sign in"), "{}", ended.body);
    assert!(
        pair.json("user show ada@example.com")
            .get("must_change_password")
            .is_none()
    );

    // Any new password ends it; together, both apply.
    pair.done("user update ada@example.com --must-change-password");
    let link = pair.json("user reset-password ada@example.com");
    let page = browser.open(link["url"].as_str().unwrap());
    let same = browser.submit(&Form::of(&page), &[("password", CHOSEN)]);
    assert_eq!(same.status, 400, "{}", same.body);
    assert!(same.body.contains("your present password"), "{}", same.body);
    let set = browser.submit(&Form::of(&page), &[("password", "plums fall down too")]);
    assert_eq!(set.status, 200, "{}", set.body);
    let shown = pair.json("user show ada@example.com");
    assert!(shown.get("must_change_password").is_none(), "{shown}");
    pair.done("user update ada@example.com --must-change-password");
    let with = |more: &[&str]| {
        let words = ["user", "update", "ada@example.com", "--password-file", "-"];
        pair.operate(&[&words, more].concat(), present).done();
        let user = pair.json("user show ada@example.com");
        user["must_change_password"].as_bool().unwrap_or_default()
    };
    assert!(!with(&[]));
    pair.done("user update ada@example.com --must-change-password");
    pair.done("user update ada@example.com --may-keep-password");
    let words = [
        "user",
        "update",
        "ada@example.com",
        "--password-file",
        "-",
        "--must-change-password",
    ];
    pair.operate(&words, CHOSEN).done();
    assert_eq!(
        pair.json("user show ada@example.com")["must_change_password"],
        true
    );

    // With a required second factor: first the password, then the app, then the code.
    pair.release(&[&WEB]);
    pair.done("client update web-demo --second-factor required");
    let browser = Browser::new(&pair.lobby());
    let page = browser.authorize(&WEB.request(&[]));
    let page = browser.sign_in(&page, "ada@example.com", CHOSEN);
    // Somebody else signs in with this browser meanwhile.
    let home = browser.open("/auth/?prompt=login");
    browser.sign_in(&home, "mary@example.com", "demo-password-of-mary");
    let fields = [
        ("password", CHOSEN),
        ("new_password", "pears fall down as well"),
    ];
    let foreign = browser.submit(&Form::of(&page), &fields);
    offered(&browser.follow(&foreign));
    assert_eq!(
        pair.json("user show ada@example.com")["must_change_password"],
        true
    );
    let page = browser.authorize(&WEB.request(&[("prompt", "login")]));
    let page = browser.sign_in(&page, "ada@example.com", CHOSEN);
    let page = browser.follow(&browser.submit(&Form::of(&page), &fields));
    let (_, done) = set_up(&browser, &page, Some("pears fall down as well"));
    let token = tokens(&pair, &done).text("access_token");
    assert_eq!(claims(&token)["amr"], json!(["USERNAME_PASSWORD", "TOTP"]));
}
