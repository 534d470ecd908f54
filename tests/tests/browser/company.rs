//! Signing in with a company's identity provider: a real one, in a real browser.

use serde_json::json;

use super::appearance::{keep_picture, violations};
use super::{App, Chromium};
use crate::support::{Company, OwnPair};

#[test]
fn people_sign_in_with_their_company() {
    let mut started = None;
    let pair = OwnPair::with_identity_providers(|lobby| {
        let kim = json!({"kim": {"amr": ["pwd", "otp"]}});
        let company = Company::start(lobby, "contoso", &kim);
        let entry = company.entry("email_domains = [\"example.com\"]");
        started = Some(company);
        entry
    });
    let company = started.unwrap();
    let kim = json!({
        "username": "kim",
        "accounts": [{"user_id": "id-of-kim", "username": "kim", "site": "https://us1.example.com"}],
        "identities": [{"issuer": company.issuer(), "subject": "sub-of-kim"}],
    });
    pair.change("POST", "/users", &kim.to_string());
    let (app, window) = (App::start(), Chromium::open());
    let look = |page: &str| {
        let none: [String; 0] = [];
        assert_eq!(violations(&window), none, "{page}");
        keep_picture(&window, page);
    };
    let sign_in_there = |name: &str| {
        window.expect("//input[@name='login']").type_text(name);
        window.press("Sign in at the provider");
    };
    let authorize = app.authorize().replacen(&super::lobby(), &pair.lobby(), 1);
    window.visit(&authorize);
    window.expect_heading("Sign in");
    look("sign-in-with-company");
    window.press("Sign in with Company contoso");
    sign_in_there("a-stranger");
    window.expect_heading("No access with this sign-in");
    window.expect_text("is linked to that sign-in");
    look("not-linked");
    // The company still knows the stranger, and asks again.
    window.follow("Sign in as somebody else");
    window.press("Sign in with Company contoso");
    sign_in_there("kim");
    window.expect_heading("Continue as kim to Field Notes?");
    window.press("Continue");
    window.expect_heading("Back in the app");
    let tokens = app.tokens(&pair.lobby(), &window);
    let access = tokens.text("access_token");
    assert_eq!(pair.call(&access), 200);

    // An app for codes: with a sign-in at the provider in place of the password.
    let home = format!("{}/auth/", pair.lobby());
    window.visit(&home);
    window.expect("//dd[normalize-space()='Company contoso']");
    assert!(!window.has("//a[normalize-space()='Change your password']"));
    window.follow("Set up an authenticator app");
    window.expect_heading("Set up an authenticator app");
    assert!(!window.has("//input[@type='password']"));
    look("app-after-company");

    // Signed out by the company: everywhere, in this browser and at the gateway.
    window.visit(&format!("{}/session/end", company.issuer()));
    window.press("Sign out at the provider");
    window.expect_heading("Sign-out Success");
    pair.until_refused(&access);
    window.visit(&home);
    window.expect_heading("Sign in to your page");
    window.expect("//button[contains(., 'Company contoso')]");
    look("own-page-with-company");
}
