//! A load: clients of the pair, the requests that all of them share, and what they expect.
//!
//! Each actor is a thread that repeats its round. After a failed request the actor starts a new round.

mod exactly_once;
mod ledger;

use std::collections::VecDeque;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::browsing::{action, csrf};
use crate::visitor::Visitor;
use crate::{Answer, Artifacts, Pair, pace};

pub use exactly_once::ExactlyOnce;
pub use ledger::{Ledger, Operation, Scope, Times};

/// Longest time until every gateway and replica must know a change.
pub const NOTICE: Duration = Duration::from_secs(10);

/// Number of newest refused tokens that are tried again.
const DEAD_TOKENS: usize = 200;

pub const CALLBACK: &str = "http://127.0.0.1:8090/callback";

/// A registered client of the demo, as it authenticates itself.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    pub id: &'static str,
    pub secret: Option<&'static str>,
}

impl Client {
    /// The value of its `Authorization` header.
    #[must_use]
    pub fn basic(self) -> String {
        basic(self.id, self.secret.unwrap_or_default())
    }

    /// The path of its request for a code.
    #[must_use]
    pub fn authorization(self) -> String {
        let id = self.id;
        format!(
            "/auth/authorize?response_type=code&client_id={id}&redirect_uri={CALLBACK}&state=abc"
        )
    }
}

pub const WEB: Client = Client {
    id: "web-demo",
    secret: Some("demo-secret-of-web-demo-not-for-real-use"),
};
pub const INSTALLED: Client = Client {
    id: "installed-demo",
    secret: None,
};
pub const NON_INTERACTIVE: Client = Client {
    id: "non-interactive-demo",
    secret: Some("demo-secret-of-non-interactive-demo-not-for-real-use"),
};
pub const USER_BOUND: Client = Client {
    id: "user-bound-demo",
    secret: Some("demo-secret-of-user-bound-demo-not-for-real-use"),
};

pub const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// The fields that exchange a code.
#[must_use]
pub const fn exchange_of(code: &str) -> [(&str, &str); 3] {
    [
        ("grant_type", "authorization_code"),
        ("redirect_uri", CALLBACK),
        ("code", code),
    ]
}

/// The fields of a refresh.
#[must_use]
pub const fn refresh_of(token: &str) -> [(&str, &str); 2] {
    [("grant_type", "refresh_token"), ("refresh_token", token)]
}

/// A token request of [`USER_BOUND`], for one of the accounts of its user.
pub const CREDENTIALS: [(&str, &str); 3] = [
    ("grant_type", "client_credentials"),
    ("user_id", "1879048402"),
    ("user_site", "https://us1.example.com"),
];

/// State that all actors share.
#[derive(Debug)]
pub struct World {
    pub ledger: Ledger,
    pub lobby: String,
    pub api: String,
    pub legacy: String,
    internal: String,
    admin_token: String,
    artifacts: Artifacts,
    /// Tokens that the API must refuse from now on.
    dead: Mutex<VecDeque<String>>,
}

impl World {
    /// The world around a pair.
    #[must_use]
    pub fn of(pair: &Pair, admin_token: &str) -> Self {
        Self {
            ledger: Ledger::default(),
            lobby: pair.lobby_url(),
            api: pair.api_url(),
            legacy: pair.legacy_url(),
            internal: pair.internal_url(),
            admin_token: admin_token.trim().to_owned(),
            artifacts: pair.artifacts().clone(),
            dead: Mutex::default(),
        }
    }

    /// The newest tokens that the API must refuse, up to this number.
    pub fn dead(&self, most: usize) -> Vec<String> {
        let dead = self.dead.lock().unwrap_or_else(PoisonError::into_inner);
        dead.iter().rev().take(most).cloned().collect()
    }

    /// A new assertion about Ada, of [`NON_INTERACTIVE`].
    ///
    /// # Errors
    /// If the token service cannot make one.
    pub fn assertion(&self) -> Result<String> {
        let demo = self.artifacts.repository.join("demo");
        let output = Command::new(&self.artifacts.token_service)
            .arg("assertion")
            .arg("--key")
            .arg(demo.join("non-interactive-demo.key.pem"))
            .args(["--alias", "demo-2020", "--client-id", NON_INTERACTIVE.id])
            .args(["--user", "ada@example.com"])
            .args(["--audience", "https://identity.example.com/"])
            .output()?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    /// A request to the API with a token.
    ///
    /// # Errors
    /// Without a complete response.
    pub fn call_with(&self, visitor: &Visitor, token: &str) -> Result<Answer> {
        let authorization = format!("Bearer {token}");
        visitor.get(
            &format!("{}/api/projects", self.api),
            &[("authorization", &authorization)],
        )
    }

    /// The API accepts the token.
    pub fn let_in(&self, visitor: &Visitor, token: &str) -> Option<()> {
        self.ledger
            .expect(Operation::Call, &[200], || self.call_with(visitor, token))
            .map(drop)
    }

    /// The API refuses the token. The status is 503 while the filter cannot fetch the keys.
    pub fn kept_out(&self, visitor: &Visitor, token: &str) {
        self.ledger.expect(Operation::BadCall, &[401, 503], || {
            self.call_with(visitor, token)
        });
    }

    /// The API refuses the token within this time, and from then on.
    pub fn soon_kept_out(&self, visitor: &Visitor, token: &str, within: Duration) {
        let refused = || {
            let answer = self.call_with(visitor, token);
            answer.is_ok_and(|answer| answer.status == 401)
        };
        if self.soon(within, &refused) {
            self.kept_out(visitor, token);
            let mut dead = self.dead.lock().unwrap_or_else(PoisonError::into_inner);
            dead.push_back(token.to_owned());
            if dead.len() > DEAD_TOKENS {
                dead.pop_front();
            }
        } else {
            let what = format!("PASSED {within:?} after it was revoked");
            self.ledger.surprise(Operation::BadCall, &what);
        }
    }

    /// Waits for a condition that must hold in this time after the last restart. Returns false if it does not.
    pub fn soon(&self, within: Duration, holds: &dyn Fn() -> bool) -> bool {
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

    pub fn token(
        &self,
        operation: Operation,
        expected: u16,
        visitor: &Visitor,
        client: Client,
        fields: &[(&str, &str)],
    ) -> Option<Answer> {
        self.ledger.expect(operation, &[expected], || {
            self.post(visitor, client, "/auth/token", fields)
        })
    }

    /// A form that the client posts to the authorization server.
    ///
    /// # Errors
    /// Without a complete response.
    pub fn post(
        &self,
        visitor: &Visitor,
        client: Client,
        path: &str,
        fields: &[(&str, &str)],
    ) -> Result<Answer> {
        let url = format!("{}{path}", self.lobby);
        match client.secret {
            Some(_) => visitor.post(&url, &[("authorization", &client.basic())], fields),
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
    pub fn code_of_person(
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
        let done = open(Operation::Page, &[302, 303], signed_in.header("location")?)?;
        let code = done.code().map(str::to_owned);
        if code.is_none() {
            let what = format!("no code in {:?}", done.header("location"));
            self.ledger.surprise(Operation::Page, &what);
        }
        code
    }
}

/// The value of the `Authorization` header with these credentials.
#[must_use]
pub fn basic(id: &str, secret: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")))
}

#[derive(Debug, Default)]
pub struct Load {
    stop: Vec<Sender<()>>,
    actors: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts an actor, which pauses between its rounds.
    pub fn spawn(
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
