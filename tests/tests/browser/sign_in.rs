//! Signing in and out, and what cannot be shown.

use super::{App, Chromium, lobby, pair};
use crate::support::{code_at, is_accepted, lasting_code, now};

/// The label of the field for the second factor.
pub(super) const CODE: &str = "Six-digit code";

/// Types username and password, and sends them.
pub(super) fn sign_in(window: &Chromium, username: &str, password: &str) {
    window.fill("Username", username);
    window.fill("Password", password);
    window.press("Sign in");
}

/// Likewise, as this person of the demo or of `registrations.toml`.
pub(super) fn sign_in_as(window: &Chromium, name: &str) {
    let password = format!("demo-password-of-{name}");
    sign_in(window, &format!("{name}@example.com"), &password);
}

/// An application, and a window that it sends to the sign-in.
pub(super) fn asked_to_sign_in() -> (App, Chromium) {
    let (app, window) = (App::start(), Chromium::open());
    window.visit(&app.authorize());
    (app, window)
}

/// A parameter of the response that the application received.
fn answered(window: &Chromium, name: &str) -> Option<String> {
    let address = window.address();
    let mut pairs = address.query_pairs();
    let (_, value) = pairs.find(|(key, _)| key == name)?;
    Some(value.into_owned())
}

#[test]
fn password_managers_know_the_fields() {
    let (_, window) = asked_to_sign_in();
    let kind = |label: &str| {
        let field = window.field(label);
        (field.attribute("type"), field.attribute("autocomplete"))
    };
    let pair = |kind: &str, autocomplete: &str| (Some(kind.into()), Some(autocomplete.into()));
    assert_eq!(kind("Username"), pair("text", "username"));
    assert_eq!(kind("Password"), pair("password", "current-password"));
    sign_in_as(&window, "joan");
    window.expect_heading("Enter your code");
    assert_eq!(kind(CODE), pair("text", "one-time-code"));
    let keyboard = window.field(CODE).attribute("inputmode");
    assert_eq!(keyboard.as_deref(), Some("numeric"));
}

/// If the request names the user, the page asks only for the password.
#[test]
fn the_focus_is_where_typing_goes_on() {
    let (app, window) = asked_to_sign_in();
    window.expect_focus("Username");
    window.visit(&app.authorize_with(&[("login_hint", "katherine@example.com")]));
    window.expect_focus("Password");
    assert_eq!(window.field("Username").value(), "katherine@example.com");
}

/// The authenticator app shows the name of the service, and so does the title of each page.
#[test]
fn the_service_has_a_name() {
    let (_, window) = asked_to_sign_in();
    sign_in_as(&window, "katherine");
    window.expect_heading("Back in the app");
    window.visit(&format!("{}/auth/authenticator", lobby()));
    window.expect_heading("Set up an authenticator app");
    assert!(
        window.title().ends_with(" · Gatepass"),
        "{}",
        window.title()
    );
    let link = window.expect("//a[starts-with(@href, 'otpauth:')]");
    let link = link.attribute("href").unwrap();
    assert!(link.contains("issuer=Gatepass"), "{link}");
    // The secret fills whole lines: two of two groups.
    let tops = window.inspect(
        "return [...document.querySelectorAll('.secret span')].map(group => group.getBoundingClientRect().top)",
    );
    let tops: Vec<f64> = serde_json::from_value(tops).unwrap();
    let [one, two, three, four] = tops.as_slice() else {
        panic!("{tops:?}");
    };
    assert!(one == two && three == four && one < three, "{tops:?}");
}

