//! The client that does nothing wrong: it reads keys, gets tokens, calls the API, and a person signs in now and then.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use tests::Answer;
use tests::browsing::{self, FORM, csrf};
use tests::visitor::Visitor;

use super::tally::Observed;
use super::target::{TOKEN_FORM, Target, basic};

/// Pauses of the program and of the person.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_OF_PERSON: Duration = Duration::from_secs(2);

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
        client.spawn(PAUSE, move |visitor, seen| {
            observe(seen, Operation::Keys, || {
                let keys = visitor.get(&format!("{}/auth/jwks", program.lobby), &[]);
                Ok(keys?.status)
            });
            observe(seen, Operation::Token, || {
                Ok(ask_for_token(visitor, &program)?.status)
            });
            observe(seen, Operation::Call, || call(visitor, &program, &token));
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

    fn spawn(&mut self, pause: Duration, work: impl Fn(&Visitor, &mut Seen) + Send + 'static) {
        let (stop, stopped): (Sender<()>, Receiver<()>) = channel();
        self.stop.push(stop);
        self.threads.push(std::thread::spawn(move || {
            let visitor = Visitor::default();
            let mut seen = Seen::new();
            loop {
                work(&visitor, &mut seen);
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

fn observe(seen: &mut Seen, operation: Operation, work: impl FnOnce() -> Result<u16>) {
    let start = Instant::now();
    let outcome = work().map_or_else(|error| error.to_string(), |status| status.to_string());
    let observed = seen.entry(operation).or_default();
    observed.record(&outcome, start.elapsed());
}

fn ask_for_token(visitor: &Visitor, target: &Target) -> Result<Answer> {
    let headers = [("authorization", &*basic()), ("content-type", FORM)];
    visitor.send(
        "POST",
        &format!("{}/auth/token", target.lobby),
        &headers,
        TOKEN_FORM,
    )
}

fn call(visitor: &Visitor, target: &Target, token: &str) -> Result<u16> {
    let bearer = format!("Bearer {token}");
    let url = format!("{}/api/projects", target.api);
    Ok(visitor.get(&url, &[("authorization", &bearer)])?.status)
}

/// True if the API accepts the token within `patience`.
pub(crate) fn is_let_in(target: &Target, token: &str, patience: Duration) -> bool {
    let end = Instant::now() + patience;
    let visitor = Visitor::default();
    while Instant::now() < end {
        if call(&visitor, target, token).is_ok_and(|status| status == 200) {
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
    let answer = ask_for_token(&Visitor::default(), target)?;
    answer.member("access_token").context("no token")
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
    let browser = Visitor::default();
    let page = browser.get(&format!("{}{AUTHORIZE}", target.lobby), &[])?;
    if page.status != 200 {
        return Ok(page.status);
    }
    let csrf = csrf(&page.body).context("the page has no form")?;
    post_form(&browser, &target.lobby, csrf)
}

fn post_form(browser: &Visitor, lobby: &str, csrf: &str) -> Result<u16> {
    let form = sign_in_form(csrf, "grace@example.com", "demo-password-of-grace");
    let url = format!("{lobby}/auth/sign-in");
    match browser
        .send("POST", &url, &[("content-type", FORM)], form)?
        .status
    {
        // The service returned the page again, with the problem.
        200 => Ok(401),
        status => Ok(status),
    }
}

/// A browser in which the person has signed in: it has the cookie of a known device.
pub(crate) struct KnownBrowser {
    visitor: Visitor,
    lobby: String,
    csrf: String,
}

impl KnownBrowser {
    /// Signs the person in.
    ///
    /// # Errors
    /// If the token service does not let the person in.
    pub(crate) fn of(target: &Target) -> Result<Self> {
        let visitor = Visitor::default();
        let page = visitor.get(&format!("{}{AUTHORIZE}", target.lobby), &[])?;
        let known = Self {
            visitor,
            lobby: target.lobby.clone(),
            csrf: csrf(&page.body).context("the page has no form")?.to_owned(),
        };
        let status = known.sign_in()?;
        ensure!(status == 303, "signing in before the attack: {status}");
        Ok(known)
    }

    /// Signs in again, with the form of the first sign-in.
    fn sign_in(&self) -> Result<u16> {
        post_form(&self.visitor, &self.lobby, &self.csrf)
    }
}
