//! Forgotten passwords, with links by mail.

use crate::support::{Browser, Form, MailServer, Message, OwnPair, Reply, WEB, get, lobby, tags};

const ISAAC: &str = "isaac@example.com";
const FORGOT: &str = "/auth/forgot-password";
const PASSWORD: &str = "apples fall down, not up";
const ANOTHER: &str = "pears fall down as well";

struct Service {
    pair: OwnPair,
    mail: MailServer,
}

impl Service {
    fn start(mode: &'static str, more: &str) -> Self {
        let mail = MailServer::start(mode);
        let configuration = mail.configuration() + more;
        let pair = OwnPair::with_configuration(&configuration, &[]);
        Self { pair, mail }
    }

    fn add(&self, username: &str, email: Option<&str>, password: Option<&str>) {
        let mut add = vec!["user", "add", username];
        add.extend(email.iter().flat_map(|email| ["--email", email]));
        add.extend(password.map(|_| ["--password-file", "-"]).iter().flatten());
        let account = ["--account", "4711,isaac,https://us1.example.com"];
        add.extend(account.iter().filter(|_| username == ISAAC));
        self.pair.operate(&add, password.unwrap_or_default()).done();
    }

    fn browser(&self) -> Browser {
        Browser::new(&self.pair.lobby())
    }

    /// Asks for a link in a new browser.
    fn ask(&self, username: &str) -> Reply {
        self.ask_in(&self.browser(), username)
    }

    fn ask_in(&self, browser: &Browser, username: &str) -> Reply {
        let page = browser.open(FORGOT);
        browser.submit(&Form::of(&page), &[("username", username)])
    }

    fn set(&self, link: &str, password: &str) -> Reply {
        Self::set_in(&self.browser(), link, password)
    }

    fn set_in(browser: &Browser, link: &str, password: &str) -> Reply {
        let page = browser.open(link);
        assert_eq!(page.status, 200, "{}", page.body);
        browser.submit(&Form::of(&page), &[("password", password)])
    }

    #[track_caller]
    fn is_over(&self, link: &str) {
        let page = self.browser().open(link);
        assert_eq!(page.status, 410, "{}", page.body);
        assert!(!page.body.contains("isaac"), "{}", page.body);
    }

