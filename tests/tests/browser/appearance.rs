//! Checks the appearance of the pages (light, dark, narrow) and their accessibility (axe-core).
//!
//! Saves a screenshot of each page in `target/screenshots`.

use serde_json::Value;

use super::sign_in::{CODE, asked_to_sign_in, sign_in, sign_in_as, use_recovery_code};
use super::{App, Chromium, lobby, pair};
use crate::api::until;
use crate::support::{Browser, Form, code_at, file, now};

/// Opens pages, and calls the last argument with the name of each. The text makes the usernames of this window unique.
type Pages = fn(&Chromium, &str, &mut dyn FnMut(&str));

/// The pages of sign-ins, and of a person without an authenticator app.
fn pages_of_sign_ins(window: &Chromium, run: &str, look: &mut dyn FnMut(&str)) {
    let app = App::start();
    let mut see = |name: &str, heading: &str| {
        window.expect_heading(heading);
        look(name);
    };
    window.visit(&super::app::authorize("nobody", &app.callback(), &[]));
    see("error", "The application that sent you here is not known");
    window.visit(&app.authorize());
    see("sign-in", "Sign in");
    window
        .expect("//button[@aria-pressed and not(@hidden)]")
        .click();
    see("sign-in-shown", "Sign in");
    window.follow("Forgot your password?");
    see("forgot-password", "Forgot your password?");
    window.fill("Username", &format!("nobody-{run}"));
    window.press("Send the link");
    window.expect_text(&format!("You entered nobody-{run}."));
    see("link-asked-for", "Check your mailbox");
    window.follow("Back to the sign-in");
    window.expect_heading("Sign in");
    sign_in(window, "nobody@example.com", "not-the-password");
    window.expect("//*[@role='alert']");
    see("sign-in-refused", "Sign in");
    sign_in_as(window, "mary");
    see("no-account", "No linked account");
    window.follow("Sign in as somebody else");
    window.expect_heading("Sign in");
    sign_in_as(window, "rosalind");
    window.expect_heading("Back in the app");
    let other_app = super::app::authorize("ipv6-demo", "http://[::1]:4000/callback", &[]);
    window.visit(&other_app);
    see("confirm", "Continue as rosalind@example.com to Site Plans?");
    window.follow("Sign in as somebody else");
    window.expect_heading("Sign in");
    sign_in_as(window, "joan");
    see("second-factor", "Enter your code");
    window.fill(CODE, "00000");
    window.press("Continue");
    window.expect("//*[@role='alert']");
    see("second-factor-refused", "Enter your code");
    window.follow("Sign in as somebody else");
    window.expect_heading("Sign in");
    sign_in_as(window, "grace");
    see("choose-an-account", "Choose an account");
    window.follow("Sign in as somebody else");
    window.expect_heading("Sign in");
    sign_in_as(window, "emmy");
    window.fill("Find an account", "europe");
    window.press("Show matching accounts");
    window.expect_text("1 of 9 accounts match.");
    see("choose-an-account-by-filter", "Choose an account");
    window.visit(&format!("{}/auth/", lobby()));
    see("signed-in", "You are signed in");
    window.follow("Change your password");
    see("change-password", "Change your password");
    window.fill("Current password", "not-the-password");
    window.fill("New password", "apples fall down, not up");
    window.press("Set the password");
    is_beside_its_field(window, "Current password");
    see("change-password-refused", "Change your password");
    window.follow("Cancel");
    window.expect_heading("You are signed in");
    window.follow("Set up an authenticator app");
    see("authenticator", "Set up an authenticator app");
    window.fill("Code that the app shows", "00000");
    window.fill("Your password", "demo-password-of-emmy");
    window.press("Turn on");
    is_beside_its_field(window, "Code that the app shows");
    see("authenticator-refused", "Set up an authenticator app");
    window.follow("Cancel");
    window.expect_heading("You are signed in");
    window.press("Sign out");
    see("signed-out", "Sign in to your page");
}

