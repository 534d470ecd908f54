//! Pushed authorization requests (protocol.md §4.13, D-47, RFC 9126).

use serde_json::json;
use tests::proofs::ProofKey;

use crate::api::pass;
use crate::support::{
    ADA, Browser, CREDENTIALS, Client, Form, INSTALLED, Pkce, Reply, USER_BOUND, WEB, answer,
    form_body, get, lobby, post, shared,
};

/// From RFC 7636, appendix B.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: [(&str, &str); 2] = [
    (
        "code_challenge",
        "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
    ),
    ("code_challenge_method", "S256"),
];

fn push(client: &Client, lobby: &str, more: &[(&str, &str)]) -> Reply {
    let mut request = client.request(more);
    // A public client names itself anyway.
    request.retain(|(name, _)| client.secret.is_some() || *name != "client_id");
    client.post(lobby, "/auth/par", &request)
}

fn pushed(client: &Client, lobby: &str, more: &[(&str, &str)]) -> String {
    let reply = push(client, lobby, more);
    assert_eq!(reply.status, 201, "{}", reply.body);
    reply.text("request_uri")
}

/// What the browser sends.
fn visit(browser: &Browser, client: &Client, request_uri: &str, more: &[(&str, &str)]) -> Reply {
    let own = [("client_id", client.id), ("request_uri", request_uri)];
    browser.authorize(&[&own, more].concat())
}

/// Signs Ada in. Returns the parameters of the answer at the redirect URI.
fn ada(browser: &Browser, page: &Reply, client: &Client) -> Vec<(String, String)> {
    let done = browser.follow(&browser.submit(&Form::of(page), &ADA));
    answer(&done, client.redirect_uri)
}

fn value<'a>(answer: &'a [(String, String)], name: &str) -> &'a str {
    let found = answer.iter().find(|(found, _)| found == name);
    found
        .map(|(_, value)| value.as_str())
        .unwrap_or_else(|| panic!("{name}: {answer:?}"))
}

/// RFC 9126 §2.2, §4: nothing that the browser adds or changes counts.
#[test]
fn rfc9126_s4_the_request_is_the_one_that_was_pushed() {
    let (lobby, browser) = (lobby(), Browser::new(&lobby()));
    let more = [
        ("state", "of the push"),
        ("scope", "projects"),
        CHALLENGE[0],
        CHALLENGE[1],
    ];
    let reply = push(&WEB, &lobby, &more);
    assert_eq!(reply.status, 201, "{}", reply.body);
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(reply.json()["expires_in"], 60);
    let request_uri = reply.text("request_uri");
    assert!(request_uri.starts_with("urn:ietf:params:oauth:request_uri:"));
    assert!(!request_uri.contains("projects"));
    let forged = [
        ("redirect_uri", "https://evil.example/"),
        ("state", "of the browser"),
        ("scope", "documents"),
        ("prompt", "none"),
        ("response_type", "token"),
    ];
    let page = visit(&browser, &WEB, &request_uri, &forged);
    assert_eq!(page.status, 200, "{}", page.body);
    let answer = ada(&browser, &page, &WEB);
    assert_eq!(value(&answer, "state"), "of the push");
    let pkce = Pkce::of(VERIFIER);
    let issued = WEB.exchange(&lobby, value(&answer, "code"), Some(&pkce));
    let access = issued.text("access_token");
    assert_eq!(crate::token::claims(&access)["scope"], "projects");
}

