//! Clients that record what the service acknowledged: the service must lose none of it, and accept nothing twice. A
//! request without a response may or may not have taken effect; a client that repeats the request loses nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::{
    JWT_BEARER, Load, NON_INTERACTIVE, Operation, Scope, WEB, World, exchange_of, refresh_of,
};
use crate::visitor::Visitor;
use crate::{Answer, pace};

/// Username and password of a person who signs in a few times only, so that no session ends at the limit.
const PERSON: (&str, &str) = ("once@example.com", "password-of-once");

/// State that the clients share. What they find wrong is in the [`Ledger`](super::Ledger) of the world.
#[derive(Debug)]
pub struct ExactlyOnce {
    world: Arc<World>,
    /// Longest time until the API refuses a revoked token.
    notice: Duration,
    /// Responses of the service.
    pub answered: AtomicUsize,
    /// Requests that got 503 with `Retry-After`.
    pub unanswered: AtomicUsize,
    /// Write-locked while the service is known to be down: clients wait.
    pub down: RwLock<()>,
}

impl ExactlyOnce {
    /// Registers the person for whom the clients act.
    #[must_use]
    pub fn of(world: &Arc<World>, notice: Duration) -> Arc<Self> {
        let (username, password) = PERSON;
        let site = "https://us1.example.com";
        let user = json!({
            "username": username, "email": username, "password": password,
            "accounts": [{"user_id": "once", "username": "once", "site": site}],
        });
        // The ledger notes a failure.
        let _ = world.administrate(&Visitor::default(), "POST", "/users", &user.to_string());
        Arc::new(Self {
            world: Arc::clone(world),
            notice,
            answered: AtomicUsize::default(),
            unanswered: AtomicUsize::default(),
            down: RwLock::default(),
        })
    }

    /// Adds two clients that refresh, two with assertions and one that revokes. They repeat what got 503. The person signs in
    /// before, because a sign-in that a kill cuts off counts as a wrong attempt.
    pub fn start(self: &Arc<Self>, load: &mut Load) {
        for _ in 0..2 {
            let clients = Arc::clone(self);
            let mut live = self.first_token();
            load.spawn(&self.world, Duration::ZERO, move |_, visitor| {
                clients.refreshing(visitor, &mut live);
            });
            let clients = Arc::clone(self);
            load.spawn(&self.world, Duration::ZERO, move |_, visitor| {
                clients.asserting(visitor);
            });
        }
        let (clients, mut person) = (Arc::clone(self), None);
        self.grant(&mut person);
        load.spawn(&self.world, Duration::ZERO, move |_, visitor| {
            clients.revoking(visitor, &mut person);
        });
    }

    /// The refresh token of a new grant.
    fn first_token(&self) -> Option<String> {
        self.grant(&mut None)?.1.member("refresh_token")
    }

    /// The service's response; `None` if the request must be repeated, or failed otherwise.
    fn ask(
        &self,
        operation: Operation,
        request: impl FnOnce() -> Result<Answer>,
    ) -> Option<Answer> {
        drop(self.down.read().unwrap_or_else(PoisonError::into_inner));
        match request() {
            Ok(answer) if answer.names_a_retry() => {
                self.world.ledger.note(operation, false);
                self.unanswered.fetch_add(1, Ordering::SeqCst);
                pace();
                None
            }
            Ok(answer) => {
                self.world.ledger.note(operation, true);
                self.answered.fetch_add(1, Ordering::SeqCst);
                Some(answer)
            }
            Err(error) => {
                self.world
                    .ledger
                    .surprise(operation, &format!("NO RETRY named: {error:#}"));
                None
            }
        }
    }

    /// Repeats a request until a response arrives.
    fn insist(&self, operation: Operation, request: impl Fn() -> Result<Answer>) -> Answer {
        loop {
            if let Some(answer) = self.ask(operation, &request) {
                return answer;
            }
        }
    }

    /// True if the answer has this status. Otherwise notes what that means.
    fn is(&self, operation: Operation, answer: &Answer, status: u16, otherwise: &str) -> bool {
        if answer.status != status {
            let what = format!("{otherwise}: {} {}", answer.status, answer.body);
            self.world.ledger.surprise(operation, &what);
        }
        answer.status == status
    }