/// The page announces the problem, links it to the fields, and keeps the input except the password.
#[test]
fn a_wrong_password_and_an_unknown_user_can_try_again() {
    let (app, window) = asked_to_sign_in();
    for username in ["nobody@example.com", "katherine@example.com"] {
        sign_in(&window, username, "not-the-password");
        let problem = window.expect("//*[@role='alert']");
        assert!(problem.text().contains("Username or password is wrong"));
        assert!(window.title().starts_with("Not signed in"));
        assert_eq!(window.field("Username").value(), username);
        assert_eq!(window.field("Password").value(), "");
        for label in ["Username", "Password"] {
            let field = window.field(label);
            assert_eq!(field.attribute("aria-invalid").as_deref(), Some("true"));
            assert_eq!(
                field.attribute("aria-describedby"),
                problem.attribute("id"),
                "{label}"
            );
        }
        // Opens a page without a problem, so that the test can wait for the next problem.
        window.visit(&app.authorize());
    }
    sign_in_as(&window, "katherine");
    window.expect_heading("Back in the app");
}

/// Sets up the app from the picture to the recovery codes, without a script. Then signs in with a recovery code, which
/// works once, and with the app.
#[test]
fn a_person_sets_up_an_authenticator_app() {
    let (app, window) = (App::start(), Chromium::open());
    window.disable_scripts();
    let password = "demo-password-of-evelyn";
    window.visit(&app.authorize());
    sign_in(&window, "evelyn@example.com", password);
    window.expect_heading("Back in the app");
    let other = Chromium::open();
    other.visit(&app.authorize());
    sign_in(&other, "evelyn@example.com", password);
    other.expect_heading("Back in the app");

    window.visit(&format!("{}/auth/", lobby()));
    window.expect_text("You sign in without a code.");
    window.follow("Set up an authenticator app");
    window.expect_heading("Set up an authenticator app");
    window.expect("//*[@role='img']/*[name()='svg']");
    let secret = window.expect("//*[@class='secret']").text();
    let secret: String = secret.split_whitespace().collect();
    let fill = |code: &str, password: &str| {
        window.fill("Code that the app shows", code);
        window.fill("Your password", password);
        window.press("Turn on");
    };
    fill(&lasting_code(&secret), "not-the-password");
    window.expect_text("The password is wrong.");
    let is_invalid = |label: &str| window.field(label).attribute("aria-invalid").is_some();
    assert!(is_invalid("Your password") && !is_invalid("Code that the app shows"));
    fill("00000", password);
    window.expect_text("This code is not right.");
    assert!(is_invalid("Code that the app shows"));
    // The password was right, so the page does not ask for it again.
    assert!(!window.has("//input[@type='password']"));
    let same = window.expect("//*[@class='secret']").text();
    assert_eq!(same.split_whitespace().collect::<String>(), secret);
    let enrolled_at = now();
    window.fill("Code that the app shows", &code_at(&secret, enrolled_at));
    window.press("Turn on");
    window.expect_heading("Your recovery codes");
    let codes = window.expect("//ul").text();
    let codes: Vec<&str> = codes.lines().collect();
    assert_eq!(codes.len(), 10, "{codes:?}");
    assert!(!window.has("//button[@type='button' and not(@hidden)]"));
    // A link that contains the codes and saves them without a script.
    let file = window.expect("//a[@download]").attribute("href").unwrap();
    let (kind, text) = file.split_once(',').unwrap();
    assert_eq!(kind, "data:text/plain;charset=utf-8");
    let text = percent_decode(text);
    assert!(
        text.contains("evelyn@example.com") && text.contains("Gatepass"),
        "{text}"
    );
    assert!(codes.iter().all(|code| text.contains(code)), "{text}");
    window.press("I have kept them");
    window.expect_text("Recovery codes left: 10.");

    // Other browsers are signed out, and now need the second factor too.
    other.visit(&app.authorize());
    sign_in(&other, "evelyn@example.com", password);
    other.expect_heading("Enter your code");
    other.fill(CODE, &code_at(&secret, enrolled_at));
    other.press("Continue");
    let problem = other.expect("//*[@role='alert']").text();
    // Later, the code is wrong like any other.
    assert!(
        problem.contains("This code has been used.") || !is_accepted(enrolled_at),
        "{problem}"
    );
    use_recovery_code(&other, &codes.first().unwrap().to_uppercase());
    other.expect_heading("You used a recovery code");
    other.expect_text("Recovery codes left: 9.");
    other.press("Continue");
    other.expect_heading("Back in the app");
    other.visit(&format!("{}/auth/", lobby()));
    other.expect_text("Recovery codes left: 9.");
    other.press("Sign out");
    other.expect_heading("Sign in to your page");
    other.visit(&app.authorize());
    sign_in(&other, "evelyn@example.com", password);
    // In the other field.
    other.fill(CODE, codes.first().unwrap());
    other.press("Continue");
    other.expect_text("This recovery code is not right");
    other.fill("Recovery code", codes.last().unwrap());
    other.expect("//details[@open]//button").click();
    other.expect_text("Recovery codes left: 8.");
    other.visit(&format!("{}/auth/", lobby()));
    other.press("Sign out");
    other.expect_heading("Sign in to your page");
    other.visit(&app.authorize());
    sign_in(&other, "evelyn@example.com", password);
    // The app's next code, possibly one step early, because the service allows a drift of one step.
    let next = now().max(enrolled_at + 30);
    other.fill(CODE, &code_at(&secret, next));
    other.press("Continue");
    other.expect_heading("Back in the app");
}