/// Nobody opened the address: a browser prefetches it, or a program looks whether it is there.
#[test]
fn a_look_at_the_address_issues_no_code_and_uses_up_no_request() {
    let (lobby, browser) = (lobby(), Browser::new(&lobby()));
    let page = visit(&browser, &WEB, &pushed(&WEB, &lobby, &[]), &[]);
    ada(&browser, &page, &WEB);
    let request_uri = pushed(&WEB, &lobby, &[]);
    let own = form_body(&[("client_id", WEB.id), ("request_uri", &request_uri)]);
    let address = format!("/auth/authorize?{own}");
    for (method, header, status) in [
        ("HEAD", ("accept", "*/*"), 200),
        ("GET", ("sec-purpose", "prefetch;prerender"), 403),
        ("GET", ("purpose", "Prefetch"), 403),
        ("HEAD", ("sec-purpose", "prefetch"), 403),
    ] {
        let looked = browser.look(method, &address, header);
        let answered = (looked.status, looked.header("location"));
        assert_eq!(answered, (status, None), "{method} {header:?}");
        assert_eq!(looked.header("cache-control"), Some("no-store"));
    }
    let answer = answer(&browser.open(&address), WEB.redirect_uri);
    assert!(!value(&answer, "code").is_empty());
}

/// RFC 9449 §10.1: a proof with the push names the key, as `dpop_jkt` does.
#[test]
fn rfc9449_s10_1_a_proof_binds_the_code_to_its_key() {
    let (lobby, browser) = (lobby(), Browser::new(&lobby()));
    let (key, other) = (
        ProofKey::new("ES256").unwrap(),
        ProofKey::new("ES256").unwrap(),
    );
    let prove =
        |key: &ProofKey, path: &str| key.proof("POST", &format!("{lobby}{path}"), None).unwrap();
    let sign = |key: &ProofKey, path: &str| key.sign(&prove(key, path)).unwrap();
    let push = |more: &[(&str, &str)], proof: &str| {
        let proof = [("dpop", proof.to_owned())];
        WEB.post_with(&lobby, "/auth/par", &WEB.request(more), &proof)
    };
    // The endpoints remember proofs apart.
    let id = json!("one id for two endpoints");
    let used = key.sign(&prove(&key, "/auth/par").claim("jti", id.clone()));
    let used = used.unwrap();
    let reply = push(&[], &used);
    assert_eq!(reply.status, 201, "{}", reply.body);
    let same_id = key.sign(&prove(&key, "/auth/token").claim("jti", id));
    let issued = USER_BOUND.proven(&lobby, &CREDENTIALS, &[same_id.unwrap()]);
    assert_eq!(issued.status, 200, "{}", issued.body);
    assert!(reply.header("dpop-nonce").is_some());
    let jkt = key.confirmation()["jkt"].as_str().unwrap().to_owned();
    for (what, refused) in [
        ("used before", push(&[], &used)),
        (
            "for the token endpoint",
            push(&[], &sign(&key, "/auth/token")),
        ),
        (
            "of another key than dpop_jkt",
            push(&[("dpop_jkt", &jkt)], &sign(&other, "/auth/par")),
        ),
    ] {
        assert_eq!(refused.status, 400, "{what}: {}", refused.body);
        assert_eq!(refused.json()["error"], "invalid_dpop_proof", "{what}");
        assert!(refused.header("dpop-nonce").is_some(), "{what}");
    }
    let page = visit(&browser, &WEB, &reply.text("request_uri"), &[]);
    let answer = ada(&browser, &page, &WEB);
    let code = value(&answer, "code");
    let exchange = |key: &ProofKey| {
        let proofs = [sign(key, "/auth/token")];
        WEB.proven(&lobby, &WEB.exchange_fields(code, None), &proofs)
    };
    assert_eq!(exchange(&other).json()["error"], "invalid_grant");
    assert_eq!(exchange(&key).json()["token_type"], "DPoP");
}

