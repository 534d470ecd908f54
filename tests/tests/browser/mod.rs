//! The pages in a real Chromium, controlled by WebDriver.

mod accounts;
mod app;
mod appearance;
mod attacks;
mod chromium;
mod company;
mod forgotten_password;
mod own_page;
mod return_to_app;
mod sign_in;
mod webdriver;

use std::sync::LazyLock;

use app::App;
use chromium::Chromium;

use harness::Artifacts;

use crate::support::{MailServer, OwnPair};

/// The mail server of [`pair`].
fn mail() -> &'static MailServer {
    static MAIL: LazyLock<MailServer> = LazyLock::new(|| MailServer::start("plain"));
    &MAIL
}

/// The pair of the browser tests. Each test has its own users, so that slow or wrong sign-ins do not disturb other
/// tests.
fn pair() -> &'static OwnPair {
    static PAIR: LazyLock<OwnPair> = LazyLock::new(|| {
        let repository = Artifacts::find().unwrap().repository;
        let logo = repository.join("tests/tests/browser/logo.svg");
        let dark = repository.join("token-service/static/icon.svg");
        let configuration = format!(
            "[branding]\nlogo_file = {logo:?}\nlogo_dark_file = {dark:?}\naccent = \"#006400\"\nhelp_url = \"https://help.example.com/\"\n\
             privacy_url = \"https://example.com/privacy\"\n[branding.client_logos]\ninstalled-demo = {logo:?}\n\
             {}",
            mail().configuration()
        );
        let dpop = r#""dpop": {"#;
        let nonces = r#""dpop": {"nonce_key": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", "#;
        let pair = OwnPair::with_configuration(&configuration, &[(dpop, nonces)]);
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
