//! People who sign in with their company's identity provider (protocol.md §5.15), against a provider that says what a test wants. The
//! tests of `browser` have a real one.

use std::cell::Cell;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;
use url::form_urlencoded::parse;

use crate::api::until;
use crate::support::{
    Browser, Form, LEGACY, MailServer, OwnPair, Reply, Said, ScriptedProvider, WEB, answered, call,
    database, form_body, get, lasting_code, logon, now, post,
};
use crate::token::claims;

/// The secret of an authenticator app.
const SECRET: &str = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
/// `id` of the provider in the configuration.
const ID: &str = "contoso";

/// A pair whose only provider is scripted, and the person `lin@example.com` who is linked to `sub-of-lin`.
struct Company {
    pair: OwnPair,
    provider: ScriptedProvider,
    jti: Cell<u32>,
}

impl Company {
    fn start(more: &str) -> Self {
        let provider = ScriptedProvider::start();
        let pair = OwnPair::with_identity_providers(|_| provider.entry(ID, more));
        let company = Self {
            pair,
            provider,
            jti: Cell::new(0),
        };
        company.put_user("lin@example.com", json!({}));
        company.link("lin@example.com", "sub-of-lin");
        company.says(json!({"sub": "sub-of-lin"}));
        company
    }

    fn put_user(&self, username: &str, mut members: Value) {
        members["username"] = json!(username);
        members["accounts"] = json!([
            {"user_id": format!("id-of-{username}"), "username": "hat", "site": "https://us1.example.com"}
        ]);
        self.pair.change("POST", "/users", &members.to_string());
    }

    fn link(&self, username: &str, subject: &str) {
        let issuer = self.provider.issuer();
        self.pair.done(&format!(
            "user link-identity {username} --issuer {issuer} --subject {subject}"
        ));
    }

    /// The next ID tokens have these claims in addition to the usual ones.
    fn says(&self, claims: Value) {
        self.provider.sign_with(json!({}), claims);
    }

    fn browser(&self) -> Browser {
        Browser::new(&self.pair.lobby())
    }

    /// Presses the button of the provider on the sign-in page for [`WEB`]. Returns the address of the provider.
    fn leave(&self, browser: &Browser) -> Url {
        self.leave_with(browser, &WEB.request(&[]))
    }

    fn leave_with(&self, browser: &Browser, request: &[(&str, &str)]) -> Url {
        leave_from(browser, &browser.authorize(request))
    }

    /// The address to which the provider sends the browser back.
    fn back(&self, at_provider: &Url) -> String {
        let reply = Browser::new("http://127.0.0.1").open(at_provider.as_str());
        reply.header("location").unwrap().to_owned()
    }

    /// Signs in with the provider. Returns what follows the callback.
    fn sign_in(&self, browser: &Browser) -> Reply {
        browser.open(&self.back(&self.leave(browser)))
    }

    /// A code for [`WEB`], not redeemed.
    fn code(&self, browser: &Browser) -> String {
        let done = browser.follow(&self.sign_in(browser));
        answered(&done, WEB.redirect_uri, "code").unwrap()
    }

    fn tokens(&self, code: &str) -> Reply {
        WEB.exchange(&self.pair.lobby(), code, None).done()
    }

    /// A logout token, with these members in place of the usual ones.
    fn logout_token(&self, header: Value, more: Value) -> String {
        self.jti.set(self.jti.get() + 1);
        let mut claims = json!({
            "sub": "sub-of-lin", "nonce": null, "auth_time": null, "jti": format!("jti-{}", self.jti.get()),
            "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
        });
        let all = claims.as_object_mut().unwrap();
        all.extend(more.as_object().unwrap().clone());
        self.provider.sign(&header, &claims)
    }

    fn logout_url(&self) -> String {
        format!("{}/auth/provider/{ID}/logout", self.pair.lobby())
    }

    fn log_out(&self, token: &str) -> Reply {
        log_out(&self.logout_url(), token)
    }

    /// No session began, and the page offers the password.
    #[track_caller]
    fn assert_stopped(&self, browser: &Browser, page: &Reply, status: u16, says: &str) {
        assert_eq!(page.status, status, "{}", page.body);
        assert!(page.body.contains(says), "{says}: {}", page.body);
        let home = browser.open("/auth/");
        assert!(home.body.contains("Sign in to your page"), "{}", home.body);
    }
}

fn log_out(url: &str, token: &str) -> Reply {
    let form = "application/x-www-form-urlencoded".to_owned();
    post(
        url,
        &[("content-type", form)],
        &form_body(&[("logout_token", token)]),
    )
}

/// Presses the button of the provider on `page`.
#[track_caller]
fn leave_from(browser: &Browser, page: &Reply) -> Url {
    assert!(page.body.contains("Sign in with"), "{}", page.body);
    let form = Form {
        action: "/auth/provider".to_owned(),
        ..Form::of(page)
    };
    let left = browser.submit(&form, &[("provider", ID)]);
    assert_eq!(left.status, 303, "{}", left.body);
    Url::parse(left.header("location").unwrap()).unwrap()
}

