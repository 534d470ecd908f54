//! The host's own verification of signatures: Envoy's foreign function `verify_signature`.
//!
//! The filter uses it for an algorithm only if it has told a valid signature from an invalid one at the start.

use keys::algorithm::Algorithm;
use keys::signature::HostVerifier;
use proxy_wasm::hostcalls;

/// The function's name in Envoy (`source/extensions/common/wasm/ext/verify_signature.proto`).
const FUNCTION: &str = "verify_signature";

/// The message that the signatures of the probes cover.
const MESSAGE: &[u8] = b"probe";

struct Probe {
    algorithm: Algorithm,
    /// SubjectPublicKeyInfo, DER.
    public_key: &'static [u8],
    signature: &'static [u8],
}

impl Probe {
    fn is_told_right(&self) -> bool {
        let told = |message| call(self.algorithm, self.public_key, message, self.signature);
        told(MESSAGE) == Some(true) && told(b"another") == Some(false)
    }
}

const RSA_KEY: &[u8] = include_bytes!("probe/rsa.key.der");

/// Made with `openssl genpkey`, `openssl pkey -pubout -outform DER` and `openssl dgst -sha256 -sign`, or with
/// another digest.
const PROBES: [Probe; 5] = [
    Probe {
        algorithm: Algorithm::Rs256,
        public_key: RSA_KEY,
        signature: include_bytes!("probe/rs256.signature"),
    },
    Probe {
        algorithm: Algorithm::Rs384,
        public_key: RSA_KEY,
        signature: include_bytes!("probe/rs384.signature"),
    },
    Probe {
        algorithm: Algorithm::Rs512,
        public_key: RSA_KEY,
        signature: include_bytes!("probe/rs512.signature"),
    },
    Probe {
        algorithm: Algorithm::Es256,
        public_key: include_bytes!("probe/es256.key.der"),
        signature: include_bytes!("probe/es256.signature.der"),
    },
    Probe {
        algorithm: Algorithm::Es384,
        public_key: include_bytes!("probe/es384.key.der"),
        signature: include_bytes!("probe/es384.signature.der"),
    },
];

/// The host's verification, for the algorithms that it verifies correctly.
#[derive(Debug, Clone)]
pub(super) struct HostSignatures(Vec<(Algorithm, bool)>);

impl HostSignatures {
    /// Tests which algorithms the host verifies correctly.
    pub(super) fn probe() -> Self {
        let told = |probe: &Probe| (probe.algorithm, probe.is_told_right());
        Self(PROBES.iter().map(told).collect())
    }

    /// The algorithms that a host may offer, each with true if this host offers it.
    pub(super) fn offered(&self) -> &[(Algorithm, bool)] {
        &self.0
    }
}

impl HostVerifier for HostSignatures {
    fn offers(&self, algorithm: Algorithm) -> bool {
        self.0.contains(&(algorithm, true))
    }

    fn verify(
        &self,
        algorithm: Algorithm,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Option<bool> {
        match self.offers(algorithm) {
            true => call(algorithm, public_key, message, signature),
            false => None,
        }
    }
}

/// Asks the host; `None` if it gives no answer. The host assumes PKCS#1 v1.5 padding for RSA signatures.
fn call(algorithm: Algorithm, public_key: &[u8], message: &[u8], signature: &[u8]) -> Option<bool> {
    let digest: &[u8] = match algorithm {
        Algorithm::Rs256 | Algorithm::Es256 => b"sha256",
        Algorithm::Rs384 | Algorithm::Es384 => b"sha384",
        Algorithm::Rs512 => b"sha512",
        Algorithm::EdDsa | Algorithm::Ps256 => return None,
    };
    let mut arguments = Vec::with_capacity(public_key.len() + message.len() + signature.len() + 32);
    for (field, value) in [(1, digest), (2, public_key), (3, signature), (4, message)] {
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
