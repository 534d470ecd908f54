//! DPoP at the token endpoint (RFC 9449 §5 to §10): what is bound to the key of a proof, and which proofs are refused.

use serde_json::{Value, json};
use tests::proofs::{Proof, ProofKey, SHARE};

use crate::api::{pass, until};
use crate::support::{
    Assertion, Browser, CREDENTIALS, Client, INSTALLED, Instance, JWT_BEARER, LEGACY,
    NON_INTERACTIVE, OwnPair, Pkce, Reply, USER_BOUND, WEB, answered, form_body, get, lobby, pair,
    post,
};
use crate::token::claims;

fn key() -> ProofKey {
    ProofKey::new("ES256").unwrap()
}

fn proof_at(lobby: &str, key: &ProofKey) -> Proof {
    let url = format!("{lobby}/auth/token");
    key.proof("POST", &url, None).unwrap()
}

/// A fresh proof for a token request.
fn proof(key: &ProofKey) -> Vec<String> {
    vec![key.sign(&proof_at(&lobby(), key)).unwrap()]
}

fn pkce() -> Pkce {
    Pkce::of(&"p".repeat(43))
}

fn code(client: &Client, more: &[(&str, &str)]) -> String {
    let pkce = client.secret.is_none().then(pkce);
    Browser::new(&lobby()).code_with(client, pkce.as_ref(), more)
}

fn exchange(client: &Client, code: &str, proofs: &[String]) -> Reply {
    let pkce = client.secret.is_none().then(pkce);
    client.exchange_with(&lobby(), code, pkce.as_ref(), proofs)
}

/// Asserts tokens that are bound to `key`, and returns the reply's body.
#[track_caller]
fn assert_bound(reply: &Reply, key: &ProofKey) -> Value {
    assert_eq!(reply.status, 200, "{}", reply.body);
    let body = reply.json();
    assert_eq!(body["token_type"], "DPoP");
    let claims = claims(body["access_token"].as_str().unwrap());
    assert_eq!(claims["cnf"], key.confirmation());
    body
}

#[track_caller]
fn assert_bearer(reply: &Reply) {
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(reply.json()["token_type"], "Bearer");
    assert_eq!(claims(&reply.text("access_token")).get("cnf"), None);
}

/// A refused proof. The reply has a nonce for the next one.
#[track_caller]
fn assert_refused(reply: &Reply, error: &str) {
    reply.assert_error(400, error);
    assert!(reply.header("dpop-nonce").is_some());
}

#[test]
fn rfc9449_s5_every_grant_binds_its_access_token_to_the_key_of_the_proof() {
    let assertion = Assertion::of("ada@example.com").sign();
    let assertion = [
        ("grant_type", JWT_BEARER),
        ("assertion", assertion.as_str()),
    ];
    for algorithm in ["ES256", "EdDSA", "RS256"] {
        let key = ProofKey::new(algorithm).unwrap();
        assert_bound(
            &USER_BOUND.proven(&lobby(), &CREDENTIALS, &proof(&key)),
            &key,
        );
    }
    let key = key();
    assert_bound(
        &NON_INTERACTIVE.proven(&lobby(), &assertion, &proof(&key)),
        &key,
    );
    for client in [WEB, INSTALLED] {
        let tokens = exchange(&client, &code(&client, &[]), &proof(&key));
        let tokens = assert_bound(&tokens, &key);
        let refresh_token = tokens["refresh_token"].as_str().unwrap();
        let refreshed = client.refresh_with(&lobby(), refresh_token, &proof(&key));
        assert_bound(&refreshed, &key);
    }
    assert_bearer(&USER_BOUND.token(&lobby(), &CREDENTIALS));
}

#[test]
fn rfc9449_s6_2_introspection_tells_the_key() {
    let key = key();
    let bound = USER_BOUND.proven(&lobby(), &CREDENTIALS, &proof(&key));
    let bearer = USER_BOUND.token(&lobby(), &CREDENTIALS);
    let told = |reply: &Reply| {
        let token = reply.text("access_token");
        USER_BOUND
            .post(&lobby(), "/auth/introspect", &[("token", &token)])
            .json()
    };
    let (bound, bearer) = (told(&bound), told(&bearer));
    assert_eq!(bound["token_type"], "DPoP");
    assert_eq!(bound["cnf"], key.confirmation());
    assert_eq!(bearer["token_type"], "Bearer");
    assert_eq!(bearer.get("cnf"), None);
}