fn sent(address: &Url, name: &str) -> Option<String> {
    let mut pairs = address.query_pairs();
    Some(pairs.find(|(known, _)| known == name)?.1.into_owned())
}

const FAILED: &str = "The sign-in with Company contoso failed";
const SIGNED_OUT: &str = "Company contoso signed you out while you signed in here";
const NOBODY: &str = "No access with this sign-in";

#[test]
fn the_provider_begins_and_ends_a_sign_in() {
    let company = Company::start("");
    let lobby = company.pair.lobby();
    let says = |sid: &str| {
        company.says(json!({
            "sub": "sub-of-lin", "sid": sid, "amr": ["pwd", "mfa", "TOTP", "RECOVERY_CODE"], "auth_time": now() - 300,
        }));
    };
    says("one");
    let browser = company.browser();
    let at_provider = company.leave(&browser);
    let at = |name: &str| sent(&at_provider, name).unwrap();
    assert_eq!(at("redirect_uri"), format!("{lobby}/auth/provider/{ID}"));
    assert_eq!((&*at("scope"), &*at("response_type")), ("openid", "code"));
    assert_eq!(sent(&at_provider, "prompt"), None);
    let done = browser.follow(&browser.open(&company.back(&at_provider)));
    let code = answered(&done, WEB.redirect_uri, "code").unwrap();
    let [redeemed] = &company.provider.requests("/token")[..] else {
        panic!("one request for the ID token");
    };
    let form = parse(redeemed.body.as_bytes());
    let (_, verifier) = form
        .into_owned()
        .find(|(name, _)| name == "code_verifier")
        .unwrap();
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier));
    assert_eq!(at("code_challenge"), challenge);

    let tokens = company.tokens(&code);
    let access = tokens.text("access_token");
    let issued = claims(&access);
    assert_eq!(issued["sub"], "lin@example.com");
    assert_eq!(issued["amr"], json!(["IDENTITY_PROVIDER", "pwd", "mfa"]));
    assert!(issued["auth_time"].as_u64().unwrap() <= now() - 300);
    assert_eq!(issued.get("acr"), None);
    assert_eq!(company.pair.call(&access), 200);

    // The same person in another session there, and with a code that is not redeemed.
    says("two");
    let other = company.browser();
    let other_access = company.tokens(&company.code(&other)).text("access_token");
    let unredeemed = browser.authorize(&WEB.request(&[]));
    let unredeemed = answered(&unredeemed, WEB.redirect_uri, "code").unwrap();

    let typ = || json!({"typ": "logout+jwt"});
    let refused = |token: &str, says: &str| {
        let reply = company.log_out(token);
        let description = reply.assert_error(400, "invalid_request");
        assert!(description.contains(says), "{description}");
    };
    // The unit tests of `protocol` have each claim.
    let nonce = json!({"sid": "one", "nonce": "n"});
    refused(&company.logout_token(typ(), nonce), "it has a nonce");
    let iss = json!({"sid": "one", "iss": "https://other.example"});
    refused(&company.logout_token(typ(), iss), "iss");
    refused(
        &company.logout_token(json!({"kid": "unknown"}), json!({"sid": "one"})),
        "key",
    );
    refused(&company.provider.sign(&json!({}), &json!({})), "events");
    refused("no token", "is not a JWT");
    assert_eq!(company.pair.call(&access), 200);
    // Those that the provider signed: what should have ended goes on.
    until("the audit log has what was refused", || {
        let audit = company
            .pair
            .json("audit --action provider_sign_out_refused");
        let items = audit["items"].as_array().unwrap();
        let details = items.iter().map(|entry| entry["detail"].as_str().unwrap());
        let has_nonce =
            |detail: &str| detail.starts_with("identity provider contoso: it has a nonce");
        assert!(items.len() <= 2, "{audit}");
        items.len() == 2 && details.into_iter().any(has_nonce)
    });

    let token = company.logout_token(typ(), json!({"sid": "one"}));
    assert_eq!(company.log_out(&token).status, 200);
    company.pair.until_refused(&access);
    let refresh = WEB.refresh(&lobby, &tokens.text("refresh_token"));
    refresh.assert_error(400, "invalid_grant");
    let late = WEB.exchange(&lobby, &unredeemed, None);
    late.assert_error(400, "invalid_grant");
    let home = browser.open("/auth/");
    assert!(home.body.contains("Sign in to your page"), "{}", home.body);
    refused(&token, "used before");
    assert_eq!(company.pair.call(&other_access), 200);
    let audit = company.pair.json("audit --action provider_sign_out");
    assert_eq!(audit["items"][0]["username"], "lin@example.com");

    // Of a person to whom nobody is linked: nothing to end.
    let nobody = company.logout_token(typ(), json!({"sub": "sub-of-nobody"}));
    assert_eq!(company.log_out(&nobody).status, 200);
    assert_eq!(company.pair.call(&other_access), 200);

    // A logout that overtakes its sign-in. The tests of the stores have what else a logout ends.
    says("three");
    let overtaken = company.browser();
    let back = company.back(&company.leave(&overtaken));
    let early = company.logout_token(typ(), json!({"sid": "three"}));
    assert_eq!(company.log_out(&early).status, 200);
    let page = overtaken.open(&back);
    company.assert_stopped(&overtaken, &page, 403, SIGNED_OUT);
    let audit = company.pair.json("audit --action sign_in_refused");
    let detail = audit["items"][0]["detail"].as_str().unwrap();
    assert!(detail.contains("signed the person out"), "{audit}");
}

