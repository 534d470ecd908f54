//! The whole way of a DPoP proof: taken apart, compared with the request, and its signature verified. Nobody signed any of this,
//! so whatever comes in, nothing is accepted.
//!
//! The input is two lines, a proof's header and its claims, which are encoded and given a signature; or else other lines, each a
//! `DPoP` header as it is.

#![cfg_attr(fuzzing, no_main)]

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::Algorithm;
use claims::dpop::{Expected, NonceKey, Nonces, Proof, PublicOrigin, Window};
use keys::signature::{HostVerifier, NoHostVerifier, signed_once};
use keys_native::NativeSignatures;
#[cfg(fuzzing)]
use libfuzzer_sys::fuzz_target;

/// The `iat` of the proofs in the corpus, in seconds since 1970.
const NOW: u64 = 1_800_000_000;

const NONCES: NonceKey = NonceKey::new([1; 32]);

fuzz_target!(|input: &str| {
    let lines: Vec<&str> = input.lines().collect();
    let made = match lines.as_slice() {
        [header, claims] if header.starts_with('{') => Some(
            [*header, claims, &"A".repeat(64)]
                .map(|part| URL_SAFE_NO_PAD.encode(part))
                .join("."),
        ),
        _ => None,
    };
    let fields: Vec<&[u8]> = match &made {
        Some(proof) => vec![proof.as_bytes()],
        None => lines.iter().map(|line| line.as_bytes()).collect(),
    };
    let origins = [PublicOrigin::parse("https://api.example.com/v1").expect("it is an origin")];
    for nonces in [
        Nonces::Off,
        Nonces::Optional(&NONCES),
        Nonces::Required(&NONCES),
    ] {
        let Ok(proof) = Proof::parse(&fields, &Algorithm::ALL) else {
            return;
        };
        assert_eq!(fields.len(), 1, "two proofs are refused");
        let expected = Expected {
            bound_to: None,
            access_token: None,
            method: b"GET",
            target: b"/projects?x",
            origins: &origins,
            now: NOW,
            window: Window {
                max_age: 60,
                skew: 10,
            },
            nonces,
        };
        if let Ok(checked) = proof.check(&expected) {
            let hosts: [&dyn HostVerifier; 2] = [&NoHostVerifier, &NativeSignatures];
            let signed = |key: &_, message: &_, signature: &_| {
                let answers = hosts.map(|host| signed_once(key, host, message, signature));
                assert_eq!(answers[0], answers[1], "{input}");
                answers[0]
            };
            assert!(checked.verify(signed).is_err(), "nobody signed {input}");
        }
    }
});