/// The pages of a person who sets up an authenticator app and loses it, and the pages of links.
fn pages_of_an_authenticator(window: &Chromium, run: &str, look: &mut dyn FnMut(&str)) {
    let app = App::start();
    let mut see = |name: &str, heading: &str| {
        window.expect_heading(heading);
        look(name);
    };
    // The link of an operator leads back to the application at which the person has asked for a link.
    window.visit(&app.authorize());
    window.follow("Forgot your password?");
    window.fill("Username", &format!("nobody-else-{run}"));
    window.press("Send the link");
    window.expect_heading("Check your mailbox");
    window.visit(&format!("{}/auth/", lobby()));
    window.expect_heading("Sign in to your page");
    let (lise, password) = (format!("lise-{run}@example.com"), "demo-password-of-lise");
    sign_in(window, &lise, password);
    window.expect_heading("You are signed in");
    let strict = super::app::authorize("strict-demo", &app.callback(), &[]);
    pair().done(&format!("user update {lise} --must-change-password"));
    window.visit(&strict);
    window.expect_text("choose another password");
    see("change-password-due", "Change your password");
    pair().done(&format!("user update {lise} --may-keep-password"));
    window.visit(&strict);
    window.expect_text("To continue to Site Journal");
    see("authenticator-due", "Set up an authenticator app");
    window.visit(&format!("{}/auth/", lobby()));
    window.follow("Set up an authenticator app");
    window.expect_heading("Set up an authenticator app");
    let secret = window.expect("//*[@class='secret']").text();
    let secret: String = secret.split_whitespace().collect();
    window.fill("Your password", password);
    window.fill("Code that the app shows", &code_at(&secret, now()));
    window.press("Turn on");
    see("recovery-codes", "Your recovery codes");
    window.expect("//button[.='Print' and not(@hidden)]");
    window.expect("//button[.='Copy' and not(@hidden)]").click();
    window.expect("//button[.='Copied']");
    window.press("I have kept them");
    window.follow("New recovery codes");
    see("new-recovery-codes", "New recovery codes");
    window.fill("Your password", password);
    window.fill("Code that the app shows", "00000");
    window.press("Make new codes");
    is_beside_its_field(window, "Code that the app shows");
    see("new-recovery-codes-refused", "New recovery codes");
    window.fill("Your password", password);
    window.fill("Code that the app shows", &code_at(&secret, now() + 30));
    window.press("Make new codes");
    see("recovery-codes-replaced", "Your recovery codes");
    let code = window.expect("//ul/li[1]").text();
    let second_code = window.expect("//ul/li[2]").text();
    let third_code = window.expect("//ul/li[3]").text();
    window.press("I have kept them");
    window.follow("Replace the app");
    see("replace-app", "Replace the app");
    window.follow("Cancel");
    window.press("Sign out");
    window.expect_heading("Sign in to your page");
    window.visit(&app.authorize());
    window.expect_heading("Sign in");
    sign_in(window, &lise, password);
    window.expect_heading("Enter your code");
    use_recovery_code(window, "aaaa-aaaa-aaaa-aaaa");
    is_beside_its_field(window, "Recovery code");
    see("recovery-code-refused", "Enter your code");
    window.fill("Recovery code", &code);
    window.expect("//details//button").click();
    see("recovery-code-used", "You used a recovery code");

    window.visit(&format!("{}/auth/", lobby()));
    window.press("Sign out");
    window.expect_heading("Sign in to your page");
    let stranger = Browser::new(&lobby());
    let form = Form::of(&stranger.open("/auth/"));
    stranger.submit(&form, &[("username", &lise), ("password", password)]);
    sign_in(window, &lise, password);
    window.expect_heading("Enter your code");
    use_recovery_code(window, &second_code);
    see("password-alone", "Somebody entered your password");
    window.expect("//button[.='Change your password']");
    window.press("That was me: continue");
    window.expect_heading("You are signed in");

    let link = pair().json(&format!("user reset-password {lise}"));
    // A stranger may have set up the app.
    let warning = link["warnings"][0].as_str().unwrap();
    let advice = format!("user remove-second-factor {lise}");
    assert!(warning.contains(&advice), "{warning}");
    let link = link["url"].as_str().unwrap();
    window.visit(link);
    see("new-password", "Choose a password");
    window.expect_focus("New password");
    window.fill("New password", &lise);
    window.press("Set the password");
    is_beside_its_field(window, "New password");
    see("new-password-refused", "Choose a password");
    window.fill("New password", "apples fall down, not up");
    window.press("Set the password");
    see("password-set", "Your password is set");
    window.press("Continue");
    use_recovery_code(window, &third_code);
    window.expect_heading("You used a recovery code");
    window.visit(&format!("{}/auth/", lobby()));
    window.press("Sign out");
    window.expect_heading("Sign in to your page");
    let invited = format!("invited-{run}@example.com");
    pair().done(&format!("user add {invited}"));
    let first = pair().json(&format!("user invite {invited}"));
    window.visit(first["url"].as_str().unwrap());
    see("first-password", "Choose a password");
    assert_eq!(window.field("Username").value(), invited);
    window.visit(link);
    see("link-over", "This link no longer works");
    window.visit(&format!("{}/auth/", lobby()));
    window.expect_heading("Sign in to your page");
}

