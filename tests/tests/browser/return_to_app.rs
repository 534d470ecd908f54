//! Native and single-page apps (protocol.md §5.4, §5.5; RFC 8252; D-12, D-20).

use url::Url;

use super::app::authorize;
use super::sign_in::{CODE, sign_in_as};
use super::{App, Chromium, lobby, pair};
use crate::support::{INSTALLED, file, lasting_code, post};

/// The address of an app that does not exist on this machine: Chromium asks the system for the app, and stops there.
#[test]
fn a_private_use_scheme_is_followed() {
    let window = Chromium::with_network_events();
    window.visit(&authorize(
        "installed-demo",
        "com.example.fieldnotes:/callback",
        &[("state", "s")],
    ));
    window.expect_text("com.example.fieldnotes: links");
    sign_in_as(&window, "ada");
    let address = window.network_event(|event| {
        assert_ne!(event["params"]["blockedReason"], "csp", "{event}");
        let address = event["params"]["request"]["url"].as_str()?;
        let is_app = address.starts_with("com.example.fieldnotes:/callback?");
        is_app.then(|| address.to_owned())
    });
    assert!(
        address.contains("code=") && address.contains("state=s"),
        "{address}"
    );
}

/// After any form: browsers apply a directive `form-action` to the redirects of the redirect URI too.
#[test]
fn the_redirect_uri_may_redirect_to_another_origin() {
    let end = App::start();
    let (site, port) = (end.other_site() + "/callback", end.callback());
    let relay = App::leading_to(&site);
    let arrives = |window: &Chromium, target: &str| {
        window.expect_heading("Back in the app");
        assert_eq!(window.address().as_str(), target);
    };
    let window = Chromium::open();
    window.visit(&App::leading_to(&port).authorize());
    sign_in_as(&window, "ada");
    arrives(&window, &port);

    let window = Chromium::open();
    window.visit(&relay.authorize());
    sign_in_as(&window, "barbara");
    window.fill(CODE, &lasting_code("JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"));
    window.press("Continue");
    arrives(&window, &site);

    let window = Chromium::open();
    window.visit(&relay.authorize());
    sign_in_as(&window, "grace");
    window.press("grace.hopper");
    arrives(&window, &site);

    let window = Chromium::open();
    window.visit(&format!("{}/auth/", lobby()));
    sign_in_as(&window, "ada");
    window.expect_heading("You are signed in");
    window.visit(&relay.authorize());
    window.expect_heading("Continue as ada@example.com to Field Notes?");
    window.press("Continue");
    arrives(&window, &site);

    let window = Chromium::open();
    let mut request = Url::parse(&relay.authorize()).unwrap();
    let url = format!("{}/auth/par", lobby());
    let pushed = post(&url, &[], request.query().unwrap()).text("request_uri");
    request
        .query_pairs_mut()
        .clear()
        .append_pair("client_id", INSTALLED.id)
        .append_pair("request_uri", &pushed);
    window.visit(request.as_str());
    sign_in_as(&window, "ada");
    arrives(&window, &site);

    let window = Chromium::with_network_events();
    window.visit(&App::leading_to("com.example.fieldnotes:/done").authorize());
    sign_in_as(&window, "ada");
    window.network_event(|event| {
        assert_ne!(event["params"]["blockedReason"], "csp", "{event}");
        let address = event["params"]["request"]["url"].as_str()?;
        address
            .starts_with("com.example.fieldnotes:/done")
            .then_some(())
    });
}

#[test]
fn a_loopback_address_of_version_6_is_followed() {
    let (app, window) = (App::serving("[::1]", vec![]), Chromium::open());
    window.visit(&authorize("ipv6-demo", &app.callback(), &[]));
    sign_in_as(&window, "ada");
    window.expect_heading("Back in the app");
    assert!(window.address().as_str().starts_with(&app.callback()));
}

/// The single-page app of `examples/`, with more buttons.
fn single_page_app() -> App {
    let script = file("examples/single-page-app/app.js")
        .replace("http://127.0.0.1:8081", &lobby())
        .replace("http://127.0.0.1:8080", &pair().pair.api_url());
    App::serving(
        "127.0.0.1",
        vec![
            (
                "/",
                "text/html",
                file("examples/single-page-app/index.html"),
            ),
            (
                "/app.js",
                "text/javascript",
                script + include_str!("misuse.js"),
            ),
        ],
    )
}

/// PKCE, the exchange and a refresh, all from script in the page, across origins.
#[test]
fn a_single_page_app_gets_its_tokens() {
    let (app, window) = (single_page_app(), Chromium::open());
    window.visit(&app.origin);
    window.press("Sign in");
    window.expect_heading("Sign in");
    sign_in_as(&window, "ada");
    window.expect_heading("Single-page app");
    window.expect_text("Signed in: Bearer for 3600 seconds");
    window.press("Call the API");
    window.expect_text("The API answers: ");
    window.expect_text("1879048401");
    window.press("Refresh");
    window.expect_text("Refreshed: Bearer for 3600 seconds");
    // The used refresh token belongs only to the page: nothing of the sign-in went along.
    window.press("Use a wrong verifier");
    window.expect_text("Refused: invalid_grant");
}

/// RFC 9449 §8: the page of another origin sends a proof, to the token endpoint and to the API, and reads the nonce for the
/// next one.
#[test]
fn a_single_page_app_sends_proofs_and_reads_nonces() {
    let (app, window) = (single_page_app(), Chromium::open());
    window.visit(&app.origin);
    window.press("Use a wrong verifier with a proof");
    window.expect_text("Refused: invalid_grant");
    window.press("Call the API with a proof");
    window.expect_text("error='invalid_token'");
    window.expect_text("and the nonce can be read");
}

/// Its page may send the request, but cannot read the response.
#[test]
fn a_page_of_an_unregistered_origin_is_refused() {
    let (app, window) = (single_page_app(), Chromium::open());
    window.visit(&app.origin);
    window.press("Use a wrong verifier");
    window.expect_text("Refused: invalid_grant");
    window.visit(&app.other_site());
    window.press("Use a wrong verifier");
    window.expect_text("No answer: TypeError");
}

/// The page can read why the API refuses (the challenge) and the request id to report.
#[test]
fn a_single_page_app_reads_the_refusals_of_the_api() {
    let (app, window) = (single_page_app(), Chromium::open());
    window.visit(&app.origin);
    window.press("Call the API without a token");
    window.expect_text("Refused with a request id: Bearer realm='api'");
    window.press("Call the API with a wrong token");
    window.expect_text("error='invalid_token'");
    window.visit(&app.other_site());
    window.press("Call the API without a token");
    window.expect_text("No answer: TypeError");
}
