//! Names of people, compared without case (protocol.md D-43).

use crate::legacy::{self, OPEN};
use crate::support::{Assertion, Browser, Form, NON_INTERACTIVE, OwnPair, WEB, answer, lobby};
use crate::token::claims;

const ADA: &str = "ada@example.com";
const IN_CAPITALS: &str = "ADA@Example.COM";

fn request() -> [(&'static str, &'static str); 3] {
    [
        ("response_type", "code"),
        ("client_id", WEB.id),
        ("redirect_uri", WEB.redirect_uri),
    ]
}

#[test]
fn sign_in_and_commands_take_a_name_in_any_case() {
    let pair = OwnPair::start(&[]);
    let lobby = pair.pair.lobby_url();
    let browser = Browser::new(&lobby);
    let page = browser.authorize(&request());
    let done = browser.sign_in(&page, IN_CAPITALS, "demo-password-of-ada");
    let code = answer(&done, WEB.redirect_uri).swap_remove(0).1;
    let tokens = WEB.exchange(&lobby, &code, None);
    assert_eq!(claims(&tokens.text("access_token"))["sub"], ADA);

    let shown = pair.operate_json(&["user", "show", IN_CAPITALS]);
    assert_eq!(shown["username"], ADA);
    for list in [
        &["grant", "list", "--user", IN_CAPITALS][..],
        &["audit", "--action", "sign_in", "--user", IN_CAPITALS],
    ] {
        let items = pair.operate_json(list)["items"].clone();
        let [item] = items.as_array().unwrap().as_slice() else {
            panic!("{list:?}: {items}");
        };
        assert_eq!(item["username"], ADA, "{list:?}");
    }
    let add = pair.operate(&["user", "add", IN_CAPITALS], "").failed(1);
    assert!(
        add.contains("differs from the registered user ada@example.com in letter case alone"),
        "{add}"
    );
    let add = pair.operate(&["user", "add", "a\u{200b}da"], "").failed(1);
    assert!(add.contains("has an invisible character"), "{add}");
    let bound = [
        "client",
        "add",
        "robot",
        "--type",
        "user_bound",
        "--bound-user",
        IN_CAPITALS,
    ];
    pair.operate(&bound, "").done();
    let shown = pair.operate_json(&["client", "show", "robot"]);
    assert_eq!(shown["bound_user"], ADA);

    pair.operate(&["grant", "revoke", "--user", IN_CAPITALS, "--yes"], "");
    pair.operate(&["user", "update", IN_CAPITALS, "--disable"], "")
        .done();
    let refresh = WEB.refresh(&lobby, &tokens.text("refresh_token"));
    refresh.assert_error(400, "invalid_grant");
}

#[test]
fn assertions_and_the_legacy_flow_take_a_name_in_any_case() {
    let assertion = Assertion::of(IN_CAPITALS).sign();
    let fields = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
        ("assertion", assertion.as_str()),
    ];
    let tokens = NON_INTERACTIVE.token(&lobby(), &fields);
    assert_eq!(claims(&tokens.text("access_token"))["sub"], ADA);
    let code = legacy::code_of(IN_CAPITALS, &OPEN, &[]);
    assert_eq!(legacy::exchange(&OPEN, &code).status, 200);
}

/// Another case is not another person with guesses of their own.
#[test]
fn guesses_are_counted_in_any_case() {
    let pair = OwnPair::start(&[]);
    let browser = Browser::new(&pair.pair.lobby_url());
    let form = Form::of(&browser.authorize(&request()));
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
