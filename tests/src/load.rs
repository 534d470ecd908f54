//! The load: programs and people that use every grant and the API, and some whose requests must be refused.
//!
//! Each actor is a thread that repeats its round. After a failed request the actor starts a new round.

mod actors;
mod exactly_once;
mod ledger;

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::browsing::{action, csrf};
use crate::visitor::{Answer, Visitor};
use crate::{Artifacts, Issuer, Pair, pace};

pub use exactly_once::ExactlyOnce;
pub use ledger::{Ledger, Operation, Scope, Times};

/// Time from the expiry of a token until the filter must refuse the token. It tolerates clocks that differ by five
/// seconds.
const TOLERANCE: Duration = Duration::from_secs(7);

/// Time between two tokens whose expiry one actor waits for.
const BETWEEN_EXPIRED: Duration = Duration::from_secs(3);

/// Longest time until every gateway and replica must know a change.
const NOTICE: Duration = Duration::from_secs(10);

/// Longest time until a client gets tokens again that was disabled a moment ago (protocol.md §3).
const READMISSION: Duration = Duration::from_secs(16);

/// Number of requests in a row that show that every worker and replica knows a change.
const IN_A_ROW: u32 = 8;

/// Number of newest refused tokens that are tried again.
const DEAD_TOKENS: usize = 200;

const CALLBACK: &str = "http://127.0.0.1:8090/callback";
const LEGACY_CALLBACK: &str = "http://localhost:8765/callback";
const LEGACY_HOST: &str = "us1.legacy.example";
const LEGACY_AUTHORITY: &str = "sso-us1.legacy.example";

/// A registered client of the demo, as it authenticates itself.
#[derive(Debug, Clone, Copy)]
struct Client {
    id: &'static str,
    secret: Option<&'static str>,
}

const WEB: Client = Client {
    id: "web-demo",
    secret: Some("demo-secret-of-web-demo-not-for-real-use"),
};
const INSTALLED: Client = Client {
    id: "installed-demo",
    secret: None,
};
const NON_INTERACTIVE: Client = Client {
    id: "non-interactive-demo",
    secret: Some("demo-secret-of-non-interactive-demo-not-for-real-use"),
};
const USER_BOUND: Client = Client {
    id: "user-bound-demo",
    secret: Some("demo-secret-of-user-bound-demo-not-for-real-use"),
};

/// Username and password. Her oldest sessions end at the limit of protocol.md §8: the load signs her in all the time.
const ADA: (&str, &str) = ("ada@example.com", "demo-password-of-ada");

const USER: [(&str, &str); 3] = [
    ("grant_type", "client_credentials"),
    ("user_id", "1879048402"),
    ("user_site", "https://us1.example.com"),
];

/// State that all actors share.
#[derive(Debug)]
pub struct World {
    pub ledger: Ledger,
    lobby: String,
    api: String,
    legacy: String,
    internal: String,
    admin_token: String,
    /// Lifetime of the access tokens.
    access_token: Duration,
    artifacts: Artifacts,
    strangers: Issuer,
    /// Tokens that the API must refuse from now on.
    dead: Mutex<VecDeque<String>>,
    /// Of registered clients and assertions.
    number: AtomicU64,
}

impl World {
    /// The world around a pair whose access tokens have the lifetime `access_token`.
    ///
    /// # Errors
    /// If no key can be made for forged tokens.
    pub fn of(pair: &Pair, admin_token: &str, access_token: Duration) -> Result<Self> {
        Ok(Self {
            ledger: Ledger::default(),
            lobby: pair.lobby_url(),
            api: pair.api_url(),
            legacy: pair.legacy_url(),
            internal: pair.internal_url(),
            admin_token: admin_token.trim().to_owned(),
            access_token,
            artifacts: pair.artifacts().clone(),
            strangers: Issuer::new()?,
            dead: Mutex::default(),
            number: AtomicU64::default(),
        })
    }

    fn call_with(&self, visitor: &Visitor, token: &str) -> Result<Answer> {
        let authorization = format!("Bearer {token}");
        visitor.get(
            &format!("{}/api/projects", self.api),
            &[("authorization", &authorization)],
        )
    }

