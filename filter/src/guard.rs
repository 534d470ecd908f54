//! Decides about requests (design section 7). It holds all state of one VM and calls nobody: the time comes in
//! with each call, and what must be fetched goes out as a value.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::answers::{self, Answer, Denial};
use crate::authorization::{self, Credentials};
use crate::cache::{CachedToken, TokenCache};
use crate::config::{Config, Endpoint, IssuerConfig, KeySource, WhenStale};
use crate::fetch::Schedule;
use crate::forward::{self, Header, Stripped};
use crate::keys::{KeySet, Skipped};
use crate::revocations::{Applied, Revocations};
use crate::rules::{self, Access};
use crate::signature::{HostVerifier, NoHostVerifier};
use crate::verify::{self, ParsedToken, Refusal, TokenReference, VerifiedToken};

/// What the filter reads of a request, as sent.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// `:method`.
    pub method: &'a [u8],
    /// `:path`, its query included.
    pub target: &'a [u8],
    /// Every `Authorization` header.
    pub authorization: &'a [&'a [u8]],
}

/// Whether a request may be held until something has been fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// It may wait.
    Left,
    /// It has waited.
    Over,
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It goes on, with these headers added.
    Allow(Rc<[Header]>),
    /// The filter answers itself.
    Answer(Answer),
    /// It is refused.
    Deny(Denial),
    /// It waits until this has been fetched.
    Wait {
        /// Index of the issuer.
        issuer: usize,
        /// What of the issuer.
        subject: Subject,
    },
}

/// A decision, and about whom it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What becomes of the request.
    pub decision: Decision,
    /// The token that it came with, once that is verified.
    pub token: Option<Rc<TokenReference>>,
}

impl From<Decision> for Outcome {
    fn from(decision: Decision) -> Self {
        Self {
            decision,
            token: None,
        }
    }
}

impl From<Denial> for Outcome {
    fn from(denial: Denial) -> Self {
        Decision::Deny(denial).into()
    }
}

/// What is fetched of an issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Its JWK set.
    Keys,
    /// Its revocation feed.
    Revocations,
}

/// A fetch that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// Index of the issuer.
    pub issuer: usize,
    /// What.
    pub subject: Subject,
    /// From where; the path includes the query.
    pub endpoint: Endpoint,
}

/// What happened since the counts were last taken.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Requests let in with a token.
    pub allowed: u64,
    /// Requests let in on anonymous paths.
    pub anonymous: u64,
    /// Requests let in that would have been refused, had the mode not been report-only.
    pub reported: u64,
    /// Tokens that the cache knew.
    pub cache_hits: u64,
    /// Tokens that it did not.
    pub cache_misses: u64,
    /// Refusals by name.
    pub denied: BTreeMap<&'static str, u64>,
}

#[derive(Debug)]
struct IssuerState {
    keys: KeySet,
    /// `None` for inline keys.
    key_schedule: Option<Schedule>,
    keys_fetched_at: Option<u64>,
    /// What was last remarked about keys that cannot be used.
    skipped_keys: Skipped,
    revocations: Revocations,
    /// `None` without a feed.
    revocation_schedule: Option<Schedule>,
}

/// All state of one VM.
#[derive(Debug)]
pub struct Guard {
    config: Config,
    by_name: BTreeMap<String, usize>,
    stripped: Stripped,
    issuers: Vec<IssuerState>,
    cache: TokenCache,
    counts: Counts,
    no_headers: Rc<[Header]>,
    host: Box<dyn HostVerifier>,
}

impl Guard {
    /// A guard that knows nothing yet but inline keys.
    #[must_use]
    pub fn new(mut config: Config) -> Self {
        let issuers = config.issuers.iter_mut().map(IssuerState::new).collect();
        let mut by_name = BTreeMap::new();
        for (index, issuer) in config.issuers.iter().enumerate() {
            by_name.insert(issuer.issuer.clone(), index);
        }
        Self {
            by_name,
            stripped: Stripped::new(&config),
            issuers,
            cache: TokenCache::new(config.token_cache_entries, config.token_cache_bytes),
            counts: Counts::default(),
            no_headers: Rc::new([]),
            host: Box::new(NoHostVerifier),
            config,
        }
    }

