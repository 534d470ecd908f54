//! Links with which people set passwords: invitations, and new starts for forgotten passwords.

use std::cell::RefCell;

use crate::api::until;
use crate::support::{Browser, Form, MailServer, OwnPair, Reply, WEB};

const PASSWORD: &str = "apples fall down, not up";
const ISAAC: &str = "isaac@example.com";

fn authorize(browser: &Browser) -> Reply {
    browser.authorize(&WEB.request(&[]))
}

struct Links {
    pair: OwnPair,
}

impl Links {
    /// What the command prints: the link first.
    fn made(&self, command: &str) -> String {
        let link = self.pair.json(command);
        assert!(link["warnings"].is_null(), "{link}");
        let url = link["url"].as_str().unwrap().to_owned();
        let bits = url.rsplit('=').next().unwrap();
        assert_eq!(bits.len(), 43, "256 bits in base64url");
        url
    }

    fn open(&self, url: &str) -> (Browser, Reply) {
        let browser = Browser::new(&self.pair.lobby());
        let page = browser.open(url);
        (browser, page)
    }

    fn set(&self, url: &str, password: &str) -> Reply {
        let (browser, page) = self.open(url);
        assert_eq!(page.status, 200, "{}", page.body);
        browser.submit(&Form::of(&page), &[("password", password)])
    }

    /// A browser that has signed in and got a code.
    fn signed_in(&self, username: &str, password: &str) -> Option<Browser> {
        let browser = Browser::new(&self.pair.lobby());
        let form = Form::of(&authorize(&browser));
        let fields = [("username", username), ("password", password)];
        let done = browser.submit(&form, &fields);
        (done.status == 303).then_some(browser)
    }

    #[track_caller]
    fn is_over(&self, url: &str) {
        let (_, page) = self.open(url);
        assert_eq!(page.status, 410, "{}", page.body);
        assert!(page.body.contains("no longer works"), "{}", page.body);
        assert!(!page.body.contains("example.com"), "{}", page.body);
    }
}