    /// The API accepts the token.
    fn let_in(&self, visitor: &Visitor, token: &str) -> Option<()> {
        self.ledger
            .expect(Operation::Call, &[200], || self.call_with(visitor, token))
            .map(drop)
    }

    /// The API refuses the token. The status is 503 while the filter cannot fetch the keys.
    fn kept_out(&self, visitor: &Visitor, token: &str) {
        self.ledger.expect(Operation::BadCall, &[401, 503], || {
            self.call_with(visitor, token)
        });
    }

    /// The API refuses the token soon, and from then on.
    fn soon_kept_out(&self, visitor: &Visitor, token: &str) {
        let refused = || {
            let answer = self.call_with(visitor, token);
            answer.is_ok_and(|answer| answer.status == 401)
        };
        if self.soon(NOTICE, &refused) {
            self.kept_out(visitor, token);
            let mut dead = self.dead.lock().unwrap_or_else(PoisonError::into_inner);
            dead.push_back(token.to_owned());
            if dead.len() > DEAD_TOKENS {
                dead.pop_front();
            }
        } else {
            let what = format!("PASSED {NOTICE:?} after it was revoked");
            self.ledger.surprise(Operation::BadCall, &what);
        }
    }

    /// Waits for a condition that must hold in this time after the last restart. Returns false if it does not.
    fn soon(&self, within: Duration, holds: &dyn Fn() -> bool) -> bool {
        let start = Instant::now();
        loop {
            if holds() {
                return true;
            }
            if self.ledger.undisturbed_since(start).elapsed() > within {
                return false;
            }
            pace();
        }
    }

    fn token(
        &self,
        operation: Operation,
        expected: u16,
        visitor: &Visitor,
        client: Client,
        fields: &[(&str, &str)],
    ) -> Option<Answer> {
        self.post_as(operation, expected, visitor, client, "/auth/token", fields)
    }

    fn post_as(
        &self,
        operation: Operation,
        expected: u16,
        visitor: &Visitor,
        client: Client,
        path: &str,
        fields: &[(&str, &str)],
    ) -> Option<Answer> {
        self.ledger.expect(operation, &[expected], || {
            self.post(visitor, client, path, fields)
        })
    }

    fn post(
        &self,
        visitor: &Visitor,
        client: Client,
        path: &str,
        fields: &[(&str, &str)],
    ) -> Result<Answer> {
        let url = format!("{}{path}", self.lobby);
        match client.secret {
            Some(secret) => visitor.post(
                &url,
                &[("authorization", &basic(client.id, secret))],
                fields,
            ),
            None => {
                let fields = [fields, &[("client_id", client.id)]].concat();
                visitor.post(&url, &[], &fields)
            }
        }
    }

    /// A request to the administration.
    pub fn administrate(
        &self,
        visitor: &Visitor,
        method: &str,
        path: &str,
        body: &str,
    ) -> Option<Answer> {
        let url = format!("{}/admin{path}", self.internal);
        let authorization = format!("Bearer {}", self.admin_token);
        let headers = [
            ("authorization", authorization.as_str()),
            ("content-type", "application/json"),
        ];
        self.ledger
            .expect(Operation::Administration, &[200, 201, 204], || {
                visitor.send(method, &url, &headers, body)
            })
    }

    /// Signs a person in and returns the code. `host` is the host name that the browser uses for `place`.
    fn code_of_person(
        &self,
        (username, password): (&str, &str),
        browser: &Visitor,
        place: &str,
        host: Option<&str>,
        request: &str,
    ) -> Option<String> {
        let headers: Vec<(&str, &str)> = host.map(|host| ("host", host)).into_iter().collect();
        let open = |operation, expected: &[u16], path: &str| {
            let url = match path.starts_with('/') {
                true => format!("{place}{path}"),
                false => path.to_owned(),
            };
            self.ledger
                .expect(operation, expected, || browser.get(&url, &headers))
        };
        let page = open(Operation::Page, &[200], request)?;
        let (Some(csrf), Some(action)) = (csrf(&page.body), action(&page.body)) else {
            self.ledger.surprise(Operation::Page, "there is no form");
            return None;
        };
        let fields = [
            ("csrf", csrf),
            ("request", request),
            ("username", username),
            ("password", password),
        ];
        let url = format!("{place}{action}");
        let signed_in = self.ledger.expect(Operation::SignIn, &[303], || {
            browser.post(&url, &headers, &fields)
        })?;
        let done = open(Operation::Page, &[302, 303], &signed_in.location?)?;
        let code = done.code().map(str::to_owned);
        if code.is_none() {
            let what = format!("no code in {:?}", done.location);
            self.ledger.surprise(Operation::Page, &what);
        }
        code
    }
}

