//! The rows of the table of bound tokens.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use tests::Issuer;
use tests::proofs::{Proof, ProofKey, access_token_hash};
use tests::tls::Identity;

use super::{ORIGIN, STRICT};

/// What must become of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The request passes with the identity of the token.
    Passes,
    /// The client gets 401 with this `error`.
    Refused(&'static str),
    /// The request is refused in any way, because some gateways do so themselves.
    Closed,
    /// The request is refused, or passes with the one proof that the guard has seen.
    Judged,
}

use Fate::{Closed, Judged, Passes, Refused};

/// Errors of RFC 9449 §7.1 and RFC 6750 §3.1.
const PROOF: Fate = Refused("invalid_dpop_proof");
const TOKEN: Fate = Refused("invalid_token");
const NONCE: Fate = Refused("use_dpop_nonce");

pub(super) struct Row {
    pub(super) name: String,
    pub(super) method: &'static str,
    pub(super) target: &'static str,
    pub(super) host: &'static str,
    /// Lines of the head, each with its line end.
    pub(super) headers: String,
    pub(super) body: String,
    pub(super) fate: Fate,
}

const TARGET: &str = "/api/projects";

fn row(name: impl Into<String>, headers: String, fate: Fate) -> Row {
    Row {
        name: name.into(),
        method: "GET",
        target: TARGET,
        host: "localhost",
        headers,
        body: String::new(),
        fate,
    }
}

fn url(target: &str) -> String {
    format!("{ORIGIN}{target}")
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    digest(&SHA256, bytes).as_ref().try_into().unwrap()
}

fn dpop(token: &str, proof: &str) -> String {
    format!("Authorization: DPoP {token}\r\nDPoP: {proof}\r\n")
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// A client with its key and tokens.
pub(super) struct Client<'a> {
    issuer: &'a Issuer,
    audience: &'a str,
    key: ProofKey,
}

impl<'a> Client<'a> {
    pub(super) fn new(issuer: &'a Issuer, audience: &'a str) -> Self {
        let key = ProofKey::new("ES256").unwrap();
        Self {
            issuer,
            audience,
            key,
        }
    }

    fn token(&self, changes: &[(&str, Value)]) -> String {
        self.issuer.token(self.audience, changes).unwrap()
    }

    fn bound_to(&self, confirmation: Value) -> String {
        self.token(&[("cnf", confirmation)])
    }

    /// A good proof for a request with `token`.
    fn proof(&self, token: &str) -> Proof {
        let proof = self.key.proof("GET", &url(TARGET), Some(token));
        proof.unwrap()
    }

    fn proved(&self, token: &str) -> String {
        self.key.sign(&self.proof(token)).unwrap()
    }

    /// A good request.
    pub(super) fn good(&self) -> Row {
        let token = self.bound_to(self.key.confirmation());
        row("a good proof", dpop(&token, &self.proved(&token)), Passes)
    }

    /// Good requests whose proofs have the same place in the memory of used proofs.
    pub(super) fn crowded(&self, count: usize) -> Vec<Row> {
        let token = self.bound_to(self.key.confirmation());
        let crowded = self.key.crowded_ids().take(count);
        crowded
            .map(|id| {
                let proof = self.proof(&token).claim("jti", json!(id));
                let proof = self.key.sign(&proof).unwrap();
                row(
                    format!("a proof with the id {id}"),
                    dpop(&token, &proof),
                    Passes,
                )
            })
            .collect()
    }

    /// A request with a token that needs a proof with a nonce.
    pub(super) fn strict(&self, nonce: Option<&str>) -> Row {
        let token = self.token(&[("cnf", self.key.confirmation()), ("iss", json!(STRICT))]);
        let proof = self.proof(&token);
        let (proof, fate) = match nonce {
            Some(nonce) => (proof.claim("nonce", json!(nonce)), Passes),
            None => (proof, NONCE),
        };
        let proof = self.key.sign(&proof).unwrap();
        row(format!("a nonce: {nonce:?}"), dpop(&token, &proof), fate)
    }

