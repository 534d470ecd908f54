//! Assertions that a company's identity provider signs (protocol.md §2.6). The unit tests of `protocol` have each rule about headers and
//! claims.

use serde_json::{Value, json};

use crate::api::until;
use crate::support::{Client, OwnPair, Reply, Said, ScriptedProvider, call, get};
use crate::token::claims;

/// A client of an organization, and an identity provider whose assertions the client may bring.
struct Trusting {
    pair: OwnPair,
    client: Client,
    provider: ScriptedProvider,
}

impl Trusting {
    fn start(provider: ScriptedProvider) -> Self {
        let pair = OwnPair::with_identity_providers(|_| provider.entry("acme", ""));
        let members = json!({"identity_providers": [provider.issuer()], "organization": "acme"});
        let client = pair.register("non_interactive", members);
        let lin = json!({
            "username": "lin@example.com", "organization": "acme",
            "accounts": [{"user_id": "id-of-lin", "username": "hat", "site": "https://us1.example.com"}],
            "identities": [{"issuer": provider.issuer(), "subject": "sub-of-lin"}],
        });
        pair.change("POST", "/users", &lin.to_string());
        Self {
            pair,
            client,
            provider,
        }
    }

    /// An assertion with this `jti`, and these members in place of the usual ones.
    fn signed(&self, typ: &str, jti: &str, more: Value) -> String {
        let mut claims = json!({
            "sub": "sub-of-lin", "aud": self.pair.lobby(), "client_id": self.client.id, "jti": jti,
            "nonce": null, "auth_time": null,
        });
        let all = claims.as_object_mut().unwrap();
        all.extend(more.as_object().unwrap().clone());
        self.provider.sign(&json!({"typ": typ}), &claims)
    }

    fn jwt(&self, jti: &str) -> String {
        self.signed("JWT", jti, json!({}))
    }

    fn assert(&self, assertion: &str) -> Reply {
        self.client.assert(&self.pair.lobby(), assertion, &[])
    }

    fn explained(&self, assertion: &str) -> String {
        self.pair.operate(&["explain", "-"], assertion).output
    }

    #[track_caller]
    fn refused(&self, assertion: &str, says: &str) {
        let reply = self.assert(assertion);
        let description = reply.assert_error(400, "invalid_grant");
        assert!(description.contains(says), "{description}");
        let explained = self.explained(assertion);
        assert!(explained.contains("FAIL"), "{explained}");
    }
}

#[test]
fn a_company_speaks_for_its_people() {
    let trusting = Trusting::start(ScriptedProvider::start());
    let pair = &trusting.pair;
    let assertion = trusting.jwt("1");
    assert_eq!(pair.call(&assertion), 401, "no access token");
    let explained = trusting.explained(&assertion);
    assert!(
        explained.contains("This is: provider assertion"),
        "{explained}"
    );
    assert!(!explained.contains("FAIL"), "{explained}");
    let reply = trusting.assert(&assertion);
    let access = reply.text("access_token");
    assert_eq!(reply.json().get("refresh_token"), None);
    let passed = call(&pair.pair.api_url(), &access);
    assert_eq!(passed.json()["x-user-id"], "id-of-lin");
    assert_eq!(claims(&access)["sub"], "lin@example.com");
    trusting.refused(&assertion, "jti of the assertion was used before");

    // What the provider made for the service itself, or for its own endpoints.
    let nonce = json!({"nonce": "n"});
    let id_token = trusting.signed("JWT", "2", nonce);
    trusting.refused(&id_token, "The assertion has nonce");
    let access_token = trusting.signed("at+jwt", "2", json!({}));
    trusting.refused(&access_token, "at+jwt");

    let jag =
        |jti: &str, scope: &str| trusting.signed("oauth-id-jag+jwt", jti, json!({"scope": scope}));
    let reply = trusting.assert(&jag("2", "projects chat.read"));
    assert_eq!(reply.text("scope"), "projects", "what both allow");
    assert_eq!(claims(&reply.text("access_token"))["scope"], "projects");
    trusting.refused(
        &jag("3", "chat.read"),
        "scope of the assertion is chat.read; the client is registered for projects",
    );

    let once = trusting.jwt("4");
    let statuses = std::thread::scope(|scope| {
        let tries = [(); 8].map(|()| scope.spawn(|| trusting.assert(&once).status));
        tries.map(|one| one.join().unwrap())
    });
    let accepted = statuses.iter().filter(|status| **status == 200);
    assert_eq!(accepted.count(), 1, "{statuses:?}");

    let issuer = trusting.provider.issuer();
    let identity = format!("lin@example.com --issuer {issuer} --subject sub-of-lin");
    let unlinked = "is linked to the person in sub";
    pair.done(&format!("user unlink-identity {identity}"));
    trusting.refused(&trusting.jwt("5"), unlinked);
    assert_eq!(pair.call(&access), 200, "until it expires");
    pair.done(&format!("user link-identity {identity}"));
    trusting.assert(&trusting.jwt("5")).done();
    pair.done("user update lin@example.com --organization other");
    trusting.refused(&trusting.jwt("6"), unlinked);
    pair.done("user update lin@example.com --organization acme --disable");
    trusting.refused(&trusting.jwt("6"), unlinked);
    pair.until_refused(&access);
    let metadata = format!("{}/.well-known/oauth-authorization-server", pair.lobby());
    let metadata = get(&metadata, &[]).json();
    assert_eq!(
        metadata["authorization_grant_profiles_supported"],
        json!(["urn:ietf:params:oauth:grant-profile:id-jag"])
    );
}

#[test]
fn a_provider_without_keys_is_no_refusal_and_new_keys_are_found() {
    let provider = ScriptedProvider::start();
    let down = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
    provider.say("/jwks", Said::Text(down.to_owned()));
    let trusting = Trusting::start(provider);
    let provider = &trusting.provider;
    let assertion = trusting.jwt("1");
    let reply = trusting.assert(&assertion);
    let description = reply.assert_error(503, "temporarily_unavailable");
    assert!(description.contains("identity provider"), "{description}");
    assert!(reply.header("retry-after").is_some());
    let explained = trusting.explained(&assertion);
    let unavailable = "FAIL  key: the identity provider acme does not answer";
    assert!(explained.contains(unavailable), "{explained}");
    provider.recover("/jwks");
    let accepted = |assertion: &str| trusting.assert(assertion).status == 200;
    until("the keys are known", || accepted(&assertion));
    provider.rotate();
    let after = trusting.jwt("2");
    until("the new key is known", || accepted(&after));
}