/// RFC 9126 §4: one code, no matter who asks and how often, and nothing for another client.
#[test]
fn rfc9126_s4_a_request_yields_one_code_for_its_client() {
    let (lobby, browser) = (lobby(), Browser::new(&lobby()));
    let request_uri = pushed(&WEB, &lobby, &[]);
    let other = visit(&browser, &INSTALLED, &request_uri, &[]);
    assert_eq!(other.status, 400, "{}", other.body);
    assert!(
        other.body.contains("request_uri must be one"),
        "{}",
        other.body
    );
    let changed = format!("{request_uri}A");
    for unknown in [
        "urn:ietf:params:oauth:request_uri:AAAA",
        "https://evil.example/r",
        &changed,
    ] {
        assert_eq!(visit(&browser, &WEB, unknown, &[]).status, 400, "{unknown}");
    }
    let page = visit(&browser, &WEB, &request_uri, &[]);
    let second_page = visit(&browser, &WEB, &request_uri, &[]);
    let first = ada(&browser, &page, &WEB);
    let code = value(&first, "code").to_owned();
    // The page of another tab, and the request once more.
    for again in [
        ada(&browser, &second_page, &WEB),
        answer(&visit(&browser, &WEB, &request_uri, &[]), WEB.redirect_uri),
    ] {
        assert_eq!(value(&again, "error"), "invalid_request_uri", "{again:?}");
    }
    assert_eq!(WEB.exchange(&lobby, &code, None).status, 200);
}

/// Many browsers at once, each signed in already.
#[test]
fn rfc9126_s4_of_parallel_visits_one_gets_a_code() {
    let lobby = lobby();
    let browsers: Vec<Browser> = (0..8).map(|_| Browser::new(&lobby)).collect();
    for browser in &browsers {
        browser.code_for(&WEB, None);
    }
    let request_uri = pushed(&WEB, &lobby, &[]);
    let codes: usize = std::thread::scope(|scope| {
        let visits: Vec<_> = browsers
            .iter()
            .map(|browser| scope.spawn(|| visit(browser, &WEB, &request_uri, &[])))
            .collect();
        let replies = visits.into_iter().map(|visit| visit.join().unwrap());
        let answers = replies.map(|reply| answer(&reply, WEB.redirect_uri));
        answers
            .filter(|answer| answer.iter().any(|(name, _)| name == "code"))
            .count()
    });
    assert_eq!(codes, 1);
}

/// RFC 9126 §2.1, §2.3: client authentication as at the token endpoint, then validation as at the authorization endpoint.
#[test]
fn rfc9126_s2_3_what_cannot_be_pushed() {
    let lobby = lobby();
    let inside = pushed(&WEB, &lobby, &[]);
    let wrong = Client {
        secret: Some("wrong"),
        ..WEB
    };
    let without = Client {
        secret: None,
        ..WEB
    };
    let elsewhere = Client {
        redirect_uri: "https://evil.example/",
        ..WEB
    };
    let long = "x".repeat(13 * 1024);
    for (client, more, status, error) in [
        (
            WEB,
            &[("request_uri", &*inside)][..],
            400,
            "invalid_request",
        ),
        (WEB, &[("scope", "projects admin")], 400, "invalid_scope"),
        (WEB, &[("prompt", "none login")], 400, "invalid_request"),
        (
            WEB,
            &[("state", "1"), ("state", "2")],
            400,
            "invalid_request",
        ),
        (WEB, &[("state", &long)], 400, "invalid_request"),
        (INSTALLED, &[], 400, "invalid_request"),
        (USER_BOUND, &[], 400, "unauthorized_client"),
        (wrong, &[], 401, "invalid_client"),
        (without, &[], 401, "invalid_client"),
        (elsewhere, &[], 400, "invalid_request"),
    ] {
        push(&client, &lobby, more).assert_error(status, error);
    }
    let url = format!("{lobby}/auth/par");
    let implicit = [
        ("response_type", "token"),
        ("client_id", WEB.id),
        ("redirect_uri", WEB.redirect_uri),
    ];
    let basic = [("authorization", WEB.basic())];
    post(&url, &basic, &form_body(&implicit)).assert_error(400, "unsupported_response_type");
    let method = get(&url, &[]);
    method.assert_error(405, "method_not_allowed");
    // A public client names itself, as at the token endpoint, and may call from its own page.
    assert_eq!(push(&INSTALLED, &lobby, &CHALLENGE).status, 201);
    let origin = [("origin", "https://spa.example.com".to_owned())];
    let request = INSTALLED.request(&CHALLENGE);
    let from_page = post(&url, &origin, &form_body(&request));
    assert_eq!(from_page.status, 201, "{}", from_page.body);
    assert_eq!(
        from_page.header("access-control-allow-origin"),
        Some("https://spa.example.com")
    );
}