/// D-65: the browser of a lost device is still signed in at the provider, to which the application leads straight.
#[test]
fn a_browser_that_was_signed_out_does_not_come_back_by_itself() {
    let company = Company::start("");
    let issuer = company.provider.issuer();
    let members = json!({"redirect_uris": ["https://app.example.com/callback"], "identity_providers": [issuer]});
    let straight = company.pair.register("web_server", members);
    let says = |auth_time: u64| company.says(json!({"sub": "sub-of-lin", "auth_time": auth_time}));
    let long_ago = now() - 3600;
    let at_once = |browser: &Browser| {
        let left = browser.authorize(&straight.request(&[]));
        assert_eq!(left.status, 302, "{}", left.body);
        let at_provider = Url::parse(left.header("location").unwrap()).unwrap();
        assert!(at_provider.as_str().starts_with(issuer), "{at_provider}");
        browser.open(&company.back(&at_provider))
    };
    let has_code = |browser: &Browser, reply: &Reply| {
        let done = browser.follow(reply);
        answered(&done, straight.redirect_uri, "code").is_some()
    };
    let [lost, own] = [(); 2].map(|()| company.browser());
    says(long_ago);
    assert!(has_code(&lost, &at_once(&lost)));
    says(now());
    company.code(&own);
    let ended = own.submit(&Form::of(&own.open("/auth/end?session=others")), &[]);
    assert_eq!(ended.status, 200, "{}", ended.body);
    // Silently, it comes back to the provider and not to the application.
    says(long_ago);
    let again = at_once(&lost);
    assert_eq!(again.status, 302, "{}", again.body);
    let again = Url::parse(again.header("location").unwrap()).unwrap();
    assert!(again.as_str().starts_with(issuer), "{again}");
    assert_eq!(sent(&again, "prompt").as_deref(), Some("login"));
    // A provider that does not ask is noticed.
    let page = lost.open(&company.back(&again));
    company.assert_stopped(&lost, &page, 403, "did not ask you to sign in again");
    // Somebody who knows the password there may come back, and the browser in which the person ended the others never left.
    says(now());
    assert!(has_code(&lost, &at_once(&lost)));
    let home = own.open("/auth/").body;
    assert!(
        home.contains("does not sign you out at <bdi><strong>Company contoso"),
        "{home}"
    );

    // Signed out here: the page with the button, also from an application that leads straight to the provider, until somebody signs in.
    let form = Form::of(&lost.open("/auth/"));
    assert_eq!(form.action, "/auth/sign-out");
    lost.submit(&form, &[]);
    for _ in 0..2 {
        let page = lost.authorize(&straight.request(&[]));
        assert_eq!(page.status, 200, "{}", page.body);
    }
    let page = lost.authorize(&straight.request(&[]));
    let at_provider = leave_from(&lost, &page);
    let back = lost.open(&company.back(&at_provider));
    let mut cookies = back.headers.get_all("set-cookie").iter();
    let removed = |cookie: &str| cookie.starts_with("signed-out") && cookie.contains("Max-Age=0");
    assert!(
        cookies.any(|cookie| removed(cookie.to_str().unwrap())),
        "{back:?}"
    );
    assert!(has_code(&lost, &back));
}

#[test]
fn no_other_token_is_believed() {
    let company = Company::start("");
    // The unit tests of `protocol` have each claim and header.
    for (header, claim, value) in [
        (json!({}), "nonce", json!("another")),
        (json!({}), "iss", json!("https://other.example")),
        (json!({}), "auth_time", json!(null)),
        (json!({"kid": "another"}), "sub", json!("sub-of-lin")),
    ] {
        let mut claims = json!({"sub": "sub-of-lin"});
        claims[claim] = value;
        company.provider.sign_with(header, claims);
        let browser = company.browser();
        let page = company.sign_in(&browser);
        company.assert_stopped(&browser, &page, 403, FAILED);
    }
    let audit = company.pair.json("audit --action sign_in_refused");
    let mut entries = audit["items"].as_array().unwrap().iter();
    // As Entra's without the optional claim: the operator reads what to add.
    let lacks = |entry: &Value| {
        let detail = entry["detail"].as_str();
        detail.is_some_and(|detail| detail.contains("auth_time is missing"))
    };
    assert!(entries.any(lacks), "{audit}");
    // What the provider signs is no access token of ours, whatever it says.
    let ours = json!({
        "iss": company.pair.lobby(), "aud": company.pair.pair.api_url(), "client_id": WEB.id, "jti": "1", "scope": "projects",
    });
    for iss in [
        json!(company.pair.lobby()),
        json!(company.provider.issuer()),
    ] {
        let mut claims = ours.clone();
        claims["iss"] = iss;
        let token = company.provider.sign(&json!({"typ": "at+jwt"}), &claims);
        assert_eq!(call(&company.pair.pair.api_url(), &token).status, 401);
    }
}

