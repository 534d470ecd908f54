//! The whole way of a token: taken apart, verified with a real key, decided about. The key signed nothing of this, so
//! whatever comes in, nothing is let in.
//!
//! Both kinds of host decide: one that leaves cryptography to the guard, as `filter.wasm`, and one that verifies with aws-lc, as the
//! native module and token-guard. Their answers are the same.
//!
//! The input is two lines, a token's header and its claims, which are encoded and given a signature; or else one line, a
//! token as it is.

#![cfg_attr(fuzzing, no_main)]

use std::cell::RefCell;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use guard::clock::Time;
use guard::config::Config;
use guard::denial_log::Denied;
use guard::driver::Driver;
use guard::{Fate, Guard, Request};
use keys::signature::{HostVerifier, NoHostVerifier};
use keys_native::NativeSignatures;
#[cfg(fuzzing)]
use libfuzzer_sys::fuzz_target;

const CONFIGURATION: &str = r#"{
  "issuers": [{
    "issuer": "https://lobby.example.com",
    "audiences": ["https://api.example.com"],
    "algorithms": ["EdDSA", "ES256", "RS256"],
    "jwks": {"keys": [
      {"kid": "EdDSA", "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
      {"kid": "ES256", "kty": "EC", "crv": "P-256",
       "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},
      {"kid": "RS256", "kty": "RSA", "e": "AQAB", "n": "zNyFnNXdUKlY1tfeaxQ_kmlDYalDEpwkyeKyfm4rXXhLVG-y4Rnl0ugLST0_ci7umhXUkGsnO4wtjO62VhyAL9e1GaW5TQ1Bz29vxKUZcmR9IyDlc0hmPBqYS8_0ub45XisGfiHYWGunAFdo3M019zHPnecaEwcRJwZxwwNsEo6xIybl1RLUprotjt_RNoTmByX3JMKHSnHZ6mqxBC_soJvH6QFbNtsJiWA11uYQpB9XSqaIMxXqP_J0FNlFZbDjItAboGneqjl5t6Co3mfFIBt9PB5vieFW0iSg9d8u37ZSjE5HA0Rkt8btIqtN7h0BfYIZOUWeIybFIo_8ECnRjw"}
    ]}
  }, {
    "issuer": "https://sso.example.com",
    "audiences": ["https://api.example.com"],
    "profile": "keycloak",
    "jwks": {"keys": [
      {"kid": "EdDSA", "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
    ]}
  }],
  "rules": [{"path_prefix": "/"}],
  "forward": {"x-user-id": "user_id"}
}"#;

/// Between `iat` and `exp` of the tokens in the corpus, in seconds.
const NOW: u64 = 1_800_000_000;

/// A clock that stands still.
const STILL: Time = Time {
    wall: NOW,
    steady: 0,
};

thread_local! {
    static DRIVERS: RefCell<[Driver; 2]> =
        RefCell::new([driver(NoHostVerifier), driver(NativeSignatures)]);
}

fn driver(host: impl HostVerifier + 'static) -> Driver {
    let config = Config::parse(CONFIGURATION.as_bytes(), &host).expect("it is good");
    Driver::new(Guard::new(config).with_host(Box::new(host)), &STILL)
}

fuzz_target!(|input: &str| {
    let token = match input.split_once('\n') {
        Some((header, claims)) => [header, claims, &"A".repeat(64)]
            .map(|part| URL_SAFE_NO_PAD.encode(part))
            .join("."),
        None => input.to_owned(),
    };
    let authorization = format!("Bearer {token}");
    let request = Request {
        method: b"GET",
        target: b"/",
        authorization: &[authorization.as_bytes()],
        dpop: &[],
        connection: &None,
    };
    DRIVERS.with_borrow_mut(|drivers| {
        let answers = drivers.each_mut().map(|driver| {
            let effect = driver
                .arrived(1, request, &Denied::default(), &STILL)
                .expect("the keys are known");
            let Fate::Answer(answer) = effect.fate else {
                panic!("it passes: {token}");
            };
            answer
        });
        let [answer, other] = &answers;
        assert_eq!(answer, other);
        assert!((400..=503).contains(&answer.status));
        // What the client sent never comes back in a header.
        for (_, value) in &answer.headers {
            assert!(value.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
        }
    });
});
