//! Tokens that are bound to a key (RFC 9449) or to a certificate (RFC 8705).

use claims::Thumbprint;
use claims::dpop::{NonceKey, ProofRefusal};
use claims::jwk::PublicKey;

use super::*;
use crate::answers::Answer;

const URL: &str = "https://api.example.com/api/x";

/// A client with a key.
struct Client(Issuer);

impl Client {
    fn new() -> Self {
        Self(Issuer::new(Algorithm::EdDsa))
    }

    fn thumbprint(&self) -> Thumbprint {
        let key: PublicKey = serde_json::from_value(self.0.public_key()).unwrap();
        key.thumbprint()
    }

    fn header(&self) -> Value {
        json!({"typ": "dpop+jwt", "alg": self.0.algorithm().name(), "jwk": self.0.public_key()})
    }

    fn sign(&self, claims: &Value) -> String {
        self.0.sign(&self.header().to_string(), &claims.to_string())
    }

    /// The claims of a proof for `GET` at [`URL`].
    fn claims(&self, token: &str, jti: &str) -> Value {
        let hash = Thumbprint::of(token.as_bytes()).to_string();
        json!({"jti": jti, "htm": "GET", "htu": URL, "iat": NOW, "ath": hash})
    }

    fn proof(&self, token: &str, jti: &str) -> String {
        self.sign(&self.claims(token, jti))
    }

    fn bound(&self) -> Value {
        with(claims(), "cnf", json!({"jkt": self.thumbprint()}))
    }
}

/// A request to [`URL`].
struct Sent<'s> {
    scheme: &'s str,
    token: &'s str,
    proofs: &'s [&'s str],
    certificate: Option<Thumbprint>,
}

impl<'s> Sent<'s> {
    fn dpop(token: &'s str, proofs: &'s [&'s str]) -> Self {
        Self {
            scheme: "DPoP",
            token,
            proofs,
            certificate: None,
        }
    }

    fn bearer(token: &'s str) -> Self {
        Self {
            scheme: "Bearer",
            ..Self::dpop(token, &[])
        }
    }

    fn outcome(&self, guard: &mut Guard) -> Outcome {
        let authorization = format!("{} {}", self.scheme, self.token);
        let dpop: Vec<&[u8]> = self.proofs.iter().map(|proof| proof.as_bytes()).collect();
        let request = Request {
            method: b"GET",
            target: b"/api/x",
            authorization: &[authorization.as_bytes()],
            dpop: &dpop,
            connection: &self.certificate,
        };
        guard.set_time(at(NOW));
        guard.decide(request, Patience::Left, || NOW)
    }

    fn decide(&self, guard: &mut Guard) -> Decision {
        self.outcome(guard).decision
    }

    /// The answer to a request that is refused.
    #[track_caller]
    fn answer(&self, guard: &mut Guard) -> Answer {
        let outcome = self.outcome(guard);
        match guard.effect(outcome).fate {
            Fate::Answer(answer) => answer,
            pass => panic!("{pass:?}"),
        }
    }
}

fn refused_by(refusal: ProofRefusal) -> Decision {
    Decision::Deny(Denial::Proof(refusal.into()))
}

fn config() -> Value {
    let mut config = fixtures::config();
    config["dpop"] = json!({"origins": ["https://api.example.com"]});
    config
}

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let mut headers = answer.headers.iter();
    headers.find_map(|(of, value)| (*of == name).then_some(value.as_str()))
}

#[test]
fn rfc9449_s7_1_a_proof_of_the_key_lets_in_once_by_the_cache_too() {
    let (issuer, client) = (Issuer::new(Algorithm::EdDsa), Client::new());
    let mut guard = ready_with(&config(), &issuer);
    let token = issuer.token(&client.bound());
    for jti in ["1", "2", "3"] {
        let proof = client.proof(&token, jti);
        let sent = Sent::dpop(&token, &[&proof]).decide(&mut guard);
        assert!(is_allowed(&sent), "{sent:?}");
        let again = Sent::dpop(&token, &[&proof]).decide(&mut guard);
        assert_eq!(again, refused_by(ProofRefusal::Replayed));
        let bare = Sent::dpop(&token, &[]).decide(&mut guard);
        assert_eq!(bare, refused_by(ProofRefusal::Missing));
        let bearer = Sent::bearer(&token).decide(&mut guard);
        assert_eq!(bearer, refused(Refusal::Bound));
    }
    let counts = guard.take_counts();
    assert_eq!((counts.cache_misses, counts.cache_hits), (1, 8));
}

