//! The rows of the table of bound tokens.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tests::Issuer;
use tests::proofs::{Proof, ProofKey, access_token_hash};
use tests::tls::Identity;

use super::super::bearer;
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

fn dpop(token: &str, proof: &str) -> String {
    format!("Authorization: DPoP {token}\r\nDPoP: {proof}\r\n")
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

    /// What a gateway hands over of proofs, and what the guard makes of it. The unit tests of `claims::dpop` and of the guard have
    /// each rule about the content of proofs and of `cnf`.
    pub(super) fn proofs(&self) -> Vec<Row> {
        let (key, bound) = (&self.key, self.bound_to(self.key.confirmation()));
        let [other, edwards] = ["ES256", "EdDSA"].map(|name| ProofKey::new(name).unwrap());
        let of_edwards = self.bound_to(edwards.confirmation());
        let by_edwards = edwards.prove("GET", &url(TARGET), Some(&of_edwards));
        let by_edwards = dpop(&of_edwards, &by_edwards.unwrap());
        let unbound = self.token(&[]);
        let good = || self.proof(&bound);
        let signed = |proof: &Proof| dpop(&bound, &key.sign(proof).unwrap());
        let post = || good().claim("htm", json!("POST"));
        // The verifier is the host's.
        let forged = dpop(&bound, &other.sign(&good()).unwrap());
        let stolen = other.prove("GET", &url(TARGET), Some(&bound)).unwrap();
        let with_proof = |token: &str| format!("{}DPoP: {}\r\n", bearer(token), self.proved(token));
        let alone = format!("Authorization: DPoP {bound}\r\n");
        let two = |first: &Proof, second: &Proof| {
            let second = key.sign(second).unwrap();
            format!("{}DPoP: {second}\r\n", signed(first))
        };
        // What a gateway must carry to token-guard and back.
        let long = self.token(&[
            ("cnf", key.confirmation()),
            ("filler", json!("x".repeat(2500))),
        ]);
        let long_proof = self.proof(&long).claim("x", json!("x".repeat(2300)));
        let long_proof = key.sign(&long_proof).unwrap();
        let plain_as_dpop = dpop(&unbound, &self.proved(&unbound));
        let long = dpop(&long, &long_proof);
        let large = signed(&good().claim("x", json!("x".repeat(3800))));
        let foreign = signed(&good().claim("nonce", json!("AAAA")));
        let in_one = dpop(&bound, &format!("{0}, {0}", self.proved(&bound)));
        let lower_case = signed(&good()).replace(": DPoP ", ": dpop ");
        let named = "Connection: close, DPoP\r\n";
        let of_unbound = good().claim("ath", json!(access_token_hash(&unbound)));
        let of_strict = bearer(&self.token(&[("iss", json!(STRICT))]));
        let mut rows: Vec<Row> = [
            ("a good proof", signed(&good()), Passes),
            ("a proof of EdDSA", by_edwards, Passes),
            ("the scheme in lower case", lower_case, Passes),
            ("a long token and a long proof", long, Passes),
            ("a plain token", bearer(&unbound), Passes),
            ("a plain token, with a proof", with_proof(&unbound), Passes),
            ("a plain token as DPoP", plain_as_dpop, TOKEN),
            ("a plain token that must be bound", of_strict, TOKEN),
            ("a proof of another key", dpop(&bound, &stolen), TOKEN),
            ("the signature of another key", forged, PROOF),
            ("a bound token as Bearer", bearer(&bound), TOKEN),
            ("the same, with a proof", with_proof(&bound), TOKEN),
            ("no proof", alone.clone(), PROOF),
            ("no proof, but named", alone.clone() + named, PROOF),
            ("an empty proof", dpop(&bound, ""), PROOF),
            ("two proofs in one header", in_one, PROOF),
            ("another method", signed(&post()), PROOF),
            ("another token", signed(&of_unbound), PROOF),
            ("5 KiB", large, PROOF),
            ("old", signed(&good().later(-3600)), NONCE),
            ("a nonce that nobody gave", foreign, NONCE),
            // One that nginx 1.22 does not hand over must not pass either.
            ("two good proofs", two(&good(), &good()), Judged),
            ("a good and a bad one", two(&good(), &post()), Judged),
            ("a bad and a good one", two(&post(), &good()), Judged),
            ("a proof, and named", signed(&good()) + named, Judged),
        ]
        .map(|(name, headers, fate)| row(name, headers, fate))
        .into();
        let late = key.prove("POST", &url(TARGET), Some(&bound)).unwrap();
        rows.push(Row {
            method: "POST",
            body: format!("5\r\nhello\r\n0\r\nDPoP: {late}\r\n\r\n"),
            ..row(
                "a proof in the trailer section",
                alone + "Transfer-Encoding: chunked\r\n",
                Closed,
            )
        });
        rows
    }

    /// Proofs for URLs: the target comes from the request and the origin from the configuration, whatever a client says.
    /// `port` is the gateway's.
    pub(super) fn urls(&self, port: u16) -> Vec<Row> {
        let token = self.bound_to(self.key.confirmation());
        let hosts = "X-Forwarded-Host: evil.example\r\nX-Forwarded-Proto: http\r\nForwarded: host=evil.example\r\n\
                     X-Original-Host: evil.example\r\n";
        let paths = "X-Forwarded-Uri: /api/other\r\nX-Forwarded-Method: POST\r\nX-Original-Url: /api/other\r\n";
        let own = format!("http://127.0.0.1:{port}{TARGET}");
        let (good, evil) = (url(TARGET), "https://evil.example/api/projects");
        let spelled = "https://API.example.com:443/api/%70rojects?x=1#y";
        [
            (TARGET, spelled, "", Passes),
            ("/api/projects?x=%2F..", &good, "", Passes),
            ("/api/caf%C3%A9", &url("/api/caf%c3%a9"), "", Passes),
            ("/api/caf%C3%A9", &url("/api/cafe"), "", PROOF),
            (TARGET, &url("/api/projects/"), "", PROOF),
            (TARGET, &good.replace("https", "http"), "", PROOF),
            (TARGET, &own, "", PROOF),
            (TARGET, evil, "", PROOF),
            (TARGET, "http://evil.example/api/projects", hosts, PROOF),
            (TARGET, &url("/api/other"), paths, Closed),
        ]
        .map(|(target, url, headers, fate)| {
            let proof = self.key.prove("GET", url, Some(&token)).unwrap();
            let host = match url == evil {
                true => "evil.example",
                false => "localhost",
            };
            let name = format!("{target} of {host} with a proof for {url}");
            let headers = dpop(&token, &proof) + headers;
            Row {
                target,
                host,
                ..row(name, headers, fate)
            }
        })
        .into()
    }

    /// Requests with a certificate, if `shown`, over TLS. `own` is the certificate of the client, `other` another one.
    pub(super) fn certificates(
        &self,
        own: &Identity,
        other: &Identity,
    ) -> Vec<(Row, Option<Shown>)> {
        use Shown::{Other, Own};
        let [own, other] = [own, other].map(|identity| digest(&SHA256, &identity.certificate));
        let of = |digest: &[u8], cnf: Value| {
            let mut cnf = cnf;
            cnf["x5t#S256"] = json!(URL_SAFE_NO_PAD.encode(digest));
            self.bound_to(cnf)
        };
        let bound = of(own.as_ref(), json!({}));
        let both = of(own.as_ref(), self.key.confirmation());
        let key = self.bound_to(self.key.confirmation());
        let proved = |token: &str| dpop(token, &self.proved(token));
        let no_proof = format!("Authorization: DPoP {both}\r\n");
        let by_name = format!(
            "{}Connection: close, X-Token-Guard-Client-Certificate, X-Forwarded-Tls-Client-Cert\r\n",
            bearer(&bound)
        );
        let of_other = bearer(&of(other.as_ref(), json!({})));
        let plain = bearer(&self.token(&[]));
        let mut rows: Vec<_> = [
            ("the certificate", bearer(&bound), Passes, Some(Own)),
            ("no certificate", bearer(&bound), TOKEN, None),
            ("another", bearer(&bound), TOKEN, Some(Other)),
            ("a token of another", of_other, TOKEN, Some(Own)),
            ("as DPoP", proved(&bound), TOKEN, Some(Own)),
            ("both", proved(&both), Passes, Some(Own)),
            ("both, no certificate", proved(&both), TOKEN, None),
            ("both, another", proved(&both), TOKEN, Some(Other)),
            ("both as Bearer", bearer(&both), TOKEN, Some(Own)),
            ("both, no proof", no_proof, PROOF, Some(Own)),
            ("only a proof", proved(&key), Passes, Some(Other)),
            ("a plain token", plain, Passes, Some(Other)),
            ("named in Connection", by_name.clone(), TOKEN, None),
            ("named in Connection", by_name, TOKEN, Some(Other)),
        ]
        .map(|(name, headers, fate, shown)| (row(name, headers, fate), shown))
        .into();
        let bytes = own.as_ref().iter();
        let hexadecimal: String = bytes.map(|byte| format!("{byte:02x}")).collect();
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
            let once = format!("{name}: {hexadecimal}\r\n");
            let twice = format!("{name}: Hash={hexadecimal}\r\n{once}");
            for (sent, shown) in [(&once, None), (&once, Some(Other)), (&twice, None)] {
                let headers = bearer(&bound) + sent;
                rows.push((row(format!("{name} of {shown:?}"), headers, Closed), shown));
            }
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
