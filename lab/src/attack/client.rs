//! The client that does nothing wrong: it reads keys, gets tokens, calls the API, and a person signs in now and then.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tests::Answer;
use tests::browsing::{FORM, csrf, form_body};
use tests::load::{CREDENTIALS, Load, USER_BOUND, WEB, World};
use tests::visitor::Visitor;

use super::tally::Observed;

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

    const fn is_sign_in(self) -> bool {
        matches!(self, Self::SignIn | Self::KnownDevice)
    }
}

type Seen = BTreeMap<Operation, Observed>;

/// The running client.
pub(crate) struct Client {
    load: Load,
    seen: Arc<Mutex<Seen>>,
}

impl Client {
    /// Starts the client with an access token for the API and a browser that the service knows.
    pub(crate) fn start(world: &Arc<World>, token: String, known: Browser) -> Self {
        let mut client = Self {
            load: Load::default(),
            seen: Arc::default(),
        };
        client.spawn(world, PAUSE, move |world, visitor, observe| {
            let keys = format!("{}/auth/jwks", world.lobby);
            observe(Operation::Keys, &|| visitor.get(&keys, &[]));
            observe(Operation::Token, &|| ask_for_token(world, visitor));
            observe(Operation::Call, &|| world.call_with(visitor, &token));
        });
        client.spawn(world, PAUSE_OF_PERSON, |world, _, observe| {
            // A new browser each time: no session, no cookie.
            observe(Operation::SignIn, &|| sign_in(world));
        });
        client.spawn(world, PAUSE_OF_PERSON, move |world, _, observe| {
            observe(Operation::KnownDevice, &|| known.sign_in(world));
        });
        client
    }

    fn spawn(
        &mut self,
        world: &Arc<World>,
        pause: Duration,
        work: impl Fn(&World, &Visitor, &Observe<'_>) + Send + 'static,
    ) {
        let seen = Arc::clone(&self.seen);
        self.load.spawn(world, pause, move |world, visitor| {
            work(world, visitor, &|operation, request| {
                let start = Instant::now();
                let outcome = match request() {
                    // The service returned the page again, with the problem.
                    Ok(answer) if operation.is_sign_in() && answer.status == 200 => {
                        "401".to_owned()
                    }
                    Ok(answer) => answer.status.to_string(),
                    Err(error) => error.to_string(),
                };
                let took = start.elapsed();
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.entry(operation).or_default().record(&outcome, took);
            });
        });
    }

    /// Stops the client and returns its results.
    pub(crate) fn stop(self) -> Result<Seen> {
        self.load.stop()?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut seen))
    }
}

/// Sends a request, and records what it got.
type Observe<'a> = dyn Fn(Operation, &dyn Fn() -> Result<Answer>) + 'a;

fn ask_for_token(world: &World, visitor: &Visitor) -> Result<Answer> {
    world.post(visitor, USER_BOUND, "/auth/token", &CREDENTIALS)
}

/// An access token of the demo's user-bound client.
///
/// # Errors
/// If the token service issues none.
pub(crate) fn token(world: &World) -> Result<String> {
    let answer = ask_for_token(world, &Visitor::default())?;
    answer.member("access_token").context("no token")
}

/// The form of a sign-in for the demo's web application.
pub(crate) fn sign_in_form(csrf: &str, username: &str, password: &str) -> String {
    form_body(&[
        ("csrf", csrf),
        ("request", &WEB.authorization()),
        ("username", username),
        ("password", password),
    ])
}

/// Opens the sign-in page.
pub(crate) fn open_page(world: &World, browser: &Visitor) -> Result<Answer> {
    browser.get(&format!("{}{}", world.lobby, WEB.authorization()), &[])
}

/// Signs the person in with a new browser.
fn sign_in(world: &World) -> Result<Answer> {
    let browser = Visitor::default();
    let page = open_page(world, &browser)?;
    match page.status {
        200 => Browser::at(browser, &page)?.sign_in(world),
        _ => Ok(page),
    }
}

/// A browser at the sign-in page.
pub(crate) struct Browser {
    visitor: Visitor,
    csrf: String,
}

impl Browser {
    fn at(visitor: Visitor, page: &Answer) -> Result<Self> {
        let csrf = csrf(&page.body).context("the page has no form")?.to_owned();
        Ok(Self { visitor, csrf })
    }

    /// A browser in which the person has signed in: it has the cookie of a known device.
    ///
    /// # Errors
    /// If the token service does not let the person in.
    pub(crate) fn known(world: &World) -> Result<Self> {
        let visitor = Visitor::default();
        let page = open_page(world, &visitor)?;
        let known = Self::at(visitor, &page)?;
        let status = known.sign_in(world)?.status;
        ensure!(status == 303, "signing in before the attack: {status}");
        Ok(known)
    }

    /// Signs the person in, with the form of the page.
    fn sign_in(&self, world: &World) -> Result<Answer> {
        let form = sign_in_form(&self.csrf, "grace@example.com", "demo-password-of-grace");
        let url = format!("{}/auth/sign-in", world.lobby);
        let headers = [("content-type", FORM)];
        self.visitor.send("POST", &url, &headers, form)
    }
}
