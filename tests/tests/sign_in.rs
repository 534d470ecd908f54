//! Sign-in: delays for guesses, `max_age` and `prompt`, and the language of pages.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::api::{pass, until};
use crate::support::{ADA, Browser, Form, OwnPair, Reply, WEB, answered, code_at, lobby, now};

/// A browser at an address that tries passwords for one person.
struct Guesser {
    browser: Browser,
    form: Form,
}

impl Guesser {
    fn at(service: &str, address: &str) -> Self {
        let browser = Browser::from_address(service, address);
        let form = Form::of(&browser.authorize(&WEB.request(&[("prompt", "login")])));
        Self { browser, form }
    }

    fn submit(&self, password: &str) -> Reply {
        let fields = [("username", "grace@example.com"), ("password", password)];
        self.browser.submit(&self.form, &fields)
    }

    /// Status of the response: 303 for a right password, 403 for a wrong password, 429 if the password was not checked.
    fn guess(&self, password: &str) -> u16 {
        self.submit(password).status
    }
}

const RIGHT: &str = "demo-password-of-grace";

fn service(pair: &OwnPair) -> String {
    format!("http://127.0.0.1:{}", pair.pair.ports().public)
}

/// RFC 6749 §10.10. The tests of the stores check that the counts survive a restart.
#[test]
fn wrong_passwords_from_one_address_keep_nobody_out_elsewhere() {
    let pair = OwnPair::start(&[]);
    let service = service(&pair);
    let mut looked_at_first = usize::MAX;
    for attacker in ["198.51.100.1", "2001:db8:1::1"] {
        let attacker = Guesser::at(&service, attacker);
        let statuses: Vec<u16> = (0..70).map(|_| attacker.guess("wrong")).collect();
        assert!(statuses.iter().all(|status| matches!(status, 403 | 429)));
        let not_looked_at = statuses.iter().filter(|status| **status == 429);
        assert!(not_looked_at.count() > 40, "{statuses:?}");
        let first = statuses.iter().position(|status| *status == 429);
        looked_at_first = looked_at_first.min(first.unwrap());
        let mut more = (0..70).map(|_| attacker.submit("wrong"));
        let slowed = more.find(|reply| reply.status == 429).unwrap();
        let wait = slowed.wait().unwrap();
        assert!(wait >= 1);
        let unit = if wait == 1 { "second" } else { "seconds" };
        let words = format!("Wait {wait} {unit}, then");
        assert!(slowed.body.contains(&words), "{}", slowed.body);
        assert_eq!(Form::of(&slowed).fields, ["username", "password"]);
    }
    assert_eq!(Guesser::at(&service, "203.0.113.1").guess(RIGHT), 303);
    let neighbour = Guesser::at(&service, "2001:db8:1:ffff::1");
    let looked_at = (0..70).take_while(|_| neighbour.guess("wrong") != 429);
    let looked_at = looked_at.count();
    assert!(
        looked_at < looked_at_first,
        "one party may have 48 bits: {looked_at} of {looked_at_first}"
    );
    let throttled = pair.json("audit --action sign_in_throttled");
    assert!(
        throttled.to_string().contains("grace@example.com"),
        "{throttled}"
    );
}

/// A browser in which the person has signed in before does not share the delays of others and does not wait behind
/// them.
#[test]
fn a_known_device_signs_in_while_others_guess_in_parallel() {
    const PARALLEL: usize = 256;
    let pair = OwnPair::start(&[]);
    let service = service(&pair);
    // At the same address as the attacker.
    let device = Guesser::at(&service, "198.51.100.1");
    assert_eq!(device.guess(RIGHT), 303);
    let guesses = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..PARALLEL {
            scope.spawn(|| {
                let attacker = Guesser::at(&service, "198.51.100.1");
                guesses.fetch_add(1, Ordering::SeqCst);
                assert_ne!(attacker.guess("wrong"), 303);
                guesses.fetch_add(1, Ordering::SeqCst);
            });
        }
        while guesses.load(Ordering::SeqCst) < PARALLEL / 2 {
            std::thread::yield_now();
        }
        while guesses.load(Ordering::SeqCst) < 2 * PARALLEL {
            assert_eq!(device.guess(RIGHT), 303);
        }
    });
    assert_eq!(device.guess(RIGHT), 303);
    // Guesses that an overloaded service did not check do not count.
    let stranger = Guesser::at(&service, "198.51.100.1");
    until("a browser that nobody knows has to wait", || {
        stranger.submit("wrong").wait() >= Some(3)
    });
    assert_eq!(stranger.guess(RIGHT), 429, "with the right password too");
}

