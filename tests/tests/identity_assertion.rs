//! Assertions that a company's identity provider signs (protocol.md §2.6). The unit tests of `protocol` have each rule about headers and
//! claims.

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::api::until;
use crate::support::{
    Browser, Client, Company, Form, OwnPair, Pkce, Reply, Said, ScriptedProvider, answered, call,
    form_body, get, now, post,
};

/// A client of an organization, and an identity provider whose assertions the client may bring.
struct Trusting {
    pair: OwnPair,
    client: Client,
    issuer: String,
}

impl Trusting {
    /// `entry`: that of the provider in the configuration.
    fn start(issuer: &str, entry: impl FnOnce() -> String) -> Self {
        let pair = OwnPair::with_identity_providers(|_| entry());
        let members = json!({"identity_providers": [issuer], "organization": "acme"});
        let client = pair.register("non_interactive", members);
        let started = Self {
            pair,
            client,
            issuer: issuer.to_owned(),
        };
        started.put_user(
            "lin@example.com",
            "sub-of-lin",
            json!({"organization": "acme"}),
        );
        started
    }

    fn put_user(&self, username: &str, subject: &str, mut members: Value) {
        members["username"] = json!(username);
        members["accounts"] = json!([
            {"user_id": format!("id-of-{username}"), "username": "hat", "site": "https://us1.example.com"}
        ]);
        members["identities"] = json!([{"issuer": self.issuer, "subject": subject}]);
        let made = self.pair.change("POST", "/users", &members.to_string());
        assert_eq!(made.status, 201, "{}", made.body);
    }

    /// The claims of a valid assertion.
    fn claims(&self, jti: &str) -> Value {
        json!({
            "iss": self.issuer, "sub": "sub-of-lin", "aud": self.pair.lobby(), "client_id": self.client.id,
            "iat": now(), "exp": now() + 300, "jti": jti,
        })
    }

    fn with(&self, jti: &str, name: &str, value: Value) -> Value {
        let mut claims = self.claims(jti);
        claims[name] = value;
        claims
    }

    fn assert(&self, assertion: &str, more: &[(&str, &str)]) -> Reply {
        self.client.assert(&self.pair.lobby(), assertion, more)
    }

    fn explained(&self, assertion: &str) -> String {
        self.pair.operate(&["explain", "-"], assertion).output
    }
}

fn header(typ: &str) -> Value {
    json!({"typ": typ})
}

fn claims_of(token: &str) -> Value {
    let body = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(body).unwrap()).unwrap()
}

#[test]
fn a_company_speaks_for_its_people() {
    // Nobody signs in.
    let lobby = "http://127.0.0.1:1";
    let [acme, other] = ["acme", "other"].map(|id| Company::start(lobby, id, &json!({})));
    let issuer = acme.issuer().to_owned();
    let trusting = Trusting::start(&issuer, || acme.entry("") + &other.entry(""));
    let jwt = header("JWT");

    let assertion = acme.sign(&jwt, &trusting.claims("1"));
    let explained = trusting.explained(&assertion);
    assert!(
        explained.contains("This is: provider assertion"),
        "{explained}"
    );
    assert!(!explained.contains("FAIL"), "{explained}");
    let reply = trusting.assert(&assertion, &[]);
    let access = reply.text("access_token");
    assert!(
        reply.json().get("refresh_token").is_none(),
        "{}",
        reply.body
    );
    let passed = call(&trusting.pair.pair.api_url(), &access);
    assert_eq!(passed.json()["x-user-id"], "id-of-lin@example.com");
    assert_eq!(claims_of(&access)["sub"], "lin@example.com");

    let refused = |assertion: &str, says: &str| {
        let description = trusting
            .assert(assertion, &[])
            .assert_error(400, "invalid_grant");
        assert!(description.contains(says), "{description}");
        let explained = trusting.explained(assertion);
        assert!(explained.contains("FAIL"), "{explained}");
    };
    refused(&assertion, "jti of the assertion was used before");
    let of = |claims: &Value| acme.sign(&jwt, claims);
    let unlinked = "is linked to the person in sub";
    refused(
        &of(&trusting.with("2", "sub", json!("sub-of-eve"))),
        unlinked,
    );
    trusting.put_user(
        "max@example.com",
        "sub-of-max",
        json!({"organization": "other"}),
    );
    refused(
        &of(&trusting.with("3", "sub", json!("sub-of-max"))),
        unlinked,
    );
    refused(
        &of(&trusting.with("4", "client_id", json!("web-demo"))),
        "client_id",
    );
    refused(
        &of(&trusting.with("5", "aud", json!("gatepass"))),
        "aud is gatepass",
    );
    // The other provider: by its own name, and in the name of the company.
    let mixed = other.sign(&jwt, &trusting.claims("6"));
    refused(&mixed, "RS256 key of the identity provider");
    let own = other.sign(&jwt, &trusting.with("7", "iss", json!(other.issuer())));
    refused(
        &own,
        &format!("iss must be the Client ID or {issuer}, but is"),
    );

    let jag = header("oauth-id-jag+jwt");
    let jag = |jti: &str, scope: &str| acme.sign(&jag, &trusting.with(jti, "scope", json!(scope)));
    let reply = trusting.assert(&jag("8", "projects chat.read"), &[]);
    assert_eq!(reply.text("scope"), "projects", "what both allow");
    assert_eq!(claims_of(&reply.text("access_token"))["scope"], "projects");
    refused(
        &jag("9", "chat.read"),
        "scope of the assertion is chat.read; the client is registered for projects",
    );

    let once = of(&trusting.claims("10"));
    let statuses = std::thread::scope(|scope| {
        let tries = [(); 8].map(|()| scope.spawn(|| trusting.assert(&once, &[]).status));
        tries.map(|one| one.join().unwrap())
    });
    let accepted = statuses.iter().filter(|status| **status == 200);
    assert_eq!(accepted.count(), 1, "{statuses:?}");

    let identity = format!("lin@example.com --issuer {issuer} --subject sub-of-lin");
    trusting
        .pair
        .done(&format!("user unlink-identity {identity}"));
    refused(&of(&trusting.claims("11")), unlinked);
    assert_eq!(trusting.pair.call(&access), 200, "until it expires");
    trusting
        .pair
        .done(&format!("user link-identity {identity}"));
    trusting.assert(&of(&trusting.claims("11")), &[]).done();
    trusting.pair.done("user update lin@example.com --disable");
    refused(&of(&trusting.claims("12")), unlinked);
    trusting.pair.until_refused(&access);
    let metadata = format!(
        "{}/.well-known/oauth-authorization-server",
        trusting.pair.lobby()
    );
    let metadata = get(&metadata, &[]).json();
    assert_eq!(
        metadata["authorization_grant_profiles_supported"],
        json!(["urn:ietf:params:oauth:grant-profile:id-jag"])
    );
}

