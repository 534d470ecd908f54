//! What the guard fetches: which fetches are due, and what it does with their results.

use keys::endpoint::Endpoint;
use keys::schedule::TIMEOUT_SECONDS;

use super::{Guard, hand_over};
use crate::clock::Time;
use crate::fetch::{Fetch, FetchKind, Form};
use crate::introspection::Fault;

impl Guard {
    /// Returns the fetches to start now, and counts each as started. Here and in the methods below, times are
    /// seconds of the steady clock.
    pub(crate) fn due(&mut self, now: u64) -> Vec<Fetch> {
        let mut due = Vec::new();
        let issuers = self.issuers.iter_mut().zip(&self.config.issuers);
        for (issuer, (state, config)) in issuers.enumerate() {
            let keys = state.due_for_keys(config, now);
            due.extend(keys.map(|(kind, endpoint)| Fetch {
                issuer,
                kind,
                endpoint,
                timeout: TIMEOUT_SECONDS,
                form: None,
            }));
            let Some(source) = &config.introspection else {
                continue;
            };
            let questions = state.introspection.due(source, now);
            due.extend(questions.into_iter().map(|(question, body)| Fetch {
                issuer,
                kind: FetchKind::Introspection(question),
                endpoint: source.endpoint.clone(),
                timeout: TIMEOUT_SECONDS,
                form: Some(Form {
                    authorization: source.authorization.clone(),
                    body,
                }),
            }));
        }
        for shared in self.own_feeds() {
            let mut feed = shared.write();
            if let Some(request) = feed.due(now) {
                due.push(Fetch {
                    issuer: shared.issuer,
                    kind: FetchKind::Revocations,
                    endpoint: Endpoint {
                        path: request.path,
                        ..feed.endpoint().clone()
                    },
                    timeout: request.timeout,
                    form: None,
                });
            }
        }
        due
    }

    /// Applies the `body` of a fetch. Known keys stay in use unless the new set holds a usable key. Returns
    /// remarks for the log.
    ///
    /// # Errors
    /// What is wrong with the body, for the log.
    pub(crate) fn fetched(
        &mut self,
        issuer: usize,
        kind: FetchKind,
        body: &[u8],
        now: u64,
    ) -> Result<Vec<String>, String> {
        let (Some(state), Some(config)) = (
            self.issuers.get_mut(issuer),
            self.config.issuers.get(issuer),
        ) else {
            return Ok(Vec::new());
        };
        let outcome = match kind {
            FetchKind::Metadata => state.discovered(body, config, now).map(|()| Vec::new()),
            FetchKind::Keys => {
                let replaced = state.replace_keys(body, config, now);
                if replaced.is_ok() {
                    hand_over::keys(config, &*self.host.shared_data, body, now);
                }
                replaced
            }
            FetchKind::Introspection(question) => {
                let time = Time {
                    steady: now,
                    ..self.time
                };
                let answered = config.introspection.as_ref().map(|source| {
                    let introspection = &mut state.introspection;
                    introspection.answered(source, question, body, time)
                });
                answered.unwrap_or(Ok(())).map(|()| Vec::new())
            }
            FetchKind::Revocations => {
                let time = Time {
                    steady: now,
                    ..self.time
                };
                let feed = state.feed.and_then(|feed| self.feeds.get(feed));
                let answered =
                    feed.map(|shared| shared.write().answered(body, &*self.host.shared_data, time));
                answered.unwrap_or(Ok(())).map(|()| Vec::new())
            }
        };
        if outcome.is_err() {
            self.ended_without_use(issuer, kind, Fault::Token, now);
        }
        outcome
    }

    /// A fetch brought no body. `status`: of the response, if there was one.
    pub(crate) fn failed(&mut self, issuer: usize, kind: FetchKind, status: Option<u16>, now: u64) {
        let fault = Fault::of_status(status);
        self.ended_without_use(issuer, kind, fault, now);
    }

    /// `fault`: what an introspection failed for.
    fn ended_without_use(&mut self, issuer: usize, kind: FetchKind, fault: Fault, now: u64) {
        match kind {
            FetchKind::Metadata | FetchKind::Keys => {
                let state = self.issuers.get_mut(issuer);
                if let Some((state, config)) = state.zip(self.config.issuers.get(issuer)) {
                    state.keys_failed(kind, config, now);
                }
            }
            FetchKind::Introspection(question) => {
                if let Some(state) = self.issuers.get_mut(issuer) {
                    state.introspection.failed(question, fault, now);
                }
            }
            FetchKind::Revocations => {
                if let Some(shared) = self.feed(issuer) {
                    shared.write().failed(now);
                }
            }
        }
    }

    /// True if another fetch follows at once, so that the requests that waited for `fetch` must wait for that
    /// one too. `is_usable`: `fetch` returned something usable.
    pub(crate) fn goes_on(&self, fetch: &Fetch, is_usable: bool, now: u64) -> bool {
        let state = self.issuers.get(fetch.issuer);
        let is_repeated = || {
            let schedule = state.and_then(|state| state.key_schedule.as_ref());
            !is_usable && schedule.is_some_and(|schedule| schedule.is_due(now))
        };
        match fetch.kind {
            FetchKind::Metadata => {
                state.is_some_and(|state| state.discovered.is_some()) || is_repeated()
            }
            FetchKind::Keys => is_repeated(),
            FetchKind::Revocations => is_usable && self.is_catching_up(fetch.issuer),
            FetchKind::Introspection(_) => false,
        }
    }

    /// True if the guard has keys of this issuer.
    pub(crate) fn has_keys(&self, issuer: usize) -> bool {
        self.issuers
            .get(issuer)
            .is_some_and(|state| !state.keys.is_empty())
    }

    /// True if a fetch of this kind ever returned something usable.
    pub(crate) fn is_known(&self, issuer: usize, kind: FetchKind) -> bool {
        let state = || self.issuers.get(issuer);
        match kind {
            FetchKind::Metadata => state().is_some_and(|state| state.discovered.is_some()),
            FetchKind::Keys => self.has_keys(issuer),
            FetchKind::Introspection(_) => {
                state().is_some_and(|state| state.introspection.is_known())
            }
            FetchKind::Revocations => {
                let shared = self.feed(issuer);
                shared.is_some_and(|shared| shared.read().completed_at().is_some())
            }
        }
    }
}
