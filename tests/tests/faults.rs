//! Kills the token service repeatedly at random moments under load. Each client records what the service acknowledged:
//! the service must lose none of it, and accept nothing twice. A request without a response may or may not have taken
//! effect; a client that repeats the request loses nothing.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use tests::{Artifacts, Postgres};

use crate::api::until;
use crate::support::{Assertion, Browser, Load, NON_INTERACTIVE, OwnPair, Reply, WEB, answer};

/// Number of kills. `make faults` sets more.
fn kills() -> usize {
    std::env::var("FAULT_KILLS").map_or(25, |kills| kills.parse().unwrap())
}

/// Most responses between a start and the next kill.
const ANSWERS: u64 = 40;

/// State that the clients of one run share.
#[derive(Clone)]
struct Run {
    lobby: String,
    answered: Arc<AtomicUsize>,
    unanswered: Arc<AtomicUsize>,
    /// Write-locked while the service is down: clients wait.
    down: Arc<RwLock<()>>,
}

impl Run {
    /// The service's response; `None` if the service died first.
    fn ask(&self, request: impl FnOnce(&str) -> Reply) -> Option<Reply> {
        drop(self.down.read().unwrap());
        let reply = request(&self.lobby);
        if reply.status == 503 {
            self.unanswered.fetch_add(1, Ordering::SeqCst);
            return None;
        }
        self.answered.fetch_add(1, Ordering::SeqCst);
        Some(reply)
    }

    /// Repeats a request until a response arrives.
    fn insist(&self, request: impl Fn(&str) -> Reply) -> Reply {
        loop {
            if let Some(reply) = self.ask(&request) {
                return reply;
            }
        }
    }

    /// The tokens of a new grant for the person who is signed in at `browser`. The person must not have to sign in
    /// again.
    fn grant(&self, browser: &Browser) -> Reply {
        let parameters = [
            ("response_type", "code"),
            ("client_id", WEB.id),
            ("redirect_uri", WEB.redirect_uri),
        ];
        loop {
            let page = self.insist(|_| browser.authorize(&parameters));
            let parameters = answer(&page, WEB.redirect_uri);
            let code = parameters.iter().find(|(name, _)| name == "code");
            let (_, code) = code.unwrap();
            // The code may have been used, so start again.
            if let Some(reply) = self.ask(|lobby| WEB.exchange(lobby, code, None)) {
                assert_eq!(reply.status, 200, "lost: {}", reply.body);
                return reply;
            }
        }
    }

    /// Signs a person in before the first kill.
    fn person(&self) -> Browser {
        let browser = Browser::new(&self.lobby);
        browser.code_for(&WEB, None);
        browser
    }

    /// A client that continues from its last refresh token. That token works, and the token before it has no other
    /// successor.
    fn refreshing(&self) -> Load {
        let run = self.clone();
        let first = self.grant(&self.person()).text("refresh_token");
        let live = Arc::new(Mutex::new(first));
        Load::start(1, move || {
            let mut live = live.lock().unwrap();
            let refreshed = run.insist(|lobby| WEB.refresh(lobby, &live));
            assert_eq!(refreshed.status, 200, "lost: {}", refreshed.body);
            let successor = refreshed.text("refresh_token");
            let repeated = run.insist(|lobby| WEB.refresh(lobby, &live));
            assert_eq!(repeated.status, 200, "lost: {}", repeated.body);
            assert_eq!(repeated.text("refresh_token"), successor, "used twice");
            *live = successor;
        })
    }

    /// A client whose assertions are accepted once each.
    fn asserting(&self) -> Load {
        let run = self.clone();
        Load::start(1, move || {
            let assertion = Assertion::of("ada@example.com").sign();
            let form = [
                ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
                ("assertion", &*assertion),
            ];
            let first = run.insist(|lobby| NON_INTERACTIVE.token(lobby, &form));
            assert!([200, 400].contains(&first.status), "{}", first.body);
            let second = run.insist(|lobby| NON_INTERACTIVE.token(lobby, &form));
            assert_eq!(second.status, 400, "accepted twice: {}", second.body);
        })
    }

    /// A client that revokes its tokens and gets new ones. Revoked tokens must stay revoked, and the person stays
    /// signed in.
    fn revoking(&self) -> Load {
        let run = self.clone();
        let browser = Arc::new(self.person());
        Load::start(1, move || {
            let token = run.grant(&browser).text("refresh_token");
            let revoked = run.insist(|lobby| WEB.post(lobby, "/auth/revoke", &[("token", &token)]));
            assert_eq!(revoked.status, 200, "{}", revoked.body);
            let dead = run.insist(|lobby| WEB.refresh(lobby, &token));
            assert_eq!(dead.status, 400, "lives again: {}", dead.body);
        })
    }
}

fn killed_again_and_again(changes: &[(&str, &str)]) {
    // A repeated request after a kill must not count as theft, and a code must not expire, however slowly this machine
    // starts services.
    let patient = [
        ("TOKEN_SERVICE__LIFETIMES__REFRESH_REUSE_GRACE", "5m"),
        ("TOKEN_SERVICE__LIFETIMES__AUTHORIZATION_CODE", "5m"),
    ];
    let mut pair = OwnPair::start(&[&patient, changes].concat());
    let run = Run {
        lobby: pair.pair.lobby_url(),
        answered: Arc::default(),
        unanswered: Arc::default(),
        down: Arc::default(),
    };
    let load = [
        run.refreshing(),
        run.refreshing(),
        run.asserting(),
        run.asserting(),
        run.revoking(),
    ];
    for kill in 0..kills() {
        let moment = RandomState::new().hash_one(kill) % ANSWERS;
        let goal = run.answered.load(Ordering::SeqCst) + usize::try_from(moment).unwrap();
        until("the service answers", || {
            run.answered.load(Ordering::SeqCst) >= goal
        });
        pair.pair.kill_token_service().unwrap();
        let down = run.down.write().unwrap();
        pair.pair.start_token_service().unwrap();
        drop(down);
    }
    for client in load {
        client.stop();
    }
    let unanswered = run.unanswered.load(Ordering::SeqCst);
    assert!(unanswered > 0, "no kill ever hit a request");
}

#[test]
fn what_a_file_acknowledged_survives_every_kill() {
    killed_again_and_again(&[]);
}

#[test]
fn what_a_database_acknowledged_survives_every_kill() {
    let repository = Artifacts::find().unwrap().repository;
    let database = Postgres::start(&repository).unwrap();
    killed_again_and_again(&[("TOKEN_SERVICE__STORE__URL", database.url())]);
}
