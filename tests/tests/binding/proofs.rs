//! Proofs at the token endpoint (RFC 9449 §4.3, §8, §11.1). `claims::dpop` has each rule about their content.

use serde_json::json;
use tests::proofs::{Proof, ProofKey, SHARE};

use super::{Shown, assert_gives, key};
use crate::support::{
    CREDENTIALS, Instance, LEGACY, OwnPair, Reply, USER_BOUND, WEB, form_body, lobby, pair, post,
};

fn proof(lobby: &str, key: &ProofKey) -> Proof {
    let url = format!("{lobby}/auth/token");
    key.proof("POST", &url, None).unwrap()
}

fn ask(lobby: &str, proofs: &[String]) -> Reply {
    USER_BOUND.proven(lobby, &CREDENTIALS, proofs)
}

#[test]
fn rfc9449_s4_3_a_wrong_proof_gets_no_token() {
    let (mine, other, lobby) = (key(), key(), lobby());
    let good = || proof(&lobby, &mine);
    let sign = |proof: &Proof| mine.sign(proof).unwrap();
    let url = |url: String| sign(&good().claim("htu", json!(url)));
    for proofs in [
        vec![sign(&good().header("jwk", other.jwk()))],
        vec![sign(&good().claim("htm", json!("GET")))],
        vec![url(format!("{lobby}/auth/revoke"))],
        vec![sign(&good()), sign(&good())],
        vec![format!("{}, {}", sign(&good()), sign(&good()))],
        vec!["x".repeat(5000)],
        vec![String::new()],
    ] {
        let reply = ask(&lobby, &proofs);
        assert_gives(&reply, "invalid_dpop_proof", Shown::NOTHING);
    }
    // Query and fragment do not count, and neither does the spelling of host and path.
    let spelled = lobby.to_uppercase().replace("HTTP", "http");
    for spelled in [url(format!("{spelled}/auth/%74oken?x=y#z")), sign(&good())] {
        assert_gives(&ask(&lobby, &[spelled]), "key", Shown::key(&mine));
    }
    for algorithm in ["EdDSA", "RS256"] {
        let key = ProofKey::new(algorithm).unwrap();
        let proof = key.sign(&proof(&lobby, &key)).unwrap();
        assert_gives(&ask(&lobby, &[proof]), "key", Shown::key(&key));
    }
    let without = USER_BOUND.token(&lobby, &CREDENTIALS);
    assert_eq!(without.header("dpop-nonce"), None);
}

#[test]
fn rfc9449_s8_a_nonce_mends_a_clock_that_is_wrong_and_may_be_required() {
    let required = OwnPair::start(&[("TOKEN_SERVICE__DPOP__NONCE", "required")]);
    let key = key();
    let mine = Shown::key(&key);
    for (lobby, seconds) in [(lobby(), -70), (lobby(), 20), (required.lobby(), 0)] {
        let ask = |nonce: Option<&str>| {
            let mut proof = proof(&lobby, &key).later(seconds);
            if let Some(nonce) = nonce {
                proof = proof.claim("nonce", json!(nonce));
            }
            ask(&lobby, &[key.sign(&proof).unwrap()])
        };
        let refused = ask(None);
        assert_gives(&refused, "use_dpop_nonce", mine);
        let reply = ask(refused.header("dpop-nonce"));
        assert_gives(&reply, "key", mine);
        // RFC 9449 §8.2: every answer may have the next nonce.
        assert_gives(&ask(reply.header("dpop-nonce")), "key", mine);
        assert_gives(&ask(Some(&"A".repeat(43))), "use_dpop_nonce", mine);
    }
    let lobby = required.lobby();
    let bearer = USER_BOUND.token(&lobby, &CREDENTIALS);
    assert_gives(&bearer, "bearer", Shown::NOTHING);
    let pushed = key.prove("POST", &format!("{lobby}/auth/par"), None);
    let pushed = [("dpop", pushed.unwrap())];
    let refused = WEB.post_with(&lobby, "/auth/par", &WEB.request(&[]), &pushed);
    assert_gives(&refused, "use_dpop_nonce", mine);
    // A step of the client, not an incident (RFC 9449 §8).
    let audit = required.json("audit --action token_request_refused");
    assert_eq!(audit["items"], json!([]));
}

#[test]
fn rfc9449_s11_1_a_proof_works_once_also_in_parallel() {
    let (key, lobby) = (key(), lobby());
    let mine = Shown::key(&key);
    let fresh = || [key.sign(&proof(&lobby, &key)).unwrap()];
    let proof = fresh();
    let statuses = std::thread::scope(|scope| {
        [(); 20]
            .map(|()| scope.spawn(|| ask(&lobby, &proof).status))
            .map(|post| post.join().unwrap())
    });
    let refused = statuses.iter().filter(|status| **status == 400);
    assert_eq!(refused.count(), 19);
    assert_gives(&ask(&lobby, &proof), "invalid_dpop_proof", mine);
    // A refused request does not use up its proof.
    let proof = fresh();
    let scope = [CREDENTIALS.as_slice(), &[("scope", "everything")]].concat();
    let refused = USER_BOUND.proven(&lobby, &scope, &proof);
    refused.assert_error(400, "invalid_request");
    assert_gives(&ask(&lobby, &proof), "key", mine);
}

/// `claims` shows that a flood leaves room for others. What has no room is told a nonce.
#[test]
fn rfc9449_s11_1_a_flood_of_one_key_gets_its_share() {
    let (flood, lobby) = (key(), lobby());
    let crowded = flood.crowded_ids().take(SHARE + 1).map(|id| {
        let proof = proof(&lobby, &flood).claim("jti", json!(id));
        flood.sign(&proof).unwrap()
    });
    for (number, proof) in crowded.enumerate() {
        let outcome = match number < SHARE {
            true => "key",
            false => "use_dpop_nonce",
        };
        assert_gives(&ask(&lobby, &[proof]), outcome, Shown::key(&flood));
    }
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