#[test]
fn rfc9449_s4_3_every_check_has_its_refusal_with_and_without_the_cache() {
    let (issuer, client, thief) = (Issuer::new(Algorithm::EdDsa), Client::new(), Client::new());
    let token = issuer.token(&client.bound());
    let other = issuer.token(&with(client.bound(), "jti", json!("token-2")));
    let good = client.claims(&token, "1");
    let proof = client.sign(&good);
    let changed = |name: &str, value: Value| client.sign(&with(good.clone(), name, value));
    let of_header = |name: &str, value: Value| {
        let header = with(client.header(), name, value);
        client.0.sign(&header.to_string(), &good.to_string())
    };
    let with_private = with(client.0.public_key(), "d", json!("x"));
    let forged = format!("{}.{}", proof.rsplit_once('.').unwrap().0, "A".repeat(86));
    for (proofs, refusal) in [
        (vec![thief.sign(&good)], ProofRefusal::Binding),
        (vec![client.proof(&other, "1")], ProofRefusal::Token),
        (vec![changed("ath", json!(null))], ProofRefusal::Token),
        (vec![changed("htm", json!("get"))], ProofRefusal::Method),
        (
            vec![changed("htu", json!("https://api.example.com/api/y"))],
            ProofRefusal::Url,
        ),
        (
            vec![changed("htu", json!("https://elsewhere.example.com/api/x"))],
            ProofRefusal::Url,
        ),
        (vec![changed("iat", json!(NOW - 61))], ProofRefusal::Stale),
        (
            vec![changed("iat", json!(NOW + 11))],
            ProofRefusal::NotYetValid,
        ),
        (vec![forged], ProofRefusal::Signature),
        (vec![proof.clone(), proof.clone()], ProofRefusal::Several),
        (vec![format!("{proof},{proof}")], ProofRefusal::Several),
        (vec![], ProofRefusal::Missing),
        (vec!["a".repeat(5 * 1024)], ProofRefusal::TooLong),
        (vec![token.clone()], ProofRefusal::Type),
        (
            vec![of_header("alg", json!("none"))],
            ProofRefusal::Algorithm,
        ),
        (
            vec![of_header("alg", json!("HS256"))],
            ProofRefusal::Algorithm,
        ),
        (
            vec![of_header("alg", json!("RS256"))],
            ProofRefusal::Algorithm,
        ),
        (
            vec![of_header("crit", json!(["b64"]))],
            ProofRefusal::Critical,
        ),
        (vec![of_header("jwk", with_private)], ProofRefusal::Key),
    ] {
        let proofs: Vec<&str> = proofs.iter().map(String::as_str).collect();
        let mut guard = ready_with(&config(), &issuer);
        let sent = Sent::dpop(&token, &proofs);
        let refused = |guard: &mut Guard| match sent.decide(guard) {
            Decision::Deny(Denial::Proof(refused)) => refused.refusal,
            other => panic!("{proofs:?}: {other:?}"),
        };
        assert_eq!(refused(&mut guard), refusal, "{proofs:?}");
        // None of them used up the proof, and the cached token has the same refusals.
        let passes = Sent::dpop(&token, &[&proof]).decide(&mut guard);
        assert!(is_allowed(&passes), "{refusal:?}: {passes:?}");
        assert_eq!(refused(&mut guard), refusal, "{proofs:?}");
    }
}

/// Everything about the token comes before the check of the proof, and scopes come last: a thief learns nothing of those of
/// the token.
#[test]
fn a_token_is_judged_before_the_proof_and_scopes_after() {
    let (issuer, client, thief) = (Issuer::new(Algorithm::EdDsa), Client::new(), Client::new());
    let mut config = config();
    config["rules"] = json!([{"path_prefix": "/", "scopes": ["admin"]}]);
    let mut guard = ready_with(&config, &issuer);
    let token = issuer.token(&client.bound());
    let stolen = thief.proof(&token, "1");
    let stolen = Sent::dpop(&token, &[&stolen]).decide(&mut guard);
    assert_eq!(stolen, refused_by(ProofRefusal::Binding));
    let proof = client.proof(&token, "1");
    let proofs = [proof.as_str()];
    let own = Sent::dpop(&token, &proofs);
    let scope = own.answer(&mut guard);
    assert_eq!(scope.status, 403);
    let challenge = header(&scope, "www-authenticate").unwrap();
    assert!(challenge.starts_with("DPoP algs="), "{challenge}");
    assert!(challenge.contains("scope=\"admin\""), "{challenge}");

    let expired = issuer.token(&with(client.bound(), "exp", json!(NOW - 60)));
    let proof = client.sign(&with(client.claims(&expired, "1"), "htm", json!("PUT")));
    let expired = Sent::dpop(&expired, &[&proof]).decide(&mut guard);
    assert_eq!(expired, refused(Refusal::Expired));
}

