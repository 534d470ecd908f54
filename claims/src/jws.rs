//! A strict parser of the JWS compact form (RFC 7515 §7.1).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json::{self, JsonError};
use crate::media_type;

/// Longest compact form that is parsed, in bytes.
pub const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// The signature algorithms of this product (RFC 7518 §3.1, RFC 8037 §3.1). `none` and HMAC do not exist here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Algorithm {
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
    /// ECDSA on P-256 with SHA-256.
    #[serde(rename = "ES256")]
    Es256,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    #[serde(rename = "RS256")]
    Rs256,
}

impl Algorithm {
    pub const ALL: [Self; 3] = [Self::EdDsa, Self::Es256, Self::Rs256];

    pub const fn name(self) -> &'static str {
        match self {
            Self::EdDsa => "EdDSA",
            Self::Es256 => "ES256",
            Self::Rs256 => "RS256",
        }
    }

    /// Returns the algorithm with this `alg` value, compared exactly.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
    }

    /// Like [`Self::from_name`], and also takes `Ed25519`, the newer name of `EdDSA` with that curve (RFC 9864 §2.2), which
    /// clients write into what they sign themselves.
    pub fn from_any_name(name: &str) -> Option<Self> {
        match name {
            "Ed25519" => Some(Self::EdDsa),
            _ => Self::from_name(name),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JwsError {
    #[error("longer than {MAX_TOKEN_BYTES} bytes")]
    TooLong,
    #[error("not three parts joined by dots")]
    Parts,
    /// The part is not strict base64url: it has padding, white space, or bits left over at its end.
    #[error("the {0} is not base64url")]
    Base64(Part),
    /// The part is not a JSON object, or repeats a name.
    #[error("the {0}: {1}")]
    Json(Part, JsonError),
    #[error("the header's {0} is not a string")]
    HeaderType(&'static str),
    /// The header has `crit`, and this parser supports no extension (RFC 7515 §4.1.11).
    #[error("the header has a crit extension that is not understood")]
    Critical,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Header,
    Body,
    Signature,
}

impl std::fmt::Display for Part {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Header => "header",
            Self::Body => "body",
            Self::Signature => "signature",
        })
    }
}

/// The header members that the parser reads. It ignores `jku`, `x5u` and `x5c`, because a token must not choose the key
/// that verifies it (RFC 8725 §3.10). For `jwk` see [`CompactJws::embedded_key`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JoseHeader {
    /// The `alg` value as sent. Parse it with [`Algorithm::from_name`].
    pub alg: Option<String>,
    pub typ: Option<String>,
    pub kid: Option<String>,
    /// SHA-1 thumbprint of a certificate, base64url.
    pub x5t: Option<String>,
    /// SHA-256 thumbprint of a certificate, base64url: `x5t#S256`.
    pub x5t_s256: Option<String>,
}

/// A parsed, **unverified** compact JWS.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactJws<'a> {
    pub header: JoseHeader,
    /// The text that the signature covers: header, dot and body, as sent.
    pub signing_input: &'a str,
    /// The signature, decoded.
    pub signature: Vec<u8>,
    body: &'a str,
    /// The header members that [`JoseHeader`] leaves.
    others: Map<String, Value>,
}

impl<'a> CompactJws<'a> {
    /// Splits a compact JWS and decodes header and signature. [`CompactJws::claims`] decodes the body later, so
    /// that the caller can verify the signature first.
    ///
    /// # Errors
    /// A [`JwsError`] that names the part.
    pub fn parse(token: &'a str) -> Result<Self, JwsError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(JwsError::TooLong);
        }
        let (signing_input, signature) = token.rsplit_once('.').ok_or(JwsError::Parts)?;
        let (header, body) = signing_input.split_once('.').ok_or(JwsError::Parts)?;
        if body.contains('.') {
            return Err(JwsError::Parts);
        }
        let header = decode(header, Part::Header)?;
        let mut header =
            json::parse_object(&header).map_err(|error| JwsError::Json(Part::Header, error))?;
        Ok(Self {
            header: JoseHeader::read(&mut header)?,
            signing_input,
            signature: decode(signature, Part::Signature)?,
            body,
            others: header,
        })
    }

    /// `jwk`, the key that the signer says to have. Only for a JWS whose meaning is to prove the possession of a key, such
    /// as a DPoP proof: everybody can sign with their own key (RFC 8725 §3.10).
    pub fn embedded_key(&self) -> Option<&Value> {
        self.others.get("jwk")
    }

    /// Decodes the body as a strict JSON object.
    ///
    /// # Errors
    /// [`JwsError::Base64`] or [`JwsError::Json`] for [`Part::Body`].
    pub fn claims(&self) -> Result<Map<String, Value>, JwsError> {
        json::parse_object(&decode(self.body, Part::Body)?)
            .map_err(|error| JwsError::Json(Part::Body, error))
    }
}