/// A person with a known device and the right password, so no delay stops the flood.
#[test]
fn sign_ins_of_one_person_leave_room_for_other_known_devices() {
    const PARALLEL: usize = 64;
    let pair = OwnPair::start(&[]);
    let service = service(&pair);
    let device = Guesser::at(&service, "203.0.113.1");
    assert_eq!(device.guess(RIGHT), 303);
    let flood = Guesser::at(&service, "198.51.100.1");
    let sign_in = || flood.browser.submit(&flood.form, &ADA).status;
    assert_eq!(sign_in(), 303);
    let started = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..PARALLEL {
            scope.spawn(|| {
                started.fetch_add(1, Ordering::SeqCst);
                for _ in 0..4 {
                    assert!(matches!(sign_in(), 303 | 429 | 503));
                }
            });
        }
        while started.load(Ordering::SeqCst) < PARALLEL {
            std::thread::yield_now();
        }
        let statuses: Vec<u16> = (0..10).map(|_| device.guess(RIGHT)).collect();
        assert_eq!(statuses, [303; 10]);
    });
}

/// Somebody knows the password of Joan, who has a second factor, at the address of her known device.
#[test]
fn the_right_password_alone_is_slowed_down_and_told_and_keeps_nobody_out() {
    const SECRET: &str = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
    let pair = OwnPair::start(&[]);
    let service = service(&pair);
    let password = |person: &Guesser| {
        let fields = [
            ("username", "joan@example.com"),
            ("password", "demo-password-of-joan"),
        ];
        person.browser.submit(&person.form, &fields)
    };
    let code = |person: &Guesser, at: u64| {
        let page = person.browser.follow(&password(person));
        let code = code_at(SECRET, at);
        person.browser.submit(&Form::of(&page), &[("code", &code)])
    };
    let device = Guesser::at(&service, "198.51.100.1");
    assert_eq!(code(&device, now()).status, 303, "nothing to tell");

    let attack = || password(&Guesser::at(&service, "198.51.100.1")).status;
    let statuses: Vec<u16> = (0..40).map(|_| attack()).collect();
    assert!(statuses.iter().all(|status| matches!(status, 303 | 429)));
    let admitted = statuses.iter().filter(|status| **status == 303).count();
    assert!((10..20).contains(&admitted), "{statuses:?}");
    let elsewhere = Guesser::at(&service, "203.0.113.1");
    assert_eq!(password(&elsewhere).status, 303);

    let told = code(&device, now() + 30);
    assert_eq!(told.status, 200);
    for text in [
        "Somebody entered your password",
        "198.51.100.1",
        "203.0.113.1",
        "Change it",
    ] {
        assert!(told.body.contains(text), "{text}: {}", told.body);
    }
    let next = device.browser.submit(&Form::posted(&told), &[]);
    assert_eq!(next.status, 303, "{}", next.body);
    for (action, at_least) in [("second_factor_required", 12), ("sign_in_throttled", 20)] {
        until("the audit log has it", || {
            let entries = pair.json(&format!("audit --action {action}"));
            let entries = entries["items"].as_array().unwrap();
            let of_joan = |entry: &&Value| entry["actor"] == "joan@example.com";
            entries.iter().filter(of_joan).count() >= at_least
        });
    }
}

/// OpenID Connect Core §3.1.2.1.
#[test]
fn a_client_may_ask_for_a_recent_sign_in() {
    let browser = Browser::new(&lobby());
    let page = browser.authorize(&WEB.request(&[("login_hint", "ada@example.com")]));
    assert!(
        page.body.contains("value=\"ada@example.com\""),
        "pre-filled"
    );
    browser.sign_in(&page, "ada@example.com", "demo-password-of-ada");
    assert_eq!(browser.authorize(&WEB.request(&[])).status, 302);
    assert_eq!(
        browser
            .authorize(&WEB.request(&[("max_age", "3600")]))
            .status,
        302
    );
    for zero in ["0", "00"] {
        let again = browser.authorize(&WEB.request(&[("max_age", zero)]));
        assert_eq!(again.status, 200, "{zero}");
        let done = browser.sign_in(&again, "ada@example.com", "demo-password-of-ada");
        assert_eq!(done.status, 302, "{zero}: asked once, not for ever");
    }
    let silent = browser.authorize(&WEB.request(&[("max_age", "0"), ("prompt", "none")]));
    assert!(
        silent
            .header("location")
            .unwrap()
            .contains("error=login_required")
    );
}

