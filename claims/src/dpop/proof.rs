//! A proof, and its checks.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{MAX_PROOF_BYTES, NonceKey, PROOF_TYPE, ProofRefusal, PublicOrigin, RefusedProof, key};
use crate::json::numeric_date;
use crate::jwk::PublicKey;
use crate::jws::{Algorithm, CompactJws, JwsError};
use crate::thumbprint::Thumbprint;

/// Longest `jti`, in bytes.
const MAX_JTI_BYTES: usize = 256;

/// A parsed, **unverified** proof.
#[derive(Debug)]
pub struct Proof<'a> {
    jws: CompactJws<'a>,
    algorithm: Algorithm,
    key: PublicKey,
    thumbprint: Thumbprint,
    claims: Claims,
}

#[derive(Debug)]
struct Claims {
    jti: String,
    htm: String,
    htu: String,
    iat: u64,
    ath: Option<String>,
    nonce: Option<String>,
}

/// For how long a proof is accepted, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Age up to which a proof is accepted.
    pub max_age: u64,
    /// How far `iat` may lie in the future.
    pub skew: u64,
}

/// What nonces of the server mean for a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nonces<'k> {
    /// The server has none. A nonce in a proof is ignored.
    Off,
    /// An accepted nonce takes the place of `iat`, and a proof without one is accepted by its `iat`.
    Optional(&'k NonceKey),
    /// Every proof needs one.
    Required(&'k NonceKey),
}

/// What a proof must be for.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'e> {
    /// The key to which the token, the code or the grant is bound. `None` where the proof brings the key.
    pub bound_to: Option<Thumbprint>,
    /// The access token that is presented with the proof. `None` at the token endpoint, where `ath` means nothing.
    pub access_token: Option<&'e str>,
    /// The method as sent.
    pub method: &'e [u8],
    /// Path and query as sent.
    pub target: &'e [u8],
    /// Where the request may have been sent.
    pub origins: &'e [PublicOrigin],
    /// Seconds since 1970.
    pub now: u64,
    pub window: Window,
    pub nonces: Nonces<'e>,
}