    /// The value of a metric of mail.
    fn count(&self, name: &str) -> u64 {
        let url = format!("{}/metrics", self.pair.pair.internal_url());
        let metrics = get(&url, &[]).body;
        let name = format!("token_service_mail_{name}_total ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
        line.unwrap().parse().unwrap()
    }

    #[track_caller]
    fn until(&self, name: &str, count: u64) {
        crate::api::until(name, || self.count(name) >= count);
        assert_eq!(self.count(name), count);
    }

    fn audited(&self, action: &str) -> Vec<serde_json::Value> {
        let audit = self
            .pair
            .json(&format!("audit --action {action} --limit 500"));
        audit["items"].as_array().unwrap().clone()
    }
}

/// The link of a message to Isaac with nothing else that is secret.
#[track_caller]
fn link_in(message: &Message, lobby: &str) -> String {
    assert_eq!(message.to, [ISAAC]);
    let host = lobby.strip_prefix("http://").unwrap();
    assert!(
        message.text.contains(&format!("{ISAAC} at {host}")),
        "{message:?}"
    );
    let link = message.link();
    assert!(
        link.starts_with(&format!("{lobby}/auth/new-password?link=")),
        "{link}"
    );
    link.to_owned()
}

/// Where the sign-in page leads people who forgot the password.
fn forgot_at(page: &Reply) -> String {
    let link = tags(&page.body).filter_map(|tag| tag.attribute("href"));
    let mut links = link.filter(|href| href.starts_with(FORGOT));
    links.next().unwrap_or_else(|| panic!("{}", page.body))
}

#[test]
fn people_get_links_by_mail_and_go_on_where_they_were() {
    let service = Service::start("starttls", "");
    let (pair, mail) = (&service.pair, &service.mail);
    service.add(ISAAC, Some(ISAAC), Some("old password of isaac"));
    service.add("emmy", None, Some("old password of emmy"));
    service.add("new@example.com", Some("new@example.com"), None);
    service.add(
        "off@example.com",
        Some("off@example.com"),
        Some("old password"),
    );
    pair.done("user update off@example.com --disable");
    // Registered, but not as mail servers take it.
    service.add(
        "list",
        Some("a@example.com,eve@example.com"),
        Some("old password"),
    );

    // From the sign-in for an application.
    let browser = service.browser();
    let page = browser.authorize(&WEB.request(&[("state", "s1")]));
    let forgot = forgot_at(&page);
    let page = browser.open(&forgot);
    let form = Form::of(&page);
    assert_eq!(form.fields, ["username"]);
    let asked = browser
        .submit(&form, &[("username", &ISAAC.to_uppercase())])
        .done();
    let message = mail.message(1);
    assert!(message.encrypted && message.login, "{message:?}");
    assert_eq!(message.from, "no-reply@example.com");
    assert_eq!(message.header("From"), "Gatepass <no-reply@example.com>");
    assert_eq!(
        message.header("Subject"),
        "Choose a new password for Gatepass"
    );
    assert_eq!(message.header("Auto-Submitted"), "auto-generated");
    assert!(message.header("Message-ID").ends_with("@example.com>"));
    let link = link_in(&message, &pair.lobby());
    assert!(!asked.body.contains("isaac"), "{}", asked.body);

    // A user without an address gets no message, and the answer is the same.
    let nobody = [
        "nobody@example.com",
        "emmy",
        "new@example.com",
        "off@example.com",
        "list",
        "",
    ];
    for name in nobody {
        let page = browser.open(&forgot);
        let reply = browser
            .submit(&Form::of(&page), &[("username", name)])
            .done();
        // Nothing but what was typed differs.
        let without = |page: &Reply, name: &str| {
            let sentence = format!("You entered <bdi><strong>{name}</strong></bdi>. ");
            page.body.replace(&sentence, "")
        };
        let typed = ISAAC.to_uppercase();
        assert_eq!(without(&reply, name), without(&asked, &typed), "{name}");
    }

    // Programs open links before people do.
    assert_eq!(service.browser().open(&link).status, 200);
    let page = browser.open(&link).done();
    let done = browser
        .submit(&Form::of(&page), &[("password", PASSWORD)])
        .done();
    service.is_over(&link);
    let late = browser.submit(&Form::of(&page), &[("password", ANOTHER)]);
    assert_eq!(late.status, 410, "{}", late.body);
    let changed = mail.message(2);
    assert_eq!(changed.to, [ISAAC]);
    assert!(changed.text.contains("was changed") && !changed.text.contains("http"));
    // Where the person was: the request with its state.
    let code = browser.open(&Form::of(&done).address());
    let location = code.header("location").unwrap();
    assert!(
        location.contains("state=s1") && location.contains("code="),
        "{location}"
    );

    // In the language of the page, by an e-mail address of single sign-on. Another browser goes on at the start page.
    let german = service.browser();
    let page = german.authorize(&WEB.request(&[("ui_locales", "de")]));
    let page = german.open(&forgot_at(&page));
    let form = Form::of(&page);
    german
        .submit(&form, &[("username", "ADA@example.com")])
        .done();
    let message = mail.message(3);
    let subject = message.header("Subject");
    assert_eq!(subject, "Neues Passwort f\u{fc}r Gatepass w\u{e4}hlen");
    assert!(
        message.text.contains("Ihr Passwort bleibt, wie es ist."),
        "{message:?}"
    );
    assert_eq!(message.to, ["ada@example.com"]);
    let done = service.set(message.link(), PASSWORD).done();
    assert_eq!(Form::of(&done).action, "/auth/");
    mail.message(4);
    // There was nothing to change.
    let invitation = pair.json("user invite new@example.com");
    let invitation = invitation["url"].as_str().unwrap();
    service.set(invitation, PASSWORD).done();
    let first = mail.message(5).text;
    assert!(
        first.contains("was set") && !first.contains("changed"),
        "{first}"
    );

    service.until("sent", 5);
    assert_eq!((service.count("failed"), service.count("dropped")), (0, 0));
    let asked = service.audited("password_forgotten");
    assert_eq!(asked.len(), 2 + nobody.len());
    assert!(
        asked.iter().all(|entry| entry["username"].is_null()),
        "{asked:?}"
    );
    let sent = service.audited("password_link_sent");
    let who: Vec<&str> = sent
        .iter()
        .filter_map(|entry| entry["username"].as_str())
        .collect();
    assert_eq!(who, ["ada@example.com", ISAAC]);
    let log = service.pair.pair.end();
    assert!(
        !log.contains(link.rsplit('=').next().unwrap()),
        "the link is in the log"
    );
}

#[test]
fn a_link_by_mail_ends_with_what_it_rests_on() {
    let service = Service::start("implicit", "");
    let (pair, mail) = (&service.pair, &service.mail);
    let add = || service.add(ISAAC, Some(ISAAC), Some("old password of isaac"));
    add();
    let mut sent = 0;
    let mut ask = || {
        service.ask(ISAAC).done();
        sent += 1;
        let message = mail.message(sent);
        assert!(message.encrypted, "{message:?}");
        link_in(&message, &pair.lobby())
    };
    // Neither an operator's link nor another request ends it, and it ends no operator's link.
    let made = pair.json(&format!("user reset-password {ISAAC}"));
    let (first, second) = (ask(), ask());
    for link in [&first, &second, made["url"].as_str().unwrap()] {
        assert_eq!(service.browser().open(link).status, 200);
    }
    service.is_over(&format!("{first}A"));
    let update = ["user", "update", ISAAC, "--password-file", "-"];
    pair.operate(&update, "plums fall down too\n").done();
    service.is_over(&second);
    let third = ask();
    pair.done(&format!("user remove {ISAAC}"));
    service.is_over(&third);
    add();
    service.is_over(&third);
    mail.messages(sent);

    // Too many requests wait, whether the name is registered or not, and others do not.
    for name in [ISAAC, "nobody@example.com"] {
        let mut refused = service.ask(name);
        while refused.status == 200 {
            refused = service.ask(name);
        }
        assert_eq!(refused.status, 429, "{name}: {}", refused.body);
        assert!(refused.header("retry-after").is_some(), "{name}");
        assert!(
            refused.body.contains("too many attempts"),
            "{}",
            refused.body
        );
    }
    service.ask("ada@example.com").done();
}

#[test]
fn a_mail_server_that_fails_delays_nobody() {
    // For the other messages too, which a busy machine delays.
    let service = Service::start("plain", "timeout = \"30s\"\n");
    let mail = &service.mail;
    for name in ["refused", "slow", "isaac"] {
        let email = format!("{name}@example.com");
        service.add(&email, Some(&email), Some("old password"));
    }
    service.ask("slow@example.com").done();
    service.ask("refused@example.com").done();
    service.ask(ISAAC).done();
    let message = mail.message(1);
    assert!(!message.encrypted);
    service.until("failed", 2);
    assert_eq!(service.set(message.link(), PASSWORD).status, 200);
    mail.message(2);
    assert_eq!(service.audited("password_link_sent").len(), 1);
    let log = service.pair.pair.end();
    assert!(log.contains("mail cannot be sent"), "{log}");
    let reasons = ["no such mailbox", "no answer in time"];
    assert!(reasons.iter().any(|reason| log.contains(reason)), "{log}");

    // One that does not offer TLS gets nothing: others on the network could read the links.
    let before = mail.received();
    let plain = mail.configuration().replace("tls = \"none\"", "");
    let pair = OwnPair::with_configuration(&plain, &[]);
    let broken = Service {
        pair,
        mail: MailServer::start("plain"),
    };
    broken.ask("ada@example.com").done();
    broken.until("failed", 1);
    assert_eq!(mail.received(), before);
    // Nobody listens.
    let Service { pair, mail } = broken;
    let configuration = mail.configuration();
    let config = pair.write("down.toml", configuration);
    let check = |config: &str| pair.done(&format!("check --config {config}"));
    assert!(!check(&config).contains("mail cannot be sent"));
    drop(mail);
    let checked = check(&config);
    assert!(
        checked.contains("warning: mail cannot be sent"),
        "{checked}"
    );
}

/// A server that is away for a while delays the notice of a change and loses none, not even over a restart. What it did not take does not
/// count for the mailbox.
#[test]
fn a_mail_server_that_is_away_delays_notices_and_loses_none() {
    let help = "\n[branding]\nhelp_url = \"mailto:help@example.com\"\n";
    let mut service = Service::start("plain", help);
    service.add(ISAAC, Some(ISAAC), Some("old password of isaac"));
    let names = [
        "one", "two", "three", "four", "five", "six", "seven", "eight",
    ];
    for name in names {
        service.add(name, Some(ISAAC), Some("old password"));
    }
    let made = service.pair.json(&format!("user reset-password {ISAAC}"));
    let is_owed = |service: &Service, expected: u64| {
        let url = format!("{}/metrics", service.pair.pair.internal_url());
        let line = format!("token_service_owed_notices {expected}\n");
        get(&url, &[]).body.contains(&line)
    };
    assert!(is_owed(&service, 0));
    service.mail.stop();
    for name in names {
        service.ask(name).done();
    }
    service.until("failed", names.len() as u64);
    let public = format!("http://127.0.0.1:{}", service.pair.pair.ports().public);
    let link = made["url"].as_str().unwrap();
    let link = link.replace(&service.pair.lobby(), &public);
    let browser = Browser::from_address(&public, "198.51.100.7");
    Service::set_in(&browser, &link, PASSWORD).done();
    crate::api::until("an attempt", || {
        service.count("failed") > names.len() as u64
    });
    assert!(is_owed(&service, 1));
    service.pair.restart();
    assert!(is_owed(&service, 1));

    service.mail.resume();
    let told = service.mail.message(1);
    let subject = told.header("Subject");
    assert_eq!(subject, "Your password for Gatepass was changed");
    let lines: Vec<&str> = told.text.trim_end().lines().rev().take(4).collect();
    let [help, browser, network, time] = lines[..] else {
        panic!("{told:?}");
    };
    assert_eq!(help, "Help: help@example.com");
    assert_eq!(browser, "Browser: Unknown browser");
    assert_eq!(network, "Network: 198.51.100.7");
    assert!(
        time.starts_with("Time: ") && time.ends_with("UTC"),
        "{time}"
    );
    crate::api::until("nothing owed", || is_owed(&service, 0));
    service.ask(ISAAC).done();
    let asked = service.mail.message(2);
    assert!(
        asked.text.contains("\nHelp: help@example.com\r\n"),
        "{asked:?}"
    );
}

#[test]
fn without_mail_the_sign_in_page_says_where_to_ask() {
    let says = |lobby: &str, expected: &str| {
        let browser = Browser::new(lobby);
        let page = browser.authorize(&WEB.request(&[]));
        assert!(page.body.contains(expected), "{}", page.body);
        let page = browser.open(FORGOT);
        assert_eq!(page.status, 404, "{}", page.body);
    };
    says(&lobby(), "Ask the people who manage your account.");
    let help = "\n[branding]\nhelp_url = \"https://help.example.com/\"\n";
    let pair = OwnPair::with_configuration(help, &[]);
    let link = "href=\"https://help.example.com/\">Forgot your password?</a>";
    says(&pair.lobby(), link);
}
