//! The public key in the header of a proof.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::json::present;
use crate::jwk::{PRIVATE_MEMBERS, PublicKey};
use crate::jws::Algorithm;

/// Members with certificates, whose key could be another one than that of the JWK.
const CERTIFICATES: [&str; 4] = ["x5u", "x5c", "x5t", "x5t#S256"];

/// The exponent 65537.
const EXPONENT: &str = "AQAB";

/// Reads `jwk` as a public key for `algorithm`. `None` if it is not, or if another text could stand for the same key, so
/// that a key has one thumbprint.
pub(super) fn read(jwk: &Value, algorithm: Algorithm) -> Option<PublicKey> {
    let members = jwk.as_object()?;
    let member = |name: &str| present(members, name);
    // RFC 9449 §4.3, check 7.
    let mut refused = PRIVATE_MEMBERS.iter().chain(&CERTIFICATES);
    if refused.any(|name| member(name).is_some()) {
        return None;
    }
    let is_for = |alg: &Value| alg.as_str().and_then(Algorithm::from_any_name) == Some(algorithm);
    if member("alg").is_some_and(|alg| !is_for(alg))
        || member("use").is_some_and(|key_use| key_use != "sig")
    {
        return None;
    }
    let text = |name: &str| Some(members.get(name)?.as_str()?.to_owned());
    let of_kind = |kty: &str, crv: Option<&str>| {
        text("kty").as_deref() == Some(kty) && text("crv").as_deref() == crv
    };
    match algorithm {
        Algorithm::EdDsa if of_kind("OKP", Some("Ed25519")) => Some(PublicKey::Okp {
            crv: text("crv")?,
            x: number(members, "x", 32..=32)?,
        }),
        Algorithm::Es256 if of_kind("EC", Some("P-256")) => Some(PublicKey::Ec {
            crv: text("crv")?,
            x: number(members, "x", 32..=32)?,
            y: number(members, "y", 32..=32)?,
        }),
        Algorithm::Rs256 if of_kind("RSA", None) && text("e")? == EXPONENT => {
            let n = number(members, "n", 256..=512)?;
            let bytes = URL_SAFE_NO_PAD.decode(&n).ok()?;
            (bytes.first() != Some(&0)).then_some(PublicKey::Rsa { n, e: text("e")? })
        }
        _ => None,
    }
}

/// The base64url text of a member that has as many bytes.
fn number(
    members: &Map<String, Value>,
    name: &str,
    bytes: std::ops::RangeInclusive<usize>,
) -> Option<String> {
    let text = members.get(name)?.as_str()?;
    let decoded = URL_SAFE_NO_PAD.decode(text).ok()?;
    bytes.contains(&decoded.len()).then(|| text.to_owned())
}
