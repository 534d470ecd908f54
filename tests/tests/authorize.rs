//! The authorization endpoint and the sign-in (protocol.md §4.1, §7.1; D-4, D-5, D-7, D-8, D-9, D-13, D-17).

use crate::support::{
    Browser, Client, Form, INSTALLED, Pkce, Reply, WEB, answer, form_body, get, lasting_code,
    lobby, wrong_code,
};

fn ada(browser: &Browser, page: &crate::support::Reply) -> crate::support::Reply {
    browser.sign_in(page, "ada@example.com", "demo-password-of-ada")
}

fn web_request() -> Vec<(&'static str, &'static str)> {
    vec![
        ("response_type", "code"),
        ("client_id", WEB.id),
        ("redirect_uri", WEB.redirect_uri),
    ]
}

fn installed_request(challenge: &str) -> Vec<(&str, &str)> {
    vec![
        ("response_type", "code"),
        ("client_id", INSTALLED.id),
        ("redirect_uri", INSTALLED.redirect_uri),
        ("code_challenge", challenge),
        ("code_challenge_method", "S256"),
    ]
}

fn parameter<'a>(answer: &'a [(String, String)], name: &str) -> Option<&'a str> {
    answer
        .iter()
        .find(|(candidate, _)| candidate == name)
        .map(|(_, value)| value.as_str())
}

const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

/// State is echoed byte for byte.
#[test]
fn protocol_s4_1_a_sign_in_ends_with_code_state_and_iss() {
    let browser = Browser::new(&lobby());
    let state = "a b+c&d=e%2Fé\"<>'#?";
    let mut request = web_request();
    request.push(("state", state));
    request.push(("unknown_parameter", "is ignored"));
    let page = browser.authorize(&request);
    assert_eq!(page.status, 200);
    assert!(page.body.contains("Package Builder"));
    let done = ada(&browser, &page);
    let answer = answer(&done, WEB.redirect_uri);
    let names: Vec<&str> = answer.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["code", "state", "iss"]);
    assert_eq!(parameter(&answer, "state"), Some(state));
    assert_eq!(parameter(&answer, "iss"), Some(lobby().as_str()));
    assert!(
        parameter(&answer, "code").unwrap().len() >= 22,
        "128 bits at least"
    );
}

#[test]
fn protocol_s4_1_without_state_none_is_sent() {
    let browser = Browser::new(&lobby());
    let page = browser.authorize(&web_request());
    let answer = answer(&ada(&browser, &page), WEB.redirect_uri);
    assert_eq!(parameter(&answer, "state"), None);
}

#[test]
fn protocol_s4_1_a_live_session_signs_in_at_once_when_there_is_one_account() {
    let browser = Browser::new(&lobby());
    let page = browser.authorize(&web_request());
    ada(&browser, &page);
    let again = browser.authorize(&web_request());
    assert!(parameter(&answer(&again, WEB.redirect_uri), "code").is_some());
}

/// The selector always shows, also with a live session, and the tokens are for the chosen account.
#[test]
fn protocol_s4_1_several_accounts_are_chosen_from() {
    let browser = Browser::new(&lobby());
    let page = browser.authorize(&web_request());
    let mut selector = browser.sign_in(&page, "grace@example.com", "demo-password-of-grace");
    for (position, hat, site) in [
        (0, "ghopper", "https://us1.example.com"),
        (2, "grace.hopper", "https://eu1.example.com"),
    ] {
        assert_eq!(selector.status, 200);
        let form = Form::of(&selector);
        assert_eq!(form.buttons.len(), 3);
        assert!(selector.body.contains(hat) && selector.body.contains(site));
        let (name, value) = &form.buttons[position];
        let done = browser.submit(&form, &[(name, value)]);
        let answer = answer(&done, WEB.redirect_uri);
        let tokens = WEB.exchange(&lobby(), parameter(&answer, "code").unwrap(), None);
        let claims = crate::token::claims(&tokens.text("access_token"));
        assert_eq!(
            (&claims["user_hat"], &claims["user_site"]),
            (&hat.into(), &site.into())
        );
        selector = browser.authorize(&web_request());
    }
    for foreign in [
        "0",
        "https://us1.example.com",
        "https://us1.example.com 1879048401",
        "",
    ] {
        let reply = browser.submit(&Form::of(&selector), &[("account", foreign)]);
        assert_eq!(reply.status, 400, "{foreign}");
    }
}