#[test]
fn what_a_token_is_bound_to_is_read_from_the_token_alone() {
    use Refusal::{Bound, CertificateMissing, CertificateOther, Confirmation, NotBoundToKey};
    let (issuer, client) = (Issuer::new(Algorithm::EdDsa), Client::new());
    let (shown, other) = (Thumbprint::of(b"shown"), Thumbprint::of(b"other"));
    let bound = |to: Value| with(claims(), "cnf", to);
    let certified = bound(json!({"x5t#S256": shown}));
    let both = bound(json!({"x5t#S256": shown, "jkt": client.thumbprint()}));
    let (keyed, unknown) = (client.bound(), bound(json!({"kid": "1"})));
    let plain = claims();
    for (claims, scheme, certificate, expected) in [
        (&plain, "Bearer", None, None),
        (&plain, "DPoP", None, Some(NotBoundToKey)),
        (&keyed, "Bearer", Some(shown), Some(Bound)),
        (&keyed, "DPoP", Some(other), None),
        (&certified, "Bearer", Some(shown), None),
        (&certified, "Bearer", None, Some(CertificateMissing)),
        (&certified, "Bearer", Some(other), Some(CertificateOther)),
        (&certified, "DPoP", Some(shown), Some(NotBoundToKey)),
        (&both, "DPoP", Some(shown), None),
        (&both, "DPoP", None, Some(CertificateMissing)),
        (&both, "DPoP", Some(other), Some(CertificateOther)),
        (&both, "Bearer", Some(shown), Some(Bound)),
        (&unknown, "DPoP", Some(shown), Some(Confirmation)),
        (&unknown, "Bearer", Some(shown), Some(Confirmation)),
    ] {
        let mut guard = ready_with(&config(), &issuer);
        let token = issuer.token(claims);
        // The second time by the cache.
        for jti in ["1", "2"] {
            let proof = client.proof(&token, jti);
            let proofs = [proof.as_str()];
            let sent = Sent {
                scheme,
                certificate,
                ..Sent::dpop(&token, &proofs)
            };
            let decision = sent.decide(&mut guard);
            match expected {
                None => assert!(is_allowed(&decision), "{claims} {scheme}: {decision:?}"),
                Some(refusal) => assert_eq!(decision, refused(refusal), "{claims} {scheme}"),
            }
        }
    }
}

/// Neither the connection nor the clock is asked for a token that is not bound.
#[test]
fn plain_tokens_pay_nothing() {
    #[derive(Debug)]
    struct Unasked;
    impl Connection for Unasked {
        fn certificate(&self) -> Option<Thumbprint> {
            panic!("asked");
        }
    }
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut guard = ready_with(&config(), &issuer);
    let authorization = format!("Bearer {}", issuer.token(&claims()));
    let request = Request {
        method: b"GET",
        target: b"/api/x",
        authorization: &[authorization.as_bytes()],
        dpop: &[],
        connection: &Unasked,
    };
    let first = guard.decide(request, Patience::Left, || NOW);
    assert!(is_allowed(&first.decision));
    let second = guard.decide(request, Patience::Left, || panic!("asked"));
    assert!(is_allowed(&second.decision));
}

#[test]
fn rfc9449_s11_1_the_vms_of_a_gateway_accept_a_proof_once() {
    let (issuer, client) = (Issuer::new(Algorithm::EdDsa), Client::new());
    let token = issuer.token(&client.bound());
    let store = Store::default();
    let mut one = ready_with(&config(), &issuer).with_shared_data(Box::new(store.clone()));
    let mut other = ready_with(&config(), &issuer).with_shared_data(Box::new(store));
    // Each VM without shared data remembers for itself.
    let mut alone = ready_with(&config(), &issuer);
    for jti in 0..100 {
        let proof = client.proof(&token, &jti.to_string());
        let proofs = [proof.as_str()];
        let sent = Sent::dpop(&token, &proofs);
        assert!(is_allowed(&sent.decide(&mut one)));
        for guard in [&mut one, &mut other] {
            assert_eq!(sent.decide(guard), refused_by(ProofRefusal::Replayed));
        }
        assert!(is_allowed(&sent.decide(&mut alone)));
        assert_eq!(sent.decide(&mut alone), refused_by(ProofRefusal::Replayed));
    }
}