/// The attacks of RFC 9449 §11 and the checks of §4.3.
#[test]
fn rfc9449_s4_3_a_wrong_proof_gets_no_token() {
    let (mine, other) = (key(), key());
    let good = || proof_at(&lobby(), &mine);
    let elsewhere = |url: String| good().claim("htu", json!(url));
    let with_jwk = |name: &str, value: Value| {
        let mut jwk = mine.jwk();
        jwk[name] = value;
        good().header("jwk", jwk)
    };
    for (what, proof) in [
        ("another key than signed", good().header("jwk", other.jwk())),
        ("another method", good().claim("htm", json!("GET"))),
        (
            "another path",
            elsewhere(format!("{}/auth/revoke", lobby())),
        ),
        (
            "a final slash",
            elsewhere(format!("{}/auth/token/", lobby())),
        ),
        (
            "another host",
            elsewhere("https://evil.example/auth/token".to_owned()),
        ),
        (
            "another port",
            elsewhere("http://127.0.0.1:1/auth/token".to_owned()),
        ),
        (
            "an encoded slash",
            elsewhere(format!("{}/auth%2Ftoken", lobby())),
        ),
        ("no id", good().without("jti")),
        ("another type", good().header("typ", json!("JWT"))),
        ("HS256", good().header("alg", json!("HS256"))),
        ("no algorithm", good().header("alg", json!("none"))),
        ("another algorithm", good().header("alg", json!("RS256"))),
        ("a private key", with_jwk("d", json!("AAAA"))),
        ("a symmetric key", with_jwk("k", json!("AAAA"))),
        ("a certificate", with_jwk("x5c", json!(["MIIB"]))),
        ("crit", good().header("crit", json!(["exp"]))),
    ] {
        let signed = mine.sign(&proof).unwrap();
        let reply = USER_BOUND.proven(&lobby(), &CREDENTIALS, &[signed]);
        assert_eq!(reply.status, 400, "{what}");
        assert_refused(&reply, "invalid_dpop_proof");
    }
    let signed = |proof: &Proof| mine.sign(proof).unwrap();
    let unsigned = signed(&good());
    let unsigned = format!("{}.", &unsigned[..unsigned.rfind('.').unwrap()]);
    for proofs in [
        vec![unsigned],
        vec![signed(&good()), signed(&good())],
        vec![format!("{}, {}", signed(&good()), signed(&good()))],
        vec!["x".repeat(5000)],
        vec![String::new()],
    ] {
        let reply = USER_BOUND.proven(&lobby(), &CREDENTIALS, &proofs);
        assert_refused(&reply, "invalid_dpop_proof");
    }
    // Query and fragment do not count, and neither does the spelling of host and path.
    let spelled = lobby().to_uppercase().replace("HTTP", "http");
    for url in [
        format!("{}/auth/token?x=y#z", lobby()),
        format!("{spelled}/auth/token"),
        format!("{}/auth/%74oken", lobby()),
    ] {
        let reply = USER_BOUND.proven(&lobby(), &CREDENTIALS, &[signed(&elsewhere(url))]);
        assert_bound(&reply, &mine);
    }
}

#[test]
fn rfc9449_s8_a_nonce_mends_a_clock_that_is_wrong() {
    let key = key();
    for seconds in [-70, 20] {
        let wrong = proof_at(&lobby(), &key).later(seconds);
        let signed = key.sign(&wrong).unwrap();
        let refused = USER_BOUND.proven(&lobby(), &CREDENTIALS, &[signed]);
        assert_refused(&refused, "use_dpop_nonce");
        let nonce = json!(refused.header("dpop-nonce").unwrap());
        let again = proof_at(&lobby(), &key)
            .later(seconds)
            .claim("nonce", nonce);
        let again = key.sign(&again).unwrap();
        let reply = USER_BOUND.proven(&lobby(), &CREDENTIALS, &[again]);
        assert_bound(&reply, &key);
        // RFC 9449 §8.2: every answer may have the next nonce.
        assert!(reply.header("dpop-nonce").is_some());
    }
    let foreign = proof_at(&lobby(), &key).claim("nonce", json!("A".repeat(43)));
    let foreign = key.sign(&foreign).unwrap();
    let refused = USER_BOUND.proven(&lobby(), &CREDENTIALS, &[foreign]);
    assert_refused(&refused, "use_dpop_nonce");
    let without = USER_BOUND.token(&lobby(), &CREDENTIALS);
    assert_eq!(without.header("dpop-nonce"), None);
}

