//! Signing in with a company's identity provider: a real one, in a real browser, with and without scripts.

use std::sync::LazyLock;

use serde_json::json;

use super::appearance::{keep_picture, violations};
use super::{App, Chromium};
use crate::support::{Company, OwnPair};

/// A pair beside a company at which people sign in with their name alone.
struct Together {
    pair: OwnPair,
    company: Company,
}

fn together() -> &'static Together {
    static TOGETHER: LazyLock<Together> = LazyLock::new(|| {
        let mut started = None;
        let pair = OwnPair::with_identity_providers(|lobby| {
            let company =
                Company::start(lobby, "contoso", &json!({"kim": {"amr": ["pwd", "otp"]}}));
            let entry = company.entry("email_domains = [\"example.com\"]");
            started = Some(company);
            entry
        });
        let company = started.unwrap();
        for name in ["kim", "uma"] {
            let user = json!({
                "username": name,
                "accounts": [{"user_id": format!("id-of-{name}"), "username": name, "site": "https://us1.example.com"}],
                "identities": [{"issuer": company.issuer(), "subject": format!("sub-of-{name}")}],
            });
            pair.change("POST", "/users", &user.to_string());
        }
        Together { pair, company }
    });
    &TOGETHER
}

fn sign_in_there(window: &Chromium, name: &str) {
    let field = window.expect("//input[@name='login']");
    field.type_text(name);
    window.press("Sign in at the provider");
}

/// The whole way of `name`, who ends at the provider what began there.
fn a_day_with_the_company(name: &str, axe: bool) {
    let Together { pair, company } = together();
    let app = App::start();
    let window = Chromium::open();
    if !axe {
        window.disable_scripts();
    }
    let look = |page: &str| {
        if axe {
            let none: [String; 0] = [];
            assert_eq!(violations(&window), none, "{page}");
            keep_picture(&window, page);
        }
    };
    let authorize = app.authorize().replacen(&super::lobby(), &pair.lobby(), 1);
    window.visit(&authorize);
    window.expect_heading("Sign in");
    look("sign-in-with-company");
    window.press("Sign in with Company contoso");
    sign_in_there(&window, "a-stranger");
    window.expect_heading("No access with this sign-in");
    window.expect_text("is linked to that sign-in");
    look("not-linked");
    // The company still knows the stranger, and asks again.
    window.follow("Sign in as somebody else");
    window.press("Sign in with Company contoso");
    sign_in_there(&window, name);
    // Another person than before: without scripts, the provider needs one more button.
    if !axe {
        window.press("Continue");
    }
    window.expect_heading(&format!("Continue as {name} to Field Notes?"));
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

#[test]
fn people_sign_in_with_their_company() {
    a_day_with_the_company("kim", true);
}

#[test]
fn people_sign_in_with_their_company_without_scripts() {
    a_day_with_the_company("uma", false);
}