/// The host answers that another VM has changed the value, for ever.
#[test]
fn a_proof_that_cannot_be_remembered_is_refused() {
    #[derive(Debug)]
    struct Contended;
    impl SharedData for Contended {
        fn get(
            &self,
            _: &str,
        ) -> Result<Option<(Vec<u8>, u32)>, crate::shared_data::SharedDataError> {
            Ok(None)
        }
        fn set(
            &self,
            _: &str,
            _: &[u8],
            version: Option<u32>,
        ) -> Result<bool, crate::shared_data::SharedDataError> {
            Ok(version.is_none())
        }
    }
    let (issuer, client) = (Issuer::new(Algorithm::EdDsa), Client::new());
    let token = issuer.token(&client.bound());
    let mut config = config();
    let proof = client.proof(&token, "1");
    for (key, status, error) in [
        (None, 503, "temporarily_unavailable"),
        (
            Some(json!("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE")),
            401,
            "use_dpop_nonce",
        ),
    ] {
        if let Some(key) = key {
            config["dpop"]["nonce_key"] = key;
        }
        let mut guard = ready_with(&config, &issuer).with_shared_data(Box::new(Contended));
        let answer = Sent::dpop(&token, &[&proof]).answer(&mut guard);
        assert_eq!(answer.status, status);
        assert!(answer.body.contains(error), "{}", answer.body);
        assert_eq!(header(&answer, "dpop-nonce").is_some(), status == 401);
        assert_eq!(header(&answer, "www-authenticate").is_some(), status == 401);
    }
}

#[test]
fn rfc9449_s8_nonces_are_given_out_and_required_by_issuer() {
    const KEY: [u8; 32] = [1; 32];
    let (issuer, client) = (Issuer::new(Algorithm::EdDsa), Client::new());
    let token = issuer.token(&client.bound());
    let mut config = config();
    config["dpop"]["nonce_key"] = json!("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE");
    let nonce = NonceKey::new(KEY).nonce(NOW);
    let old = with(client.claims(&token, "1"), "iat", json!(NOW - 600));
    let with_nonce = with(old.clone(), "nonce", json!(nonce));
    let yesterday = with(
        old.clone(),
        "nonce",
        json!(NonceKey::new(KEY).nonce(NOW - 86_400)),
    );
    for required in [false, true] {
        if required {
            config["issuers"][0]["dpop_nonce"] = json!("required");
        }
        let mut guard = ready_with(&config, &issuer);
        for claims in [&old, &yesterday] {
            let proof = client.sign(claims);
            let answer = Sent::dpop(&token, &[&proof]).answer(&mut guard);
            assert_eq!(answer.status, 401);
            assert_eq!(header(&answer, "dpop-nonce"), Some(nonce.as_str()));
            let challenge = header(&answer, "www-authenticate").unwrap();
            let start = "DPoP algs=\"ES256 EdDSA\", realm=\"api\", error=\"use_dpop_nonce\", ";
            assert!(challenge.starts_with(start), "{challenge}");
            assert!(challenge.ends_with(", Bearer realm=\"api\""), "{challenge}");
        }
        // D-54: a step of the client, not a denial.
        let outcome = Sent::dpop(&token, &[&client.sign(&old)]).outcome(&mut guard);
        let effect = guard.effect(outcome);
        guard.take_counts();
        guard.count(&effect);
        let counts = guard.take_counts();
        assert_eq!((counts.nonces_offered, counts.denied.len()), (1, 0));
        let proof = client.sign(&with_nonce);
        assert!(is_allowed(
            &Sent::dpop(&token, &[&proof]).decide(&mut guard)
        ));
        let without = client.proof(&token, "2");
        let without = Sent::dpop(&token, &[&without]).decide(&mut guard);
        match required {
            false => assert!(is_allowed(&without)),
            true => assert_eq!(without, refused_by(ProofRefusal::Nonce)),
        }
    }
}