#[test]
fn rfc9449_s11_1_a_proof_works_once_also_in_parallel() {
    let key = key();
    let proof = proof(&key);
    let url = lobby();
    let replies: Vec<Reply> = std::thread::scope(|scope| {
        let posts: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| USER_BOUND.proven(&url, &CREDENTIALS, &proof)))
            .collect();
        posts.into_iter().map(|post| post.join().unwrap()).collect()
    });
    let refused = replies.iter().filter(|reply| reply.status == 400);
    assert_eq!(refused.count(), 19);
    let replayed = USER_BOUND.proven(&lobby(), &CREDENTIALS, &proof);
    assert_refused(&replayed, "invalid_dpop_proof");
    // A refused request does not use up its proof.
    let mine = self::proof(&key);
    let scope = [CREDENTIALS.as_slice(), &[("scope", "everything")]].concat();
    USER_BOUND
        .proven(&lobby(), &scope, &mine)
        .assert_error(400, "invalid_request");
    assert_bound(&USER_BOUND.proven(&lobby(), &CREDENTIALS, &mine), &key);
}

/// A flood that aims at one place of the memory gets its share of the place. Others have the rest, and nothing is forgotten.
#[test]
fn rfc9449_s11_1_a_flood_of_one_key_takes_no_room_from_another() {
    let (flood, quiet) = (key(), key());
    let crowded = |key: &ProofKey, count: usize| -> Vec<String> {
        let ids = key.crowded_ids().take(count);
        let proofs = ids.map(|id| proof_at(&lobby(), key).claim("jti", json!(id)));
        proofs.map(|proof| key.sign(&proof).unwrap()).collect()
    };
    let url = lobby();
    let ask = |proof: &str| USER_BOUND.proven(&url, &CREDENTIALS, &[proof.to_owned()]);
    let proofs = crowded(&flood, SHARE + 8);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (number, proof) in proofs.iter().enumerate() {
                match number < SHARE {
                    true => drop(assert_bound(&ask(proof), &flood)),
                    false => assert_refused(&ask(proof), "use_dpop_nonce"),
                }
            }
        });
        for proof in crowded(&quiet, SHARE) {
            assert_bound(&ask(&proof), &quiet);
        }
    });
    assert_refused(&ask(&proofs[0]), "invalid_dpop_proof");
}

/// D-39.
#[test]
fn rfc9449_s5_refresh_tokens_of_public_clients_are_bound() {
    let (mine, other) = (key(), key());
    let tokens = exchange(&INSTALLED, &code(&INSTALLED, &[]), &proof(&mine));
    let first = tokens.text("refresh_token");
    let refresh = |token: &str, proofs: &[String]| INSTALLED.refresh_with(&lobby(), token, proofs);
    let of_other = proof(&other);
    for stolen in [&[], &of_other[..]] {
        refresh(&first, stolen).assert_error(400, "invalid_grant");
    }
    // The refused request has not used up the proof.
    assert_bound(
        &USER_BOUND.proven(&lobby(), &CREDENTIALS, &of_other),
        &other,
    );
    let second = assert_bound(&refresh(&first, &proof(&mine)), &mine);
    // A lost response is repeated to whoever has the key.
    for stolen in [vec![], proof(&other)] {
        refresh(&first, &stolen).assert_error(400, "invalid_grant");
    }
    let repeated = assert_bound(&refresh(&first, &proof(&mine)), &mine);
    assert_eq!(repeated["refresh_token"], second["refresh_token"]);
    let next = second["refresh_token"].as_str().unwrap();
    assert_bound(&refresh(next, &proof(&mine)), &mine);
}