#[test]
fn only_the_browser_that_left_comes_back_and_once() {
    let lobby_of = |entry: String| OwnPair::with_identity_providers(|_| entry);
    let (one, other) = (ScriptedProvider::start(), ScriptedProvider::start());
    let domain = "email_domains = [\"contoso.example\"]";
    let pair = lobby_of(one.entry(ID, domain) + &other.entry("fabrikam", ""));
    let company = Company {
        pair,
        provider: one,
        jti: Cell::new(0),
    };
    company.put_user("lin@example.com", json!({}));
    company.link("lin@example.com", "sub-of-lin");
    company.says(json!({"sub": "sub-of-lin"}));
    other.sign_with(json!({}), json!({"sub": "sub-of-lin"}));
    const OVER: &str = "This sign-in was not started in this browser, or it has expired";

    // Login CSRF: the address of the attacker's sign-in in the browser of somebody else, which knows the service or does not.
    let attacker = company.browser();
    let back = company.back(&company.leave(&attacker));
    let victim = company.browser();
    victim.authorize(&WEB.request(&[]));
    let page = victim.open(&back);
    company.assert_stopped(&victim, &page, 400, OVER);
    let page = company.browser().open(&back);
    assert_eq!(page.status, 403, "{}", page.body);
    // It was not used up.
    assert_eq!(attacker.open(&back).status, 303);
    // Replayed, also by the browser itself.
    let page = attacker.open(&back);
    assert_eq!(page.status, 400, "{}", page.body);
    assert!(page.body.contains(OVER), "{}", page.body);

    // Mix-up: the answer of one provider at the address of the other, and with the name of the other.
    let browser = company.browser();
    let back = company.back(&company.leave(&browser));
    let mixed = back.replace(&format!("/{ID}?"), "/fabrikam?");
    company.assert_stopped(&browser, &browser.open(&mixed), 400, OVER);
    let iss = form_body(&[("iss", company.provider.issuer())]);
    for (instead, says) in [
        (form_body(&[("iss", other.issuer())]), FAILED),
        ("x=y".to_owned(), FAILED),
    ] {
        let browser = company.browser();
        let back = company.back(&company.leave(&browser));
        assert!(back.contains(&iss), "{back}");
        let page = browser.open(&back.replace(&iss, &instead));
        company.assert_stopped(&browser, &page, 403, says);
    }
    // A changed state, and one of another kind of sealed text.
    let browser = company.browser();
    let back = company.back(&company.leave(&browser));
    let state = sent(&Url::parse(&back).unwrap(), "state").unwrap();
    for changed in [state[1..].to_owned(), format!("{state}A"), String::new()] {
        let page = browser.open(&back.replace(&state, &changed));
        company.assert_stopped(&browser, &page, 400, OVER);
    }

    // Two tabs: the second begins before the first is back.
    let browser = company.browser();
    let first = company.leave_with(&browser, &WEB.request(&[("state", "first")]));
    let second = company.leave_with(&browser, &WEB.request(&[("state", "second")]));
    for (at_provider, state) in [(first, "first"), (second, "second")] {
        let done = browser.follow(&browser.open(&company.back(&at_provider)));
        assert_eq!(
            answered(&done, WEB.redirect_uri, "state").as_deref(),
            Some(state)
        );
    }

    // Nobody has opened the address.
    let browser = company.browser();
    let back = company.back(&company.leave(&browser));
    assert_eq!(browser.look("HEAD", &back, ("x", "y")).status, 200);
    let prefetched = browser.look("GET", &back, ("sec-purpose", "prefetch"));
    assert_eq!(prefetched.status, 403);
    assert_eq!(browser.open(&back).status, 303);
    // A client that names a provider does not take a sign-in with another one.
    let members = json!({"redirect_uris": ["https://app.example.com/callback"], "identity_providers": [other.issuer()]});
    let stricter = company.pair.register("web_server", members);
    let page = browser.authorize(&stricter.request(&[]));
    assert_eq!(page.status, 200, "{}", page.body);
    assert!(
        page.body.contains("Sign in with <bdi>Company fabrikam"),
        "{}",
        page.body
    );
    // Nor does a link swap the person who is signed in without a page.
    let hinted = WEB.request(&[("prompt", "login"), ("login_hint", "lin@contoso.example")]);
    assert_eq!(browser.authorize(&hinted).status, 200);

    // Cancelled, and other errors.
    for (error, says) in [
        ("access_denied", "Company contoso did not sign you in"),
        ("server_error", FAILED),
        ("<script>", FAILED),
    ] {
        let browser = company.browser();
        let back = company.back(&company.leave(&browser));
        let page = browser.open(&back.replace("code=a-code", &form_body(&[("error", error)])));
        company.assert_stopped(&browser, &page, 403, says);
    }
    // A button of a provider that does not exist, and one without the token of the browser.
    let page = browser.authorize(&WEB.request(&[("prompt", "login")]));
    let form = Form {
        action: "/auth/provider".to_owned(),
        ..Form::of(&page)
    };
    assert_eq!(browser.submit(&form, &[("provider", "nobody")]).status, 404);
    assert_eq!(
        company.browser().submit(&form, &[("provider", ID)]).status,
        403
    );
}