/// The message of a problem is on the screen with its field, directly above the field, and touches nothing.
fn is_beside_its_field(window: &Chromium, label: &str) {
    window.expect("//*[@role='alert']");
    window.expect_focus(label);
    let space = || {
        window.inspect(
            "const problem = document.querySelector('.problem').getBoundingClientRect();
             const field = document.activeElement.getBoundingClientRect();
             return [problem.top >= 0 && field.bottom < innerHeight + 1, field.top - problem.bottom]",
        )
    };
    // The page scrolls to the focus some time after it has set the focus.
    until(&format!("{label} is on the screen"), || space()[0] == true);
    let distance = space()[1].as_f64().unwrap();
    assert!((8.0..=16.0).contains(&distance), "{label}: {distance}");
}

pub(super) fn keep_picture(window: &Chromium, name: &str) {
    let folder = pair()
        .pair
        .artifacts()
        .target()
        .unwrap()
        .join("screenshots");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{name}.png")), window.screenshot()).unwrap();
}

/// The problems that axe-core finds on the page.
pub(super) fn violations(window: &Chromium) -> Vec<String> {
    if window.inspect("return typeof axe") == "undefined" {
        window.inspect(&file("tests/clients/node_modules/axe-core/axe.min.js"));
    }
    let report = window.inspect_later(
        "const done = arguments[arguments.length - 1];
         axe.run(document, {resultTypes: ['violations', 'incomplete']})
            .then(done, error => done({error: String(error)}))",
    );
    let list = |kind: &str| -> Vec<Value> {
        let list = report[kind].as_array();
        list.unwrap_or_else(|| panic!("axe-core: {report}")).clone()
    };
    assert!(list("passes").len() > 10, "axe-core looked at the page");
    list("violations")
        .into_iter()
        .chain(list("incomplete"))
        .map(|finding| format!("{}: {}", finding["help"], finding["nodes"]))
        .collect()
}

fn are_accessible_in_light_and_dark(pages: Pages) {
    let window = Chromium::open();
    window.resize(1024, 768);
    pages(&window, "1024", &mut |name| {
        for scheme in ["dark", "light"] {
            window.prefer(scheme);
            let none: [String; 0] = [];
            assert_eq!(violations(&window), none, "{name}, {scheme}");
            keep_picture(&window, &format!("{name}-{scheme}"));
        }
    });
}

#[test]
fn every_page_of_sign_ins_is_accessible() {
    are_accessible_in_light_and_dark(pages_of_sign_ins);
}

#[test]
fn every_page_of_an_authenticator_is_accessible() {
    are_accessible_in_light_and_dark(pages_of_an_authenticator);
}

/// WCAG 2.2, success criterion 1.4.10.
fn never_scroll_sideways_at_320_pixels(pages: Pages) {
    let window = Chromium::open();
    window.resize(320, 640);
    pages(&window, "320", &mut |name| {
        let widths = window.inspect(
            "const {clientWidth, scrollWidth} = document.documentElement;
            return [innerWidth, Math.max(scrollWidth, document.body.scrollWidth) <= clientWidth]",
        );
        assert_eq!(widths, serde_json::json!([320, true]), "{name}");
        keep_picture(&window, &format!("{name}-320"));
    });
}

#[test]
fn no_page_of_sign_ins_scrolls_sideways_at_320_pixels() {
    never_scroll_sideways_at_320_pixels(pages_of_sign_ins);
}

#[test]
fn no_page_of_an_authenticator_scrolls_sideways_at_320_pixels() {
    never_scroll_sideways_at_320_pixels(pages_of_an_authenticator);
}

/// The page and its card are both light or both dark, as the person prefers.
#[test]
fn pages_are_dark_for_who_prefers_dark_pages() {
    let (_, window) = asked_to_sign_in();
    window.expect_heading("Sign in");
    let brightness = |element: &str, property: &str| {
        let script =
            format!("return getComputedStyle(document.querySelector('{element}')).{property}");
        let color = window.inspect(&script).as_str().unwrap().to_owned();
        let parts = color.trim_start_matches("rgb(").trim_end_matches(')');
        let sum: u32 = parts
            .split(", ")
            .map(|part| part.parse::<u32>().unwrap())
            .sum();
        sum / 3
    };
    for (scheme, is_dark) in [("light", false), ("dark", true), ("light", false)] {
        window.prefer(scheme);
        for (element, property, is_ground) in [
            ("body", "backgroundColor", true),
            ("main", "backgroundColor", true),
            ("input[name=username]", "backgroundColor", true),
            ("h1", "color", false),
            ("label", "color", false),
        ] {
            let brightness = brightness(element, property);
            assert_eq!(
                brightness < 128,
                is_dark == is_ground,
                "{scheme} {element} {property}: {brightness}"
            );
        }
    }
}