    /// With signatures checked by the host, where it can.
    #[must_use]
    pub fn with_host(self, host: Box<dyn HostVerifier>) -> Self {
        Self { host, ..self }
    }

    /// The configuration.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Whether a request header must be removed, whatever becomes of the request.
    #[must_use]
    pub fn strips(&self, header: &[u8]) -> bool {
        self.stripped.has(header)
    }

    /// Decides. `tick` is the time of the last tick, good to a second; `clock` is asked for the exact time only
    /// when a token is seen for the first time. Seconds since 1970.
    pub fn decide(
        &mut self,
        request: Request<'_>,
        patience: Patience,
        tick: u64,
        clock: impl FnOnce() -> u64,
    ) -> Outcome {
        let outcome = self.decide_strictly(request, patience, tick, clock);
        if let Decision::Deny(denial) = &outcome.decision {
            *self.counts.denied.entry(denial.name()).or_default() += 1;
        }
        outcome
    }

    /// What a denial means: the answer, or a way through in report-only mode.
    pub fn execute(&mut self, denial: &Denial) -> Decision {
        if self.config.report_only {
            self.counts.reported += 1;
            Decision::Allow(Rc::clone(&self.no_headers))
        } else {
            Decision::Answer(denial.answer(&self.config))
        }
    }

    fn decide_strictly(
        &mut self,
        request: Request<'_>,
        patience: Patience,
        tick: u64,
        clock: impl FnOnce() -> u64,
    ) -> Outcome {
        if let Some(answer) = answers::metadata(&self.config, request.method, request.target) {
            return Decision::Answer(answer).into();
        }
        let scopes = match rules::find(&self.config.rules, request.method, request.target) {
            Err(rules::AmbiguousPath) => return Denial::Path.into(),
            Ok(None) => return Denial::NoRule.into(),
            Ok(Some(rule)) => match &rule.access {
                Access::Anonymous => {
                    self.counts.anonymous += 1;
                    return Decision::Allow(Rc::clone(&self.no_headers)).into();
                }
                Access::Token { scopes } => scopes,
            },
        };
        let credentials = match authorization::read(request.authorization) {
            Err(malformed) => return Denial::Credentials(malformed).into(),
            Ok(Credentials::None) => return Denial::NoToken.into(),
            Ok(Credentials::Bearer(_)) if has_query_token(request.target) => {
                return Denial::TwoTokens.into();
            }
            Ok(Credentials::Bearer(credentials)) => credentials,
        };
        if let Some(hit) = self.cache.get(credentials) {
            match self.issuers.get(hit.issuer) {
                Some(issuer) if issuer.still_good(hit, &self.config, tick) => {
                    self.counts.cache_hits += 1;
                    let decision = match require(scopes, &hit.scopes) {
                        Ok(()) => {
                            self.counts.allowed += 1;
                            Decision::Allow(Rc::clone(&hit.headers))
                        }
                        Err(denial) => Decision::Deny(denial),
                    };
                    return Outcome {
                        decision,
                        token: Some(Rc::clone(&hit.reference)),
                    };
                }
                // The full way says what is wrong with it now.
                _ => self.cache.remove(credentials),
            }
        }
        let token = match authorization::bearer_token(credentials) {
            Ok(token) => token,
            Err(malformed) => return Denial::Credentials(malformed).into(),
        };
        self.counts.cache_misses += 1;
        let now = clock();
        let parsed = match ParsedToken::parse(token, &self.config.issuers, &self.by_name) {
            Ok(parsed) => parsed,
            Err(refusal) => return Denial::Token(refusal).into(),
        };
        let index = parsed.issuer;
        let (Some(state), Some(config)) =
            (self.issuers.get_mut(index), self.config.issuers.get(index))
        else {
            return Denial::Token(Refusal::Issuer).into();
        };
        match state.check(
            parsed,
            config,
            &*self.host,
            self.config.clock_skew_seconds,
            patience,
            now,
        ) {
            Err(Check::Wait(subject)) => Decision::Wait {
                issuer: index,
                subject,
            }
            .into(),
            Err(Check::Deny(denial, token)) => Outcome {
                decision: Decision::Deny(denial),
                token,
            },
            Ok(verified) => {
                let not_revoked_up_to = state.revocations.position();
                let cached = CachedToken {
                    issuer: index,
                    key: verified.key,
                    refused_from: verified.refused_from,
                    reference: verified.reference,
                    not_revoked_up_to,
                    scopes: verify::scopes(&verified.claims),
                    headers: forward::headers(&self.config, &verified.claims).into(),
                };
                let headers = Rc::clone(&cached.headers);
                let token_reference = Rc::clone(&cached.reference);
                let permitted = require(scopes, &cached.scopes);
                self.cache.insert(credentials, cached);
                let decision = match permitted {
                    Ok(()) => {
                        self.counts.allowed += 1;
                        Decision::Allow(headers)
                    }
                    Err(denial) => Decision::Deny(denial),
                };
                Outcome {
                    decision,
                    token: Some(token_reference),
                }
            }
        }
    }

