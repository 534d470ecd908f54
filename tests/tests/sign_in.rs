//! Signing in: guesses are slowed down, clients may ask for a recent sign-in, pages speak the person's language.

use crate::support::{Browser, Form, OwnPair, Reply, WEB, form_body, get, lobby};

fn request(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    let mut request = vec![
        ("response_type", "code"),
        ("client_id", WEB.id),
        ("redirect_uri", WEB.redirect_uri),
    ];
    request.extend(more);
    request
}

fn guess(lobby: &str, password: &str) -> Reply {
    let browser = Browser::new(lobby);
    let form = Form::of(&browser.authorize(&request(&[])));
    browser.submit(
        &form,
        &[("username", "grace@example.com"), ("password", password)],
    )
}

/// Checklist row 55. That the counts survive a restart is among what every store is tested for.
#[test]
fn rfc6749_s10_10_guesses_are_slowed_down() {
    let pair = OwnPair::start(&[]);
    let lobby = pair.pair.lobby_url();
    let slowed = (0..100)
        .map(|_| guess(&lobby, "wrong"))
        .find(|reply| reply.status != 403)
        .unwrap();
    assert_eq!(slowed.status, 429);
    let wait: u64 = slowed.header("retry-after").unwrap().parse().unwrap();
    assert!(wait >= 1);
    let words = format!("Wait {wait} seconds");
    assert!(slowed.body.contains(&words), "{}", slowed.body);
    assert_eq!(Form::of(&slowed).fields, ["username", "password"]);
}

/// OpenID Connect Core §3.1.2.1.
#[test]
fn a_client_may_ask_for_a_recent_sign_in() {
    let browser = Browser::new(&lobby());
    let page = browser.authorize(&request(&[("login_hint", "ada@example.com")]));
    assert!(
        page.body.contains("value=\"ada@example.com\""),
        "pre-filled"
    );
    browser.sign_in(&page, "ada@example.com", "demo-password-of-ada");
    assert_eq!(browser.authorize(&request(&[])).status, 302);
    assert_eq!(
        browser.authorize(&request(&[("max_age", "3600")])).status,
        302
    );
    let again = browser.authorize(&request(&[("max_age", "0")]));
    assert_eq!(again.status, 200);
    let done = browser.sign_in(&again, "ada@example.com", "demo-password-of-ada");
    assert_eq!(done.status, 302, "asked once, not for ever");
    let silent = browser.authorize(&request(&[("max_age", "0"), ("prompt", "none")]));
    assert!(
        silent
            .header("location")
            .unwrap()
            .contains("error=login_required")
    );
}

#[test]
fn pages_speak_the_persons_language() {
    let address = format!("{}/auth/authorize?{}", lobby(), form_body(&request(&[])));
    let german = get(&address, &[("accept-language", "de-DE,de;q=0.9,en;q=0.5")]).body;
    assert!(german.contains("lang=\"de\"") && german.contains("<h1>Anmelden</h1>"));
    let english = get(&address, &[("accept-language", "fr")]).body;
    assert!(english.contains("lang=\"en\"") && english.contains("<h1>Sign in</h1>"));
}