/// The address of the link with this text.
fn link(page: &crate::support::Reply, text: &str) -> String {
    let html = scraper::Html::parse_document(&page.body);
    let links = scraper::Selector::parse("a").unwrap();
    let mut found = html
        .select(&links)
        .filter(|link| link.text().collect::<String>() == text);
    let link = found
        .next()
        .unwrap_or_else(|| panic!("no link {text:?} in {}", page.body));
    link.attr("href").unwrap().to_owned()
}

/// D-7: a page informs the user, who may sign in as another user. If the user goes back, the client gets the error.
#[test]
fn protocol_s1_a_user_without_account_is_told_and_then_the_client() {
    let browser = Browser::new(&lobby());
    let page = browser.authorize(&web_request());
    let page = browser.sign_in(&page, "mary@example.com", "demo-password-of-mary");
    assert_eq!(page.status, 200);
    assert!(page.body.contains("mary@example.com") && page.body.contains("Package Builder"));
    let back = link(&page, "Return to Package Builder");
    assert!(
        back.starts_with(WEB.redirect_uri) && back.contains("error=access_denied"),
        "{back}"
    );
    // Another user can sign in at once, in spite of the session.
    let again = browser.authorize(&web_request());
    let form = browser.open(&link(&again, "Sign in as somebody else"));
    let done = ada(&browser, &form);
    assert!(parameter(&answer(&done, WEB.redirect_uri), "code").is_some());
    // Nobody can be asked.
    let silent = Browser::new(&lobby());
    let page = silent.authorize(&web_request());
    silent.sign_in(&page, "mary@example.com", "demo-password-of-mary");
    let mut request = web_request();
    request.push(("prompt", "none"));
    let answer = answer(&silent.authorize(&request), WEB.redirect_uri);
    assert_eq!(parameter(&answer, "error"), Some("access_denied"));
}

/// D-25, D-34: the verifier redeems the code without the secret, so a live session alone gives no such code.
#[test]
fn a_web_server_application_with_pkce_on_the_device_is_confirmed() {
    let on_device = Client {
        redirect_uri: "http://127.0.0.1:8090/callback",
        secret: None,
        ..WEB
    };
    let pkce = Pkce::of(&"v".repeat(43));
    let with_secret = [
        ("response_type", "code"),
        ("client_id", on_device.id),
        ("redirect_uri", on_device.redirect_uri),
    ];
    let mut request = with_secret.to_vec();
    request.extend([
        ("code_challenge", pkce.challenge.as_str()),
        ("code_challenge_method", "S256"),
    ]);
    let browser = Browser::new(&lobby());
    let page = browser.authorize(&web_request());
    ada(&browser, &page);
    let answer = |reply: &Reply| answer(reply, on_device.redirect_uri);

    let silent = answer(&browser.authorize(&with_secret));
    let code = parameter(&silent, "code").unwrap();
    let refused = on_device.exchange(&lobby(), code, None);
    refused.assert_error(401, "invalid_client");

    let page = browser.authorize(&request);
    let question = "Continue as ada@example.com to Package Builder?";
    assert!(page.body.contains(question), "{}", page.body);
    let mut never = request.clone();
    never.push(("prompt", "none"));
    let refused = answer(&browser.authorize(&never));
    assert_eq!(parameter(&refused, "error"), Some("interaction_required"));
    let confirmed = answer(&browser.submit(&Form::of(&page), &[]));
    let code = parameter(&confirmed, "code").unwrap();
    let tokens = on_device.exchange(&lobby(), code, Some(&pkce));
    assert_eq!(tokens.status, 200, "{}", tokens.body);
}