    /// The fetches that are due. Each counts as started.
    pub fn due(&mut self, now: u64) -> Vec<Fetch> {
        let mut due = Vec::new();
        for (issuer, (state, config)) in self
            .issuers
            .iter_mut()
            .zip(&self.config.issuers)
            .enumerate()
        {
            if let (Some(schedule), KeySource::Fetched { endpoint, .. }) =
                (&mut state.key_schedule, &config.keys)
                && schedule.is_due(now)
            {
                schedule.started(now);
                due.push(Fetch {
                    issuer,
                    subject: Subject::Keys,
                    endpoint: endpoint.clone(),
                });
            }
            if let (Some(schedule), Some(source)) =
                (&mut state.revocation_schedule, &config.revocations)
                && schedule.is_due(now)
            {
                schedule.started(now);
                let since = state.revocations.position();
                let path = &source.endpoint.path;
                let separator = if path.contains('?') { '&' } else { '?' };
                due.push(Fetch {
                    issuer,
                    subject: Subject::Revocations,
                    endpoint: Endpoint {
                        path: format!("{path}{separator}since={since}"),
                        ..source.endpoint.clone()
                    },
                });
            }
        }
        due
    }

    /// A fetch brought `body`. Keys that are known stay in use unless the new set holds a usable one.
    ///
    /// # Errors
    /// What is wrong with it, for the log. An `Ok` may have remarks too.
    pub fn fetched(
        &mut self,
        issuer: usize,
        subject: Subject,
        body: &[u8],
        now: u64,
    ) -> Result<Vec<String>, String> {
        let (Some(state), Some(config)) = (
            self.issuers.get_mut(issuer),
            self.config.issuers.get(issuer),
        ) else {
            return Ok(Vec::new());
        };
        let outcome = match subject {
            Subject::Keys => state.replace_keys(body, config, now),
            Subject::Revocations => state.apply_revocations(body, now),
        };
        if outcome.is_err() {
            self.failed(issuer, subject, now);
        }
        outcome
    }

    /// A fetch failed.
    pub fn failed(&mut self, issuer: usize, subject: Subject, now: u64) {
        if let Some(state) = self.issuers.get_mut(issuer) {
            let schedule = match subject {
                Subject::Keys => &mut state.key_schedule,
                Subject::Revocations => &mut state.revocation_schedule,
            };
            if let Some(schedule) = schedule {
                schedule.failed(now);
            }
        }
    }

    /// Whether the issuer's keys were ever known.
    #[must_use]
    pub fn has_keys(&self, issuer: usize) -> bool {
        self.issuers
            .get(issuer)
            .is_some_and(|state| !state.keys.is_empty())
    }