/// OpenID Connect Core §3.1.2.1: the age of the sign-in counts when the code is issued. Who signs in for the request may take
/// longer than `max_age` to choose.
#[test]
fn a_sign_in_that_gets_too_old_on_an_open_page_gives_no_code() {
    let browser = Browser::new(&lobby());
    let grace = |page: &Reply| browser.sign_in(page, "grace@example.com", RIGHT);
    let account = |form: &Form| {
        let mut buttons = form.buttons.iter();
        buttons.find(|(name, _)| name == "account").cloned()
    };
    let choose = |page: &Reply| {
        let form = Form::of(page);
        let (name, value) = account(&form).unwrap();
        browser.submit(&form, &[(&name, &value)])
    };
    let choice = loop {
        grace(&browser.authorize(&WEB.request(&[("prompt", "login")])));
        // The sign-in must be from before the request.
        pass(0);
        let page = browser.authorize(&WEB.request(&[("max_age", "5")]));
        // On a slow machine, the sign-in may be too old already.
        if account(&Form::of(&page)).is_some() {
            break page;
        }
    };
    pass(5);
    let sign_in = browser.follow(&choose(&choice));
    assert_eq!(Form::of(&sign_in).fields, ["username", "password"]);
    let choice = grace(&sign_in);
    pass(5);
    let code = answered(&choose(&choice), WEB.redirect_uri, "code");
    assert!(code.is_some(), "asked once, not for ever");
}

/// OpenID Connect Core §3.1.2.1: `ui_locales` goes before the browser's language, at every step.
#[test]
fn the_application_may_choose_the_language_of_all_steps() {
    let browser = Browser::new(&lobby());
    let start = |locales: &'static str| browser.authorize(&WEB.request(&[("ui_locales", locales)]));
    assert!(start("fr it").body.contains("lang=\"en\""));
    let page = start("fr de-CH en");
    let is_german = |reply: &Reply| {
        assert!(reply.body.contains("lang=\"de\""), "{}", reply.body);
    };
    is_german(&page);
    let destination = "Danach geht es weiter zu: <bdi><strong>app.example.com</strong></bdi>.";
    assert!(page.body.contains(destination), "{}", page.body);
    let form = Form::of(&page);
    let name = ("username", "grace@example.com");
    is_german(&browser.submit(&form, &[name, ("password", "wrong")]));
    let choice = browser.follow(&browser.submit(&form, &[name, ("password", RIGHT)]));
    is_german(&choice);
    assert!(choice.body.contains("Konto auswählen"), "{}", choice.body);
    let failed = browser.submit(&Form::of(&choice), &[("account", "none")]);
    assert_eq!(failed.status, 400);
    is_german(&failed);
}

/// Without a script or a redirect: the first page asks for a stylesheet that depends on the first cookie.
#[test]
fn a_browser_without_cookies_is_told_so_first() {
    let browser = Browser::new(&lobby());
    let stylesheet = "/auth/static/cookies.css";
    let without = browser.open(stylesheet);
    assert_eq!(without.body, ".no-cookies{display:block}");
    assert_eq!(without.header("cache-control"), Some("no-store"));
    let first = browser.authorize(&WEB.request(&[]));
    assert!(first.body.contains(stylesheet), "{}", first.body);
    assert_eq!(browser.open(stylesheet).body, "");
    let second = browser.authorize(&WEB.request(&[]));
    assert!(!second.body.contains(stylesheet), "{}", second.body);
    let refused = Browser::new(&lobby()).submit(&Form::of(&first), &[]);
    assert_eq!(refused.status, 403);
    assert!(refused.body.contains("sent no cookies"), "{}", refused.body);
}