impl JoseHeader {
    /// True if `typ` is this media type (D-67).
    pub fn has_type(&self, typ: &str) -> bool {
        self.type_among([typ]).is_some()
    }

    /// The one of these media types that `typ` is (D-67).
    pub fn type_among<'t>(&self, types: impl IntoIterator<Item = &'t str>) -> Option<&'t str> {
        let own = self.typ.as_deref()?;
        let mut types = types.into_iter();
        types.find(|typ| media_type::is_same(typ, own))
    }

    fn read(header: &mut Map<String, Value>) -> Result<Self, JwsError> {
        if header.contains_key("crit") {
            return Err(JwsError::Critical);
        }
        let mut take = |name: &'static str| match header.remove(name) {
            // Some libraries write unset members as `null` (D-10).
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(value)) => Ok(Some(value)),
            Some(_) => Err(JwsError::HeaderType(name)),
        };
        Ok(Self {
            alg: take("alg")?,
            typ: take("typ")?,
            kid: take("kid")?,
            x5t: take("x5t")?,
            x5t_s256: take("x5t#S256")?,
        })
    }
}

fn decode(text: &str, part: Part) -> Result<Vec<u8>, JwsError> {
    URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| JwsError::Base64(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn token(header: &str, body: &str) -> String {
        let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
        format!(
            "{}.{}.{}",
            encode(header),
            encode(body),
            encode("signature")
        )
    }

    #[test]
    fn takes_a_token_apart() {
        let text = token(
            r#"{"alg":"EdDSA","typ":"at+jwt","kid":"k","jku":"https://x"}"#,
            "{\"a\":1}",
        );
        let jws = CompactJws::parse(&text).unwrap();
        assert_eq!(jws.header.alg.as_deref(), Some("EdDSA"));
        assert_eq!(jws.header.kid.as_deref(), Some("k"));
        assert_eq!(jws.header.x5t, None);
        assert_eq!(jws.signature, b"signature");
        assert_eq!(
            format!(
                "{}.{}",
                jws.signing_input,
                URL_SAFE_NO_PAD.encode("signature")
            ),
            text
        );
        assert_eq!(jws.claims().unwrap()["a"], 1);
        let types = ["rt+jwt", "AT+JWT"];
        assert_eq!(jws.header.type_among(types), Some("AT+JWT"));
        let unset = token(r#"{"typ":null}"#, "{}");
        let unset = CompactJws::parse(&unset).unwrap();
        assert_eq!(unset.header.type_among(["null", ""]), None);
    }

    /// RFC 7515 §4.1.11, RFC 8725 §3.3: strict base64, no unknown critical extension, no duplicate member.
    #[test]
    fn refuses_what_two_parsers_could_read_differently() {
        let good = token("{}", "{}");
        for (bad, why) in [
            (format!("{good}="), "padding"),
            (format!("{good} "), "white space"),
            (good.replacen("e30", "e31", 1), "stray bits at the end"),
            (good.replace('.', ""), "one part"),
            (format!("{good}.e30.e30"), "five parts"),
            (token(r#"{"alg":"RS256","alg":"none"}"#, "{}"), "duplicate"),
            (token(r#"{"crit":["exp"]}"#, "{}"), "crit"),
            (token(r#"{"kid":1}"#, "{}"), "kid is a number"),
            (token("[]", "{}"), "header is a list"),
            ("a".repeat(MAX_TOKEN_BYTES + 1), "size"),
        ] {
            assert!(CompactJws::parse(&bad).is_err(), "{why}");
        }
        let duplicate = token("{}", r#"{"sub":"a","sub":"b"}"#);
        assert!(CompactJws::parse(&duplicate).unwrap().claims().is_err());
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC{0,200}", pieces in proptest::collection::vec("[A-Za-z0-9_=-]{0,40}", 0..5)) {
            let _ = CompactJws::parse(&text).map(|jws| jws.claims());
            let joined = pieces.join(".");
            let _ = CompactJws::parse(&joined).map(|jws| jws.claims());
        }
    }
}