#[test]
fn an_address_links_only_where_the_operator_says_so() {
    let mail = MailServer::start("plain");
    let links = "link_by_email = true\nemail_domains = [\"contoso.example\"]\n";
    let company = Company::start(&format!("{links}{}", mail.configuration()));
    company.put_user("kim", json!({"email": "Kim@Contoso.example"}));
    let signs_in = |subject: &str, email: &str, verified: Value| {
        company.says(json!({"sub": subject, "email": email, "email_verified": verified}));
        let browser = company.browser();
        let reply = company.sign_in(&browser);
        (browser, reply)
    };
    // `token-service` has in its unit tests which address links whom.
    let (browser, page) = signs_in("sub-of-a-stranger", "kim@contoso.example", json!(false));
    company.assert_stopped(&browser, &page, 200, NOBODY);
    let (browser, reply) = signs_in("sub-of-kim", "kim@contoso.example", json!(true));
    let done = browser.follow(&reply);
    let code = answered(&done, WEB.redirect_uri, "code").unwrap();
    let token = company.tokens(&code).text("access_token");
    assert_eq!(claims(&token)["sub"], "kim");
    let shown = company.pair.json("user show kim");
    assert_eq!(
        shown["identities_by_email"][0]["subject"], "sub-of-kim",
        "{shown}"
    );
    let audit = company.pair.json("audit --action identity_linked");
    assert_eq!(audit["items"][0]["username"], "kim");
    // The person is told (D-64).
    let told = mail.message(1);
    assert_eq!(told.to, ["Kim@Contoso.example"]);
    assert!(
        told.header("Subject")
            .starts_with("Gatepass: sign-in with ")
    );
    assert!(told.text.contains("for the first time as kim"), "{told:?}");
    // The address has gone to another person there: the link stays with the first. The page is the same whoever exists.
    let page = |email: &str| {
        let (browser, page) = signs_in("sub-of-the-next-kim", email, json!(true));
        company.assert_stopped(&browser, &page, 200, NOBODY);
        let body = page.body.split_once("<main").unwrap().1.to_owned();
        body.split(": request ").next().unwrap().to_owned()
    };
    assert_eq!(page("kim@contoso.example"), page("nobody@contoso.example"));
    // The link does not depend on the address any more.
    let (browser, reply) = signs_in("sub-of-kim", "other@fabrikam.example", json!(false));
    answered(&browser.follow(&reply), WEB.redirect_uri, "code").unwrap();
    // Unlinked, the next sign-in would link it again: the command warns the operator.
    let issuer = company.provider.issuer();
    let unlink = format!("user unlink-identity kim --issuer {issuer} --subject sub-of-kim");
    let outcome = company.pair.run(&unlink);
    let said = format!("{}{}", outcome.output, outcome.errors);
    assert!(
        said.contains("may link it again by the e-mail address"),
        "{said}"
    );
}

/// The page for a name of the company is the same, whether the name exists or not, and a message says how people without a password
/// sign in.
#[test]
fn people_of_the_company_are_sent_there() {
    let mail = MailServer::start("plain");
    let company = Company::start(&format!(
        "email_domains = [\"contoso.example\"]\n[sign_in_page.clients]\n\"{}\" = \"providers_only\"\n{}",
        WEB.id,
        mail.configuration()
    ));
    for name in ["k@contoso.example", "m@contoso.example"] {
        company.put_user(name, json!({"email": name}));
    }
    company.link("k@contoso.example", "sub-of-kim");
    let browser = company.browser();
    let home = browser.open("/auth/").body;
    assert!(home.contains("Sign in with <bdi>Company contoso"), "{home}");
    assert!(home.contains("type=\"password\"") && !home.contains("People at"));
    let refused = |name: &str| {
        let fields = [("username", name), ("password", "not-the-password")];
        let page = browser.submit(&Form::of(&browser.open("/auth/")), &fields);
        assert_eq!(page.status, 403, "{}", page.body);
        page.body.replace(name, "NAME")
    };
    let page = refused("k@contoso.example");
    assert_eq!(page, refused("nobody@Contoso.Example"));
    let sentence = "People at <bdi><strong>contoso.example</strong></bdi> sign in with \
                    <bdi><strong>Company contoso</strong></bdi>.";
    assert!(page.contains(sentence), "{page}");
    assert!(!refused("nobody@other.example").contains("People at"));
    // The client's people see no password.
    let page = browser.authorize(&WEB.request(&[]));
    assert!(!page.body.contains("password"), "{}", page.body);
    leave_from(&browser, &page);

    let ask = |name: &str| {
        let form = Form::of(&browser.open("/auth/forgot-password"));
        let page = browser.submit(&form, &[("username", name)]);
        assert_eq!(page.status, 200, "{}", page.body);
    };
    // Who is not invited yet gets no message.
    ask("m@contoso.example");
    ask("k@contoso.example");
    let message = mail.message_to("k@contoso.example").text;
    assert!(
        message.contains("you sign in with Company contoso"),
        "{message}"
    );
    assert!(!message.contains("new-password"), "{message}");
    assert_eq!(mail.received(), 1);
}