/// D-50, RFC 9700 §4.14: whoever of owner and thief refreshes first, with a key of his own or without, the second one ends the
/// grant after the grace.
#[test]
fn rfc9449_s5_a_thief_cannot_bind_a_stolen_refresh_token() {
    let pair = OwnPair::start(&[("TOKEN_SERVICE__LIFETIMES__REFRESH_REUSE_GRACE", "0s")]);
    let lobby = pair.lobby();
    let thief = key();
    let with_key = || vec![thief.sign(&proof_at(&lobby, &thief)).unwrap()];
    let refresh = |token: &str, proofs: &[String]| INSTALLED.refresh_with(&lobby, token, proofs);
    let refresh_token = || {
        let code = Browser::new(&lobby).code_for(&INSTALLED, Some(&pkce()));
        let tokens = INSTALLED.exchange(&lobby, &code, Some(&pkce()));
        tokens.text("refresh_token")
    };
    for is_thief_first in [true, false] {
        let stolen = refresh_token();
        let (first, second) = if is_thief_first {
            (with_key(), vec![])
        } else {
            (vec![], with_key())
        };
        let refreshed = refresh(&stolen, &first);
        if is_thief_first {
            assert_bound(&refreshed, &thief);
        } else {
            assert_bearer(&refreshed);
        }
        pass(1);
        let why = refresh(&stolen, &second).assert_error(400, "invalid_grant");
        assert!(why.contains("was used before"), "{why}");
        for proofs in [vec![], with_key()] {
            refresh(&refreshed.text("refresh_token"), &proofs).assert_error(400, "invalid_grant");
        }
    }
    let token = refresh_token();
    pair.release(&[&INSTALLED]);
    pair.done(&format!("client update {} --dpop-bound", INSTALLED.id));
    assert_refused(&refresh(&token, &[]), "invalid_dpop_proof");
    let (one, other) = (key(), key());
    let prove = |key: &ProofKey| [key.sign(&proof_at(&lobby, key)).unwrap()];
    let refreshed = refresh(&token, &prove(&one));
    assert_bound(&refreshed, &one);
    let again = refresh(&refreshed.text("refresh_token"), &prove(&other));
    assert_bound(&again, &other);
}

/// D-39.
#[test]
fn rfc9449_s5_refresh_tokens_of_confidential_clients_are_not_bound() {
    let (one, other) = (key(), key());
    let tokens = exchange(&WEB, &code(&WEB, &[]), &proof(&one));
    let first = tokens.text("refresh_token");
    let refresh = |proofs: &[String]| WEB.refresh_with(&lobby(), &first, proofs);
    let second = assert_bound(&refresh(&proof(&other)), &other);
    let repeated = assert_bound(&refresh(&proof(&one)), &one);
    assert_eq!(repeated["refresh_token"], second["refresh_token"]);
    assert_bearer(&refresh(&[]));
}

#[test]
fn rfc9449_s10_a_code_is_bound_to_the_key_of_its_request() {
    let (mine, other) = (key(), key());
    for client in [WEB, INSTALLED] {
        let thumbprint = mine.thumbprint();
        let code = code(&client, &[("dpop_jkt", &thumbprint)]);
        let of_other = proof(&other);
        for wrong in [&[], &of_other[..]] {
            exchange(&client, &code, wrong).assert_error(400, "invalid_grant");
        }
        // The refused request has not used up the proof.
        assert_bound(
            &USER_BOUND.proven(&lobby(), &CREDENTIALS, &of_other),
            &other,
        );
        assert_bound(&exchange(&client, &code, &proof(&mine)), &mine);
    }
    let malformed = WEB.request(&[("dpop_jkt", "short")]);
    let reply = Browser::new(&lobby()).authorize(&malformed);
    let error = answered(&reply, WEB.redirect_uri, "error");
    assert_eq!(error.as_deref(), Some("invalid_request"));
}

