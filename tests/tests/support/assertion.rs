//! User assertions, signed with the demo integration's key (protocol.md §2.3).

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha1::{Digest as _, Sha1};
use tests::{Artifacts, SigningKey};

/// An assertion that is not signed yet.
#[derive(Debug, Clone)]
pub(crate) struct Assertion {
    pub(crate) header: Value,
    pub(crate) body: Value,
}

/// The content of a PEM file of the demo.
fn demo_pem(name: &str) -> Vec<u8> {
    let repository = Artifacts::find().unwrap().repository;
    let pem = std::fs::read_to_string(repository.join("demo").join(name)).unwrap();
    let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    STANDARD.decode(base64).unwrap()
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

    /// Signs the assertion.
    pub(crate) fn sign(&self) -> String {
        // A key is checked when it is read, which takes far longer than a signature.
        static KEY: LazyLock<SigningKey> =
            LazyLock::new(|| SigningKey::rs256(&demo_pem("non-interactive-demo.key.pem")).unwrap());
        self.sign_with(&KEY)
    }

    /// Signs the assertion with another key.
    pub(crate) fn sign_with(&self, key: &SigningKey) -> String {
        key.sign(&self.header, &self.body).unwrap()
    }

    /// The thumbprint of the demo certificate.
    pub(crate) fn x5t() -> String {
        URL_SAFE_NO_PAD.encode(Sha1::digest(demo_pem("non-interactive-demo.cert.pem")))
    }
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