/// D-34, RFC 8252 §8.6: any app on a device can claim a loopback address, so a live session alone gives no code.
#[test]
fn rfc8252_s8_6_a_public_native_client_is_confirmed_once_per_session() {
    let browser = Browser::new(&lobby());
    let request = installed_request(CHALLENGE);
    let page = browser.authorize(&web_request());
    ada(&browser, &page);
    let page = browser.authorize(&request);
    assert_eq!(page.status, 200, "{:?}", page.header("location"));
    assert!(
        page.body
            .contains("Continue as ada@example.com to Field Notes?"),
        "{}",
        page.body
    );
    let mut silent = request.clone();
    silent.push(("prompt", "none"));
    let refused = answer(&browser.authorize(&silent), INSTALLED.redirect_uri);
    assert_eq!(parameter(&refused, "error"), Some("interaction_required"));
    // Only the person's click gives a code.
    let mut forged = Form::of(&page);
    forged.hidden.retain(|(name, _)| name != "csrf");
    assert_eq!(browser.submit(&forged, &[]).status, 403);
    assert_eq!(browser.authorize(&request).status, 200);
    let confirmed = answer(
        &browser.submit(&Form::of(&page), &[]),
        INSTALLED.redirect_uri,
    );
    assert!(parameter(&confirmed, "code").is_some());
    let again = answer(&browser.authorize(&request), INSTALLED.redirect_uri);
    assert!(
        parameter(&again, "code").is_some(),
        "asked once per session"
    );
    let refused = answer(&browser.authorize(&silent), INSTALLED.redirect_uri);
    assert_eq!(parameter(&refused, "error"), Some("interaction_required"));
    // The next session asks again. Signing in for the client answers the question too.
    let mut login = web_request();
    login.push(("prompt", "login"));
    ada(&browser, &browser.authorize(&login));
    assert_eq!(browser.authorize(&request).status, 200);
    let other = Browser::new(&lobby());
    let signed_in = ada(&other, &other.authorize(&request));
    assert!(parameter(&answer(&signed_in, INSTALLED.redirect_uri), "code").is_some());
    let again = answer(&other.authorize(&request), INSTALLED.redirect_uri);
    assert!(parameter(&again, "code").is_some());
    // An https address belongs to one web server: nothing to confirm.
    let mut spa = request.clone();
    spa.retain(|(name, _)| *name != "redirect_uri");
    spa.push(("redirect_uri", "https://spa.example.com/callback"));
    let direct = answer(&browser.authorize(&spa), "https://spa.example.com/callback");
    assert!(parameter(&direct, "code").is_some());
}

/// The service refuses the request before the person types a password.
#[test]
fn a_request_that_is_too_large_to_carry_on_is_refused_at_once() {
    let browser = Browser::new(&lobby());
    let with_state = |length: usize| {
        let state = "s".repeat(length);
        let mut request = web_request();
        request.push(("state", &state));
        let page = browser.authorize(&request);
        (page.status, page)
    };
    let (status, page) = with_state(11_000);
    assert_eq!(status, 200);
    let answered = answer(&ada(&browser, &page), WEB.redirect_uri);
    assert_eq!(parameter(&answered, "state").map(str::len), Some(11_000));
    let (status, page) = with_state(14_000);
    assert_eq!(status, 400);
    assert!(page.body.contains("Send a shorter state"), "{}", page.body);
}