#[test]
fn people_set_their_passwords_with_links_that_work_once() {
    let pair = OwnPair::start(&[]);
    let links = Links { pair };
    let pair = &links.pair;
    pair.done(&format!(
        "user add {ISAAC} --account 4711,isaac,https://us1.example.com"
    ));
    // Looking at the page uses nothing up.
    let replaced = links.made(&format!("user invite {ISAAC}"));
    let invitation = links.made(&format!("user invite {ISAAC} --hours 1"));
    links.is_over(&replaced);
    links.is_over(&invitation[..invitation.len() - 1]);
    let (browser, page) = links.open(&invitation);
    // For whom it is, what it needs, and nothing about changes, because there was nothing before.
    for text in [
        &*format!("value=\"{ISAAC}\" autocomplete=\"username\" readonly"),
        "minlength=\"15\"",
        "At least 15 characters.",
    ] {
        assert!(page.body.contains(text), "{text}: {}", page.body);
    }
    assert!(!page.body.contains("signed out"), "{}", page.body);
    let form = Form::of(&page);
    for (password, reason) in [
        ("fourteen chars", "at least 15 characters"),
        ("ISAAC@example.com", "Your username"),
        ("passwordpassword1", "too easy to guess"),
    ] {
        let refused = browser.submit(&form, &[("password", password)]);
        assert_eq!(refused.status, 400, "{}", refused.body);
        assert!(refused.body.contains(reason), "{}", refused.body);
    }
    let (invited, page) = links.open(&invitation);
    let done = invited.submit(&Form::of(&page), &[("password", PASSWORD)]);
    assert_eq!(done.status, 200, "{}", done.body);
    let home = invited.open(&Form::of(&done).address());
    assert!(home.body.contains("You are signed in"), "{}", home.body);
    links.is_over(&invitation);
    // A page that was open before, in another browser.
    let late = browser.submit(&form, &[("password", "another one, and too late")]);
    assert_eq!(late.status, 410, "{}", late.body);
    let session = links.signed_in(ISAAC, PASSWORD).unwrap();
    assert_ne!(authorize(&session).status, 200);

    // Forgotten: the old password and what rests on it work until there is another one.
    let again = pair.failed(&format!("user invite {ISAAC}"));
    assert!(again.contains("has a password"), "{again}");
    let reset = links.made(&format!("user reset-password {ISAAC}"));
    assert_ne!(authorize(&session).status, 200);
    let (_, page) = links.open(&reset);
    assert!(
        page.body.contains("other browsers are signed out"),
        "{}",
        page.body
    );
    let done = links.set(&reset, "pears fall down as well");
    assert_eq!(done.status, 200, "{}", done.body);
    assert_eq!(authorize(&session).status, 200, "the session has ended");
    assert!(links.signed_in(ISAAC, PASSWORD).is_none());
    assert!(links.signed_in(ISAAC, "pears fall down as well").is_some());

    // The person changes it with the present one.
    let session = links.signed_in(ISAAC, "pears fall down as well").unwrap();
    let form = Form::of(&session.open("/auth/password"));
    let change = |present, chosen| {
        let fields = [("password", present), ("new_password", chosen)];
        session.submit(&form, &fields)
    };
    assert_eq!(change(PASSWORD, "cherries fall as well").status, 403);
    assert_eq!(change("pears fall down as well", "short").status, 400);
    let reset = links.made(&format!("user reset-password {ISAAC}"));
    let done = change("pears fall down as well", "cherries fall as well");
    assert_eq!(done.status, 200, "{}", done.body);
    assert_ne!(authorize(&session).status, 200, "this browser goes on");
    links.is_over(&reset);
    assert!(links.signed_in(ISAAC, "cherries fall as well").is_some());

    // Another password, and being disabled, end a link for good.
    for change in ["--disable", "--enable"] {
        let link = match change {
            "--disable" => links.made(&format!("user reset-password {ISAAC}")),
            _ => String::new(),
        };
        pair.done(&format!("user update {ISAAC} {change}"));
        if !link.is_empty() {
            links.is_over(&link);
            let refused = pair.failed(&format!("user reset-password {ISAAC}"));
            assert!(refused.contains("is disabled"), "{refused}");
        }
    }
    let link = links.made(&format!("user reset-password {ISAAC}"));
    let update = ["user", "update", ISAAC, "--password-file", "-"];
    pair.operate(&update, "plums fall down too\n").done();
    links.is_over(&link);

    // With a second factor fewer characters are enough, and the link does not take its place.
    let link = links.made("user reset-password joan@example.com");
    let (joan, page) = links.open(&link);
    assert!(page.body.contains("minlength=\"8\""), "{}", page.body);
    let done = joan.submit(&Form::of(&page), &[("password", "nine plums")]);
    assert!(done.body.contains("you still need a code"), "{}", done.body);
    let owed = joan.open(&Form::of(&done).address());
    assert!(owed.body.contains("Enter your code"), "{}", owed.body);
    assert_eq!(authorize(&joan).status, 200);

    // A password is state: the file that manages Ada does not change it.
    let link = links.made("user reset-password ada@example.com");
    let done = links.set(&link, PASSWORD);
    assert_eq!(done.status, 200, "{}", done.body);
    let applied = pair.done(&format!("apply {} --dry-run", pair.registrations()));
    assert!(!applied.contains("ada@example.com"), "{applied}");
    assert!(links.signed_in("ada@example.com", PASSWORD).is_some());

    let audit = pair.json("audit --action password_set --limit 500");
    let who: Vec<&str> = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|entry| entry["actor"].as_str())
        .collect();
    assert_eq!(
        who,
        ["ada@example.com", "joan@example.com", ISAAC, ISAAC, ISAAC]
    );
    let made = pair.json("audit --action password_link_made --limit 500");
    assert_eq!(made["items"].as_array().unwrap().len(), 8, "{made}");
    pair.run(&format!("user invite {ISAAC} --hours 721"))
        .failed(1);
    let log = links.pair.pair.end();
    let bits = invitation.rsplit('=').next().unwrap();
    assert!(!log.contains(bits), "the link is in the log");
}