#[test]
fn rfc9449_s7_1_each_scheme_has_its_challenge_and_the_used_one_the_error() {
    let (issuer, client, thief) = (Issuer::new(Algorithm::EdDsa), Client::new(), Client::new());
    let token = issuer.token(&client.bound());
    let mut guard = ready_with(&config(), &issuer);
    let proof = client.sign(&with(client.claims(&token, "1"), "htm", json!("PUT")));
    let stolen = thief.proof(&token, "1");
    let bearer = "Bearer realm=\"api\"";
    let dpop = "DPoP algs=\"ES256 EdDSA\", realm=\"api\"";
    for (sent, first, error, second) in [
        (
            Sent::dpop(&token, &[&proof]),
            dpop,
            "invalid_dpop_proof",
            bearer,
        ),
        (
            Sent::dpop(&token, &[&stolen]),
            dpop,
            "invalid_token",
            bearer,
        ),
        (Sent::bearer(&token), bearer, "invalid_token", dpop),
        (Sent::bearer("a.b.c"), bearer, "invalid_token", dpop),
    ] {
        let answer = sent.answer(&mut guard);
        assert_eq!(answer.status, 401);
        let fields = answer
            .headers
            .iter()
            .filter(|(name, _)| *name == "www-authenticate");
        assert_eq!(fields.count(), 1);
        let challenge = header(&answer, "www-authenticate").unwrap();
        let start = format!("{first}, error=\"{error}\", error_description=\"");
        assert!(challenge.starts_with(&start), "{challenge}");
        assert!(challenge.ends_with(&format!("\", {second}")), "{challenge}");
        assert!(answer.body.contains(error), "{}", answer.body);
        assert_eq!(header(&answer, "dpop-nonce"), None);
    }
    let Fate::Answer(nothing) = guard.effect(Denial::NoToken.into()).fate else {
        panic!("refused");
    };
    let both = format!("{bearer}, {dpop}");
    assert_eq!(header(&nothing, "www-authenticate"), Some(both.as_str()));
}

/// A gateway without `dpop` answers as ever, and its log names the missing configuration.
#[test]
fn without_origins_no_proof_is_accepted() {
    let (issuer, client) = (Issuer::new(Algorithm::EdDsa), Client::new());
    let token = issuer.token(&client.bound());
    let mut guard = ready(&issuer);
    let proof = client.proof(&token, "1");
    let proofs = [proof.as_str()];
    let sent = Sent::dpop(&token, &proofs);
    assert_eq!(
        sent.decide(&mut guard),
        Decision::Deny(Denial::DpopNotConfigured)
    );
    assert_eq!(Denial::DpopNotConfigured.name(), "dpop_not_configured");
    let answer = sent.answer(&mut guard);
    assert_eq!(answer.status, 401);
    assert_eq!(
        header(&answer, "www-authenticate"),
        Some("Bearer realm=\"api\"")
    );
    assert_eq!(
        Sent::bearer(&token).decide(&mut guard),
        refused(Refusal::Bound)
    );
}

#[test]
fn proofs_are_signed_with_the_configured_algorithms() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    for (algorithms, accepted) in [
        (None, vec![Algorithm::EdDsa, Algorithm::Es256]),
        (Some(json!(["RS256"])), vec![Algorithm::Rs256]),
        (
            Some(json!(["EdDSA", "RS256"])),
            vec![Algorithm::EdDsa, Algorithm::Rs256],
        ),
    ] {
        let mut config = config();
        if let Some(algorithms) = algorithms {
            config["dpop"]["algorithms"] = algorithms;
        }
        let mut guard = ready_with(&config, &issuer);
        for algorithm in [Algorithm::EdDsa, Algorithm::Es256, Algorithm::Rs256] {
            let client = Client(Issuer::new(algorithm));
            let token = issuer.token(&client.bound());
            let proof = client.proof(&token, "1");
            let decision = Sent::dpop(&token, &[&proof]).decide(&mut guard);
            if accepted.contains(&algorithm) {
                assert!(is_allowed(&decision), "{algorithm:?}: {decision:?}");
                let forged = client.proof(&token, "2");
                let (signed, signature) = forged.rsplit_once('.').unwrap();
                let first = if signature.starts_with('A') { 'B' } else { 'A' };
                let forged = format!("{signed}.{first}{}", &signature[1..]);
                let forged = Sent::dpop(&token, &[&forged]).decide(&mut guard);
                assert!(!is_allowed(&forged), "{algorithm:?}");
            } else {
                assert_eq!(
                    decision,
                    refused_by(ProofRefusal::Algorithm),
                    "{algorithm:?}"
                );
            }
        }
    }
}