#[test]
fn a_person_unlinks_an_own_identity_that_is_not_the_only_way() {
    let mail = MailServer::start("plain");
    let company = Company::start(&format!(
        "email_domains = [\"contoso.example\"]\nlink_by_email = true\n{}",
        mail.configuration()
    ));
    let password = "a password of kay";
    for (name, email) in [("kay", "kay@other.example"), ("kim", "kim@contoso.example")] {
        company.put_user(name, json!({"email": email, "password": password}));
        company.link(name, &format!("sub-of-{name}"));
    }
    let digest = |subject: &str| {
        let text = format!("{} {subject}", company.provider.issuer());
        URL_SAFE_NO_PAD.encode(Sha256::digest(text))
    };
    // The only way to sign in stays, and so does what the next sign-in would link again.
    let lins = company.browser();
    lins.follow(&company.sign_in(&lins));
    let kims = company.browser();
    let page = kims.open("/auth/");
    kims.submit(
        &Form::of(&page),
        &[("username", "kim"), ("password", password)],
    );
    for (browser, name, why) in [
        (&lins, "lin@example.com", "You have no other way to sign in"),
        (&kims, "kim", "would link it again"),
    ] {
        let page = browser.open("/auth/").body;
        assert!(page.contains(why), "{page}");
        assert!(!page.contains("/auth/end?identity="), "{page}");
        let id = digest(&format!("sub-of-{}", &name[..3]));
        let form = Form::of(&browser.open("/auth/end?session=others"));
        let hidden = form
            .hidden
            .into_iter()
            .filter(|(field, _)| field == "csrf")
            .collect();
        let forged = Form {
            hidden,
            action: "/auth/end".to_owned(),
            ..form
        };
        let done = browser.submit(&forged, &[("identity", &id)]);
        assert_eq!(
            (done.status, done.header("location")),
            (303, Some("/auth/"))
        );
        let shown = company.pair.json(&format!("user show {name}"));
        assert_eq!(shown["identities"].as_array().unwrap().len(), 1, "{shown}");
    }

    company.says(json!({"sub": "sub-of-kay"}));
    let there = company.browser();
    let access = company.tokens(&company.code(&there)).text("access_token");
    let here = company.browser();
    let page = here.open("/auth/");
    here.submit(
        &Form::of(&page),
        &[("username", "kay"), ("password", password)],
    );
    let address = format!("/auth/end?identity={}", digest("sub-of-kay"));
    assert!(here.open("/auth/").body.contains(&address));
    let asked = here.open(&address);
    assert!(
        asked.body.contains("no longer be able to sign in"),
        "{}",
        asked.body
    );
    let done = here.submit(&Form::of(&asked), &[]);
    assert_eq!(done.status, 200, "{}", done.body);
    assert!(done.body.contains("is no longer linked"), "{}", done.body);
    company.pair.until_refused(&access);
    for (browser, text) in [
        (&here, "You are signed in"),
        (&there, "Sign in to your page"),
    ] {
        let page = browser.open("/auth/").body;
        assert!(page.contains(text), "{page}");
    }
    assert_eq!(
        here.open(&address).status,
        303,
        "nothing to unlink any more"
    );
    let browser = company.browser();
    let page = company.sign_in(&browser);
    company.assert_stopped(&browser, &page, 200, NOBODY);
    let message = mail.message_to("kay@other.example").text;
    assert!(
        message.contains("is no longer linked to Company contoso"),
        "{message}"
    );
    let audit = company.pair.json("audit --action identity_unlinked");
    let entry = &audit["items"][0];
    assert_eq!(entry["username"], "kay", "{entry}");

    // A person who has no password is not asked for one before a change.
    company.says(json!({"sub": "sub-of-lin", "auth_time": now() - 1200}));
    let lins = company.browser();
    lins.follow(&company.sign_in(&lins));
    let asked = lins.open("/auth/end?session=others").body;
    assert!(asked.contains("Confirm that it is you"), "{asked}");
    assert!(!asked.contains("type=\"password\""), "{asked}");
    assert_eq!(
        lins.open("/auth/password").header("location"),
        Some("/auth/")
    );
}

