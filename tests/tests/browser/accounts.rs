//! Choosing among linked accounts (protocol.md §4.1).

use super::sign_in::{asked_to_sign_in, sign_in_as};
use super::{App, Chromium};

const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";

/// Nothing but Tab, Enter and letters, from the first page to the application.
#[test]
fn the_keyboard_alone_is_enough() {
    let (_, window) = asked_to_sign_in();
    window.expect_heading("Sign in");
    // The focus starts in the first field.
    window.expect_focus("Username");
    window.type_at_focus("grace@example.com");
    window.type_at_focus(TAB);
    window.type_at_focus("demo-password-of-grace");
    window.type_at_focus(TAB);
    assert_eq!(window.focused(), "Show");
    assert!(window.shows_focus(), "the focus is visible");
    window.type_at_focus(ENTER);
    let password = window.field("Password");
    assert_eq!(password.attribute("type").as_deref(), Some("text"));
    assert_eq!(password.value(), "demo-password-of-grace");
    window.type_at_focus(TAB);
    assert_eq!(window.focused(), "Forgot your password?");
    window.type_at_focus(TAB);
    assert_eq!(window.focused(), "Sign in");
    assert!(window.shows_focus(), "the focus is visible");
    window.type_at_focus(ENTER);
    window.expect_heading("Choose an account");
    let mut order = vec![];
    for _ in 0..3 {
        window.type_at_focus(TAB);
        assert!(window.shows_focus(), "the focus is visible");
        order.push(window.focused());
    }
    let names: Vec<&str> = order
        .iter()
        .filter_map(|text| text.split_whitespace().next())
        .collect();
    assert_eq!(names, ["ghopper", "ghopper-navy", "grace.hopper"]);
    window.type_at_focus(ENTER);
    window.expect_heading("Back in the app");
}

/// The filter needs no script. The accounts that were used last in this browser come first.
#[test]
fn a_long_list_has_a_filter_and_begins_with_the_last_used() {
    const ACCOUNTS: &str = "//fieldset[legend]//button";
    let (app, window) = (App::start(), Chromium::open());
    window.disable_scripts();
    window.visit(&app.authorize_with(&[("state", "kept")]));
    sign_in_as(&window, "emmy");
    window.expect_heading("Choose an account");
    assert_eq!(window.count(ACCOUNTS), 9);
    let filter = |text: &str, shown: &str| {
        window.fill("Find an account", text);
        window.type_at_focus(ENTER);
        window.expect_text(shown);
    };
    filter("nothing", "0 of 9 accounts match.");
    assert_eq!(window.count(ACCOUNTS), 0);
    filter("1879048522", "1 of 9 accounts match.");
    // The label of the site stands for the site.
    filter("EUROPE enoether", "1 of 9 accounts match.");
    let account = window.expect(ACCOUNTS).text();
    let words: Vec<&str> = account.split_whitespace().collect();
    assert_eq!(words.join(" "), "enoether-9 Building sites, Europe");
    assert_eq!(window.field("Find an account").value(), "EUROPE enoether");
    window.press("enoether-9");
    window.expect_heading("Back in the app");
    assert!(window.address().as_str().contains("state=kept"));
    let first_two = || -> Vec<String> {
        window.visit(&app.authorize());
        window.expect_heading("Choose an account");
        let name = |position: u8| {
            window
                .expect(&format!("({ACCOUNTS})[{position}]/span"))
                .text()
        };
        vec![name(1), name(2)]
    };
    assert_eq!(first_two(), ["enoether-9", "enoether-1"]);
    window.press("enoether-4");
    window.expect_heading("Back in the app");
    assert_eq!(first_two(), ["enoether-4", "enoether-9"]);
}

/// D-7.
#[test]
fn a_person_without_account_is_told_and_then_the_application() {
    let (app, window) = asked_to_sign_in();
    sign_in_as(&window, "mary");
    window.expect_heading("No linked account");
    window.expect_text("mary@example.com");
    window.follow("Return to Field Notes");
    window.expect_heading("Back in the app");
    let address = window.address();
    assert!(address.as_str().contains("error=access_denied"));
    // Another person can sign in at once, in spite of the session.
    window.visit(&app.authorize());
    window.follow("Sign in as somebody else");
    window.expect_heading("Sign in");
}