impl<'a> Proof<'a> {
    /// Reads the proof of a request. `fields` are the values of all its `DPoP` headers, as sent.
    ///
    /// # Errors
    /// A [`ProofRefusal`] that nothing but another proof could change.
    pub fn parse(fields: &[&'a [u8]], algorithms: &[Algorithm]) -> Result<Self, ProofRefusal> {
        let field = match fields {
            [] => return Err(ProofRefusal::Missing),
            [field] => *field,
            [_, _, ..] => return Err(ProofRefusal::Several),
        };
        if field.len() > MAX_PROOF_BYTES {
            return Err(ProofRefusal::TooLong);
        }
        let text = str::from_utf8(field).map_err(|_| ProofRefusal::Malformed)?;
        // A proxy may have joined two fields to one, which a client with one key could not tell from an attack.
        if text.contains(',') {
            return Err(ProofRefusal::Several);
        }
        let refusal = |error| match error {
            JwsError::Critical => ProofRefusal::Critical,
            _ => ProofRefusal::Malformed,
        };
        let jws = CompactJws::parse(text).map_err(refusal)?;
        if !jws.header.has_type(PROOF_TYPE) {
            return Err(ProofRefusal::Type);
        }
        let algorithm = jws
            .header
            .alg
            .as_deref()
            .and_then(Algorithm::from_any_name)
            .filter(|algorithm| algorithms.contains(algorithm))
            .ok_or(ProofRefusal::Algorithm)?;
        let key = jws
            .embedded_key()
            .and_then(|jwk| key::read(jwk, algorithm))
            .ok_or(ProofRefusal::Key)?;
        let claims = Claims::read(&jws)?;
        Ok(Self {
            thumbprint: key.thumbprint(),
            jws,
            algorithm,
            key,
            claims,
        })
    }

    /// The key that the proof brings. Nobody has proved to have it before [`CheckedProof::verify`].
    pub const fn thumbprint(&self) -> Thumbprint {
        self.thumbprint
    }

    /// Compares the proof with what it must be for (RFC 9449 §4.3).
    ///
    /// # Errors
    /// The [`ProofRefusal`] of the first check that fails. Where only the time is wrong and the server has nonces, that is
    /// [`ProofRefusal::Nonce`].
    pub fn check(self, expected: &Expected<'_>) -> Result<CheckedProof<'a>, RefusedProof> {
        let claims = &self.claims;
        if expected.bound_to.is_some_and(|key| key != self.thumbprint) {
            return Err(ProofRefusal::Binding.into());
        }
        if let Some(token) = expected.access_token {
            let hash = Thumbprint::of(token.as_bytes());
            if claims.ath.as_deref().and_then(Thumbprint::parse) != Some(hash) {
                return Err(ProofRefusal::Token.into());
            }
        }
        if claims.htm.as_bytes() != expected.method {
            return Err(ProofRefusal::Method.into());
        }
        let mut origins = expected.origins.iter();
        if !origins.any(|origin| origin.is_at(&claims.htu, expected.target)) {
            let origins = expected.origins.iter();
            let urls = origins.map(|origin| origin.url(expected.target));
            return Err(RefusedProof::url(&claims.htu, &urls.collect::<Vec<_>>()));
        }
        let until = claims.accepted_until(expected)?;
        Ok(CheckedProof { proof: self, until })
    }
}

impl Claims {
    fn read(jws: &CompactJws<'_>) -> Result<Self, ProofRefusal> {
        let mut claims = jws.claims().map_err(|_| ProofRefusal::Malformed)?;
        let iat = claims.get("iat").and_then(numeric_date);
        let mut text = |name: &str| match claims.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(ProofRefusal::Claims),
        };
        let claims = Self {
            jti: text("jti")?.ok_or(ProofRefusal::Claims)?,
            htm: text("htm")?.ok_or(ProofRefusal::Claims)?,
            htu: text("htu")?.ok_or(ProofRefusal::Claims)?,
            iat: iat.ok_or(ProofRefusal::Claims)?,
            ath: text("ath")?,
            nonce: text("nonce")?,
        };
        if (1..=MAX_JTI_BYTES).contains(&claims.jti.len()) {
            Ok(claims)
        } else {
            Err(ProofRefusal::Claims)
        }
    }

    /// Time from which the proof would be refused anyway, in seconds since 1970. A nonce says when a proof was made just as
    /// well as `iat` does, and better (RFC 9449 §4.3, check 11).
    fn accepted_until(&self, expected: &Expected<'_>) -> Result<u64, ProofRefusal> {
        let Window { max_age, skew } = expected.window;
        let now = expected.now;
        let key = match expected.nonces {
            Nonces::Off => None,
            Nonces::Optional(key) | Nonces::Required(key) => Some(key),
        };
        if let (Some(key), Some(nonce)) = (key, &self.nonce) {
            return if key.accepts(nonce, now) {
                Ok(NonceKey::refused_from(now))
            } else {
                Err(ProofRefusal::Nonce)
            };
        }
        if matches!(expected.nonces, Nonces::Required(_)) {
            return Err(ProofRefusal::Nonce);
        }
        let off = |refusal| match key {
            None => refusal,
            Some(_) => ProofRefusal::Nonce,
        };
        if self.iat > now.saturating_add(skew) {
            return Err(off(ProofRefusal::NotYetValid));
        }
        let until = self.iat.saturating_add(max_age).saturating_add(1);
        if now >= until {
            return Err(off(ProofRefusal::Stale));
        }
        Ok(until)
    }
}

/// A proof that is for the request, but whose signature was not verified.
#[derive(Debug)]
pub struct CheckedProof<'a> {
    proof: Proof<'a>,
    until: u64,
}

impl CheckedProof<'_> {
    /// Verifies the signature. `signed` gets the key, the text that is signed, and the signature as in a JWS.
    ///
    /// # Errors
    /// [`ProofRefusal::Signature`].
    pub fn verify(
        self,
        signed: impl FnOnce(&PublicKey, &[u8], &[u8]) -> bool,
    ) -> Result<ProofUse, ProofRefusal> {
        let Proof {
            jws,
            algorithm,
            key,
            thumbprint,
            claims,
        } = self.proof;
        debug_assert_eq!(key.algorithm(), algorithm);
        if !signed(&key, jws.signing_input.as_bytes(), &jws.signature) {
            return Err(ProofRefusal::Signature);
        }
        let mut id = Sha256::new();
        id.update(thumbprint.as_bytes());
        id.update(&claims.jti);
        Ok(ProofUse {
            thumbprint,
            id: id.finalize().into(),
            until: self.until,
        })
    }
}

/// One use of a proof whose signature is right. The caller must accept each `id` once until `until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProofUse {
    /// The key of the client.
    pub thumbprint: Thumbprint,
    /// SHA-256 of the thumbprint and `jti`.
    pub id: [u8; 32],
    /// Time from which the proof is refused anyway, in seconds since 1970.
    pub until: u64,
}
