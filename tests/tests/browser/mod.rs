//! The pages in a real Chromium, controlled by WebDriver.

mod accounts;
mod app;
mod appearance;
mod attacks;
mod chromium;
mod return_to_app;
mod sign_in;
mod webdriver;

use std::sync::LazyLock;

use app::App;
use chromium::Chromium;

use crate::support::OwnPair;

/// The pair of the browser tests. Each test has its own users, so that slow or wrong sign-ins do not disturb other
/// tests.
fn pair() -> &'static OwnPair {
    static PAIR: LazyLock<OwnPair> = LazyLock::new(|| {
        let labels = "[site_labels]\n\"https://ap1.example.com\" = \"Bridge at Ulm\"\n";
        let dpop = r#""dpop": {"#;
        let nonces = r#""dpop": {"nonce_key": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", "#;
        let pair = OwnPair::with_configuration(labels, &[(dpop, nonces)]);
        let repository = &pair.pair.artifacts().repository;
        let registrations = repository.join("tests/tests/browser/registrations.toml");
        pair.operate(&["apply", registrations.to_str().unwrap()], "")
            .done();
        pair
    });
    &PAIR
}

/// {lobby_url} of the browser tests.
fn lobby() -> String {
    pair().pair.lobby_url()
}