/// Error pages are in the person's language, with the id to quote and a link to continue.
#[test]
fn error_pages_can_be_quoted_and_lead_back() {
    let url = |query: &str| format!("{}/auth/authorize?{query}", lobby());
    let german = [("accept-language", "de-AT, en;q=0.5")];
    let page = get(&url("response_type=code&client_id=nobody%22%3E"), &german);
    assert_eq!(page.status, 400);
    assert!(page.body.contains("<html lang=\"de\">"));
    for text in [
        "Anmeldung abgebrochen",
        "nicht bekannt",
        "nobody?",
        "href=\"/auth/\"",
        "Gatepass",
    ] {
        assert!(page.body.contains(text), "{text} in {}", page.body);
    }
    let id = page.header("x-request-id").unwrap();
    assert!(page.body.contains(id), "{id}");
    // A form that failed leads back to the application that it is for.
    let browser = Browser::new(&lobby());
    let mut form = Form::of(&browser.authorize(&web_request()));
    form.hidden.retain(|(name, _)| name != "csrf");
    let refused = browser.submit(&form, &[("username", "ada@example.com")]);
    assert_eq!(refused.status, 403);
    let back = link(&refused, "Return to Package Builder");
    assert!(back.starts_with(WEB.redirect_uri), "{back}");
}

/// Two issuers on one host have separate sessions, although browsers send cookies to every port.
#[test]
fn lobby_and_early_access_do_not_share_sessions() {
    let browser = Browser::new(&lobby());
    ada(&browser, &browser.authorize(&web_request()));
    let early = crate::support::lobby_ea();
    let request = format!("{early}/auth/authorize?{}", form_body(&web_request()));
    let page = browser.open(&request);
    assert_eq!(page.status, 200);
    let form = Form::of(&page);
    let there = Form {
        action: format!("{early}{}", form.action),
        ..form
    };
    let credentials = [
        ("username", "ada@example.com"),
        ("password", "demo-password-of-ada"),
    ];
    assert_eq!(browser.submit_to(&there, &credentials).status, 303);
    for home in [lobby(), early] {
        let home = browser.open(&format!("{home}/auth/"));
        assert!(home.body.contains("ada@example.com"), "{}", home.body);
    }
}

#[test]
fn cancelling_tells_the_client() {
    let browser = Browser::new(&lobby());
    let mut request = web_request();
    request.push(("state", "s"));
    let page = browser.authorize(&request);
    let html = scraper::Html::parse_document(&page.body);
    let links = scraper::Selector::parse("a").unwrap();
    let cancel = html
        .select(&links)
        .find_map(|link| link.attr("href"))
        .unwrap();
    let query = cancel.strip_prefix(WEB.redirect_uri).unwrap();
    assert!(query.contains("error=access_denied") && query.contains("state=s"));
}

#[test]
fn a_wrong_password_and_an_unknown_user_get_the_same_page() {
    let browser = Browser::new(&lobby());
    let page = browser.authorize(&web_request());
    let form = Form::of(&page);
    let refused = |username: &str, password: &str| {
        let reply = browser.submit(&form, &[("username", username), ("password", password)]);
        assert_eq!(reply.status, 403);
        assert!(reply.header("set-cookie").is_none());
        reply.body.replace(username, "USERNAME")
    };
    let wrong = refused("ada@example.com", "demo-password-of-adA");
    let unknown = refused("nobody@example.com", "demo-password-of-ada");
    assert_eq!(wrong, unknown);
    assert!(wrong.contains("Username or password is wrong"));
}

/// Of Joan's authenticator app.
const TOTP_SECRET: &str = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";

#[test]
fn rfc6238_s5_2_a_second_factor_is_owed_and_each_code_works_once() {
    let browser = Browser::new(&lobby());
    let page = browser.authorize(&web_request());
    let second = browser.sign_in(&page, "joan@example.com", "demo-password-of-joan");
    assert_eq!(second.status, 200);
    let form = Form::of(&second);
    assert_eq!(form.fields, ["code"]);
    // The password alone is not enough.
    assert_eq!(
        Form::of(&browser.authorize(&web_request())).fields,
        ["code"]
    );
    let wrong = browser.submit(&form, &[("code", &wrong_code(TOTP_SECRET))]);
    assert_eq!(wrong.status, 403);

    let code = lasting_code(TOTP_SECRET);
    let done = browser.follow(&browser.submit(&form, &[("code", &code)]));
    let answer = answer(&done, WEB.redirect_uri);
    let tokens = WEB.exchange(&lobby(), parameter(&answer, "code").unwrap(), None);
    let claims = crate::token::claims(&tokens.text("access_token"));
    assert_eq!(
        claims["amr"],
        serde_json::json!(["USERNAME_PASSWORD", "TOTP"])
    );

    let thief = Browser::new(&lobby());
    let page = thief.authorize(&web_request());
    let second = thief.sign_in(&page, "joan@example.com", "demo-password-of-joan");
    let replayed = thief.submit(&Form::of(&second), &[("code", &code)]);
    assert_eq!(replayed.status, 403);
    assert!(replayed.body.contains("has been used"));
}