/// What browser and application get at the provider, by hand.
struct Person {
    browser: Browser,
    verifier: Pkce,
}

impl Person {
    fn at(company: &Company) -> Self {
        Self {
            browser: Browser::new(company.issuer()),
            verifier: Pkce::of(&"v".repeat(43)),
        }
    }

    fn request(&self, redirect_uri: &str, more: &[(&str, &str)]) -> Reply {
        let request = [
            ("client_id", "gatepass"),
            ("redirect_uri", redirect_uri),
            ("response_type", "code"),
            ("scope", "openid email profile"),
            ("state", "a-state"),
            ("nonce", "a-nonce"),
        ];
        let request = form_body(&[&request, more].concat());
        self.browser.open(&format!("/auth?{request}"))
    }

    /// Signs in, and returns the redirect to the application.
    fn sign_in(&self, name: &str, redirect_uri: &str) -> Reply {
        let challenge = [
            ("code_challenge", self.verifier.challenge.as_str()),
            ("code_challenge_method", "S256"),
        ];
        let page = self.browser.follow(&self.request(redirect_uri, &challenge));
        let form = Form::of(&page);
        assert_eq!(form.fields, ["login"]);
        let back = self.browser.submit(&form, &[("login", name)]);
        self.browser.follow(&back)
    }
}

/// The provider that the tests of sign-ins use.
#[test]
fn people_sign_in_at_the_company_and_out() {
    let logouts = Arc::<Mutex<Vec<String>>>::default();
    let received = Arc::clone(&logouts);
    let service = tests::serve("127.0.0.1", 0, move |request| {
        received
            .lock()
            .unwrap()
            .push(format!("{} {}", request.target, request.body));
        tests::response("200 OK", "", "")
    });
    let service = format!("http://127.0.0.1:{}", service.unwrap());
    let eve = json!({"eve": {"email": "eve@other.example", "email_verified": false, "amr": ["pwd", "otp"]}});
    let acme = Company::start(&service, "acme", &eve);
    let other = Company::start(&service, "other", &json!({}));
    for (company, id, name, email, verified, amr) in [
        (
            &acme,
            "acme",
            "ada",
            "ada@example.com",
            true,
            json!(["pwd"]),
        ),
        (
            &other,
            "other",
            "ada",
            "ada@example.com",
            true,
            json!(["pwd"]),
        ),
        (
            &acme,
            "acme",
            "eve",
            "eve@other.example",
            false,
            json!(["pwd", "otp"]),
        ),
    ] {
        let redirect_uri = format!("{service}/auth/provider/{id}");
        let person = Person::at(company);
        let without_pkce = person.request(&redirect_uri, &[]);
        let error = answered(&without_pkce, &redirect_uri, "error");
        assert_eq!(error.as_deref(), Some("invalid_request"));
        let reply = person.sign_in(name, &redirect_uri);
        let answer = |name: &str| answered(&reply, &redirect_uri, name);
        assert_eq!(answer("iss").as_deref(), Some(company.issuer()));
        assert_eq!(answer("state").as_deref(), Some("a-state"));
        let code = answer("code").unwrap();
        let tokens = company.redeem(&code, &redirect_uri, &person.verifier.verifier);
        let id_token = tokens["id_token"].as_str().unwrap();
        let claims = claims_of(id_token);
        let expected = json!({
            "iss": company.issuer(), "aud": "gatepass", "sub": format!("sub-of-{name}"), "nonce": "a-nonce",
            "email": email, "email_verified": verified, "amr": amr, "name": name,
            "sid": claims["sid"], "auth_time": claims["auth_time"], "iat": claims["iat"], "exp": claims["exp"],
        });
        assert_eq!(claims, expected);
        assert!(
            claims["sid"].is_string() && claims["auth_time"].is_u64(),
            "{claims}"
        );
        let end = format!("/session/end?id_token_hint={id_token}");
        let form = Form::of(&person.browser.open(&end));
        let ended = person.browser.submit_to(&form, &[("logout", "yes")]);
        assert_eq!(ended.status, 303, "{}", ended.body);
        let at = format!("/auth/provider/{id}/logout logout_token=");
        let sent = || {
            logouts
                .lock()
                .unwrap()
                .iter()
                .find_map(|sent| sent.strip_prefix(&at).map(claims_of))
        };
        until("the provider ends the sign-in", || sent().is_some());
        let token = sent().unwrap();
        assert_eq!(
            (&token["sid"], &token["sub"]),
            (&claims["sid"], &claims["sub"])
        );
        logouts.lock().unwrap().clear();
    }
}

