//! User assertions, signed with the demo integration's key (protocol.md §2.3).

#![expect(
    clippy::disallowed_types,
    reason = "a test signs with a public key pair"
)]

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jwt_simple::prelude::RS256KeyPair;
use serde_json::{Value, json};
use sha1::{Digest as _, Sha1};
use tests::Artifacts;

/// An assertion that is not signed yet.
#[derive(Debug, Clone)]
pub(crate) struct Assertion {
    pub(crate) header: Value,
    pub(crate) body: Value,
}

fn demo_file(name: &str) -> String {
    let path = Artifacts::find()
        .unwrap()
        .repository
        .join("demo")
        .join(name);
    std::fs::read_to_string(path).unwrap()
}

impl Assertion {
    /// A valid assertion for this user.
    pub(crate) fn of(user: &str) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let now = now();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self {
            header: json!({"typ": "JWT", "alg": "RS256", "kid": "demo-2020"}),
            body: json!({
                "iss": "non-interactive-demo",
                "sub": user,
                "aud": "https://identity.example.com/",
                "iat": now,
                "exp": now + 300,
                "jti": format!("{}-{number}", std::process::id()),
            }),
        }
    }

    /// With a member of the body changed.
    pub(crate) fn with(mut self, name: &str, value: Value) -> Self {
        self.body[name] = value;
        self
    }

    /// Without a member of the body.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.body.as_object_mut().unwrap().remove(name);
        self
    }

    /// Signs the assertion.
    pub(crate) fn sign(&self) -> String {
        static KEY: LazyLock<RS256KeyPair> = LazyLock::new(|| {
            RS256KeyPair::from_pem(&demo_file("non-interactive-demo.key.pem")).unwrap()
        });
        let input = self.signing_input();
        let signature = rs256(&KEY.to_der().unwrap(), &input);
        format!("{input}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// Signs the assertion with another RSA key, PKCS#8 DER.
    pub(crate) fn sign_with(&self, pkcs8: &[u8]) -> String {
        let input = self.signing_input();
        let signature = rs256(pkcs8, &input);
        format!("{input}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn signing_input(&self) -> String {
        format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(self.header.to_string()),
            URL_SAFE_NO_PAD.encode(self.body.to_string())
        )
    }

    /// The thumbprint of the demo certificate.
    pub(crate) fn x5t() -> String {
        let pem = demo_file("non-interactive-demo.cert.pem");
        let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        let der = base64::engine::general_purpose::STANDARD
            .decode(base64)
            .unwrap();
        URL_SAFE_NO_PAD.encode(Sha1::digest(der))
    }
}

fn rs256(key: &[u8], input: &str) -> Vec<u8> {
    let pair = aws_lc_rs::rsa::KeyPair::from_der(key)
        .or_else(|_| aws_lc_rs::rsa::KeyPair::from_pkcs8(key))
        .unwrap();
    let mut signature = vec![0; pair.public_modulus_len()];
    pair.sign(
        &aws_lc_rs::signature::RSA_PKCS1_SHA256,
        &aws_lc_rs::rand::SystemRandom::new(),
        input.as_bytes(),
        &mut signature,
    )
    .unwrap();
    signature
}

/// Seconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "the service's clock is this one too"
)]
pub(crate) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_secs()
}