/// D-5.
#[test]
fn rfc6749_s3_1_2_4_an_unsafe_request_is_never_redirected() {
    let page = |parameters: &[(&str, &str)]| {
        let reply = get(
            &format!("{}/auth/authorize?{}", lobby(), form_body(parameters)),
            &[],
        );
        assert_eq!(reply.status, 400, "{parameters:?}");
        assert_eq!(reply.header("location"), None);
        assert!(
            reply
                .header("content-type")
                .unwrap()
                .starts_with("text/html")
        );
        reply.body
    };
    let redirect = ("redirect_uri", WEB.redirect_uri);
    assert!(page(&[redirect]).contains("client_id"));
    assert!(page(&[("client_id", "nobody"), redirect]).contains("client_id"));
    assert!(page(&[("client_id", "user-bound-demo"), redirect]).contains("token endpoint"));
    assert!(page(&[("client_id", WEB.id)]).contains("redirect_uri"));
    assert!(page(&[("client_id", WEB.id), ("client_id", WEB.id), redirect]).contains("client_id"));
    assert!(page(&[("client_id", WEB.id), redirect, redirect]).contains("redirect_uri"));
}

/// Compared as text.
#[test]
fn rfc9700_s4_1_3_redirect_uris_match_exactly() {
    for wrong in [
        "https://app.example.com/callback/",
        "https://app.example.com/Callback",
        "https://app.example.com/callback?x=1",
        "https://app.example.com/callback#x",
        "https://app.example.com:443/callback",
        "https://APP.example.com/callback",
        "https://app.example.com./callback",
        "https://user@app.example.com/callback",
        "https://app.example.com@evil.example.com/callback",
        "https://app.example.com/x/../callback",
        "https://app.example.com/%63allback",
        "https://app.example.com//callback",
        "https://evil.example.com/callback",
        "http://app.example.com/callback",
        "javascript:alert(1)",
        "http://127.0.0.1:8091/callback",
    ] {
        let request = [
            ("response_type", "code"),
            ("client_id", WEB.id),
            ("redirect_uri", wrong),
        ];
        let reply = get(
            &format!("{}/auth/authorize?{}", lobby(), form_body(&request)),
            &[],
        );
        assert_eq!(
            (reply.status, reply.header("location")),
            (400, None),
            "{wrong}"
        );
    }
}

/// protocol.md §5.5, RFC 8252 §7.3: only the port of a loopback redirect URI may differ.
#[test]
fn protocol_s5_5_redirect_uris_of_installed_applications() {
    let status = |redirect_uri: &str| {
        let mut request = installed_request(CHALLENGE);
        request.retain(|(name, _)| *name != "redirect_uri");
        request.push(("redirect_uri", redirect_uri));
        get(
            &format!("{}/auth/authorize?{}", lobby(), form_body(&request)),
            &[],
        )
        .status
    };
    for good in [
        "http://127.0.0.1:1/callback",
        "http://127.0.0.1:65535/callback",
        "com.example.fieldnotes:/callback",
        "https://spa.example.com/callback",
    ] {
        assert_eq!(status(good), 200, "{good}");
    }
    for bad in [
        "http://localhost:8765/callback",
        "http://127.0.0.1:8765/other",
        "http://127.0.0.2:8765/callback",
        "http://127.0.0.1:x/callback",
        "http://127.0.0.1:99999/callback",
        "com.example.fieldnotes:/other",
        "com.example.fieldnotes://callback",
    ] {
        assert_eq!(status(bad), 400, "{bad}");
    }
}

