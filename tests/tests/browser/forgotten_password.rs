//! Forgotten passwords, and passwords that people look at.

use super::{App, Chromium, mail, pair};

const SHOW: &str = "//button[@aria-pressed and not(@hidden)]";
const PASSWORD: &str = "apples fall down, not up";

/// From the sign-in of an application, by mail, back to the application.
#[test]
fn a_link_by_mail_leads_back_to_the_application() {
    let (username, window) = ("isaac@example.com", Chromium::open());
    let add = [
        "user",
        "add",
        username,
        "--email",
        username,
        "--password-file",
        "-",
    ];
    let account = ["--account", "4711,isaac,https://us1.example.com"];
    pair()
        .operate(&[&add[..], &account].concat(), "an old password")
        .done();
    let app = App::start();
    window.visit(&app.authorize());
    window.follow("Forgot your password?");
    window.expect_heading("Forgot your password?");
    window.expect_focus("Username");
    window.fill("Username", username);
    window.press("Send the link");
    window.expect_heading("Check your mailbox");
    window.visit(mail().message_to(username).link());
    window.expect_heading("Choose a password");
    window.fill("New password", PASSWORD);
    window.press("Set the password");
    window.expect_heading("Your password is set");
    window.press("Continue");
    // The link confirms no app on the device.
    window.expect_heading(&format!("Continue as {username} to Field Notes?"));
    window.press("Continue");
    window.expect_heading("Back in the app");
}

#[test]
fn people_may_look_at_what_they_type() {
    let (app, window) = (App::start(), Chromium::open());
    window.visit(&app.authorize());
    window.fill("Username", "nobody@example.com");
    window.fill("Password", "not-the-password");
    let kind = || window.field("Password").attribute("type").unwrap();
    let button = || window.expect(SHOW);
    assert_eq!(kind(), "password");
    for (pressed, expected) in [("true", "text"), ("false", "password"), ("true", "text")] {
        button().click();
        assert_eq!(button().attribute("aria-pressed").unwrap(), pressed);
        assert_eq!(button().text(), "Show");
        assert_eq!(kind(), expected);
        assert_eq!(window.field("Password").value(), "not-the-password");
    }
    // By keyboard, and sent as a password.
    window.inspect(
        "document.forms[0].addEventListener('submit', event => {\
             sessionStorage.sent = document.getElementById('password').type;\
         })",
    );
    window.press("Sign in");
    window.expect("//*[@role='alert']");
    assert_eq!(window.inspect("return sessionStorage.sent"), "password");
    assert_eq!(kind(), "password");

    window.disable_scripts();
    window.visit(&app.authorize());
    window.expect_heading("Sign in");
    assert!(window.has("//button[@aria-pressed and @hidden]") && !window.has(SHOW));
}
