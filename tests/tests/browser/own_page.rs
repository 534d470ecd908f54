//! A person's own page: a bad day, and many applications.

use super::appearance::{keep_picture, violations};
use super::sign_in::{CODE, sign_in, sign_in_as, use_recovery_code};
use super::{App, Chromium, lobby, pair};
use crate::api::until;
use crate::support::{Browser, Form, OwnPair, Pkce, answered, code_at, lasting_code, now};

const PASSWORD: &str = "demo-password-of-ida";
const NEW_PASSWORD: &str = "apples fall down, not up";

fn home() -> String {
    format!("{}/auth/", lobby())
}

/// Lost phone, recovery code, the finder's session ended, an application ended, another password.
#[test]
fn a_person_with_a_bad_day_gets_everything_back() {
    let name = "ida@example.com";
    let open = || {
        let window = Chromium::open();
        window.visit(&home());
        window.expect_heading("Sign in to your page");
        window
    };
    let look = |window: &Chromium, page: &str| {
        let none: [String; 0] = [];
        assert_eq!(violations(window), none, "{page}");
        keep_picture(window, page);
    };
    // The days before: an authenticator app, and an application.
    let phone = open();
    sign_in(&phone, name, PASSWORD);
    phone.follow("Set up an authenticator app");
    phone.expect_heading("Set up an authenticator app");
    let secret = phone.expect("//*[@class='secret']").text();
    let secret: String = secret.split_whitespace().collect();
    phone.fill("Your password", PASSWORD);
    phone.fill("Code that the app shows", &code_at(&secret, now()));
    phone.press("Turn on");
    phone.expect_heading("Your recovery codes");
    let codes = phone.expect("//ul").text();
    let mut codes = codes.lines();
    phone.press("I have kept them");
    phone.expect_text("You have not given any application access");
    look(&phone, "own-page-alone");
    let app = App::start();
    phone.visit(&app.authorize());
    phone.expect_heading(&format!("Continue as {name} to Field Notes?"));
    phone.expect_text("See your projects");
    look(&phone, "confirm-in-words");
    phone.press("Continue");
    phone.expect_heading("Back in the app");
    let tokens = app.tokens(&lobby(), &phone);
    let access = tokens.text("access_token");
    assert_eq!(pair().call(&access), 200);

    // Who found the phone knows the password too.
    let stranger = open();
    sign_in(&stranger, name, PASSWORD);
    stranger.expect_heading("Enter your code");
    stranger.fill(CODE, &lasting_code(&secret));
    stranger.press("Continue");
    stranger.expect_heading("You are signed in");
    drop(phone);

    let window = open();
    sign_in(&window, name, PASSWORD);
    window.expect_heading("Enter your code");
    use_recovery_code(&window, codes.next().unwrap());
    window.expect_text("Recovery codes left: 9.");
    window.expect_text("Field Notes");
    window.expect_text("an app on this device");
    window.expect_text("irhodes");
    // The phone, the stranger and this one.
    assert_eq!(window.count("//li[contains(., 'Chrome on Linux')]"), 3);
    assert_eq!(window.count("//li[contains(., 'This browser')]"), 1);
    look(&window, "own-page");

    window.follow("Sign out that browser");
    window.expect_heading("Sign out that browser");
    look(&window, "end-session");
    window.follow("Cancel");
    window.expect_heading("You are signed in");
    window.follow("Sign out all other browsers");
    window.expect_heading("Sign out all other browsers");
    look(&window, "end-other-sessions");
    window.press("Sign out all other browsers");
    window.expect_heading("Other browsers signed out");
    look(&window, "other-sessions-ended");
    stranger.visit(&home());
    stranger.expect_heading("Sign in to your page");

    window.follow("Back to your page");
    assert_eq!(window.count("//li[contains(., 'Chrome on Linux')]"), 1);
    window.follow("End access");
    window.expect_heading("End access");
    window.expect_text("Field Notes will lose access to all your accounts at once.");
    look(&window, "end-access");
    // With the keyboard.
    until("the button has the focus", || {
        window.type_at_focus("\u{e004}");
        window.focused() == "End access" && window.shows_focus()
    });
    window.type_at_focus("\u{e007}");
    window.expect_heading("Access ended");
    window.expect_text("Field Notes no longer has access.");
    look(&window, "access-ended");
    pair().until_refused(&access);
    window.follow("Back to your page");
    window.expect_text("You have not given any application access");

    window.follow("Change your password");
    window.fill("Current password", PASSWORD);
    window.fill("New password", NEW_PASSWORD);
    window.press("Set the password");
    window.expect_heading("Your password is set");
    window.press("Continue");
    window.expect_heading("You are signed in");
    stranger.visit(&home());
    sign_in(&stranger, name, PASSWORD);
    stranger.expect("//*[@role='alert']");
    window.press("Sign out");
    sign_in(&window, name, NEW_PASSWORD);
    use_recovery_code(&window, codes.next().unwrap());
    window.expect_text("Recovery codes left: 8.");
}