/// A token that the provider made for the service itself, or for its own endpoints.
#[test]
fn what_people_get_at_the_company_is_no_assertion_and_no_access_token() {
    let redirect_uri = "http://127.0.0.1:1/auth/provider/acme";
    let acme = Company::start("http://127.0.0.1:1", "acme", &json!({}));
    let trusting = Trusting::start(acme.issuer(), || acme.entry(""));
    let person = Person::at(&acme);
    let reply = person.sign_in("lin", redirect_uri);
    let code = answered(&reply, redirect_uri, "code").unwrap();
    let tokens = acme.redeem(&code, redirect_uri, &person.verifier.verifier);
    for kind in ["id_token", "access_token"] {
        let token = tokens[kind].as_str().unwrap();
        trusting
            .assert(token, &[])
            .assert_error(400, "invalid_grant");
        assert_eq!(trusting.pair.call(token), 401, "{kind}");
    }
    let assertion = acme.sign(&header("JWT"), &trusting.claims("1"));
    assert_eq!(trusting.pair.call(&assertion), 401);
    let access = acme.sign(&header("at+jwt"), &trusting.claims("2"));
    trusting
        .assert(&access, &[])
        .assert_error(400, "invalid_grant");
    trusting.assert(&assertion, &[]).text("access_token");
}

#[test]
fn a_provider_without_keys_is_no_refusal_and_new_keys_are_found() {
    let provider = ScriptedProvider::start();
    let down = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
    provider.say("/jwks", Said::Text(down.to_owned()));
    let trusting = Trusting::start(provider.issuer(), || provider.entry("scripted", ""));
    let claims = |jti: &str| {
        let mut claims = trusting.claims(jti);
        (claims["nonce"], claims["auth_time"]) = (Value::Null, Value::Null);
        claims
    };
    let assertion = provider.sign(&header("JWT"), &claims("1"));
    let reply = trusting.assert(&assertion, &[]);
    let description = reply.assert_error(503, "temporarily_unavailable");
    assert!(description.contains("identity provider"), "{description}");
    assert!(reply.header("retry-after").is_some());
    let explained = trusting.explained(&assertion);
    let unavailable = "FAIL  key: the identity provider scripted does not answer";
    assert!(explained.contains(unavailable), "{explained}");
    for said in [Said::Json(json!({"keys": "none"})), Said::Nothing] {
        provider.say("/jwks", said);
        let reply = trusting.assert(&assertion, &[]);
        reply.assert_error(503, "temporarily_unavailable");
    }
    provider.recover("/jwks");
    let accepted = |assertion: &str| trusting.assert(assertion, &[]).status == 200;
    until("the keys are known", || accepted(&assertion));
    provider.rotate();
    let after = provider.sign(&header("JWT"), &claims("2"));
    until("the new key is known", || accepted(&after));

    // An operator at the provider adds an assertion's claims to ID tokens.
    provider.sign_with(header("JWT"), trusting.claims("3"));
    let at = |path: &str| format!("{}{path}", provider.issuer());
    get(&at("/authorize?redirect_uri=x&state=s&nonce=n"), &[]);
    let id_token = post(&at("/token"), &[], "").text("id_token");
    let description = trusting
        .assert(&id_token, &[])
        .assert_error(400, "invalid_grant");
    assert!(
        description.starts_with("The assertion has nonce"),
        "{description}"
    );
    assert_eq!(provider.requests("/token").len(), 1, "by the test alone");
}
