//! The whole way of a token: taken apart, verified with a real key, decided about. The key signed nothing of this, so
//! whatever comes in, nothing is let in.
//!
//! The input is two lines, a token's header and its claims, which are encoded and given a signature; or else one line, a
//! token as it is.

#![no_main]

use std::cell::RefCell;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use guard::clock::Time;
use guard::config::Config;
use guard::denial_log::Denied;
use guard::driver::Driver;
use guard::guard::{Fate, Guard, Request};
use guard::signature::NoHostVerifier;
use libfuzzer_sys::fuzz_target;

const CONFIGURATION: &str = r#"{
  "issuers": [{
    "issuer": "https://lobby.example.com",
    "audiences": ["https://api.example.com"],
    "jwks": {"keys": [
      {"kid": "EdDSA", "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
      {"kid": "ES256", "kty": "EC", "crv": "P-256",
       "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}
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
    static DRIVER: RefCell<Driver> = RefCell::new(Driver::new(
        Guard::new(Config::parse(CONFIGURATION.as_bytes(), &NoHostVerifier).expect("it is good")),
        &STILL,
    ));
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
    DRIVER.with_borrow_mut(|driver| {
        let effect = driver
            .arrived(1, request, &Denied::default(), &STILL)
            .expect("the keys are known");
        let Fate::Answer(answer) = effect.fate else {
            panic!("it passes: {token}");
        };
        assert!((400..=503).contains(&answer.status));
        // What the client sent never comes back in a header.
        for (_, value) in &answer.headers {
            assert!(value.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
        }
    });
});
