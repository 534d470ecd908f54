//! `dpop`: how clients prove the possession of the key that a token is bound to (RFC 9449).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::Algorithm;
use claims::dpop::{NonceKey, PublicOrigin, Window};
use document::Section;

use super::{number, text};

/// Which proofs the guard accepts.
#[derive(Debug)]
pub struct DpopConfig {
    /// Where clients reach the API.
    pub origins: Vec<PublicOrigin>,
    /// Algorithms of proofs.
    pub algorithms: Vec<Algorithm>,
    pub window: Window,
    /// The key of nonces, the same for all gateways of an API. Without it, there are none.
    pub nonce_key: Option<NonceKey>,
}

impl DpopConfig {
    /// The names of the algorithms, separated by spaces.
    pub fn algs(&self) -> String {
        let names: Vec<&str> = self.algorithms.iter().map(|of| of.name()).collect();
        names.join(" ")
    }
}

const DEFAULT_ALGORITHMS: [Algorithm; 2] = [Algorithm::Es256, Algorithm::EdDsa];
const DEFAULT_MAX_AGE_SECONDS: u64 = 60;
const DEFAULT_SKEW_SECONDS: u64 = 10;

pub(super) fn read(root: &mut Section<'_>) -> Option<DpopConfig> {
    root.optional("dpop", |object| {
        object.required("origins");
        let origins = object.values("origins").map(|texts| {
            let origins = texts.iter().map(|text| PublicOrigin::parse(text));
            origins.collect::<Option<Vec<_>>>().unwrap_or_default()
        });
        if origins.as_ref().is_some_and(Vec::is_empty) {
            let why = "must be a list of at least one URL of the API as its clients know it: http or https, a host, \
                       and a port or path if they are part of it";
            object.problem("origins", why);
        }
        Some(DpopConfig {
            origins: origins.unwrap_or_default(),
            algorithms: algorithms(object),
            window: Window {
                max_age: number(object, "proof_max_age_seconds", 1..=600, DEFAULT_MAX_AGE_SECONDS),
                skew: number(object, "proof_skew_seconds", 0..=300, DEFAULT_SKEW_SECONDS),
            },
            nonce_key: nonce_key(object),
        })
    })
}

fn algorithms(object: &mut Section<'_>) -> Vec<Algorithm> {
    let Some(names) = object.values("algorithms") else {
        return DEFAULT_ALGORITHMS.into();
    };
    let named = names.iter().map(|name| Algorithm::from_name(name));
    match named.collect::<Option<Vec<_>>>() {
        Some(algorithms) if !algorithms.is_empty() => algorithms,
        _ => {
            object.problem("algorithms", "must be a list of ES256, EdDSA or RS256");
            Vec::new()
        }
    }
}

fn nonce_key(object: &mut Section<'_>) -> Option<NonceKey> {
    let text = text(object, "nonce_key")?;
    let bytes = URL_SAFE_NO_PAD.decode(&text).ok();
    let key = bytes.and_then(|bytes| bytes.try_into().ok());
    if key.is_none() {
        let why = "must be 32 random bytes in base64url without padding: \
                   head -c 32 /dev/urandom | basenc --base64url | tr -d =";
        object.problem("nonce_key", why);
    }
    key.map(NonceKey::new)
}
