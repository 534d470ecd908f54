//! The public keys of one issuer.

use std::collections::BTreeSet;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::Algorithm;
use serde_json::{Map, Value};

use crate::signature::SignatureKey;

/// Keys of one set at most: a set is read whole, and looked through on each first sight of a token.
pub const MAX_KEYS: usize = 100;

/// A JWKS is at most this large, in bytes.
pub const MAX_JWKS_BYTES: usize = 512 * 1024;

/// RSA keys have at least and at most this many bytes in their modulus: 2048 to 4096 bits.
const RSA_MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=512;

/// A key that verifies.
#[derive(Debug)]
pub struct Key {
    /// The identifier that token headers name.
    pub kid: String,
    /// The one algorithm that it verifies.
    pub algorithm: Algorithm,
    /// The key.
    pub signature_key: SignatureKey,
    /// The key's own members: two keys are the same when these are.
    material: Map<String, Value>,
}

/// Keys of one issuer, each under its identifier.
#[derive(Debug, Clone, Default)]
pub struct KeySet(Vec<Rc<Key>>);

impl KeySet {
    /// Reads a JWK set (RFC 7517 §5), key by key: what this filter does not support is left out and described.
    /// `algorithms` are those of the issuer's tokens; a key without `alg` has the one that its type implies.
    ///
    /// # Errors
    /// When the text is no JWK set at all.
    pub fn parse(
        text: &[u8],
        algorithms: &BTreeSet<Algorithm>,
    ) -> Result<(Self, Vec<String>), String> {
        if text.len() > MAX_JWKS_BYTES {
            return Err(format!("larger than {MAX_JWKS_BYTES} bytes"));
        }
        let mut set = claims::json::parse_object(text).map_err(|error| error.to_string())?;
        match set.remove("keys") {
            Some(list @ Value::Array(_)) => Ok(Self::of_values(&list, algorithms)),
            _ => Err("it has no list of keys".to_owned()),
        }
    }

    /// The keys of a JSON list, and what is wrong with those that were left out.
    #[must_use]
    pub fn of_values(list: &Value, algorithms: &BTreeSet<Algorithm>) -> (Self, Vec<String>) {
        let mut keys: Vec<Rc<Key>> = Vec::new();
        let mut skipped = Vec::new();
        let values = list.as_array().map(Vec::as_slice).unwrap_or_default();
        for (index, value) in values.iter().enumerate() {
            let key = match value.as_object() {
                Some(_) if keys.len() >= MAX_KEYS => Err("one key too many"),
                Some(members) => Key::read(members, algorithms),
                None => Err("not an object"),
            };
            match key {
                Ok(key) if keys.iter().any(|other| other.kid == key.kid) => {
                    skipped.push(format!("key {index}: another key has the same kid"));
                }
                Ok(key) => keys.push(Rc::new(key)),
                Err(why) => skipped.push(format!("key {index}: {why}")),
            }
        }
        (Self(keys), skipped)
    }

    /// The key with this identifier.
    #[must_use]
    pub fn get(&self, kid: &str) -> Option<&Rc<Key>> {
        self.0.iter().find(|key| key.kid == kid)
    }

    /// Whether this very key is still in the set.
    #[must_use]
    pub fn trusts(&self, key: &Rc<Key>) -> bool {
        self.0.iter().any(|other| Rc::ptr_eq(other, key))
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// This set in place of `previous`. Keys that stay are the same values, so that tokens verified with them
    /// stay verified.
    #[must_use]
    pub fn succeeding(mut self, previous: &Self) -> Self {
        for key in &mut self.0 {
            let same = previous
                .get(&key.kid)
                .filter(|old| old.material == key.material && old.algorithm == key.algorithm);
            if let Some(same) = same {
                *key = Rc::clone(same);
            }
        }
        self
    }
}

impl Key {
    fn read(
        members: &Map<String, Value>,
        algorithms: &BTreeSet<Algorithm>,
    ) -> Result<Self, &'static str> {
        let text = |name: &str| members.get(name).and_then(Value::as_str);
        if members.get("use").is_some_and(|usage| usage != "sig") {
            return Err("not for signatures");
        }
        if members
            .get("key_ops")
            .is_some_and(|operations| !lists(operations, "verify"))
        {
            return Err("not for verifying");
        }
        let kid = text("kid")
            .filter(|kid| !kid.is_empty())
            .ok_or("it has no kid")?;
        let signature_key = signature_key(members)?;
        let algorithm = signature_key.algorithm();
        match members.get("alg") {
            None => {}
            Some(Value::String(alg)) if alg == algorithm.name() => {}
            Some(Value::String(alg)) if alg == "Ed25519" && algorithm == Algorithm::EdDsa => {}
            Some(_) => return Err("its alg is not supported, or not one for its type"),
        }
        if !algorithms.contains(&algorithm) {
            return Err("the issuer's tokens do not use its algorithm");
        }
        let material = ["kty", "crv", "x", "y", "n", "e"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), members.get(name)?.clone())))
            .collect();
        Ok(Self {
            kid: kid.to_owned(),
            algorithm,
            signature_key,
            material,
        })
    }
}

fn lists(list: &Value, text: &str) -> bool {
    list.as_array()
        .is_some_and(|values| values.iter().any(|value| value == text))
}

/// The key of a JWK's members (RFC 7518 §6, RFC 8037 §2). They are read one by one: a derived reader, with all that it
/// can say about wrong types, is a tenth of the module.
fn signature_key(members: &Map<String, Value>) -> Result<SignatureKey, &'static str> {
    let text = |name: &str| {
        members
            .get(name)
            .and_then(Value::as_str)
            .ok_or("its type is not supported, or a member is missing")
    };
    let decode = |name: &str| {
        URL_SAFE_NO_PAD
            .decode(text(name)?)
            .map_err(|_| "a member is not base64url")
    };
    let is_on = |curve: &str| match text("crv")? {
        crv if crv == curve => Ok(()),
        _ => Err("its curve is not supported"),
    };
    match text("kty")? {
        "OKP" => {
            is_on("Ed25519")?;
            SignatureKey::ed25519(&decode("x")?)
        }
        "EC" => {
            is_on("P-256")?;
            // The uncompressed point (SEC 1 §2.3.3).
            let point = [&[4_u8][..], &decode("x")?, &decode("y")?].concat();
            if point.len() != 65 {
                return Err("its coordinates do not have 32 bytes");
            }
            SignatureKey::p256(&point)
        }
        "RSA" => {
            let (modulus, exponent) = (decode("n")?, decode("e")?);
            if !RSA_MODULUS_BYTES.contains(&modulus.len()) || modulus.first() == Some(&0) {
                return Err("its modulus does not have 2048 to 4096 bits");
            }
            SignatureKey::rsa(&modulus, &exponent)
        }
        _ => Err("its type is not supported, or a member is missing"),
    }
}