#[test]
fn other_errors_are_redirected_with_state() {
    let refused = |request: &[(&str, &str)], redirect_uri: &str| {
        let mut request = request.to_vec();
        request.push(("state", "s t"));
        let reply = get(
            &format!("{}/auth/authorize?{}", lobby(), form_body(&request)),
            &[],
        );
        let answer = answer(&reply, redirect_uri);
        assert_eq!(parameter(&answer, "state"), Some("s t"));
        assert_eq!(parameter(&answer, "iss"), Some(lobby().as_str()));
        assert_eq!(parameter(&answer, "code"), None);
        parameter(&answer, "error").unwrap().to_owned()
    };
    let web = |name: &str, value: &str| {
        let mut request: Vec<(&str, &str)> = web_request();
        request.retain(|(candidate, _)| *candidate != name);
        if !value.is_empty() {
            request.push((name, value));
        }
        refused(&request, WEB.redirect_uri)
    };
    assert_eq!(web("response_type", ""), "invalid_request");
    // There is no implicit grant.
    assert_eq!(web("response_type", "token"), "unsupported_response_type");
    assert_eq!(
        web("response_type", "code id_token"),
        "unsupported_response_type"
    );
    // D-9.
    assert_eq!(web("scope", "projects everything"), "invalid_scope");
    // D-8.
    assert_eq!(web("code_challenge", CHALLENGE), "invalid_request");
    assert_eq!(web("code_challenge_method", "S256"), "invalid_request");
    let mut twice = web_request();
    twice.extend([("scope", "projects"), ("scope", "projects")]);
    assert_eq!(refused(&twice, WEB.redirect_uri), "invalid_request");

    let installed = |changes: &[(&'static str, &'static str)]| {
        let mut request = installed_request(CHALLENGE);
        request.retain(|(name, _)| !changes.iter().any(|(changed, _)| changed == name));
        request.extend(changes.iter().filter(|(_, value)| !value.is_empty()));
        refused(&request, INSTALLED.redirect_uri)
    };
    assert_eq!(
        installed(&[("code_challenge", ""), ("code_challenge_method", "")]),
        "invalid_request"
    );
    assert_eq!(
        installed(&[("code_challenge_method", "")]),
        "invalid_request"
    );
    assert_eq!(
        installed(&[("code_challenge_method", "plain")]),
        "invalid_request"
    );
    for challenge in [
        "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-c",
        "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cMM",
        "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw+cM",
    ] {
        assert_eq!(
            installed(&[("code_challenge", challenge)]),
            "invalid_request",
            "{challenge}"
        );
    }
}

#[test]
fn rfc9700_s4_16_pages_are_guarded() {
    let browser = Browser::new(&lobby());
    let page = browser.authorize(&web_request());
    let policy = page.header("content-security-policy").unwrap();
    for directive in [
        "default-src 'none'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'self' https://app.example.com",
    ] {
        assert!(policy.contains(directive), "{directive} is not in {policy}");
    }
    assert!(!policy.contains("script"), "{policy}");
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(page.header("cache-control"), Some("no-store"));
    assert_eq!(page.header("x-frame-options"), Some("DENY"));
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert!(!page.body.contains("<script"));
}

/// The service refuses every form from another site.
#[test]
fn rfc6749_s10_13_forms_need_the_token_of_their_browser() {
    let (mine, theirs) = (Browser::new(&lobby()), Browser::new(&lobby()));
    let form = Form::of(&mine.authorize(&web_request()));
    let foreign = Form::of(&theirs.authorize(&web_request()));
    let credentials = [
        ("username", "ada@example.com"),
        ("password", "demo-password-of-ada"),
    ];
    assert_eq!(mine.submit(&foreign, &credentials).status, 403);
    let mut without = form.clone();
    without.hidden.retain(|(name, _)| name != "csrf");
    assert_eq!(mine.submit(&without, &credentials).status, 403);
    assert_eq!(
        Browser::new(&lobby()).submit(&form, &credentials).status,
        403,
        "without cookies"
    );
    assert_eq!(mine.submit(&form, &credentials).status, 303);
}