#[test]
fn a_provider_that_fails_is_named_and_passwords_work() {
    let company = Company::start("");
    // No answer: the service waits for five seconds.
    company.provider.say("/token", Said::Nothing);
    let browser = company.browser();
    let back = company.back(&company.leave(&browser));
    let page = browser.open(&back);
    let log = company.pair.pair.log();
    log.until_it_says("no answer within 5s").unwrap();
    const SILENT: &str = "Company contoso does not answer";
    company.assert_stopped(&browser, &page, 503, SILENT);
    let next = browser.sign_in(&page, "ada@example.com", "demo-password-of-ada");
    answered(&next, WEB.redirect_uri, "code").unwrap();
    company.provider.recover("/token");

    // Invented codes: a browser that brings many has to wait.
    company
        .provider
        .say("/token", Said::Json(json!({"error": "invalid_grant"})));
    let browser = company.browser();
    let backs = (0..70).map(|_| company.back(&company.leave(&browser)));
    let mut backs = backs.enumerate();
    let refused = backs.find(|(_, back)| browser.open(back).status == 429);
    let (count, back) = refused.unwrap();
    assert!(count >= 20, "{count}");
    // After the wait, the same address works.
    until("the wait is over", || {
        let status = browser.open(&back).status;
        assert!(matches!(status, 429 | 403), "{status}");
        status == 403
    });
    let commits = || {
        let url = format!("{}/metrics", company.pair.pair.internal_url());
        let metrics = get(&url, &[]).body;
        let name = "token_service_store_commit_duration_seconds_count ";
        let count = metrics.lines().find_map(|line| line.strip_prefix(name));
        count.unwrap().parse::<u32>().unwrap()
    };
    let back = company.back(&company.leave(&browser));
    until("those who wait cost no commits", || {
        let before = commits();
        let all_wait = (0..20).all(|_| browser.open(&back).status == 429);
        // The service itself writes too, at intervals.
        all_wait && commits() - before < 5
    });

    // Down at the start: the service starts, and the page comes.
    let provider = ScriptedProvider::start();
    let down = "HTTP/1.1 503 Down\r\ncontent-length: 0\r\n\r\n".to_owned();
    let discovery = "/.well-known/openid-configuration";
    provider.say(discovery, Said::Text(down));
    let pair = OwnPair::with_identity_providers(|_| provider.entry(ID, ""));
    let browser = Browser::new(&pair.lobby());
    let page = browser.authorize(&WEB.request(&[]));
    let form = Form {
        action: "/auth/provider".to_owned(),
        ..Form::of(&page)
    };
    let page = browser.submit(&form, &[("provider", ID)]);
    assert_eq!(page.status, 503, "{}", page.body);
    assert!(page.body.contains(SILENT), "{}", page.body);
    provider.recover(discovery);
    until("the provider is back", || {
        browser.submit(&form, &[("provider", ID)]).status == 303
    });
}

#[test]
fn rules_of_the_service_hold_after_the_provider() {
    let company = Company::start("email_domains = [\"contoso.example\"]");
    let lobby = company.pair.lobby();
    // `prompt=login` is passed on, and a provider that ignores it is noticed.
    company.says(json!({"sub": "sub-of-lin", "auth_time": now() - 300}));
    let browser = company.browser();
    let old = company.code(&browser);
    company.tokens(&old);
    let again = company.leave_with(&browser, &WEB.request(&[("prompt", "login")]));
    assert_eq!(sent(&again, "prompt").as_deref(), Some("login"));
    let page = browser.open(&company.back(&again));
    assert_eq!(page.status, 403, "{}", page.body);
    assert!(
        page.body.contains("did not ask you to sign in again"),
        "{}",
        page.body
    );
    company.says(json!({"sub": "sub-of-lin"}));
    let asked_at = now();
    let again = company.leave_with(&browser, &WEB.request(&[("prompt", "login")]));
    let done = browser.follow(&browser.open(&company.back(&again)));
    let fresh = answered(&done, WEB.redirect_uri, "code").unwrap();
    let issued = claims(&company.tokens(&fresh).text("access_token"));
    assert!(issued["auth_time"].as_u64().unwrap() >= asked_at);
    let aged = company.leave_with(&company.browser(), &WEB.request(&[("max_age", "600")]));
    let max_age: u64 = sent(&aged, "max_age").unwrap().parse().unwrap();
    assert!((600..=660).contains(&max_age), "{max_age}");

    // The own second factor follows.
    company.put_user("tess", json!({"totp_secret": SECRET}));
    company.link("tess", "sub-of-tess");
    company.says(json!({"sub": "sub-of-tess", "amr": ["mfa"]}));
    let browser = company.browser();
    let page = browser.follow(&company.sign_in(&browser));
    assert!(page.body.contains("Enter your code"), "{}", page.body);
    let code = lasting_code(SECRET);
    let done = browser.follow(&browser.submit(&Form::of(&page), &[("code", &code)]));
    let code = answered(&done, WEB.redirect_uri, "code").unwrap();
    let issued = claims(&company.tokens(&code).text("access_token"));
    assert_eq!(issued["amr"], json!(["IDENTITY_PROVIDER", "mfa", "TOTP"]));
    until("the audit log names the provider", || {
        let audit = company.pair.json("audit --action sign_in --user tess");
        audit["items"][0]["detail"] == "identity provider contoso, one-time code"
    });

    // Straight to the provider: named by the client, by the address of a hint, and by that of the legacy logon.
    company.says(json!({"sub": "sub-of-lin"}));
    let issuer = company.provider.issuer();
    let members = json!({"redirect_uris": ["https://app.example.com/callback"], "identity_providers": [issuer]});
    let straight = company.pair.register("web_server", members);
    let browser = company.browser();
    let hinted = WEB.request(&[("login_hint", "lin@contoso.example")]);
    for request in [straight.request(&[]), hinted.clone()] {
        let left = browser.authorize(&request);
        assert_eq!(left.status, 302, "{}", left.body);
        assert!(left.header("location").unwrap().starts_with(issuer));
    }
    let never = browser.authorize(&straight.request(&[("prompt", "none")]));
    let error = answered(&never, straight.redirect_uri, "error");
    assert_eq!(error.as_deref(), Some("login_required"));
    let elsewhere = browser.authorize(&WEB.request(&[("login_hint", "lin@fabrikam.example")]));
    assert_eq!(elsewhere.status, 200);
    let looked = browser.look("GET", "/auth/authorize?", ("sec-purpose", "prefetch"));
    assert_ne!(looked.status, 302);
    let left = browser.authorize(&straight.request(&[]));
    let back = company.back(&Url::parse(left.header("location").unwrap()).unwrap());
    let done = browser.follow(&browser.open(&back));
    let code = answered(&done, straight.redirect_uri, "code").unwrap();
    straight.exchange(&lobby, &code, None).done();

    company.put_user(
        "leo",
        json!({"email": "leo@contoso.example", "single_sign_on": true}),
    );
    company.link("leo", "sub-of-leo");
    let legacy = Browser::on_host(&company.pair.pair.legacy_url(), "us1.legacy.example");
    let query = logon(&LEGACY, &[("email", "leo@contoso.example")]);
    let left = legacy.open(&query);
    assert_eq!(left.status, 302, "{}", left.body);
    let at_provider = Url::parse(left.header("location").unwrap()).unwrap();
    assert!(at_provider.as_str().starts_with(issuer), "{at_provider}");
    // The provider knows only the issuer, and the browser has its cookie at the host of the legacy flow.
    company.says(json!({"sub": "sub-of-leo"}));
    let back = company.back(&at_provider);
    assert!(
        back.starts_with(&format!("{lobby}/auth/provider/{ID}?")),
        "{back}"
    );
    let sent_on = company.browser().open(&back);
    assert_eq!(sent_on.status, 302, "{}", sent_on.body);
    let sent_on = sent_on.header("location").unwrap();
    let path = sent_on.strip_prefix("http://us1.legacy.example/").unwrap();
    let question = legacy.follow(&legacy.open(&format!("/{path}")));
    let done = legacy.submit(&Form::of(&question), &[]);
    answered(&done, LEGACY.redirect_uri, "code").unwrap();

    company.says(json!({"sub": "sub-of-lin"}));
    // An app on the device is asked for, although the person has just come from the provider (D-34).
    let app = crate::support::INSTALLED;
    let pkce = crate::support::Pkce::of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
    let browser = company.browser();
    let request = app.request(&[
        ("code_challenge", &pkce.challenge),
        ("code_challenge_method", "S256"),
    ]);
    let at_provider = company.leave_with(&browser, &request);
    let page = browser.follow(&browser.open(&company.back(&at_provider)));
    assert!(
        page.body.contains("Continue as lin@example.com"),
        "{}",
        page.body
    );
}

