//! The host's own signature verification: Envoy's foreign function `verify_signature`.
//!
//! It is used for an algorithm only after it has told a right signature from a wrong one at start.

use claims::Algorithm;
use proxy_wasm::hostcalls;

use guard::signature::HostVerifier;

/// Envoy's name for it (`source/extensions/common/wasm/ext/verify_signature.proto`).
const FUNCTION: &str = "verify_signature";

/// What the signatures of the probes are over.
const MESSAGE: &[u8] = b"probe";

struct Probe {
    public_key: &'static [u8],
    signature: &'static [u8],
}

impl Probe {
    fn is_told_right(&self) -> bool {
        call(self.public_key, MESSAGE, self.signature) == Some(true)
            && call(self.public_key, b"another", self.signature) == Some(false)
    }
}

// Made with `openssl genpkey`, `openssl pkey -pubout -outform DER` and `openssl dgst -sha256 -sign`.

const RS256: Probe = Probe {
    public_key: include_bytes!("probe/rs256.key.der"),
    signature: include_bytes!("probe/rs256.signature"),
};

const ES256: Probe = Probe {
    public_key: include_bytes!("probe/es256.key.der"),
    signature: include_bytes!("probe/es256.signature.der"),
};

/// The host's verification, for the algorithms that it does right.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostSignatures {
    /// Whether it is used for RS256.
    pub(super) rs256: bool,
    /// Whether it is used for ES256.
    pub(super) es256: bool,
}

impl HostSignatures {
    /// Finds out what the host can do.
    pub(super) fn probe() -> Self {
        Self {
            rs256: RS256.is_told_right(),
            es256: ES256.is_told_right(),
        }
    }
}

impl HostVerifier for HostSignatures {
    fn verify(
        &self,
        algorithm: Algorithm,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Option<bool> {
        let offered = match algorithm {
            Algorithm::Rs256 => self.rs256,
            Algorithm::Es256 => self.es256,
            Algorithm::EdDsa => false,
        };
        if offered {
            call(public_key, message, signature)
        } else {
            None
        }
    }
}

/// Asks the host; `None` when it has no answer.
fn call(public_key: &[u8], message: &[u8], signature: &[u8]) -> Option<bool> {
    let mut arguments = Vec::with_capacity(public_key.len() + message.len() + signature.len() + 32);
    for (field, value) in [
        (1, b"sha256".as_slice()),
        (2, public_key),
        (3, signature),
        (4, message),
    ] {
        put_bytes(&mut arguments, field, value);
    }
    let result = hostcalls::call_foreign_function(FUNCTION, Some(&arguments)).ok()??;
    // `VerifySignatureResult.result` is field 1, a bool; absent means false.
    Some(result.starts_with(&[0x08, 0x01]))
}

/// A length-delimited field of a protobuf message.
fn put_bytes(message: &mut Vec<u8>, field: u8, value: &[u8]) {
    message.push(field << 3 | 2);
    let mut length = value.len();
    while length >= 0x80 {
        message.push(u8::try_from(length & 0x7f).unwrap_or(0) | 0x80);
        length >>= 7;
    }
    message.push(u8::try_from(length).unwrap_or(0));
    message.extend_from_slice(value);
}
