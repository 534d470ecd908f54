//! Names of people, compared without case (protocol.md D-43).

use crate::support::{
    Assertion, Browser, Form, Instance, LEGACY, NON_INTERACTIVE, OwnPair, WEB, answered, lobby,
    pair,
};
use crate::token::claims;

const ADA: &str = "ada@example.com";
const IN_CAPITALS: &str = "ADA@Example.COM";

#[test]
fn sign_in_and_commands_take_a_name_in_any_case() {
    let pair = OwnPair::start(&[]);
    let lobby = pair.lobby();
    let browser = Browser::new(&lobby);
    let page = browser.authorize(&WEB.request(&[]));
    let done = browser.sign_in(&page, IN_CAPITALS, "demo-password-of-ada");
    let code = answered(&done, WEB.redirect_uri, "code").unwrap();
    let tokens = WEB.exchange(&lobby, &code, None);
    assert_eq!(claims(&tokens.text("access_token"))["sub"], ADA);

    let shown = pair.json(&format!("user show {}", IN_CAPITALS));
    assert_eq!(shown["username"], ADA);
    for list in ["grant list", "audit --action sign_in"] {
        let items = pair.json(&format!("{list} --user {IN_CAPITALS}"))["items"].clone();
        let [item] = items.as_array().unwrap().as_slice() else {
            panic!("{list:?}: {items}");
        };
        assert_eq!(item["username"], ADA, "{list:?}");
    }
    let add = pair.failed(&format!("user add {}", IN_CAPITALS));
    assert!(
        add.contains("differs from the registered user ada@example.com only in letter case"),
        "{add}"
    );
    let add = pair.failed("user add a\u{200b}da");
    assert!(add.contains("has an invisible character"), "{add}");
    pair.done(&format!(
        "client add robot --type user_bound --bound-user {IN_CAPITALS}"
    ));
    let shown = pair.json("client show robot");
    assert_eq!(shown["bound_user"], ADA);

    pair.run(&format!("grant revoke --user {} --yes", IN_CAPITALS));
    pair.done(&format!("user update {} --disable", IN_CAPITALS));
    let refresh = WEB.refresh(&lobby, &tokens.text("refresh_token"));
    refresh.assert_error(400, "invalid_grant");
}

#[test]
fn assertions_and_the_legacy_flow_take_a_name_in_any_case() {
    let assertion = Assertion::of(IN_CAPITALS).sign();
    let tokens = NON_INTERACTIVE.assert(&lobby(), &assertion, &[]);
    assert_eq!(claims(&tokens.text("access_token"))["sub"], ADA);
    let us1 = Instance::of(pair());
    let code = us1.code_of(IN_CAPITALS, "demo-password-of-ada", &LEGACY);
    assert_eq!(us1.exchange(&LEGACY, &code).status, 200);
}

/// Another case is not another person with their own guesses.
#[test]
fn guesses_are_counted_in_any_case() {
    let pair = OwnPair::start(&[]);
    let browser = Browser::new(&pair.lobby());
    let form = Form::of(&browser.authorize(&WEB.request(&[])));
    let statuses: Vec<u16> = (0..30)
        .map(|number: usize| {
            // The bits of the number choose capitals.
            let letters = "ada@".chars().enumerate();
            let name: String = letters
                .map(|(bit, c)| {
                    if number >> bit & 1 == 1 {
                        c.to_ascii_uppercase()
                    } else {
                        c
                    }
                })
                .collect();
            let name = format!("{name}example.com");
            let fields = [("username", name.as_str()), ("password", "wrong")];
            browser.submit(&form, &fields).status
        })
        .collect();
    assert!(statuses.contains(&429), "{statuses:?}");
}