#[test]
fn a_long_request_is_refused_with_a_page_before_the_provider() {
    let company = Company::start("");
    let browser = company.browser();
    let state = "s".repeat(7000);
    let page = browser.authorize(&WEB.request(&[("state", &state)]));
    let form = Form {
        action: "/auth/provider".to_owned(),
        ..Form::of(&page)
    };
    let page = browser.submit(&form, &[("provider", ID)]);
    assert_eq!(page.status, 400, "{}", page.body);
    assert!(
        page.body
            .contains("too long for a sign-in with Company contoso"),
        "{}",
        page.body
    );
}

/// The browser leaves from one replica, and comes back to the other. What one has used up and ended is so at both.
#[test]
fn every_replica_receives_the_browser() {
    let database = database();
    let provider = ScriptedProvider::start();
    let pair = OwnPair::replicated_with(database.url(), &provider.entry(ID, ""));
    let company = Company {
        pair,
        provider,
        jti: Cell::new(0),
    };
    company.put_user("lin@example.com", json!({}));
    company.link("lin@example.com", "sub-of-lin");
    let ports = company.pair.pair.ports();
    let [one, other] =
        [ports.public, ports.public_replica].map(|port| format!("http://127.0.0.1:{port}"));
    let lobby = company.pair.lobby();
    for (from, to, sid) in [(&one, &other, "one"), (&other, &one, "two")] {
        company.says(json!({"sub": "sub-of-lin", "sid": sid}));
        let browser = Browser::new(from);
        let back = company
            .back(&company.leave(&browser))
            .replacen(&lobby, to, 1);
        let reply = browser.open(&back);
        assert_eq!(reply.status, 303, "{}", reply.body);
        assert_eq!(
            browser.open(&back.replacen(to.as_str(), from, 1)).status,
            400
        );
        let done = browser.open(reply.header("location").unwrap());
        let code = answered(&done, WEB.redirect_uri, "code").unwrap();
        let access = company.tokens(&code).text("access_token");
        let token = company.logout_token(json!({}), json!({"sid": sid}));
        let url = format!("{to}/auth/provider/{ID}/logout");
        assert_eq!(log_out(&url, &token).status, 200);
        assert_eq!(
            log_out(&url.replacen(to.as_str(), from, 1), &token).status,
            400
        );
        company.pair.until_refused(&access);
        let home = browser.open("/auth/");
        assert!(home.body.contains("Sign in to your page"), "{}", home.body);
    }
}