#[test]
fn rfc9449_s5_2_a_client_may_be_restricted_to_bound_tokens() {
    let pair = OwnPair::start(&[]);
    let lobby = pair.lobby();
    let codes: Vec<(Client, String)> = [WEB, INSTALLED]
        .into_iter()
        .map(|client| {
            let pkce = client.secret.is_none().then(pkce);
            let code = Browser::new(&lobby).code_for(&client, pkce.as_ref());
            (client, code)
        })
        .collect();
    let old = WEB
        .exchange(&lobby, &codes[0].1, None)
        .text("refresh_token");
    for client in [WEB, INSTALLED, NON_INTERACTIVE, USER_BOUND] {
        pair.release(&[&client]);
        pair.done(&format!("client update {} --dpop-bound", client.id));
    }
    let code = Browser::new(&lobby).code_for(&WEB, None);
    let pkce = pkce();
    let assertion = Assertion::of("ada@example.com").sign();
    let refused = [
        WEB.exchange(&lobby, &code, None),
        WEB.refresh(&lobby, &old),
        INSTALLED.exchange(&lobby, &codes[1].1, Some(&pkce)),
        NON_INTERACTIVE.assert(&lobby, &assertion, &[]),
        USER_BOUND.token(&lobby, &CREDENTIALS),
    ];
    for reply in refused {
        assert_refused(&reply, "invalid_dpop_proof");
    }
    let key = key();
    let proof = vec![key.sign(&proof_at(&lobby, &key)).unwrap()];
    assert_bound(&USER_BOUND.proven(&lobby, &CREDENTIALS, &proof), &key);
    pair.failed(&format!("client update {} --dpop-bound", LEGACY.id));
    pair.done(&format!("client update {} --dpop-optional", WEB.id));
    assert_bearer(&WEB.exchange(&lobby, &code, None));
}

#[test]
fn rfc9449_s8_a_nonce_may_be_required() {
    let pair = OwnPair::start(&[("TOKEN_SERVICE__DPOP__NONCE", "required")]);
    let (lobby, key) = (pair.lobby(), key());
    let ask = |nonce: Option<&str>| {
        let mut proof = proof_at(&lobby, &key);
        if let Some(nonce) = nonce {
            proof = proof.claim("nonce", json!(nonce));
        }
        let proof = key.sign(&proof).unwrap();
        USER_BOUND.proven(&lobby, &CREDENTIALS, &[proof])
    };
    let refused = ask(None);
    assert_refused(&refused, "use_dpop_nonce");
    let reply = ask(refused.header("dpop-nonce"));
    assert_bound(&reply, &key);
    assert_bound(&ask(reply.header("dpop-nonce")), &key);
    assert_bearer(&USER_BOUND.token(&lobby, &CREDENTIALS));
    let pushed = key.proof("POST", &format!("{lobby}/auth/par"), None);
    let pushed = [key.sign(&pushed.unwrap()).unwrap()];
    let refused = WEB.post_with(&lobby, "/auth/par", &WEB.request(&[]), &pushed);
    assert_refused(&refused, "use_dpop_nonce");
    // A step of the client, not an incident (RFC 9449 §8).
    let audit = pair.json("audit --action token_request_refused");
    assert_eq!(audit["items"], json!([]));
}

/// Calls the API with a token of the pair, the scheme and a proof.
fn call(api_url: &str, scheme: &str, token: &str, proof: Option<&str>) -> Reply {
    let authorization = format!("{scheme} {token}");
    let mut headers = vec![("authorization", authorization.as_str())];
    headers.extend(proof.map(|proof| ("dpop", proof)));
    get(&format!("{api_url}/api/projects"), &headers)
}

/// A fresh proof for a call of the API.
fn proof_for(api_url: &str, key: &ProofKey, token: &str) -> String {
    let url = format!("{api_url}/api/projects");
    key.prove("GET", &url, Some(token)).unwrap()
}

/// What the token service binds, the gateway enforces.
#[forms::each]
fn rfc9449_s7_the_api_takes_a_bound_token_with_a_proof_of_its_key_alone() {
    let (mine, other, url) = (key(), key(), pair().api_url());
    let token = USER_BOUND
        .proven(&lobby(), &CREDENTIALS, &proof(&mine))
        .text("access_token");
    let used = proof_for(&url, &mine, &token);
    let call = |scheme: &str, proof: Option<&str>| call(&url, scheme, &token, proof);
    let accepted = call("DPoP", Some(&used));
    assert_eq!(accepted.status, 200, "{}", accepted.body);
    for (what, refused) in [
        ("the same proof", call("DPoP", Some(&used))),
        (
            "another key",
            call("DPoP", Some(&proof_for(&url, &other, &token))),
        ),
        ("no proof", call("DPoP", None)),
        ("as a bearer token", call("Bearer", None)),
        (
            "as a bearer token, with a proof",
            call("Bearer", Some(&proof_for(&url, &mine, &token))),
        ),
    ] {
        assert_eq!(refused.status, 401, "{what}: {}", refused.body);
    }
    let again = proof_for(&url, &mine, &token);
    assert_eq!(call("DPoP", Some(&again)).status, 200);
}