    /// Proofs, good and bad.
    pub(super) fn proofs(&self) -> Vec<Row> {
        let (key, bound) = (&self.key, self.bound_to(self.key.confirmation()));
        let [other, edwards, rsa] =
            ["ES256", "EdDSA", "RS256"].map(|algorithm| ProofKey::new(algorithm).unwrap());
        let of_edwards = self.bound_to(edwards.confirmation());
        let of_rsa = self.bound_to(rsa.confirmation());
        let unbound = self.token(&[]);
        let good = || self.proof(&bound);
        let signed = |proof: &Proof| dpop(&bound, &key.sign(proof).unwrap());
        let of = |key: &ProofKey, token: &str| {
            let proof = key.proof("GET", &url(TARGET), Some(token)).unwrap();
            dpop(token, &key.sign(&proof).unwrap())
        };
        let mut rows = vec![
            self.good(),
            row(
                "the scheme in lower case",
                signed(&good()).replace(": DPoP ", ": dpop "),
                Passes,
            ),
            row("a proof of EdDSA", of(&edwards, &of_edwards), Passes),
            row("a proof of RS256", of(&rsa, &of_rsa), PROOF),
            row("a proof of another key", of(&other, &bound), TOKEN),
            row(
                "the signature of another key",
                dpop(&bound, &other.sign(&good()).unwrap()),
                PROOF,
            ),
            row(
                "no proof",
                format!("Authorization: DPoP {bound}\r\n"),
                PROOF,
            ),
            row("an empty proof", dpop(&bound, ""), PROOF),
            row(
                "two proofs in one header",
                dpop(&bound, &format!("{0}, {0}", self.proved(&bound))),
                PROOF,
            ),
            row("a bound token as Bearer", bearer(&bound), TOKEN),
            row(
                "a bound token as Bearer, with a proof",
                format!("{}DPoP: {}\r\n", bearer(&bound), self.proved(&bound)),
                TOKEN,
            ),
            row("a plain token as Bearer", bearer(&unbound), Passes),
            row(
                "a plain token as DPoP",
                dpop(&unbound, &self.proved(&unbound)),
                TOKEN,
            ),
            row(
                "a plain token as Bearer, with a proof",
                format!("{}DPoP: {}\r\n", bearer(&unbound), self.proved(&unbound)),
                Passes,
            ),
            row(
                "a plain token of an issuer that must bind",
                bearer(&self.token(&[("iss", json!(STRICT))])),
                TOKEN,
            ),
            row(
                "a proof named in Connection",
                format!("{}Connection: close, DPoP\r\n", signed(&good())),
                Judged,
            ),
        ];
        // Two proofs in two headers, each good: one that nginx 1.22 does not hand over must not pass either.
        for (name, first, second) in [
            ("two good proofs", good(), good()),
            (
                "a good and a bad proof",
                good(),
                good().claim("htm", json!("POST")),
            ),
            (
                "a bad and a good proof",
                good().claim("htm", json!("POST")),
                good(),
            ),
        ] {
            let second = key.sign(&second).unwrap();
            let headers = format!("{}DPoP: {second}\r\n", signed(&first));
            rows.push(row(name, headers, Judged));
        }
        for confirmation in [
            json!({"jwk": key.jwk()}),
            json!({"jkt": key.thumbprint(), "kid": "1"}),
            json!({"jkt": STANDARD.encode([7; 32])}),
            json!({"jkt": 1}),
            json!({}),
            json!("jkt"),
            Value::Null,
        ] {
            let name = format!("cnf {confirmation}");
            let token = self.bound_to(confirmation);
            rows.push(row(
                format!("{name} as DPoP"),
                dpop(&token, &self.proved(&token)),
                TOKEN,
            ));
            rows.push(row(format!("{name} as Bearer"), bearer(&token), TOKEN));
        }
        let jwk = |name: &str, value: Value| {
            let mut jwk = key.jwk();
            jwk[name] = value;
            good().header("jwk", jwk)
        };
        for (name, proof) in [
            ("another typ", good().header("typ", json!("JWT"))),
            ("no typ", good().without("typ")),
            ("an unknown crit", good().header("crit", json!(["b64"]))),
            ("an empty crit", good().header("crit", json!([]))),
            ("the private key", jwk("d", json!(STANDARD.encode([1; 32])))),
            ("a certificate in the key", jwk("x5c", json!(["MIIB"]))),
            (
                "the URL of a certificate in the key",
                jwk("x5u", json!("https://evil.example")),
            ),
            ("another curve", jwk("crv", json!("P-384"))),
            ("no key", good().without("jwk")),
            (
                "the name of a key alone",
                good().without("jwk").header("kid", json!("ES256")),
            ),
            ("another algorithm", good().header("alg", json!("EdDSA"))),
            ("no jti", good().without("jti")),
            ("no iat", good().without("iat")),
            ("no htm", good().without("htm")),
            ("no htu", good().without("htu")),
            ("no ath", good().without("ath")),
            (
                "ath of another token",
                good().claim("ath", json!(access_token_hash(&unbound))),
            ),
            (
                "ath in hexadecimal",
                good().claim("ath", json!("0".repeat(64))),
            ),
            ("htm in lower case", good().claim("htm", json!("get"))),
            ("htm of another method", good().claim("htm", json!("POST"))),
            ("iat as a text", good().claim("iat", json!("1"))),
            ("5 KiB", good().claim("x", json!("x".repeat(3800)))),
        ] {
            rows.push(row(name, signed(&proof), PROOF));
        }
        for (name, proof) in [
            ("old", good().later(-3600)),
            ("from the future", good().later(3600)),
        ] {
            rows.push(row(name, signed(&proof), NONCE));
        }
        rows.push(row(
            "a nonce that nobody gave",
            signed(&good().claim("nonce", json!("AAAA"))),
            NONCE,
        ));
        let none = good().header("alg", json!("none"));
        rows.push(row(
            "alg none",
            dpop(&bound, &format!("{}.", none.signing_input())),
            PROOF,
        ));
        let symmetric = good().header("alg", json!("HS256"));
        let secret = hmac::Key::new(hmac::HMAC_SHA256, key.jwk().to_string().as_bytes());
        let input = symmetric.signing_input();
        let tag = hmac::sign(&secret, input.as_bytes());
        let symmetric = format!("{input}.{}", URL_SAFE_NO_PAD.encode(tag));
        rows.push(row(
            "HS256 with the public key",
            dpop(&bound, &symmetric),
            PROOF,
        ));
        // What a gateway must carry to token-guard and back.
        let long = self.token(&[
            ("cnf", key.confirmation()),
            ("filler", json!("x".repeat(2500))),
        ]);
        let proof = self.proof(&long).claim("x", json!("x".repeat(2300)));
        let proof = key.sign(&proof).unwrap();
        rows.push(row(
            "a long token and a long proof",
            dpop(&long, &proof),
            Passes,
        ));
        // A stranger who uses the same jti first must not use up the proof.
        let proof = good();
        let theirs = proof.clone().header("jwk", other.jwk());
        rows.push(row(
            "another key with the jti of the next proof",
            dpop(&bound, &other.sign(&theirs).unwrap()),
            TOKEN,
        ));
        rows.push(row(
            "a jti that a stranger has sent",
            signed(&proof),
            Passes,
        ));
        let by_name = "Connection: close, DPoP\r\n";
        rows.push(row(
            "no proof, and its name in Connection",
            format!("Authorization: DPoP {bound}\r\n{by_name}"),
            PROOF,
        ));
        let mut trailer = row(
            "a proof in the trailer section",
            format!("Authorization: DPoP {bound}\r\nTransfer-Encoding: chunked\r\n"),
            Closed,
        );
        let post = key.proof("POST", &url(TARGET), Some(&bound)).unwrap();
        trailer.method = "POST";
        trailer.body = format!(
            "5\r\nhello\r\n0\r\nDPoP: {}\r\n\r\n",
            key.sign(&post).unwrap()
        );
        rows.push(trailer);
        rows
    }

