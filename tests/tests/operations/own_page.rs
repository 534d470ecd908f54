//! A person's own page: ends the access of applications, and sessions of other browsers.

use std::cell::RefCell;

use crate::api::until;
use crate::support::{
    ADA, Browser, Client, Form, INSTALLED, Instance, LEGACY, OwnPair, Pkce, Reply, USER_BOUND, WEB,
    answered, code_at, lasting_code, now, wrong_code,
};

const GRACE: [(&str, &str); 2] = [
    ("username", "grace@example.com"),
    ("password", "demo-password-of-grace"),
];
const JOAN: [(&str, &str); 2] = [
    ("username", "joan@example.com"),
    ("password", "demo-password-of-joan"),
];
const SECRET_OF_JOAN: &str = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";

/// Tokens of a client.
struct Access {
    client: Client,
    access: String,
    refresh: String,
}

impl Access {
    fn of(client: Client, reply: &Reply) -> Self {
        Self {
            client,
            access: reply.text("access_token"),
            refresh: reply.text("refresh_token"),
        }
    }

    #[track_caller]
    fn works(&self, pair: &OwnPair) {
        assert_eq!(pair.call(&self.access), 200);
    }

    #[track_caller]
    fn has_ended(&self, pair: &OwnPair) {
        pair.until_refused(&self.access);
        let refreshed = self.client.refresh(&pair.lobby(), &self.refresh);
        refreshed.assert_error(400, "invalid_grant");
    }
}

fn signed_in(pair: &OwnPair, person: [(&str, &str); 2]) -> Browser {
    let browser = Browser::new(&pair.lobby());
    let done = browser.submit(&Form::of(&browser.open("/auth/")), &person);
    assert_eq!(done.status, 303, "{}", done.body);
    browser
}

fn is_signed_in(browser: &Browser) -> bool {
    browser.open("/auth/").body.contains("You are signed in")
}

/// Presses the button that ends what `address` names.
#[track_caller]
fn end(browser: &Browser, address: &str) -> Reply {
    let asked = browser.open(address);
    assert_eq!(asked.status, 200, "{address}: {}", asked.body);
    let done = browser.submit(&Form::of(&asked), &[]);
    assert_eq!(done.status, 200, "{}", done.body);
    done
}

/// The addresses of the page that end sessions of other browsers.
fn other_sessions(browser: &Browser) -> Vec<String> {
    let page = browser.open("/auth/").body;
    let links = page.split("href=\"").skip(1);
    let links = links.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()));
    links
        .filter(|link| link.starts_with("/auth/end?session=") && !link.ends_with("=others"))
        .collect()
}