/// RFC 9126 §5, §6.
#[test]
fn rfc9126_s6_a_client_may_be_registered_for_pushed_requests_alone() {
    let (own, lobby) = (shared(), lobby());
    let url = format!("{lobby}/.well-known/oauth-authorization-server");
    let metadata = get(&url, &[]).json();
    let endpoint = &metadata["pushed_authorization_request_endpoint"];
    assert_eq!(*endpoint, json!(format!("{lobby}/auth/par")));
    assert_eq!(metadata["require_pushed_authorization_requests"], false);
    let client = own.register("web_server", json!({"redirect_uris": [WEB.redirect_uri]}));
    let set = |demand: &str| own.done(&format!("client update {} --{demand}", client.id));
    let browser = Browser::new(&lobby);
    let unpushed = || {
        let reply = browser.authorize(&client.request(&[]));
        answer(&reply, client.redirect_uri)
    };
    set("require-pushed-requests");
    assert_eq!(value(&unpushed(), "error"), "invalid_request");
    let page = visit(&browser, &client, &pushed(&client, &lobby, &[]), &[]);
    value(&ada(&browser, &page, &client), "code");
    let shown = own.done(&format!("client show {}", client.id));
    assert!(shown.contains("Pushed requests only"), "{shown}");
    set("allow-unpushed-requests");
    value(&unpushed(), "code");
}

/// `prompt` takes effect once, at the first visit; the language of the pages at every step.
#[test]
fn a_pushed_request_takes_the_same_way_as_another() {
    let (lobby, browser) = (lobby(), Browser::new(&lobby()));
    browser.code_for(&WEB, None);
    let none = pushed(&WEB, &lobby, &[("prompt", "none")]);
    value(
        &answer(&visit(&browser, &WEB, &none, &[]), WEB.redirect_uri),
        "code",
    );
    let login = pushed(&WEB, &lobby, &[("prompt", "login"), ("ui_locales", "de")]);
    let page = visit(&browser, &WEB, &login, &[]);
    assert_eq!(page.status, 200, "a live session is not enough");
    assert!(page.body.contains("lang=\"de\""), "{}", page.body);
    let wrong = browser.submit(&Form::of(&page), &[ADA[0], ("password", "wrong")]);
    assert!(wrong.body.contains("lang=\"de\""), "{}", wrong.body);
    value(&ada(&browser, &wrong, &WEB), "code");
}

/// Somebody at an unattended browser with a live session has the address of the request, and the hidden field of its page.
#[test]
fn rfc9126_s4_nobody_at_the_browser_removes_the_demand_for_a_sign_in() {
    let (lobby, browser) = (lobby(), Browser::new(&lobby()));
    browser.code_for(&WEB, None);
    // The sign-in must be from before the request.
    pass(0);
    for demand in [("prompt", "login"), ("max_age", "0")] {
        let request_uri = pushed(&WEB, &lobby, &[demand]);
        let page = visit(&browser, &WEB, &request_uri, &[]);
        let form = Form::of(&page);
        let hidden = form.hidden.iter().find(|(name, _)| name == "request");
        let (_, later) = hidden.unwrap();
        let asked = browser.open(later);
        assert_eq!(asked.status, 200, "{demand:?}: {}", asked.body);
        let own = [("client_id", WEB.id), ("request_uri", &request_uri)];
        let first = format!("/auth/authorize?{}", form_body(&own));
        for request in [&first, later] {
            let mut hidden = form.hidden.clone();
            hidden.retain(|(name, _)| name != "request");
            hidden.push(("request".to_owned(), request.clone()));
            let confirm = Form {
                action: "/auth/continue".to_owned(),
                hidden,
                ..form.clone()
            };
            let asked = browser.follow(&browser.submit(&confirm, &[]));
            let fields = Form::of(&asked).fields;
            assert_eq!(fields, ["username", "password"], "{demand:?}: {request}");
        }
        value(&ada(&browser, &page, &WEB), "code");
        pass(0);
    }
}