/// A person without app and recovery codes asks an administrator.
#[test]
fn an_administrator_removes_a_second_factor() {
    let (app, window) = asked_to_sign_in();
    sign_in_as(&window, "annie");
    window.expect_heading("Enter your code");
    let name = "annie@example.com";
    pair().done(&format!("user remove-second-factor {name}"));
    window.visit(&app.authorize());
    sign_in(&window, name, "demo-password-of-annie");
    window.expect_heading("Back in the app");
}

/// Opens the second form of the page, and sends a recovery code with it.
pub(super) fn use_recovery_code(window: &Chromium, code: &str) {
    window.expect("//summary").click();
    window.fill("Recovery code", code);
    window.expect("//details//button").click();
}

fn percent_decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text)
        .decode_utf8()
        .unwrap()
        .into_owned()
}

#[test]
fn cancelling_tells_the_application() {
    let (app, window) = (App::start(), Chromium::open());
    window.visit(&app.authorize_with(&[("state", "s")]));
    window.follow("Cancel and return to Field Notes");
    window.expect_heading("Back in the app");
    assert_eq!(answered(&window, "error").as_deref(), Some("access_denied"));
    assert_eq!(answered(&window, "state").as_deref(), Some("s"));
}

/// After a sign-out, neither the history nor a copied cookie shows data of the person.
#[test]
fn signing_out_leaves_nothing_behind() {
    let (app, window) = asked_to_sign_in();
    sign_in_as(&window, "ada");
    window.expect_heading("Back in the app");
    let home = format!("{}/auth/", lobby());
    window.visit(&home);
    window.expect_heading("You are signed in");
    window.expect_text("ada@example.com");
    let copied = window.cookies();
    window.press("Sign out");
    window.expect_heading("Sign in to your page");
    window.back();
    window.expect_heading("Sign in to your page");
    assert!(!window.has("//*[contains(text(), 'ada@example.com')]"));
    for (name, value) in copied {
        window.set_cookie(&name, &value);
    }
    window.visit(&home);
    window.expect_heading("Sign in to your page");
    window.visit(&app.authorize());
    window.expect_heading("Sign in");
}

#[test]
fn every_page_works_without_scripts() {
    let (app, window) = (App::start(), Chromium::open());
    window.disable_scripts();
    window.visit("data:text/html,<title>off</title><script>document.title='on'</script>");
    assert_eq!(window.title(), "off");
    window.visit(&app.authorize());
    sign_in_as(&window, "grace");
    window.expect_heading("Choose an account");
    window.press("ghopper-navy");
    window.expect_heading("Back in the app");
    window.visit(&format!("{}/auth/", lobby()));
    window.press("Sign out");
    window.expect_heading("Sign in to your page");
}
