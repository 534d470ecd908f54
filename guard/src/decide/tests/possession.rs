//! Tokens that are bound to a key (RFC 9449) or to a certificate (RFC 8705).

use claims::Thumbprint;
use claims::dpop::{NonceKey, ProofRefusal};
use claims::jwk::PublicKey;

use super::*;
use crate::rules::SignIn;
use crate::shared_data::SharedDataError;

const URL: &str = "https://api.example.com/api/x";

/// 32 bytes of the value 1.
const NONCE_KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE";

/// A client with a key.
struct Client(Issuer);

impl Client {
    fn new() -> Self {
        Self(issuer())
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
    fn claims(token: &str, jti: &str) -> Value {
        let hash = Thumbprint::of(token.as_bytes()).to_string();
        json!({"jti": jti, "htm": "GET", "htu": URL, "iat": NOW, "ath": hash})
    }

    fn proof(&self, token: &str, jti: &str) -> String {
        self.sign(&Self::claims(token, jti))
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
    const fn dpop(token: &'s str, proofs: &'s [&'s str]) -> Self {
        Self {
            scheme: "DPoP",
            token,
            proofs,
            certificate: None,
        }
    }

    const fn bearer(token: &'s str) -> Self {
        Self {
            scheme: "Bearer",
            ..Self::dpop(token, &[])
        }
    }

    fn with<T>(&self, take: impl FnOnce(Request<'_>) -> T) -> T {
        let authorization = format!("{} {}", self.scheme, self.token);
        let dpop: Vec<&[u8]> = self.proofs.iter().map(|proof| proof.as_bytes()).collect();
        take(Request {
            dpop: &dpop,
            connection: &self.certificate,
            ..get("/api/x", &[authorization.as_bytes()])
        })
    }

    fn effect(&self, guard: &mut Tested) -> Effect {
        self.with(|request| guard.effect(request))
    }

    fn seen(&self, guard: &mut Tested) -> Seen {
        self.with(|request| guard.see(request, Patience::Left))
    }

    /// The answer to a request that is refused.
    #[track_caller]
    fn answer(&self, guard: &mut Tested) -> Answer {
        answer(self.effect(guard))
    }
}

fn refused_by(refusal: ProofRefusal) -> Seen {
    denied(Denial::Proof(refusal.into()))
}

fn config() -> Value {
    with(
        fixtures::config(),
        "dpop",
        json!({"origins": ["https://api.example.com"]}),
    )
}

/// A guard, a client, and a token that is bound to the client's key.
fn bound(config: &Value) -> (Tested, Client, String) {
    let (guard, issuer, _) = ready_with(config);
    let client = Client::new();
    let token = issuer.token(&client.bound());
    (guard, client, token)
}

#[test]
fn rfc9449_s7_1_a_proof_of_the_key_lets_in_once_by_the_cache_too() {
    let (mut guard, client, token) = bound(&config());
    for jti in ["1", "2", "3"] {
        let proof = client.proof(&token, jti);
        for (sent, seen) in [
            (Sent::dpop(&token, &[&proof]), PASSES),
            (
                Sent::dpop(&token, &[&proof]),
                refused_by(ProofRefusal::Replayed),
            ),
            (Sent::dpop(&token, &[]), refused_by(ProofRefusal::Missing)),
            (Sent::bearer(&token), refused(Refusal::Bound)),
        ] {
            assert_eq!(sent.seen(&mut guard), seen);
        }
    }
    let counts = guard.take_counts();
    assert_eq!((counts.cache_misses, counts.cache_hits), (1, 8));
}

#[test]
fn rfc9449_s4_3_every_check_has_its_refusal_with_and_without_the_cache() {
    use ProofRefusal::{
        Algorithm, Binding, Critical, Key, Method, Missing, NotYetValid, Several, Signature, Stale,
        Token, TooLong, Type, Url,
    };
    let (issuer, client, thief) = (issuer(), Client::new(), Client::new());
    let token = issuer.token(&client.bound());
    let other = issuer.token(&with(client.bound(), "jti", json!("token-2")));
    let good = Client::claims(&token, "1");
    let proof = client.sign(&good);
    let changed = |name: &str, value: Value| client.sign(&with(good.clone(), name, value));
    let headed = |name: &str, value: Value| {
        let header = with(client.header(), name, value);
        client.0.sign(&header.to_string(), &good.to_string())
    };
    let with_private = with(client.0.public_key(), "d", json!("x"));
    let forged = format!("{}.{}", proof.rsplit_once('.').unwrap().0, "A".repeat(86));
    let one = |proof: String, refusal| (vec![proof], refusal);
    for (proofs, refusal) in [
        one(thief.sign(&good), Binding),
        one(client.proof(&other, "1"), Token),
        one(changed("ath", json!(null)), Token),
        one(changed("htm", json!("get")), Method),
        one(changed("htu", json!("https://api.example.com/api/y")), Url),
        one(
            changed("htu", json!("https://elsewhere.example.com/api/x")),
            Url,
        ),
        one(changed("iat", json!(NOW - 61)), Stale),
        one(changed("iat", json!(NOW + 11)), NotYetValid),
        one(forged, Signature),
        (vec![proof.clone(), proof.clone()], Several),
        one(format!("{proof},{proof}"), Several),
        (vec![], Missing),
        one("a".repeat(5 * 1024), TooLong),
        one(token.clone(), Type),
        one(headed("alg", json!("none")), Algorithm),
        one(headed("alg", json!("HS256")), Algorithm),
        one(headed("alg", json!("RS256")), Algorithm),
        one(headed("crit", json!(["b64"])), Critical),
        one(headed("jwk", with_private), Key),
    ] {
        let proofs: Vec<&str> = proofs.iter().map(String::as_str).collect();
        let mut guard = Tested::ready(&config(), &issuer);
        let refused = |guard: &mut Tested| match Sent::dpop(&token, &proofs).seen(guard) {
            Verdict::Deny(Denial::Proof(refused), _) => assert_eq!(refused.refusal, refusal),
            seen => panic!("{refusal:?}: {seen:?}"),
        };
        refused(&mut guard);
        // None of them used up the proof, and the cached token has the same refusals.
        let passes = Sent::dpop(&token, &[&proof]).seen(&mut guard);
        assert_eq!(passes, PASSES, "{refusal:?}");
        refused(&mut guard);
    }
}

/// Everything about the token comes before the check of the proof, and scopes come last: a thief does not learn
/// the scopes of the token.
#[test]
fn a_token_is_judged_before_the_proof_and_scopes_after() {
    let rules = json!([{"path_prefix": "/", "scopes": ["admin"]}]);
    let (mut guard, issuer, _) = ready_with(&with(config(), "rules", rules));
    let (client, thief) = (Client::new(), Client::new());
    let token = issuer.token(&client.bound());
    let stolen = Sent::dpop(&token, &[&thief.proof(&token, "1")]).seen(&mut guard);
    assert_eq!(stolen, refused_by(ProofRefusal::Binding));
    let scope = Sent::dpop(&token, &[&client.proof(&token, "1")]).answer(&mut guard);
    assert_eq!(scope.status, 403);
    let challenge = challenge(&scope);
    assert!(challenge.starts_with("DPoP algs="), "{challenge}");
    assert!(challenge.contains("scope=\"admin\""), "{challenge}");

    let expired = issuer.token(&with(client.bound(), "exp", json!(NOW - 60)));
    let proof = client.sign(&with(Client::claims(&expired, "1"), "htm", json!("PUT")));
    let expired = Sent::dpop(&expired, &[&proof]).seen(&mut guard);
    assert_eq!(expired, refused(Refusal::Expired));
}

#[test]
fn what_a_token_is_bound_to_is_read_from_the_token_alone() {
    use Refusal::{Bound, CertificateMissing, CertificateOther, Confirmation, NotBoundToKey};
    let (issuer, client) = (issuer(), Client::new());
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
        let mut guard = Tested::ready(&config(), &issuer);
        let token = issuer.token(claims);
        // The second time by the cache.
        for jti in ["1", "2"] {
            let proof = client.proof(&token, jti);
            let sent = Sent {
                scheme,
                token: &token,
                proofs: &[&proof],
                certificate,
            };
            let expected = expected.map_or(PASSES, refused);
            assert_eq!(sent.seen(&mut guard), expected, "{claims} {scheme}");
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
    let (mut guard, _, token) = ready_with(&config());
    let authorization = format!("Bearer {token}");
    let authorization = [authorization.as_bytes()];
    let request = Request {
        connection: &Unasked,
        ..get("/api/x", &authorization)
    };
    assert_eq!(guard.see(request, Patience::Left), PASSES);
    let second = guard
        .guard
        .decide(request, Patience::Left, || panic!("asked"));
    assert!(matches!(second, Decision::Now(effect) if effect.denial.is_none()));
}

#[test]
fn rfc9449_s11_1_the_vms_of_a_gateway_accept_a_proof_once() {
    let (issuer, client) = (issuer(), Client::new());
    let token = issuer.token(&client.bound());
    let store = Store::default();
    let ready = || Tested::ready(&config(), &issuer);
    let mut sharing = [ready().sharing(store.clone()), ready().sharing(store)];
    // Each VM without shared data remembers for itself.
    let mut alone = ready();
    for jti in 0..100 {
        let proof = client.proof(&token, &jti.to_string());
        let proofs = [proof.as_str()];
        let sent = Sent::dpop(&token, &proofs);
        for guard in [&mut sharing[0], &mut alone] {
            assert_eq!(sent.seen(guard), PASSES);
        }
        for guard in sharing.iter_mut().chain([&mut alone]) {
            assert_eq!(sent.seen(guard), refused_by(ProofRefusal::Replayed));
        }
    }
}

/// The host answers that another VM has changed the value, for ever.
#[test]
fn a_proof_that_cannot_be_remembered_is_refused() {
    #[derive(Debug)]
    struct Contended;
    impl SharedData for Contended {
        fn get(&self, _: &str) -> Result<Option<(Vec<u8>, u32)>, SharedDataError> {
            Ok(None)
        }
        fn set(&self, _: &str, _: &[u8], version: Option<u32>) -> Result<bool, SharedDataError> {
            Ok(version.is_none())
        }
    }
    for (key, status, error) in [
        (json!(null), 503, "temporarily_unavailable"),
        (json!(NONCE_KEY), 401, "use_dpop_nonce"),
    ] {
        let mut config = config();
        config["dpop"] = with(config["dpop"].clone(), "nonce_key", key);
        let (guard, client, token) = bound(&config);
        let proof = client.proof(&token, "1");
        let answer = Sent::dpop(&token, &[&proof]).answer(&mut guard.sharing(Contended));
        assert_eq!(answer.status, status);
        assert!(answer.body.contains(error), "{}", answer.body);
        for name in ["dpop-nonce", "www-authenticate"] {
            assert_eq!(header(&answer, name).is_some(), status == 401, "{name}");
        }
    }
}

#[test]
fn rfc9449_s8_nonces_are_given_out_and_required_by_issuer() {
    let nonce = |now| json!(NonceKey::new([1; 32]).nonce(now));
    let mut config = config();
    config["dpop"]["nonce_key"] = json!(NONCE_KEY);
    for (required, of_missing) in [
        ("optional", PASSES),
        ("required", refused_by(ProofRefusal::Nonce)),
    ] {
        config["issuers"][0]["dpop_nonce"] = json!(required);
        let (mut guard, client, token) = bound(&config);
        let old = with(Client::claims(&token, "1"), "iat", json!(NOW - 600));
        let [old, yesterday, fresh] = [json!(null), nonce(NOW - 86_400), nonce(NOW)]
            .map(|nonce| client.sign(&with(old.clone(), "nonce", nonce)));
        for proof in [&old, &yesterday] {
            let answer = Sent::dpop(&token, &[proof]).answer(&mut guard);
            assert_eq!(answer.status, 401);
            assert_eq!(header(&answer, "dpop-nonce"), nonce(NOW).as_str());
            let challenge = challenge(&answer);
            let start = "DPoP algs=\"ES256 EdDSA\", realm=\"api\", error=\"use_dpop_nonce\", ";
            assert!(challenge.starts_with(start), "{challenge}");
            assert!(challenge.ends_with(", Bearer realm=\"api\""), "{challenge}");
        }
        // D-54: a step of the client, not a denial.
        let counts = guard.take_counts();
        assert_eq!((counts.nonces_offered, counts.denied.len()), (2, 0));
        for (proof, seen) in [(&fresh, PASSES), (&client.proof(&token, "2"), of_missing)] {
            assert_eq!(Sent::dpop(&token, &[proof]).seen(&mut guard), seen);
        }
    }
}

#[test]
fn rfc9449_s7_1_each_scheme_has_its_challenge_and_the_used_one_the_error() {
    let (mut guard, client, token) = bound(&config());
    let proof = client.sign(&with(Client::claims(&token, "1"), "htm", json!("PUT")));
    let stolen = Client::new().proof(&token, "1");
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
        let names = answer.headers.iter().map(|(name, _)| *name);
        assert_eq!(names.filter(|name| *name == "www-authenticate").count(), 1);
        let challenge = challenge(&answer);
        let start = format!("{first}, error=\"{error}\", error_description=\"");
        assert!(challenge.starts_with(&start), "{challenge}");
        assert!(challenge.ends_with(&format!("\", {second}")), "{challenge}");
        assert!(answer.body.contains(error), "{}", answer.body);
        assert_eq!(header(&answer, "dpop-nonce"), None);
    }
    let nothing = answer(guard.denial(Denial::NoToken, None));
    assert_eq!(challenge(&nothing), format!("{bearer}, {dpop}"));
    // RFC 9470 §3.
    let sign_in = Box::new(SignIn {
        claims: vec![],
        max_age: Some(60),
    });
    let stale = Denial::SignIn(sign_in).answer(guard.config(), Scheme::Dpop, &[], NOW);
    let stale = challenge(&stale);
    let start = format!("{dpop}, error=\"insufficient_user_authentication\", error_description=\"");
    assert!(stale.starts_with(&start), "{stale}");
    let end = format!("\", max_age=\"60\", {bearer}");
    assert!(stale.ends_with(&end), "{stale}");
}

/// A gateway without `dpop` answers as ever, and its log names the missing configuration.
#[test]
fn without_origins_no_proof_is_accepted() {
    let (mut guard, client, token) = bound(&fixtures::config());
    let proof = client.proof(&token, "1");
    let proofs = [proof.as_str()];
    let sent = Sent::dpop(&token, &proofs);
    assert_eq!(sent.seen(&mut guard), denied(Denial::DpopNotConfigured));
    assert_eq!(Denial::DpopNotConfigured.name(), "dpop_not_configured");
    let answer = sent.answer(&mut guard);
    assert_eq!(
        (answer.status, challenge(&answer)),
        (401, "Bearer realm=\"api\"")
    );
    let bearer = Sent::bearer(&token).seen(&mut guard);
    assert_eq!(bearer, refused(Refusal::Bound));
}

#[test]
fn proofs_are_signed_with_the_configured_algorithms() {
    use Algorithm::{EdDsa, Es256, Rs256};
    for (algorithms, accepted) in [
        (json!(null), [EdDsa, Es256].as_slice()),
        (json!(["RS256"]), &[Rs256]),
        (json!(["EdDSA", "RS256"]), &[EdDsa, Rs256]),
    ] {
        let mut config = config();
        config["dpop"] = with(config["dpop"].clone(), "algorithms", algorithms);
        let (mut guard, issuer, _) = ready_with(&config);
        for algorithm in [EdDsa, Es256, Rs256] {
            let client = Client(Issuer::new(algorithm));
            let token = issuer.token(&client.bound());
            let forged = client.proof(&token, "2");
            let (signed, signature) = forged.rsplit_once('.').unwrap();
            let first = if signature.starts_with('A') { 'B' } else { 'A' };
            let forged = format!("{signed}.{first}{}", &signature[1..]);
            let [good, forged] = [client.proof(&token, "1"), forged]
                .map(|proof| Sent::dpop(&token, &[&proof]).seen(&mut guard));
            let (of_good, of_forged) = match accepted.contains(&algorithm) {
                true => (PASSES, ProofRefusal::Signature),
                false => (refused_by(ProofRefusal::Algorithm), ProofRefusal::Algorithm),
            };
            assert_eq!(good, of_good, "{algorithm:?}");
            assert_eq!(forged, refused_by(of_forged), "{algorithm:?}");
        }
    }
}

#[test]
fn an_issuer_may_have_to_bind_its_tokens() {
    let mut config = config();
    config["issuers"][0]["sender_constrained"] = json!("required");
    let (mut guard, issuer, plain) = ready_with(&config);
    let client = Client::new();
    let token = issuer.token(&client.bound());
    for (sent, seen) in [
        (Sent::bearer(&plain), refused(Refusal::Unbound)),
        (
            Sent::dpop(&plain, &[&client.proof(&plain, "1")]),
            refused(Refusal::Unbound),
        ),
        (Sent::dpop(&token, &[&client.proof(&token, "1")]), PASSES),
    ] {
        assert_eq!(sent.seen(&mut guard), seen);
    }
}

#[test]
fn a_resource_server_that_knows_bearer_alone_gets_the_token_so() {
    let (issuer, client) = (issuer(), Client::new());
    let (token, plain) = (issuer.token(&client.bound()), issuer.token(&claims()));
    let bearer = Authorization::AsBearer(format!("Bearer {token}"));
    for (forwards, of_dpop, of_plain) in [
        (json!("bearer"), bearer, Authorization::AsSent),
        (json!(true), Authorization::AsSent, Authorization::AsSent),
        (
            json!(false),
            Authorization::Withheld,
            Authorization::Withheld,
        ),
    ] {
        let config = with(config(), "forward_authorization", forwards);
        let mut guard = Tested::ready(&config, &issuer);
        let proof = client.proof(&token, "1");
        let dpop = Sent::dpop(&token, &[&proof]).effect(&mut guard);
        assert_eq!(authorization(dpop), of_dpop);
        let plain = Sent::bearer(&plain).effect(&mut guard);
        assert_eq!(authorization(plain), of_plain);
    }
}

#[test]
fn report_only_lets_pass_and_names_the_reason() {
    let config = with(config(), "report_only", json!(true));
    let config = with(config, "forward_authorization", json!("bearer"));
    let (mut guard, _, token) = bound(&config);
    let proof = Client::new().proof(&token, "1");
    let effect = Sent::dpop(&token, &[&proof]).effect(&mut guard);
    let denial = Denial::Proof(ProofRefusal::Binding.into());
    assert_eq!(effect.denial, Some(denial));
    assert_eq!(effect.name(), "proof_binding");
    // The resource server still checks tokens itself, as the client sent them.
    assert_eq!(authorization(effect), Authorization::AsSent);
}
