//! DPoP proofs (RFC 9449 §4.2) as a client makes them, and as a client makes them that should be refused.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use aws_lc_rs::digest::{Digest, SHA256, digest};
use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

use crate::issuer::SigningKey;

/// Most proofs of one key that share a place in the memory of used proofs (`claims/src/dpop/used_proofs.rs`).
pub const SHARE: usize = 32;

/// The key of a client.
#[derive(Debug)]
pub struct ProofKey {
    algorithm: &'static str,
    key: SigningKey,
}

/// A proof that is not yet signed.
#[derive(Debug, Clone)]
pub struct Proof {
    pub header: Map<String, Value>,
    pub claims: Map<String, Value>,
}

impl Proof {
    /// Sets a member of the header.
    #[must_use]
    pub fn header(mut self, name: &str, value: Value) -> Self {
        self.header.insert(name.to_owned(), value);
        self
    }

    /// Sets a claim.
    #[must_use]
    pub fn claim(mut self, name: &str, value: Value) -> Self {
        self.claims.insert(name.to_owned(), value);
        self
    }

    /// Removes a member of the header or a claim.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.header.remove(name);
        self.claims.remove(name);
        self
    }

    /// What is signed (RFC 7515 §5.1): header and claims, encoded, with a dot between them.
    #[must_use]
    pub fn signing_input(&self) -> String {
        let [header, claims] = [&self.header, &self.claims]
            .map(|part| URL_SAFE_NO_PAD.encode(json!(part).to_string()));
        format!("{header}.{claims}")
    }

    /// Moves `iat` by this many seconds.
    #[must_use]
    pub fn later(self, seconds: i64) -> Self {
        let iat = self.claims.get("iat").and_then(Value::as_i64);
        self.claim("iat", json!(iat.unwrap_or_default() + seconds))
    }
}

impl ProofKey {
    /// A new key for this algorithm (RFC 7518 §3.1): `ES256`, `EdDSA` or `RS256`.
    ///
    /// # Errors
    /// If the algorithm is unknown, or the system returns no randomness.
    pub fn new(algorithm: &'static str) -> Result<Self> {
        let key = SigningKey::new(algorithm)?;
        Ok(Self { algorithm, key })
    }

    /// The public key as a proof has it: only the required members (RFC 7638 §3.2).
    #[must_use]
    pub fn jwk(&self) -> Value {
        let mut jwk = self.key.jwk();
        if let Some(members) = jwk.as_object_mut() {
            members.retain(|name, _| !matches!(name.as_str(), "kid" | "alg"));
        }
        jwk
    }

    /// `jkt`: the thumbprint of the public key (RFC 7638), as `cnf` of a token has it (RFC 9449 §6.1).
    #[must_use]
    pub fn thumbprint(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.thumbprint_bytes())
    }

    fn thumbprint_bytes(&self) -> Digest {
        // In lexicographic order, without white space (RFC 7638 §3.3).
        let members: BTreeMap<String, Value> =
            serde_json::from_value(self.jwk()).unwrap_or_default();
        digest(&SHA256, json!(members).to_string().as_bytes())
    }

    /// Values of `jti` for a flood: proofs with these, of every key, share one place in the memory of used proofs.
    pub fn crowded_ids(&self) -> impl Iterator<Item = String> {
        let key = self.thumbprint_bytes();
        let ids = (0_u32..).map(|number| number.to_string());
        ids.filter(move |id| {
            let place = digest(&SHA256, &[key.as_ref(), id.as_bytes()].concat());
            matches!(place.as_ref(), [.., 0, high] if high % 16 == 0)
        })
    }

    /// `cnf` of a token that is bound to this key.
    #[must_use]
    pub fn confirmation(&self) -> Value {
        json!({"jkt": self.thumbprint()})
    }

    /// A fresh proof for a request. With `token`, for one that carries this access token.
    ///
    /// # Errors
    /// If the system returns no randomness, or its clock is before 1970.
    #[expect(
        clippy::disallowed_methods,
        reason = "servers compare the proofs with the real time"
    )]
    pub fn proof(&self, method: &str, url: &str, token: Option<&str>) -> Result<Proof> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let header = json!({"typ": "dpop+jwt", "alg": self.algorithm, "jwk": self.jwk()});
        let mut id = [0; 16];
        rand::fill(&mut id)?;
        let id = URL_SAFE_NO_PAD.encode(id);
        let claims = json!({"jti": id, "htm": method, "htu": url, "iat": now});
        let object = |value: Value| value.as_object().cloned().context("an object");
        let proof = Proof {
            header: object(header)?,
            claims: object(claims)?,
        };
        Ok(match token {
            Some(token) => proof.claim("ath", json!(access_token_hash(token))),
            None => proof,
        })
    }

    /// Signs a proof: the value of a `DPoP` header.
    ///
    /// # Errors
    /// If the system returns no randomness.
    pub fn sign(&self, proof: &Proof) -> Result<String> {
        let (header, claims) = (json!(proof.header), json!(proof.claims));
        self.key.sign(&header, &claims)
    }

    /// The `DPoP` header of a good request.
    ///
    /// # Errors
    /// If the system returns no randomness, or its clock is before 1970.
    pub fn prove(&self, method: &str, url: &str, token: Option<&str>) -> Result<String> {
        self.sign(&self.proof(method, url, token)?)
    }
}

/// `ath` of a proof: the SHA-256 of the access token, base64url (RFC 9449 §4.2).
#[must_use]
pub fn access_token_hash(token: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, token.as_bytes()))
}