#[test]
fn an_issuer_may_have_to_bind_its_tokens() {
    let (issuer, client) = (Issuer::new(Algorithm::EdDsa), Client::new());
    let mut config = config();
    config["issuers"][0]["sender_constrained"] = json!("required");
    let mut guard = ready_with(&config, &issuer);
    let plain = issuer.token(&claims());
    let proof = client.proof(&plain, "1");
    for sent in [Sent::bearer(&plain), Sent::dpop(&plain, &[&proof])] {
        assert_eq!(sent.decide(&mut guard), refused(Refusal::Unbound));
    }
    let token = issuer.token(&client.bound());
    let proof = client.proof(&token, "1");
    assert!(is_allowed(
        &Sent::dpop(&token, &[&proof]).decide(&mut guard)
    ));
}

#[test]
fn a_resource_server_that_knows_bearer_alone_gets_the_token_so() {
    let (issuer, client) = (Issuer::new(Algorithm::EdDsa), Client::new());
    let token = issuer.token(&client.bound());
    let plain = issuer.token(&claims());
    let bearer = Authorization::AsBearer(format!("Bearer {token}"));
    for (forwards, of_dpop) in [
        (json!("bearer"), &bearer),
        (json!(true), &Authorization::AsSent),
        (json!(false), &Authorization::Withheld),
    ] {
        let mut config = config();
        config["forward_authorization"] = forwards;
        let mut guard = ready_with(&config, &issuer);
        let mut authorization = |sent: &Sent<'_>| {
            let outcome = sent.outcome(&mut guard);
            match guard.effect(outcome).fate {
                Fate::Pass { authorization, .. } => authorization,
                answer => panic!("{answer:?}"),
            }
        };
        let proof = client.proof(&token, "1");
        assert_eq!(authorization(&Sent::dpop(&token, &[&proof])), *of_dpop);
        let of_plain = authorization(&Sent::bearer(&plain));
        let expected = match of_dpop {
            Authorization::AsBearer(_) => Authorization::AsSent,
            other => other.clone(),
        };
        assert_eq!(of_plain, expected);
    }
}

#[test]
fn report_only_lets_pass_and_names_the_reason() {
    let (issuer, client, thief) = (Issuer::new(Algorithm::EdDsa), Client::new(), Client::new());
    let token = issuer.token(&client.bound());
    let mut config = config();
    config["report_only"] = json!(true);
    config["forward_authorization"] = json!("bearer");
    let mut guard = ready_with(&config, &issuer);
    let proof = thief.proof(&token, "1");
    let outcome = Sent::dpop(&token, &[&proof]).outcome(&mut guard);
    let effect = guard.effect(outcome);
    assert_eq!(
        effect.denial,
        Some(Denial::Proof(ProofRefusal::Binding.into()))
    );
    assert_eq!(effect.name(), "proof_binding");
    // The resource server still checks tokens itself, as the client sent them.
    let Fate::Pass { authorization, .. } = effect.fate else {
        panic!("{effect:?}");
    };
    assert_eq!(authorization, Authorization::AsSent);
}

#[test]
fn rfc9728_s2_the_metadata_names_what_is_accepted() {
    let target = "/.well-known/oauth-protected-resource";
    let names = [
        "dpop_signing_alg_values_supported",
        "dpop_bound_access_tokens_required",
        "tls_client_certificate_bound_access_tokens",
    ];
    let algorithms = json!(["ES256", "EdDSA"]);
    for (has_dpop, sender_constrained, certificates, expected) in [
        (
            false,
            "optional",
            false,
            [json!(null), json!(null), json!(null)],
        ),
        (
            true,
            "optional",
            false,
            [algorithms.clone(), json!(null), json!(null)],
        ),
        (
            true,
            "required",
            false,
            [algorithms.clone(), json!(true), json!(null)],
        ),
        (
            true,
            "required",
            true,
            [algorithms, json!(null), json!(true)],
        ),
        (
            false,
            "required",
            true,
            [json!(null), json!(null), json!(true)],
        ),
    ] {
        let mut config = if has_dpop {
            config()
        } else {
            fixtures::config()
        };
        config["issuers"][0]["sender_constrained"] = json!(sender_constrained);
        config["protected_resource"] = json!({
            "resource": "https://api.example.com",
            "tls_client_certificate_bound_access_tokens": certificates,
        });
        let Decision::Answer(answer) = decide(&mut guard(&config), target, None) else {
            panic!("the filter answers");
        };
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(names.map(|name| body[name].clone()), expected, "{body}");
    }
}