    /// What happened since the last call.
    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// Seconds since the oldest keys were fetched; `None` while some issuer's keys were never fetched, or all are
    /// inline.
    #[must_use]
    pub fn keys_age(&self, now: u64) -> Option<u64> {
        let fetched = self
            .issuers
            .iter()
            .filter(|state| state.key_schedule.is_some());
        oldest(fetched.map(|state| state.keys_fetched_at), now)
    }

    /// Seconds since the oldest revocations were known; `None` while some issuer's never were, or there are none.
    #[must_use]
    pub fn revocations_age(&self, now: u64) -> Option<u64> {
        let fed = self
            .issuers
            .iter()
            .filter(|state| state.revocation_schedule.is_some());
        oldest(fed.map(|state| state.revocations.synchronized_at()), now)
    }

    /// Issuers whose keys were never known.
    #[must_use]
    pub fn issuers_without_keys(&self) -> usize {
        let without = self.issuers.iter().filter(|state| state.keys.is_empty());
        without.count()
    }

    /// Issuers with a feed whose revocations were never known.
    #[must_use]
    pub fn issuers_without_revocations(&self) -> usize {
        let without = self.issuers.iter().filter(|state| {
            state.revocation_schedule.is_some() && state.revocations.synchronized_at().is_none()
        });
        without.count()
    }

    /// Bytes that the remembered tokens take.
    #[must_use]
    pub const fn cache_bytes(&self) -> usize {
        self.cache.bytes()
    }

    /// Entries of all revocation lists.
    #[must_use]
    pub fn revocation_entries(&self) -> usize {
        self.issuers
            .iter()
            .map(|state| state.revocations.len())
            .sum()
    }
}

fn oldest(times: impl Iterator<Item = Option<u64>>, now: u64) -> Option<u64> {
    let times: Option<Vec<u64>> = times.collect();
    times?
        .into_iter()
        .min()
        .map(|time| now.saturating_sub(time))
}

enum Check {
    Wait(Subject),
    /// With the token, if it is verified.
    Deny(Denial, Option<Rc<TokenReference>>),
}

impl IssuerState {
    /// Takes inline keys out of the configuration.
    fn new(config: &mut IssuerConfig) -> Self {
        let (keys, key_schedule) = match &mut config.keys {
            KeySource::Inline(keys) => (std::mem::take(keys), None),
            KeySource::Fetched {
                refresh_seconds, ..
            } => (KeySet::default(), Some(Schedule::new(*refresh_seconds))),
        };
        Self {
            keys,
            key_schedule,
            keys_fetched_at: None,
            skipped_keys: Skipped::default(),
            revocations: Revocations::default(),
            revocation_schedule: config
                .revocations
                .as_ref()
                .map(|source| Schedule::new(source.poll_seconds)),
        }
    }

    /// Whether a token that was verified once would be accepted again.
    fn still_good(&self, hit: &mut CachedToken, config: &Config, now: u64) -> bool {
        let Some(issuer) = config.issuers.get(hit.issuer) else {
            return false;
        };
        if now >= hit.refused_from
            || !self.keys.trusts(&hit.key)
            || !self.revocations_usable(issuer, now)
        {
            return false;
        }
        if hit.not_revoked_up_to == self.revocations.position() {
            return true;
        }
        hit.not_revoked_up_to = self.revocations.position();
        !self.revocations.names(&hit.reference)
    }

    fn revocations_usable(&self, config: &IssuerConfig, now: u64) -> bool {
        let Some(source) = &config.revocations else {
            return true;
        };
        match (source.when_stale, self.revocations.synchronized_at()) {
            (WhenStale::Allow, _) => true,
            (WhenStale::Deny, None) => false,
            (WhenStale::Deny, Some(at)) => now <= at.saturating_add(source.max_staleness_seconds),
        }
    }

