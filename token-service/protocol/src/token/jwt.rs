//! Signing claims as a JWT (RFC 7519) in compact form.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;

use super::key::{KeyError, SigningKey};

/// Initial buffer size for a body, in bytes. Most bodies fit, so the buffer does not grow.
const BODY_BYTES: usize = 1536;

/// The JOSE header of a token that `key` signs, as JSON.
pub fn header(key: &SigningKey, typ: &str) -> Result<Vec<u8>, KeyError> {
    #[derive(Serialize)]
    struct Header<'a> {
        alg: &'a str,
        typ: &'a str,
        kid: &'a str,
    }
    let header = Header {
        alg: key.algorithm().name(),
        typ,
        kid: key.kid(),
    };
    serde_json::to_vec(&header).map_err(|_| KeyError)
}

/// A JWT of type `typ` in compact form, signed with `key`.
pub fn sign(key: &SigningKey, typ: &str, claims: &impl Serialize) -> Result<String, KeyError> {
    let header = header(key, typ)?;
    let mut body = Vec::with_capacity(BODY_BYTES);
    serde_json::to_writer(&mut body, claims).map_err(|_| KeyError)?;
    let mut token = String::with_capacity((header.len() + body.len()) * 4 / 3 + 350);
    URL_SAFE_NO_PAD.encode_string(header, &mut token);
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(body, &mut token);
    let signature = key.sign(token.as_bytes())?;
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(signature, &mut token);
    Ok(token)
}