/// The service validates the query in a form again in full, so changing it gains nothing.
#[test]
fn rfc9700_s4_11_forms_cannot_redirect_elsewhere() {
    let browser = Browser::new(&lobby());
    let mut form = Form::of(&browser.authorize(&web_request()));
    for (name, value) in &mut form.hidden {
        if name == "request" {
            *value = value.replace("app.example.com", "evil.example.com");
        }
    }
    let reply = browser.submit(
        &form,
        &[
            ("username", "ada@example.com"),
            ("password", "demo-password-of-ada"),
        ],
    );
    assert_eq!((reply.status, reply.header("location")), (400, None));
}

/// Sign-out.
#[test]
fn rfc9700_s4_7_sessions_are_renewed_at_sign_in_and_end_at_sign_out() {
    let browser = Browser::new(&lobby());
    let page = browser.authorize(&web_request());
    let form = Form::of(&page);
    let credentials = [
        ("username", "ada@example.com"),
        ("password", "demo-password-of-ada"),
    ];
    let session = |reply: &crate::support::Reply| {
        let port = url::Url::parse(&lobby()).unwrap().port().unwrap();
        let name = format!("session-{port}=");
        let cookies = reply.headers.get_all("set-cookie").iter();
        let mut cookies = cookies.map(|cookie| cookie.to_str().unwrap());
        let cookie = cookies.find(|cookie| cookie.starts_with(&name)).unwrap();
        for attribute in ["HttpOnly", "SameSite=Lax", "Path=/"] {
            assert!(cookie.contains(attribute), "{cookie}");
        }
        cookie.split(';').next().unwrap().to_owned()
    };
    let first = session(&browser.submit(&form, &credentials));
    let second = session(&browser.submit(&form, &credentials));
    assert_ne!(first, second);

    let url = format!("{}/auth/authorize?{}", lobby(), form_body(&web_request()));
    let with = |cookie: &str| get(&url, &[("cookie", cookie)]).status;
    assert_eq!(with(&first), 200, "the replaced session signs in no more");
    assert_eq!(with(&second), 302);
    let home = browser.open("/auth/");
    assert!(home.body.contains("ada@example.com"));
    let signed_out = browser.submit(&Form::of(&home), &[]);
    assert_eq!(signed_out.status, 303);
    assert_eq!(with(&second), 200, "a copy of the cookie is worth nothing");
    assert!(
        browser
            .open("/auth/")
            .body
            .contains("You are not signed in")
    );
}

#[test]
fn rfc9700_s4_12_credentials_are_never_posted_on() {
    let browser = Browser::new(&lobby());
    let form = Form::of(&browser.authorize(&web_request()));
    let reply = browser.submit(
        &form,
        &[
            ("username", "ada@example.com"),
            ("password", "demo-password-of-ada"),
        ],
    );
    assert_eq!(reply.status, 303);
}

#[test]
fn the_endpoint_takes_no_other_method() {
    let reply = WEB.post(&lobby(), "/auth/authorize", &[]);
    assert_eq!(
        (reply.status, reply.header("allow")),
        (405, Some("GET, HEAD"))
    );
}

/// PKCE is optional for a web server application, and binding if used (D-25).
#[test]
fn protocol_s4_2_a_web_application_with_pkce_needs_no_secret() {
    let pkce = Pkce::of(&"v".repeat(43));
    let browser = Browser::new(&lobby());
    let code = browser.code_for(&WEB, Some(&pkce));
    let without_secret = crate::support::Client {
        secret: None,
        ..WEB
    };
    let wrong = Pkce::of(&"w".repeat(43));
    without_secret
        .exchange(&lobby(), &code, Some(&wrong))
        .assert_error(400, "invalid_grant");
    assert_eq!(
        without_secret.exchange(&lobby(), &code, Some(&pkce)).status,
        200
    );
}
