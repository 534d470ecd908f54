//! The authorization endpoint and the sign-in (protocol.md §4.1, §7.1; D-4, D-5, D-7, D-8, D-9, D-13, D-17).

use crate::support::{
    ADA, Browser, Client, Form, INSTALLED, Pkce, Reply, WEB, answer, answered, form_body, get,
    lasting_code, lobby, tags, wrong_code,
};

fn ada(browser: &Browser, page: &Reply) -> Reply {
    browser.follow(&browser.submit(&Form::of(page), &ADA))
}

fn installed_request() -> Vec<(&'static str, &'static str)> {
    let challenge = ("code_challenge", CHALLENGE);
    INSTALLED.request(&[challenge, ("code_challenge_method", "S256")])
}

/// An authorization request without a browser.
fn ask(parameters: &[(&str, &str)]) -> Reply {
    let url = format!("{}/auth/authorize?{}", lobby(), form_body(parameters));
    get(&url, &[])
}

const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

/// State is echoed byte for byte.
#[test]
fn protocol_s4_1_a_sign_in_ends_with_code_state_and_iss() {
    let browser = Browser::new(&lobby());
    let state = "a b+c&d=e%2Fé\"<>'#?";
    let ignored = ("unknown_parameter", "is ignored");
    let page = browser.authorize(&WEB.request(&[("state", state), ignored]));
    assert_eq!(page.status, 200);
    assert!(page.body.contains("Package Builder"));
    let answer = answer(&ada(&browser, &page), WEB.redirect_uri);
    let [(code, text), (_, echoed), (iss, issuer)] = answer.as_slice() else {
        panic!("{answer:?}");
    };
    assert_eq!([code, iss], ["code", "iss"]);
    assert_eq!((echoed.as_str(), issuer), (state, &lobby()));
    assert!(text.len() >= 22, "128 bits at least");
}

#[test]
fn protocol_s4_1_a_live_session_signs_in_at_once_when_there_is_one_account() {
    let browser = Browser::new(&lobby());
    ada(&browser, &browser.authorize(&WEB.request(&[])));
    let again = answer(&browser.authorize(&WEB.request(&[])), WEB.redirect_uri);
    let names: Vec<&str> = again.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["code", "iss"], "no state was sent");
}