    fn check(
        &mut self,
        parsed: ParsedToken<'_>,
        config: &IssuerConfig,
        host: &dyn HostVerifier,
        skew: u64,
        patience: Patience,
        now: u64,
    ) -> Result<VerifiedToken, Check> {
        let wait_or =
            |schedule: &mut Option<Schedule>, subject, denial, token| match (schedule, patience) {
                (Some(schedule), Patience::Left) => {
                    schedule.hurry(now);
                    Check::Wait(subject)
                }
                _ => Check::Deny(denial, token),
            };
        if self.keys.is_empty() {
            return Err(wait_or(
                &mut self.key_schedule,
                Subject::Keys,
                Denial::KeysUnavailable,
                None,
            ));
        }
        let verified = match parsed.verify(&self.keys, config, host, now, skew) {
            Ok(verified) => verified,
            Err(Refusal::KeyUnknown) => {
                // Without an answer from the issuer, nobody can say that the key is not there.
                let failing = self.key_schedule.as_ref().is_some_and(Schedule::is_failing);
                let denial = if failing {
                    Denial::KeysUnavailable
                } else {
                    Denial::Token(Refusal::KeyUnknown)
                };
                return Err(wait_or(&mut self.key_schedule, Subject::Keys, denial, None));
            }
            Err(refusal) => return Err(Check::Deny(Denial::Token(refusal), None)),
        };
        if !self.revocations_usable(config, now) {
            let denial = Denial::RevocationsUnavailable;
            return Err(wait_or(
                &mut self.revocation_schedule,
                Subject::Revocations,
                denial,
                Some(verified.reference),
            ));
        }
        if self.is_revoked(&verified.reference) {
            let denial = Denial::Token(Refusal::Revoked);
            return Err(Check::Deny(denial, Some(verified.reference)));
        }
        Ok(verified)
    }

    fn is_revoked(&self, token: &TokenReference) -> bool {
        self.revocations.names(token)
    }

    fn replace_keys(
        &mut self,
        body: &[u8],
        config: &IssuerConfig,
        now: u64,
    ) -> Result<Vec<String>, String> {
        let (keys, skipped) = KeySet::parse(body, &config.algorithms, &self.keys)?;
        if keys.is_empty() {
            return Err(format!("it holds no usable key: {}", skipped.line()));
        }
        self.keys = keys;
        self.keys_fetched_at = Some(now);
        if let Some(schedule) = &mut self.key_schedule {
            schedule.succeeded(now);
        }
        // Requests with unknown keys cause fetches: what each of them would say again is said once.
        if skipped == self.skipped_keys {
            return Ok(Vec::new());
        }
        let remark = match skipped.count {
            0 => "all keys can be used now".to_owned(),
            1 => format!("1 key cannot be used: {}", skipped.line()),
            count => format!("{count} keys cannot be used: {}", skipped.line()),
        };
        self.skipped_keys = skipped;
        Ok(vec![remark])
    }

    fn apply_revocations(&mut self, body: &[u8], now: u64) -> Result<Vec<String>, String> {
        let applied = self.revocations.apply(body, now)?;
        if let Some(schedule) = &mut self.revocation_schedule {
            match applied {
                Applied::Complete => schedule.succeeded(now),
                Applied::More => schedule.continues(now),
            }
        }
        Ok(Vec::new())
    }
}

fn require(needed: &[String], scopes: &[String]) -> Result<(), Denial> {
    if needed.iter().all(|scope| scopes.contains(scope)) {
        Ok(())
    } else {
        Err(Denial::Scope(needed.to_vec()))
    }
}

/// RFC 6750 §2.3 has tokens in the query; they are never accepted, and beside a header they are an error.
fn has_query_token(target: &[u8]) -> bool {
    let mut parts = target.splitn(2, |byte| *byte == b'?');
    parts.next();
    parts.next().is_some_and(|query| {
        query
            .split(|byte| *byte == b'&')
            .any(|pair| pair.starts_with(b"access_token="))
    })
}

#[cfg(test)]
mod tests;