/// A link costs bounded work, and its holder delays nobody else: neither other people, nor its owner with another link.
#[test]
fn refused_passwords_make_only_their_link_wait() {
    let pair = OwnPair::start(&[]);
    let links = Links { pair };
    for name in [ISAAC, "emmy"] {
        links.pair.done(&format!("user add {name}"));
    }
    let (stolen, emmy) = (
        links.made(&format!("user invite {ISAAC}")),
        links.made("user invite emmy"),
    );
    let (browser, page) = links.open(&stolen);
    let form = Form::of(&page);
    // The wait doubles with each refusal.
    let statuses = RefCell::new(Vec::new());
    until("a wait of some seconds", || {
        let reply = browser.submit(&form, &[("password", "short")]);
        statuses.borrow_mut().push(reply.status);
        reply.wait() >= Some(3)
    });
    let with = |status: u16| {
        statuses
            .borrow()
            .iter()
            .filter(|one| **one == status)
            .count()
    };
    assert!(with(400) > 10 && with(400) + with(429) == statuses.borrow().len());
    let waits = browser.submit(&form, &[("password", PASSWORD)]);
    assert_eq!(waits.status, 429, "{}", waits.body);
    assert_eq!(links.set(&emmy, PASSWORD).status, 200);
    let own = links.made(&format!("user invite {ISAAC}"));
    assert_eq!(links.set(&own, PASSWORD).status, 200);
    let count = |action: &str, detail: &str| {
        let audit = links
            .pair
            .json(&format!("audit --action {action} --limit 500"));
        let items = audit["items"].as_array().unwrap().iter();
        let entries = items.filter(|entry| entry["detail"] == detail && entry["username"] == ISAAC);
        entries.count()
    };
    assert_eq!(
        count("password_refused", "with a link: too short"),
        with(400)
    );
    let waits = count("sign_in_throttled", "choosing a password");
    assert_eq!(waits, with(429) + 1);
}

#[test]
fn people_are_invited_by_mail_and_together() {
    let mail = MailServer::start("plain");
    let pair = OwnPair::with_configuration(&mail.configuration(), &[]);
    let links = Links { pair };
    let pair = &links.pair;
    let added = pair.run(&format!("user add {ISAAC} --email {ISAAC}"));
    let next = format!("{ISAAC} cannot sign in yet: token-service user invite {ISAAC}");
    assert!(added.failed(0).contains(&next));
    pair.done("user add robert");
    pair.done("user add away --disable");
    let reasons = || -> Vec<(String, String)> {
        let list = pair.json("user list --cannot-sign-in");
        let users = list["items"].as_array().unwrap().iter();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        users
            .map(|user| (text(&user["username"]), text(&user["cannot_sign_in"])))
            .collect()
    };
    let expected = [("away", "disabled"), (ISAAC, "no password")];
    let found = reasons();
    let found: Vec<(&str, &str)> = found.iter().map(|(a, b)| (&**a, &**b)).collect();
    let expected = [expected[0], expected[1], ("robert", "no password")];
    assert_eq!(found, expected);

    // The administrator does not see the link.
    let sent = pair.json(&format!("user invite {ISAAC} --mail"));
    assert!(sent["url"].is_null() && sent["sent_to"] == ISAAC, "{sent}");
    let message = mail.message(1);
    for part in [
        "Your username is isaac@example.com",
        "Ihr Benutzername ist isaac@example.com",
    ] {
        assert!(message.text.contains(part), "{}", message.text);
    }
    let link = message.text.lines().find(|line| line.starts_with("http"));
    let done = links.set(link.unwrap(), PASSWORD);
    assert_eq!(done.status, 200, "{}", done.body);

    let all = pair.json("user invite --without password");
    let [robert] = &all.as_array().unwrap()[..] else {
        panic!("{all}");
    };
    assert_eq!(robert["username"], "robert");
    let (_, reason) = reasons().pop().unwrap();
    assert!(
        reason.starts_with("no password, invited until "),
        "{reason}"
    );
    let refused = pair.run("user invite --without password --mail").failed(1);
    assert!(
        refused.contains("robert has no e-mail address"),
        "{refused}"
    );
    let done = links.set(robert["url"].as_str().unwrap(), "pears fall down as well");
    assert_eq!(done.status, 200, "{}", done.body);
    drop(mail);
    let refused = pair.failed(&format!("user reset-password {ISAAC} --mail"));
    assert!(
        refused.contains("the mail server did not take the message"),
        "{refused}"
    );
    let sent = pair.json("audit --action password_link_sent");
    assert_eq!(sent["items"].as_array().unwrap().len(), 1, "{sent}");
}