fn basic(id: &str, secret: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")))
}

/// A thread that hashes for another thread, as fast as the machine lets it.
struct Machine(Sender<Sender<()>>);

impl Machine {
    fn start() -> Self {
        let (ask, asked) = channel::<Sender<()>>();
        std::thread::spawn(move || {
            for answer in asked {
                std::hint::black_box(digest(&SHA256, &[0; 65_536]));
                let _ = answer.send(());
            }
        });
        Self(ask)
    }

    /// Time from the question to the answer, of as many answers as a request takes hops through the pair. `None` if the
    /// thread ended.
    fn probe(&self) -> Option<Duration> {
        let start = Instant::now();
        for _ in 0..4 {
            let (answer, answered) = channel();
            self.0.send(answer).ok()?;
            answered.recv().ok()?;
        }
        Some(start.elapsed())
    }
}

/// The running load.
#[derive(Debug)]
pub struct Load {
    stop: Vec<Sender<()>>,
    actors: Vec<JoinHandle<()>>,
}

impl Load {
    /// Without actors.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            stop: Vec::new(),
            actors: Vec::new(),
        }
    }

    /// Every grant and the API.
    #[must_use]
    pub fn start(world: &Arc<World>) -> Self {
        let mut load = Self::none();
        let milliseconds = Duration::from_millis;
        let machine = Machine::start();
        load.spawn(world, milliseconds(50), move |world, _| {
            world.ledger.look_at_clock();
            if let Some(took) = machine.probe() {
                world.ledger.probed(took);
            }
        });
        for pause in [100, 130] {
            let mut held = VecDeque::new();
            load.spawn(world, milliseconds(pause), move |world, visitor| {
                world.machine(visitor, &mut held);
            });
        }
        load.spawn(world, milliseconds(500), |world, visitor| {
            world.integration(visitor);
        });
        for client in [WEB, INSTALLED] {
            let mut is_stolen = false;
            load.spawn(world, milliseconds(500), move |world, _| {
                world.person(client, is_stolen);
                is_stolen = !is_stolen;
            });
        }
        load.spawn(world, milliseconds(1_000), |world, visitor| {
            world.legacy(visitor);
        });
        load.spawn(world, milliseconds(300), |world, visitor| {
            world.stranger(visitor);
        });
        load.spawn(world, milliseconds(1_000), |world, visitor| {
            world.registrar(visitor);
        });
        load
    }

    fn spawn(
        &mut self,
        world: &Arc<World>,
        pause: Duration,
        mut round: impl FnMut(&World, &Visitor) + Send + 'static,
    ) {
        let (stop, stopped): (Sender<()>, Receiver<()>) = channel();
        self.stop.push(stop);
        let world = Arc::clone(world);
        self.actors.push(std::thread::spawn(move || {
            let visitor = Visitor::default();
            loop {
                round(&world, &visitor);
                if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        }));
    }

    /// Starts an actor that calls the API all the time with a token that it got before.
    pub fn hold_a_token(&mut self, world: &Arc<World>) {
        let mut held = None;
        self.spawn(world, Duration::from_millis(50), move |world, visitor| {
            world.holder(visitor, &mut held);
        });
    }

    /// Stops after the current rounds.
    ///
    /// # Errors
    /// If an actor panicked.
    pub fn stop(self) -> Result<()> {
        drop(self.stop);
        for actor in self.actors {
            actor.join().map_err(|_| anyhow!("an actor failed"))?;
        }
        Ok(())
    }
}