/// The page stays readable, on a telephone and on a desk, light, dark, and with the colours of the person.
#[test]
fn many_applications_are_calm() {
    const APPLICATIONS: usize = 40;
    let browser = Browser::new(&lobby());
    let fields = [
        ("username", "jean@example.com"),
        ("password", "demo-password-of-jean"),
    ];
    let pkce = Pkce::of(&"v".repeat(43));
    for number in 0..APPLICATIONS {
        // From right to left, and longer than a line.
        let name = match number {
            0 => "\u{5d9}\u{5d5}\u{5de}\u{5df} \u{5d0}\u{5ea}\u{5e8}".to_owned(),
            1 => "Inspection of concrete, steel and timber parts "
                .repeat(4)
                .trim()
                .to_owned(),
            _ => format!("Application {number}"),
        };
        let redirect_uri = format!("https://app{number}.example.com/callback");
        let members = serde_json::json!({"name": name, "redirect_uris": [redirect_uri]});
        let client = pair().register("installed", members);
        let request = client.request(&[
            ("code_challenge", &pkce.challenge),
            ("code_challenge_method", "S256"),
        ]);
        let page = browser.authorize(&request);
        let done = match page.status {
            200 => browser.follow(&browser.submit(&Form::of(&page), &fields)),
            _ => page,
        };
        let code = answered(&done, client.redirect_uri, "code").unwrap();
        client.exchange(&lobby(), &code, Some(&pkce)).done();
    }
    let german = browser
        .look("GET", "/auth/", ("accept-language", "de"))
        .body;
    for text in [
        "Anwendungen mit Zugriff",
        "Ihre Projekte sehen",
        "Zugriff beenden",
    ] {
        assert!(german.contains(text), "{text}: {german}");
    }
    let window = Chromium::open();
    window.visit(&home());
    sign_in(&window, fields[0].1, fields[1].1);
    window.expect_heading("You are signed in");
    assert_eq!(
        window.count("//a[starts-with(., 'End access')]"),
        APPLICATIONS
    );
    window
        .expect("//summary[contains(., 'Application 11')]")
        .click();
    for width in [375, 1280] {
        window.resize(width, 900);
        for (feature, value) in [
            ("prefers-color-scheme", "light"),
            ("prefers-color-scheme", "dark"),
            ("forced-colors", "active"),
        ] {
            window.emulate(feature, value);
            let none: [String; 0] = [];
            assert_eq!(violations(&window), none, "{value} {width}");
            let widths = window.inspect(
                "const {clientWidth, scrollWidth} = document.documentElement;
                 return scrollWidth <= clientWidth",
            );
            assert_eq!(widths, true, "{value} {width}");
            keep_picture(&window, &format!("applications-{value}-{width}"));
        }
    }
}

/// The page that asks for a recent sign-in.
#[test]
fn the_page_that_asks_again_is_accessible() {
    let own = OwnPair::start(&[("TOKEN_SERVICE__LIFETIMES__RECENT_SIGN_IN", "1s")]);
    let window = Chromium::open();
    window.visit(&format!("{}/auth/", own.lobby()));
    sign_in_as(&window, "ada");
    window.expect_heading("You are signed in");
    until("the sign-in is old", || {
        window.visit(&format!("{}/auth/end?session=others", own.lobby()));
        window.has("//h1[.='Confirm that it is you']")
    });
    window.expect_focus("Password");
    assert_eq!(window.field("Username").value(), "ada@example.com");
    let none: [String; 0] = [];
    assert_eq!(violations(&window), none);
    keep_picture(&window, "confirm-again");
}
