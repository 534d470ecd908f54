//! Links with which people set passwords: invitations, and new starts for forgotten passwords.

use crate::support::{Browser, Form, OwnPair, Reply, WEB, database};

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
    let postgres = database();
    for store in [None, Some(postgres.url())] {
        let changes = store.map(|url| ("TOKEN_SERVICE__STORE__URL", url));
        let pair = OwnPair::start(changes.as_slice());
        let links = Links { pair };
        let pair = &links.pair;
        pair.done(&format!(
            "user add {ISAAC} --account 4711,isaac,https://us1.example.com"
        ));
        // Whoever looks uses nothing up, and learns nothing.
        let replaced = links.made(&format!("user invite {ISAAC}"));
        let invitation = links.made(&format!("user invite {ISAAC} --hours 1"));
        links.is_over(&replaced);
        links.is_over(&invitation[..invitation.len() - 1]);
        let (browser, page) = links.open(&invitation);
        assert!(!page.body.contains("isaac"), "{}", page.body);
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
        let done = links.set(&invitation, PASSWORD);
        assert_eq!(done.status, 200, "{}", done.body);
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
        assert_eq!(change("cherries fall as well", PASSWORD).status, 303);
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

        // A password is state: the file that manages Ada leaves it alone.
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
        assert_eq!(who, ["ada@example.com", ISAAC, ISAAC, ISAAC]);
        let made = pair.json("audit --action password_link_made --limit 500");
        assert_eq!(made["items"].as_array().unwrap().len(), 7, "{made}");
        pair.run(&format!("user invite {ISAAC} --hours 721"))
            .failed(1);
        let log = links.pair.pair.end();
        let bits = invitation.rsplit('=').next().unwrap();
        assert!(!log.contains(bits), "the link is in the log");
    }
}