#[test]
fn a_person_ends_the_access_of_one_application_at_once() {
    let pair = OwnPair::start(&[]);
    let lobby = pair.lobby();
    let browser = signed_in(&pair, ADA);
    let none = browser.open("/auth/").body;
    assert!(
        none.contains("You have not given any application access"),
        "{none}"
    );

    let code = browser.code_for(&WEB, None);
    let web = Access::of(WEB, &WEB.exchange(&lobby, &code, None));
    let pkce = Pkce::of(&"v".repeat(43));
    let code = browser.code_for(&INSTALLED, Some(&pkce));
    let installed = Access::of(INSTALLED, &INSTALLED.exchange(&lobby, &code, Some(&pkce)));
    let instance = Instance::of(&pair.pair);
    let legacy = instance.exchange(&LEGACY, &instance.code(&LEGACY));
    let legacy = Access::of(LEGACY, &legacy);
    let graces = signed_in(&pair, GRACE);
    let choice = graces.authorize(&WEB.request(&[]));
    let button = ("account", "https://eu1.example.com 1879048402");
    let chosen = graces.submit(&Form::of(&choice), &[button]);
    let code = answered(&chosen, WEB.redirect_uri, "code").unwrap();
    let anothers = Access::of(WEB, &WEB.exchange(&lobby, &code, None));
    let bound = pair.token();
    let unredeemed = browser.code_for(&WEB, None);

    let page = browser.open("/auth/").body;
    for expected in [
        "<bdi>Package Builder</bdi>",
        "See your documents, See your projects",
        "<bdi>alovelace</bdi> (<bdi>Building sites, America</bdi>)",
        "app.example.com, 127.0.0.1:8090",
        "<bdi>Field Notes</bdi>",
        "an app on this device, the app on this device that opens com.example.fieldnotes: links",
        "/auth/end?application=legacy-demo",
        "has set up these applications",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    // What an operator set up, another person's access, and nonsense cannot be ended.
    let form = Form::of(&browser.open("/auth/end?application=web-demo"));
    let csrf = form.hidden.iter().find(|(name, _)| name == "csrf").unwrap();
    let bare = Form {
        hidden: vec![csrf.clone()],
        ..form
    };
    for forged in [USER_BOUND.id, "non-interactive-demo", "unknown", ""] {
        let done = browser.submit(&bare, &[("application", forged)]);
        assert_eq!(
            (done.status, done.header("location")),
            (303, Some("/auth/"))
        );
        let asked = browser.open(&format!("/auth/end?application={forged}"));
        assert_eq!(asked.status, 303, "{}", asked.body);
    }
    let ended = end(&browser, "/auth/end?application=web-demo");
    assert!(
        ended.body.contains("no longer has access"),
        "{}",
        ended.body
    );
    web.has_ended(&pair);
    let late = WEB.exchange(&lobby, &unredeemed, None);
    late.assert_error(400, "invalid_grant");
    for other in [&installed, &legacy, &anothers] {
        other.works(&pair);
    }
    assert_eq!(pair.call(&bound), 200);
    let page = browser.open("/auth/").body;
    assert!(!page.contains("application=web-demo"), "{page}");

    let ended = end(&browser, "/auth/end?application=legacy-demo");
    assert!(
        ended.body.contains("no longer has access"),
        "{}",
        ended.body
    );
    pair.until_refused(&legacy.access);
    let refreshed = instance.refresh(&LEGACY, &legacy.refresh);
    assert_eq!(refreshed.status, 400, "{}", refreshed.body);
    let refreshed = INSTALLED.refresh(&lobby, &installed.refresh);
    assert_eq!(refreshed.status, 200, "{}", refreshed.body);
    // The person authorizes the application again, and it works at once.
    let code = browser.code_for(&WEB, None);
    let again = Access::of(WEB, &WEB.exchange(&lobby, &code, None));
    again.works(&pair);
    let audit = pair.json("audit --action access_ended");
    let entries = audit["items"].as_array().unwrap().iter();
    let entries: Vec<_> = entries
        .map(|entry| (entry["actor"].clone(), entry["client_id"].clone()))
        .collect();
    let ada = |client: &str| ("ada@example.com".into(), client.into());
    assert_eq!(entries, [ada("legacy-demo"), ada("web-demo")]);
}

#[test]
fn a_person_ends_own_sessions_and_nobody_elses() {
    let pair = OwnPair::start(&[]);
    let [own, second, third] = [(); 3].map(|()| signed_in(&pair, ADA));
    let [graces, graces_other] = [(); 2].map(|()| signed_in(&pair, GRACE));
    assert_eq!(other_sessions(&own).len(), 2);
    let [anothers] = <[_; 1]>::try_from(other_sessions(&graces)).unwrap();
    // Another person's session ends nothing.
    let form = Form::of(&own.open("/auth/end?session=others"));
    let named = |address: &str| {
        let id = address.rsplit_once('=').unwrap().1.to_owned();
        let mut form = form.clone();
        form.hidden.retain(|(name, _)| name == "csrf");
        form.hidden.push(("session".to_owned(), id));
        form
    };
    for address in [&anothers, "/auth/end?session=x"] {
        assert_eq!(own.open(address).status, 303);
        let done = own.submit(&named(address), &[]);
        assert_eq!(
            (done.status, done.header("location")),
            (303, Some("/auth/"))
        );
    }
    assert!(is_signed_in(&graces) && is_signed_in(&graces_other));
    // Without the token of this browser.
    for csrf in [
        None,
        Form::of(&graces.open("/auth/")).hidden.first().cloned(),
    ] {
        let mut forged = form.clone();
        forged.hidden.retain(|(name, _)| name != "csrf");
        forged.hidden.extend(csrf);
        assert_eq!(own.submit(&forged, &[]).status, 403);
    }
    assert!(is_signed_in(&second) && is_signed_in(&third));

    let gone = other_sessions(&own).remove(0);
    end(&own, &gone);
    assert_eq!(other_sessions(&own).len(), 1);
    let left = [&second, &third].map(is_signed_in);
    assert_ne!(left[0], left[1], "one has ended");
    assert_eq!(own.open(&gone).status, 303, "nothing to end any more");
    end(&own, "/auth/end?session=others");
    assert!(is_signed_in(&own) && !is_signed_in(&second) && !is_signed_in(&third));
    assert!(is_signed_in(&graces) && is_signed_in(&graces_other));
    let audit = pair.json("audit --action sessions_ended");
    let details = audit["items"].as_array().unwrap().iter();
    let details: Vec<_> = details.map(|entry| entry["detail"].as_str()).collect();
    assert_eq!(details, [Some("all others"), Some("one")]);
}

/// The app stays, and with it sessions and what was issued. Nobody without the app or the password replaces the codes.
#[test]
fn a_person_replaces_lost_recovery_codes() {
    let pair = OwnPair::start(&[]);
    let browser = signed_in(&pair, ADA);
    assert!(!browser.open("/auth/").body.contains("New recovery codes"));
    assert_eq!(browser.open("/auth/recovery-codes").status, 303, "no app");
    let page = browser.open("/auth/authenticator");
    let secret = page.body.split_once("secret=").unwrap().1;
    let secret = secret.split(['&', '"']).next().unwrap();
    // The code of a step works once.
    let code = |step: u64| code_at(secret, now() + 30 * step);
    let fields = [("code", &*code(0)), ADA[1]];
    let first = browser.submit(&Form::of(&page), &fields).done();
    let listed = |page: &Reply| {
        let codes = page.body.split("<li><code>").skip(1);
        let codes = codes.map(|rest| rest.split('<').next().unwrap().to_owned());
        codes.collect::<Vec<_>>()
    };
    let replace = browser.open("/auth/authenticator").body;
    assert!(
        replace.contains("all your recovery codes stop working"),
        "{replace}"
    );
    let page = browser.open("/auth/recovery-codes").done();
    let send = |password: &str, code: &str| {
        let fields = [("password", password), ("code", code)];
        browser.submit(&Form::of(&page), &fields)
    };
    let (right, wrong) = (code(1), wrong_code(secret));
    for (password, code) in [("not-the-password", &right), (ADA[1].1, &wrong)] {
        assert_eq!(send(password, code).status, 403);
    }
    let second = send(ADA[1].1, &right).done();
    assert_eq!(send(ADA[1].1, &right).status, 403, "used");
    assert!(is_signed_in(&browser));
    let (old, new) = (listed(&first), listed(&second));
    assert_eq!((old.len(), new.len()), (10, 10));
    for (code, status) in [(&new[0], 303), (&old[0], 403)] {
        let other = signed_in(&pair, ADA);
        let form = Form::of(&other.open("/auth/"));
        let reply = other.submit(&form, &[("recovery_code", code)]);
        assert_eq!(reply.status, status, "{}", reply.body);
    }
    let made = pair.json("audit --action recovery_codes_made");
    assert_eq!(made["items"].as_array().unwrap().len(), 1, "{made}");
}

/// Nobody at an unattended browser ends anything.
#[test]
fn an_old_sign_in_is_not_enough_for_a_change() {
    let pair = OwnPair::start(&[("TOKEN_SERVICE__LIFETIMES__RECENT_SIGN_IN", "10s")]);
    let other = signed_in(&pair, ADA);
    for (person, code) in [(ADA, false), (JOAN, true)] {
        let browser = signed_in(&pair, person);
        let give = |page: &Reply, code: &str| {
            let done = browser.submit(&Form::of(page), &[("code", code)]);
            browser.follow(&done)
        };
        if code {
            give(&browser.open("/auth/"), &code_at(SECRET_OF_JOAN, now()));
        }
        let address = "/auth/end?session=others";
        let is_old = |page: &Reply| page.body.contains("Confirm that it is you");
        let used = RefCell::new(Vec::new());
        // `None` if the sign-in is old at once, on a busy machine.
        let recent = || {
            let mut page = browser.open(address);
            if is_old(&page) {
                page = browser.sign_in(&page, person[0].1, person[1].1);
                if code {
                    assert!(page.body.contains("Enter your code"), "{}", page.body);
                    let fresh = || lasting_code(SECRET_OF_JOAN);
                    until("the next code", || !used.borrow().contains(&fresh()));
                    used.borrow_mut().push(fresh());
                    page = give(&page, used.borrow().last().unwrap());
                }
            }
            (!is_old(&page)).then_some(page)
        };
        let form = Form::of(&recent().unwrap());
        assert!(form.fields.is_empty(), "{form:?}");
        until("the sign-in is old", || is_old(&browser.open(address)));
        let refused = browser.submit(&form, &[]);
        assert_eq!(
            (refused.status, refused.header("location")),
            (303, Some(address))
        );
        assert!(is_signed_in(&other) && is_signed_in(&browser));
        let page = browser.open(address);
        assert!(page.body.contains(person[0].1), "{}", page.body);
        let wrong = browser.submit(&Form::of(&page), &[person[0], ("password", "wrong")]);
        assert_eq!(wrong.status, 403, "{}", wrong.body);
        until("the change is made in time", || {
            let Some(page) = recent() else { return false };
            assert!(
                page.body.contains("All browsers but this one"),
                "{}",
                page.body
            );
            let done = browser.submit(&Form::of(&page), &[]);
            assert!([200, 303].contains(&done.status), "{}", done.body);
            done.status == 200
        });
        assert_eq!(is_signed_in(&other), code, "only Ada's other session ends");
        if !code {
            // For the second round: nothing of Ada's is touched.
            other.submit(&Form::of(&other.open("/auth/")), &ADA);
        }
    }
}
