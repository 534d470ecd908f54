//! The client that does nothing wrong: it reads keys, gets tokens, calls the API, and a person signs in now and then.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use tests::browsing::{self, FORM, csrf};
use ureq::Agent;

use crate::tally::Observed;
use crate::target::{TOKEN_FORM, Target, basic};

/// Pauses of the program and of the person.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_OF_PERSON: Duration = Duration::from_secs(2);

/// Timeout of a request, longer than a person waits.
const PATIENCE: Duration = Duration::from_secs(30);

/// Operations of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Keys,
    Token,
    Call,
    /// A sign-in from a browser in which nobody has signed in before.
    SignIn,
    /// A sign-in from a browser in which the person has signed in before the attack.
    KnownDevice,
}

impl Operation {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Token => "token",
            Self::Call => "API call",
            Self::SignIn => "sign-in",
            Self::KnownDevice => "sign-in from a known device",
        }
    }
}

type Seen = BTreeMap<Operation, Observed>;

/// The running client.
pub(crate) struct Client {
    stop: Vec<Sender<()>>,
    threads: Vec<JoinHandle<Result<Seen>>>,
}

impl Client {
    /// Starts the client with an access token for the API and a browser that the service knows.
    pub(crate) fn start(target: &Target, token: String, known: KnownBrowser) -> Self {
        let mut client = Self {
            stop: Vec::new(),
            threads: Vec::new(),
        };
        let program = target.clone();
        client.spawn(PAUSE, move |agent, seen| {
            observe(seen, Operation::Keys, || {
                status(agent.get(format!("{}/auth/jwks", program.lobby)).call())
            });
            observe(seen, Operation::Token, || {
                let request = agent.post(format!("{}/auth/token", program.lobby));
                status(
                    request
                        .header("authorization", basic())
                        .content_type(FORM)
                        .send(TOKEN_FORM),
                )
            });
            observe(seen, Operation::Call, || {
                let request = agent.get(format!("{}/api/projects", program.api));
                status(
                    request
                        .header("authorization", format!("Bearer {token}"))
                        .call(),
                )
            });
        });
        let person = target.clone();
        client.spawn(PAUSE_OF_PERSON, move |_, seen| {
            // A new browser each time: no session, no cookie.
            observe(seen, Operation::SignIn, || sign_in(&person));
        });
        client.spawn(PAUSE_OF_PERSON, move |_, seen| {
            observe(seen, Operation::KnownDevice, || known.sign_in());
        });
        client
    }

    fn spawn(&mut self, pause: Duration, work: impl Fn(&Agent, &mut Seen) + Send + 'static) {
        let (stop, stopped): (Sender<()>, Receiver<()>) = channel();
        self.stop.push(stop);
        self.threads.push(std::thread::spawn(move || {
            let agent = agent();
            let mut seen = Seen::new();
            loop {
                work(&agent, &mut seen);
                if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                    return Ok(seen);
                }
            }
        }));
    }

    /// Stops the client and returns its results.
    pub(crate) fn stop(self) -> Result<Seen> {
        drop(self.stop);
        let mut all = Seen::new();
        for thread in self.threads {
            let seen = thread.join().map_err(|_| anyhow!("the client failed"))?;
            all.append(&mut seen?);
        }
        Ok(all)
    }
}

fn agent() -> Agent {
    browsing::agent(PATIENCE)
}

fn observe(seen: &mut Seen, operation: Operation, work: impl FnOnce() -> Result<u16>) {
    let start = Instant::now();
    let outcome = work().map_or_else(|error| error.to_string(), |status| status.to_string());
    let observed = seen.entry(operation).or_default();
    observed.record(&outcome, start.elapsed());
}

fn status(response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<u16> {
    let mut response = response?;
    // Read completely, so that the next request can use the connection.
    response.body_mut().read_to_vec()?;
    Ok(response.status().as_u16())
}

/// True if the API accepts the token within `patience`.
pub(crate) fn is_let_in(target: &Target, token: &str, patience: Duration) -> bool {
    let end = Instant::now() + patience;
    let agent = agent();
    while Instant::now() < end {
        let request = agent.get(format!("{}/api/projects", target.api));
        let answer = request
            .header("authorization", format!("Bearer {token}"))
            .call();
        if status(answer).is_ok_and(|status| status == 200) {
            return true;
        }
    }
    false
}

/// An access token of the demo's user-bound client.
///
/// # Errors
/// If the token service issues none.
pub(crate) fn token(target: &Target) -> Result<String> {
    let request = agent().post(format!("{}/auth/token", target.lobby));
    let mut response = request
        .header("authorization", basic())
        .content_type(FORM)
        .send(TOKEN_FORM)?;
    let answer: serde_json::Value = serde_json::from_str(&response.body_mut().read_to_string()?)?;
    let token = answer.get("access_token").and_then(|token| token.as_str());
    token.map(str::to_owned).context("no token")
}

/// The authorization request of the demo's web application.
pub(crate) const AUTHORIZE: &str = "/auth/authorize?response_type=code&client_id=web-demo&redirect_uri=http://127.0.0.1:8090/callback&state=abc";

/// The fields of a sign-in.
pub(crate) fn sign_in_form(csrf: &str, username: &str, password: &str) -> String {
    browsing::form_body(&[
        ("csrf", csrf),
        ("request", AUTHORIZE),
        ("username", username),
        ("password", password),
    ])
}

fn sign_in(target: &Target) -> Result<u16> {
    let browser = agent();
    let mut page = browser.get(format!("{}{AUTHORIZE}", target.lobby)).call()?;
    if page.status() != 200 {
        return Ok(page.status().as_u16());
    }
    let page = page.body_mut().read_to_string()?;
    post_form(
        &browser,
        &target.lobby,
        csrf(&page).context("the page has no form")?,
    )
}

fn post_form(browser: &Agent, lobby: &str, csrf: &str) -> Result<u16> {
    let form = sign_in_form(csrf, "grace@example.com", "demo-password-of-grace");
    let request = browser.post(format!("{lobby}/auth/sign-in"));
    let answer = request.content_type(FORM).send(form)?;
    match answer.status().as_u16() {
        // The service returned the page again, with the problem.
        200 => Ok(401),
        status => Ok(status),
    }
}

/// A browser in which the person has signed in: it has the cookie of a known device.
pub(crate) struct KnownBrowser {
    agent: Agent,
    lobby: String,
    csrf: String,
}

impl KnownBrowser {
    /// Signs the person in.
    ///
    /// # Errors
    /// If the token service does not let the person in.
    pub(crate) fn of(target: &Target) -> Result<Self> {
        let agent = agent();
        let mut page = agent.get(format!("{}{AUTHORIZE}", target.lobby)).call()?;
        let page = page.body_mut().read_to_string()?;
        let known = Self {
            agent,
            lobby: target.lobby.clone(),
            csrf: csrf(&page).context("the page has no form")?.to_owned(),
        };
        let status = known.sign_in()?;
        ensure!(status == 303, "signing in before the attack: {status}");
        Ok(known)
    }

    /// Signs in again, with the form of the first sign-in.
    fn sign_in(&self) -> Result<u16> {
        post_form(&self.agent, &self.lobby, &self.csrf)
    }
}