/// The selector always shows, also with a live session, and the tokens are for the chosen account.
#[test]
fn protocol_s4_1_several_accounts_are_chosen_from() {
    let browser = Browser::new(&lobby());
    let page = browser.authorize(&WEB.request(&[]));
    let mut selector = browser.sign_in(&page, "grace@example.com", "demo-password-of-grace");
    for (position, hat, site) in [
        (0, "ghopper", "https://us1.example.com"),
        (2, "grace.hopper", "https://eu1.example.com"),
    ] {
        assert_eq!(selector.status, 200);
        let form = Form::of(&selector);
        assert_eq!(form.buttons.len(), 3);
        assert_eq!(link(&selector, "Your page"), "/auth/");
        assert!(selector.body.contains(hat) && selector.body.contains(site));
        let (name, value) = &form.buttons[position];
        let done = browser.submit(&form, &[(name, value)]);
        let code = answered(&done, WEB.redirect_uri, "code").unwrap();
        let tokens = WEB.exchange(&lobby(), &code, None);
        let claims = crate::token::claims(&tokens.text("access_token"));
        assert_eq!(
            (&claims["user_hat"], &claims["user_site"]),
            (&hat.into(), &site.into())
        );
        selector = browser.authorize(&WEB.request(&[]));
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
fn link(page: &Reply, text: &str) -> String {
    let link = tags(&page.body).find(|tag| tag.is("a") && tag.text() == text);
    let link = link.unwrap_or_else(|| panic!("no link {text:?} in {}", page.body));
    link.attribute("href").unwrap()
}

/// D-25, D-34: the verifier redeems the code without the secret, so a live session gives no such code.
#[test]
fn a_web_server_application_with_pkce_on_the_device_is_confirmed() {
    let on_device = Client {
        redirect_uri: "http://127.0.0.1:8090/callback",
        secret: None,
        ..WEB
    };
    let pkce = Pkce::of(&"v".repeat(43));
    let browser = Browser::new(&lobby());
    ada(&browser, &browser.authorize(&WEB.request(&[])));
    let code = |reply: &Reply| answered(reply, on_device.redirect_uri, "code").unwrap();
    let silent = code(&browser.authorize(&on_device.request(&[])));
    let refused = on_device.exchange(&lobby(), &silent, None);
    refused.assert_error(401, "invalid_client");

    let challenge = ("code_challenge", pkce.challenge.as_str());
    let request = on_device.request(&[challenge, ("code_challenge_method", "S256")]);
    let page = browser.authorize(&request);
    let question = "Continue as ada@example.com to Package Builder?";
    assert!(page.body.contains(question), "{}", page.body);
    let confirmed = code(&browser.submit(&Form::of(&page), &[]));
    let tokens = on_device.exchange(&lobby(), &confirmed, Some(&pkce));
    assert_eq!(tokens.status, 200, "{}", tokens.body);
}

/// D-34, RFC 8252 §8.6: any app on a device can claim a loopback address, so a live session gives no code.
#[test]
fn rfc8252_s8_6_a_public_native_client_is_confirmed_once_per_session() {
    let browser = Browser::new(&lobby());
    let request = installed_request();
    ada(&browser, &browser.authorize(&WEB.request(&[])));
    let page = browser.authorize(&request);
    let question = "Continue as ada@example.com to Field Notes?";
    assert!(page.body.contains(question), "{}", page.body);
    let code = |reply: &Reply| answered(reply, INSTALLED.redirect_uri, "code").is_some();
    assert!(code(&browser.submit(&Form::of(&page), &[])));
    assert!(code(&browser.authorize(&request)), "asked once per session");
    // The next session asks again. Signing in for the client answers the question too.
    let login = WEB.request(&[("prompt", "login")]);
    ada(&browser, &browser.authorize(&login));
    assert_eq!(browser.authorize(&request).status, 200);
    let other = Browser::new(&lobby());
    assert!(code(&ada(&other, &other.authorize(&request))));
    assert!(code(&other.authorize(&request)));
    // An https address belongs to one web server: nothing to confirm.
    let spa = "https://spa.example.com/callback";
    let mut request = request;
    request.retain(|(name, _)| *name != "redirect_uri");
    request.push(("redirect_uri", spa));
    assert!(answered(&browser.authorize(&request), spa, "code").is_some());
}

/// Gateway and pages carry a long state. The service refuses a longer one before the person types a password.
#[test]
fn a_request_that_is_too_large_to_carry_on_is_refused_at_once() {
    let browser = Browser::new(&lobby());
    let with_state = |length: usize| {
        let state = "s".repeat(length);
        browser.authorize(&WEB.request(&[("state", &state)]))
    };
    let done = ada(&browser, &with_state(11_000));
    let state = answered(&done, WEB.redirect_uri, "state").unwrap();
    assert_eq!(state.len(), 11_000);
    let page = with_state(14_000);
    assert_eq!(page.status, 400);
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
    for text in ["nicht bekannt", "nobody?", "href=\"/auth/\"", "Gatepass"] {
        assert!(page.body.contains(text), "{text} in {}", page.body);
    }
    let id = page.header("x-request-id").unwrap();
    assert!(page.body.contains(id), "{id}");
    // A form that failed leads back to the application that it is for.
    let browser = Browser::new(&lobby());
    let mut form = Form::of(&browser.authorize(&WEB.request(&[])));
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
    ada(&browser, &browser.authorize(&WEB.request(&[])));
    let early = crate::support::lobby_ea();
    let request = format!("{early}/auth/authorize?{}", form_body(&WEB.request(&[])));
    let page = browser.open(&request);
    assert_eq!(page.status, 200);
    let form = Form::of(&page);
    let there = Form {
        action: format!("{early}{}", form.action),
        ..form
    };
    assert_eq!(browser.submit_to(&there, &ADA).status, 303);
    for home in [lobby(), early] {
        let home = browser.open(&format!("{home}/auth/"));
        assert!(home.body.contains("ada@example.com"), "{}", home.body);
    }
}

#[test]
fn a_wrong_password_and_an_unknown_user_get_the_same_page() {
    let browser = Browser::new(&lobby());
    let page = browser.authorize(&WEB.request(&[]));
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
    let page = browser.authorize(&WEB.request(&[]));
    let second = browser.sign_in(&page, "joan@example.com", "demo-password-of-joan");
    assert_eq!(second.status, 200);
    let form = Form::of(&second);
    assert_eq!(form.fields, ["code"]);
    // The password without the code is not enough.
    assert_eq!(
        Form::of(&browser.authorize(&WEB.request(&[]))).fields,
        ["code"]
    );
    let wrong = browser.submit(&form, &[("code", &wrong_code(TOTP_SECRET))]);
    assert_eq!(wrong.status, 403);

    let code = lasting_code(TOTP_SECRET);
    let done = browser.follow(&browser.submit(&form, &[("code", &code)]));
    let signed_in = answered(&done, WEB.redirect_uri, "code").unwrap();
    let tokens = WEB.exchange(&lobby(), &signed_in, None);
    let claims = crate::token::claims(&tokens.text("access_token"));
    assert_eq!(
        claims["amr"],
        serde_json::json!(["USERNAME_PASSWORD", "TOTP"])
    );

    let thief = Browser::new(&lobby());
    let page = thief.authorize(&WEB.request(&[]));
    let second = thief.sign_in(&page, "joan@example.com", "demo-password-of-joan");
    let replayed = thief.submit(&Form::of(&second), &[("code", &code)]);
    assert_eq!(replayed.status, 403);
    assert!(replayed.body.contains("has been used"));
}

/// D-5. The unit tests of `protocol` have each unsafe request, and each error that is redirected.
#[test]
fn rfc6749_s3_1_2_4_an_unsafe_request_is_never_redirected() {
    let redirect = ("redirect_uri", WEB.redirect_uri);
    let wrong = ("redirect_uri", "https://app.example.com/callback/");
    for (parameters, word) in [
        (&[redirect][..], "client_id"),
        (&[("client_id", WEB.id), wrong], "redirect_uri"),
    ] {
        let reply = ask(parameters);
        assert_eq!((reply.status, reply.header("location")), (400, None));
        let kind = reply.header("content-type").unwrap();
        assert!(kind.starts_with("text/html"), "{kind}");
        assert!(reply.body.contains(word), "{word}: {}", reply.body);
        let received = format!("Received: <code>{}</code>", wrong.1);
        assert_eq!(reply.body.contains(&received), parameters.contains(&wrong));
        // The registered page of the client, and nothing that the request names.
        let way_out =
            "<a href=\"https://app.example.com/\" rel=\"noreferrer\">Return to Package Builder</a>";
        assert_eq!(reply.body.contains(way_out), parameters.contains(&wrong));
    }
    let evil = ("redirect_uri", "https://evil.example/<script>");
    let reply = ask(&[("client_id", WEB.id), evil]);
    assert!(
        reply.body.contains("https://evil.example/&#60;script&#62;"),
        "{}",
        reply.body
    );
}

/// A web server on this device is no app: the page names its address.
#[test]
fn a_page_names_the_address_to_which_the_person_is_sent() {
    let host = "127.0.0.1:8090";
    let on_device = Client {
        redirect_uri: "http://127.0.0.1:8090/callback",
        ..WEB
    };
    for (request, named) in [
        (on_device.request(&[]), host),
        (installed_request(), "an app on this device"),
    ] {
        let page = ask(&request);
        assert!(
            page.body.contains(&format!("<strong>{named}</strong>")),
            "{}",
            page.body
        );
    }
}

#[test]
fn other_errors_are_redirected_with_state() {
    // D-9.
    let request = [("state", "s t"), ("scope", "projects everything")];
    let reply = ask(&WEB.request(&request));
    let value = |name| answered(&reply, WEB.redirect_uri, name);
    assert_eq!(value("error").as_deref(), Some("invalid_scope"));
    assert_eq!(value("state").as_deref(), Some("s t"));
    assert_eq!((value("iss"), value("code")), (Some(lobby()), None));
}

#[test]
fn rfc9700_s4_16_pages_are_guarded() {
    let browser = Browser::new(&lobby());
    let page = browser.authorize(&WEB.request(&[]));
    let policy = page.header("content-security-policy").unwrap();
    for directive in [
        "default-src 'none'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ] {
        assert!(policy.contains(directive), "{directive} is not in {policy}");
    }
    let scripts = policy.split("; ").find(|it| it.starts_with("script-src"));
    assert_eq!(scripts, Some("script-src 'self'"), "{policy}");
    assert!(!policy.contains("form-action"), "{policy}");
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(page.header("cache-control"), Some("no-store"));
    assert_eq!(page.header("x-frame-options"), Some("DENY"));
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    // A file of the service, and nothing in the page itself.
    let scripts: Vec<&str> = page.body.split("<script").skip(1).collect();
    assert_eq!(scripts.len(), 1);
    assert!(
        scripts[0].starts_with(" src=\"/auth/static/pages."),
        "{}",
        scripts[0]
    );
    assert!(scripts[0].contains("defer></script>"), "{}", scripts[0]);
}

/// The service refuses every form from another site.
#[test]
fn rfc6749_s10_13_forms_need_the_token_of_their_browser() {
    let (mine, theirs) = (Browser::new(&lobby()), Browser::new(&lobby()));
    let form = Form::of(&mine.authorize(&WEB.request(&[])));
    let foreign = Form::of(&theirs.authorize(&WEB.request(&[])));
    assert_eq!(mine.submit(&foreign, &ADA).status, 403);
    let mut without = form.clone();
    without.hidden.retain(|(name, _)| name != "csrf");
    assert_eq!(mine.submit(&without, &ADA).status, 403);
    assert_eq!(
        Browser::new(&lobby()).submit(&form, &ADA).status,
        403,
        "without cookies"
    );
    assert_eq!(mine.submit(&form, &ADA).status, 303);
}

/// The service validates the query in a form again in full, so changing it gains nothing.
#[test]
fn rfc9700_s4_11_forms_cannot_redirect_elsewhere() {
    let browser = Browser::new(&lobby());
    let mut form = Form::of(&browser.authorize(&WEB.request(&[])));
    for (name, value) in &mut form.hidden {
        if name == "request" {
            *value = value.replace("app.example.com", "evil.example.com");
        }
    }
    let reply = browser.submit(&form, &ADA);
    assert_eq!((reply.status, reply.header("location")), (400, None));
}

#[test]
fn rfc9700_s4_7_sessions_are_renewed_at_sign_in() {
    let browser = Browser::new(&lobby());
    let form = Form::of(&browser.authorize(&WEB.request(&[])));
    let sign_in = || {
        let reply = browser.submit(&form, &ADA);
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
    let (first, second) = (sign_in(), sign_in());
    assert_ne!(first, second);
    let url = format!(
        "{}/auth/authorize?{}",
        lobby(),
        form_body(&WEB.request(&[]))
    );
    let with = |cookie: &str| get(&url, &[("cookie", cookie)]).status;
    assert_eq!(with(&first), 200, "the replaced session signs in no more");
    assert_eq!(with(&second), 302);
}

#[test]
fn the_endpoint_takes_no_other_method() {
    let reply = WEB.post(&lobby(), "/auth/authorize", &[]);
    assert_eq!(
        (reply.status, reply.header("allow")),
        (405, Some("GET, HEAD"))
    );
}