    fn token(&self, operation: Operation, visitor: &Visitor, fields: &[(&str, &str)]) -> Answer {
        self.insist(operation, || {
            self.world.post(visitor, WEB, "/auth/token", fields)
        })
    }

    fn refresh(&self, visitor: &Visitor, token: &str) -> Answer {
        self.token(Operation::Refresh, visitor, &refresh_of(token))
    }

    /// The code and the tokens of a new grant for the person who is signed in at `person`. The person must not have to sign in
    /// again.
    fn grant(&self, person: &mut Option<Visitor>) -> Option<(String, Answer)> {
        let world = &self.world;
        let request = WEB.authorization();
        if person.is_none() {
            let browser = Visitor::default();
            // After a restart too, a busy service may ask for another attempt: the next round makes it.
            world.ledger.during_outage(Scope::Retryable, || {
                world.code_of_person(PERSON, &browser, &world.lobby, None, &request)
            })?;
            *person = Some(browser);
        }
        let browser = person.as_ref()?;
        let url = format!("{}{request}", world.lobby);
        loop {
            let page = self.insist(Operation::Page, || browser.get(&url, &[]));
            let Some(code) = page.code() else {
                let what = format!("LOST, the session: {}", page.status);
                world.ledger.surprise(Operation::Page, &what);
                *person = None;
                return None;
            };
            let exchange = || world.post(browser, WEB, "/auth/token", &exchange_of(code));
            // Without a response, the code may have been used, so start again.
            if let Some(answer) = self.ask(Operation::Code, exchange) {
                return self
                    .is(Operation::Code, &answer, 200, "LOST")
                    .then(|| (code.to_owned(), answer));
            }
        }
    }

    /// Continues from the last refresh token. That token works, and the token before it has no other successor.
    fn refreshing(&self, visitor: &Visitor, live: &mut Option<String>) -> Option<()> {
        let token = match live.take() {
            Some(token) => token,
            None => self.first_token()?,
        };
        let refreshed = self.refresh(visitor, &token);
        if !self.is(Operation::Refresh, &refreshed, 200, "LOST") {
            return None;
        }
        let successor = refreshed.member("refresh_token");
        let repeated = self.refresh(visitor, &token);
        if !self.is(Operation::Refresh, &repeated, 200, "LOST") {
            return None;
        }
        if repeated.member("refresh_token") != successor {
            self.world.ledger.surprise(Operation::Refresh, "USED TWICE");
        }
        *live = successor;
        Some(())
    }

    /// Sends each assertion twice. The service accepts the assertion once at most.
    fn asserting(&self, visitor: &Visitor) -> Option<()> {
        let world = &self.world;
        let assertion = world.assertion().ok()?;
        let fields = [("grant_type", JWT_BEARER), ("assertion", &*assertion)];
        let assert = || world.post(visitor, NON_INTERACTIVE, "/auth/token", &fields);
        let first = self.insist(Operation::JwtBearer, assert);
        if first.status != 200 {
            // An earlier attempt may have used it.
            self.is(Operation::JwtBearer, &first, 400, "REFUSED otherwise");
        }
        let second = self.insist(Operation::JwtBearer, assert);
        self.is(Operation::JwtBearer, &second, 400, "ACCEPTED TWICE");
        Some(())
    }

    /// Revokes tokens and gets new ones. Revoked tokens stay revoked, also at the API, their code stays used, and the person
    /// stays signed in.
    fn revoking(&self, visitor: &Visitor, person: &mut Option<Visitor>) -> Option<()> {
        let (code, tokens) = self.grant(person)?;
        let (access, token) = (
            tokens.member("access_token")?,
            tokens.member("refresh_token")?,
        );
        let fields = [("token", &*token)];
        let revoke = || self.world.post(visitor, WEB, "/auth/revoke", &fields);
        let revoked = self.insist(Operation::Revoke, revoke);
        self.is(Operation::Revoke, &revoked, 200, "REFUSED");
        let dead = self.refresh(visitor, &token);
        self.is(Operation::Refresh, &dead, 400, "LIVES AGAIN");
        let used = self.token(Operation::Code, visitor, &exchange_of(&code));
        self.is(Operation::Code, &used, 400, "USED TWICE");
        self.world.soon_kept_out(visitor, &access, self.notice);
        Some(())
    }
}