/// What is bound to the key of a lost device ends, at the gateway too, and nothing else.
#[forms::each]
fn a_lost_device_ends_with_its_key() {
    let pair = OwnPair::start(&[]);
    let (lobby, api_url) = (pair.lobby(), pair.pair.api_url());
    let (lost, kept) = (key(), key());
    let pkce = pkce();
    let tokens = |key: &ProofKey| {
        let code = Browser::new(&lobby).code_for(&INSTALLED, Some(&pkce));
        let proof = key.sign(&proof_at(&lobby, key)).unwrap();
        INSTALLED.exchange_with(&lobby, &code, Some(&pkce), &[proof])
    };
    let credentials = |key: &ProofKey| {
        let proof = key.sign(&proof_at(&lobby, key)).unwrap();
        USER_BOUND.proven(&lobby, &CREDENTIALS, &[proof])
    };
    let (device, laptop) = (tokens(&lost), tokens(&kept));
    let (without_grant, other) = (credentials(&lost), credentials(&kept));
    let at_the_api = |tokens: &Reply, key: &ProofKey| {
        let token = tokens.text("access_token");
        let proof = proof_for(&api_url, key, &token);
        call(&api_url, "DPoP", &token, Some(&proof)).status
    };
    assert_eq!(at_the_api(&device, &lost), 200);
    let listed = pair.done(&format!("grant list --client {}", INSTALLED.id));
    assert!(listed.contains(&lost.thumbprint()), "{listed}");
    let done = pair.done(&format!("grant revoke --key {}", lost.thumbprint()));
    assert!(done.starts_with("1 grants revoked"), "{done}");
    let refresh = |tokens: &Reply, key: &ProofKey| {
        let proof = key.sign(&proof_at(&lobby, key)).unwrap();
        INSTALLED.refresh_with(&lobby, &tokens.text("refresh_token"), &[proof])
    };
    refresh(&device, &lost).assert_error(400, "invalid_grant");
    assert_bound(&refresh(&laptop, &kept), &kept);
    let is_active = |tokens: &Reply| {
        let token = tokens.text("access_token");
        let told = USER_BOUND.post(&lobby, "/auth/introspect", &[("token", &token)]);
        told.json()["active"].clone()
    };
    assert_eq!(is_active(&without_grant), false);
    assert_eq!(is_active(&other), true);
    for tokens in [&device, &without_grant] {
        until("the gateway refuses tokens of the lost device", || {
            at_the_api(tokens, &lost) == 401
        });
    }
    for tokens in [&laptop, &other] {
        assert_eq!(at_the_api(tokens, &kept), 200);
    }
    let feed = get(&format!("{}/revocations", pair.pair.internal_url()), &[]).json();
    let entry = &feed["revocations"][0];
    assert_eq!(entry["kind"], "key");
    assert_eq!(entry["id"], lost.thumbprint());
    let audit = pair.done("audit --action grant_revoked");
    assert!(audit.contains(&lost.thumbprint()), "{audit}");
    pair.failed("grant revoke --key short");
}

/// Tokens of the legacy flow have no room for the claim `cnf`.
#[test]
fn protocol_s4_6_a_proof_at_the_legacy_endpoint_is_ignored() {
    let instance = Instance::of(pair());
    let code = instance.code(&LEGACY);
    let url = format!("{}/as/token.oauth2", pair().legacy_url());
    let proof = key().prove("POST", &url, None).unwrap();
    let headers = [("host", instance.server.clone()), ("dpop", proof)];
    let fields = crate::support::exchange(&LEGACY, &code);
    let reply = post(&url, &headers, &form_body(&fields));
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(reply.json()["token_type"], "Bearer");
    assert_eq!(reply.header("dpop-nonce"), None);
}