    /// Proofs for URLs. `port`: that of the gateway.
    pub(super) fn urls(&self, port: u16) -> Vec<Row> {
        let token = self.bound_to(self.key.confirmation());
        let mut rows = Vec::new();
        let mut add = |target: &'static str, url: &str, headers: &str, fate: Fate| {
            let proof = self.key.prove("GET", url, Some(&token)).unwrap();
            let headers = format!("{}{headers}", dpop(&token, &proof));
            let name = format!("{target} with a proof for {url}");
            rows.push(Row {
                target,
                ..row(name, headers, fate)
            });
        };
        for url in [
            "https://api.example.com/api/projects",
            "https://api.example.com:443/api/projects",
            "https://API.EXAMPLE.COM/api/projects",
            "HTTPS://api.example.com/api/projects",
            "https://api.example.com/api/%70rojects",
            "https://api.example.com/api/projects?x=1#y",
        ] {
            add(TARGET, url, "", Passes);
        }
        add(
            "/api/projects?x=%2F..",
            "https://api.example.com/api/projects",
            "",
            Passes,
        );
        add(
            "/api/caf%C3%A9",
            "https://api.example.com/api/caf%c3%a9",
            "",
            Passes,
        );
        for url in [
            "http://api.example.com/api/projects",
            "https://api.example.com:8443/api/projects",
            "https://api.example.com:80/api/projects",
            "https://api.example.com/api/projects/",
            "https://api.example.com/api/project",
            "https://api.example.com/api/projects/1",
            "https://api.example.com/api",
            "https://api.example.com/api/",
            "https://api.example.com",
            "https://api.example.com/API/projects",
            "https://api.example.com/api/Projects",
            "https://api.example.com//api/projects",
            "https://api.example.com/api%2Fprojects",
            "https://api.example.com/api/projects%3Fx",
            "https://api.example.com/api/projects;x",
            "https://api.example.com.evil.example/api/projects",
            "https://evil.example/api/projects",
            "https://evil.example/https://api.example.com/api/projects",
            "https://user@api.example.com/api/projects",
            "https://api.example.com./api/projects",
            "//api.example.com/api/projects",
            "/api/projects",
            "",
        ] {
            add(TARGET, url, "", PROOF);
        }
        let forged = "X-Forwarded-Host: evil.example\r\nX-Forwarded-Proto: http\r\nForwarded: host=evil.example\r\n\
                      X-Original-Host: evil.example\r\n";
        add(TARGET, "http://evil.example/api/projects", forged, PROOF);
        add(
            TARGET,
            &format!("http://127.0.0.1:{port}/api/projects"),
            "",
            PROOF,
        );
        let forged = "X-Forwarded-Uri: /api/other\r\nX-Forwarded-Method: POST\r\nX-Original-Url: /api/other\r\n";
        add(TARGET, "https://api.example.com/api/other", forged, Closed);
        add(
            "/api/caf%C3%A9",
            "https://api.example.com/api/cafe",
            "",
            PROOF,
        );
        let url = "https://evil.example/api/projects";
        let proof = self.key.prove("GET", url, Some(&token)).unwrap();
        rows.push(Row {
            host: "evil.example",
            ..row(
                format!("Host and proof of {url}"),
                dpop(&token, &proof),
                PROOF,
            )
        });
        rows
    }

    /// Requests with a certificate, if `shown`, over TLS. `own` is the certificate of the client, `other` another one.
    pub(super) fn certificates(
        &self,
        own: &Identity,
        other: &Identity,
    ) -> Vec<(Row, Option<Shown>)> {
        let [own, other] = [own, other].map(|identity| sha256(&identity.certificate));
        let thumbprint = |digest: &[u8]| json!(URL_SAFE_NO_PAD.encode(digest));
        let bound = self.bound_to(json!({"x5t#S256": thumbprint(&own)}));
        let both =
            self.bound_to(json!({"x5t#S256": thumbprint(&own), "jkt": self.key.thumbprint()}));
        let key = self.bound_to(self.key.confirmation());
        let hexadecimal: String = own.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut rows = vec![
            (
                row("the certificate", bearer(&bound), Passes),
                Some(Shown::Own),
            ),
            (row("no certificate", bearer(&bound), TOKEN), None),
            (
                row("another certificate", bearer(&bound), TOKEN),
                Some(Shown::Other),
            ),
            (
                row(
                    "as DPoP with a proof",
                    dpop(&bound, &self.proved(&bound)),
                    TOKEN,
                ),
                Some(Shown::Own),
            ),
            (
                row("both", dpop(&both, &self.proved(&both)), Passes),
                Some(Shown::Own),
            ),
            (
                row(
                    "both, no certificate",
                    dpop(&both, &self.proved(&both)),
                    TOKEN,
                ),
                None,
            ),
            (
                row(
                    "both, another certificate",
                    dpop(&both, &self.proved(&both)),
                    TOKEN,
                ),
                Some(Shown::Other),
            ),
            (
                row("both as Bearer", bearer(&both), TOKEN),
                Some(Shown::Own),
            ),
            (
                row(
                    "both, no proof",
                    format!("Authorization: DPoP {both}\r\n"),
                    PROOF,
                ),
                Some(Shown::Own),
            ),
            (
                row(
                    "a proof, and any certificate",
                    dpop(&key, &self.proved(&key)),
                    Passes,
                ),
                Some(Shown::Other),
            ),
            (
                row(
                    "a plain token, and any certificate",
                    bearer(&self.token(&[])),
                    Passes,
                ),
                Some(Shown::Other),
            ),
        ];
        for wrong in [
            json!(hexadecimal),
            json!(STANDARD.encode(own)),
            json!(format!("{}=", URL_SAFE_NO_PAD.encode(own))),
            thumbprint(&own[..20]),
            thumbprint(&other),
            json!(""),
        ] {
            let name = format!("x5t#S256 {wrong}");
            let token = self.bound_to(json!({"x5t#S256": wrong}));
            rows.push((row(name, bearer(&token), TOKEN), Some(Shown::Own)));
        }
        for name in [
            "X-Token-Guard-Client-Certificate",
            "X_Token_Guard_Client_Certificate",
            "X-Token-Guard-Client_Certificate",
            "X-Token-Guard_Client-Certificate",
            "X.Token.Guard.Client.Certificate",
            "X~Token~Guard~Client~Certificate",
            "X-Forwarded-Tls-Client-Cert",
            "X_Forwarded_Tls_Client_Cert",
            "X-Forwarded-Client-Cert",
            "X-SSL-Client-Cert",
        ] {
            for (sent, shown) in [
                (format!("{name}: {hexadecimal}\r\n"), None),
                (format!("{name}: {hexadecimal}\r\n"), Some(Shown::Other)),
                (
                    format!("{name}: Hash={hexadecimal}\r\n{name}: {hexadecimal}\r\n"),
                    None,
                ),
            ] {
                let of = shown.map_or("nobody", |_| "another");
                let headers = format!("{}{sent}", bearer(&bound));
                rows.push((row(format!("{name} of {of}"), headers, Closed), shown));
            }
        }
        let by_name =
            "Connection: close, X-Token-Guard-Client-Certificate, X-Forwarded-Tls-Client-Cert\r\n";
        for shown in [None, Some(Shown::Other)] {
            let headers = format!("{}{by_name}", bearer(&bound));
            rows.push((row("named in Connection", headers, TOKEN), shown));
        }
        rows
    }
}

/// Which certificate the client shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Own,
    Other,
}