/// A browser that accepts no cookies shows a notice above the form, whatever else happens; any other browser does not.
#[test]
fn the_first_page_says_that_cookies_are_off() {
    const NOTICE: &str = "//p[contains(text(), 'Your browser accepts no cookies')]";
    let app = App::start();
    for (window, is_shown) in [
        (Chromium::open(), false),
        (Chromium::without_cookies(), true),
    ] {
        for address in [app.authorize(), format!("{}/auth/", lobby())] {
            window.visit(&address);
            window.field("Username");
            if window.has(NOTICE) {
                assert_eq!(
                    window.expect(NOTICE).text().is_empty(),
                    !is_shown,
                    "{address}"
                );
            } else {
                assert!(!is_shown, "{address}");
            }
        }
        if is_shown {
            let none: [String; 0] = [];
            assert_eq!(violations(&window), none);
            keep_picture(&window, "cookies-off");
            sign_in_as(&window, "ada");
            window.expect_text("Your browser sent no cookies");
        }
    }
}

/// The pages show the name, the host, and what the table `branding` says. Its logo is a picture that runs no script.
#[test]
fn the_pages_say_whose_they_are() {
    let (_, window) = asked_to_sign_in();
    let host = lobby();
    let host = host.strip_prefix("http://").unwrap();
    let header = window.expect("//header").text();
    assert_eq!(
        header.split_whitespace().collect::<Vec<_>>(),
        ["Gatepass", host]
    );
    let links = window.inspect(
        "return [...document.querySelectorAll('footer a')].map(link => `${link.text} ${link.href}`)",
    );
    let expected = [
        "Help https://help.example.com/",
        "Privacy https://example.com/privacy",
    ];
    assert_eq!(links, serde_json::json!(expected));
    for (scheme, colour) in [("light", "rgb(0, 100, 0)"), ("dark", "rgb(112, 168, 112)")] {
        window.prefer(scheme);
        let button = window.inspect(
            "return getComputedStyle(document.querySelector('button[type=submit]')).backgroundColor",
        );
        assert_eq!(button, colour, "{scheme}");
        // The accent is for this button: a red brand makes no field look refused.
        let others = window.inspect(
            "const style = element => getComputedStyle(element);
             return [document.activeElement.name, style(document.activeElement).outlineColor,
                     style(document.querySelector('.forgot')).color, style(document.body).color]",
        );
        assert_eq!(others[0], "username", "{others}");
        assert_eq!(
            (&others[1], &others[2]),
            (&others[3], &others[3]),
            "{scheme}"
        );
        // Letters of any colour can be seen: the service has a logo for each scheme, and logos of clients have a plate.
        let is_dark = scheme == "dark";
        let logos = window.inspect(
            "const [service, client] = document.images;
             return [service.currentSrc !== service.src,
                     getComputedStyle(client).backgroundColor === 'rgb(255, 255, 255)']",
        );
        assert_eq!(logos, serde_json::json!([is_dark, is_dark]), "{scheme}");
    }
    // The logo of the service, that of the client, and the icon of the browser's tab.
    let pictures = window.inspect_later(
        "const done = arguments[arguments.length - 1],
               load = source => new Promise(loaded => {
                   const picture = new Image();
                   picture.onload = () => loaded(picture.width);
                   picture.onerror = () => loaded(0);
                   picture.src = source;
               }),
               shown = [...document.images].map(image => image.src);
         Promise.all([...shown, document.querySelector('link[rel=icon]').href].map(load)).then(done)",
    );
    let widths: Vec<_> = pictures
        .as_array()
        .unwrap()
        .iter()
        .map(Value::as_u64)
        .collect();
    assert_eq!(widths.len(), 3, "{pictures}");
    assert!(
        widths
            .iter()
            .all(|width| width.is_some_and(|width| width > 0)),
        "{pictures}"
    );
    let logo = window.inspect("return document.images[0].src");
    window.visit(logo.as_str().unwrap());
    let has_run = window
        .inspect("return [document.documentElement.tagName, document.documentElement.dataset.ran]");
    assert_eq!(has_run, serde_json::json!(["svg", null]));
}
