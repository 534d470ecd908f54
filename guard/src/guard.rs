//! The decision about each request. A [`Guard`] holds all state of one VM. Callers pass the time into each call
//! and carry out the fetches that [`Guard::due`] returns. The guard calls the host only to verify signatures
//! and to read and write shared data.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::access_log;
use crate::answers::{self, Answer, Denial};
use crate::authorization::{self, Credentials};
use crate::cache::{CachedToken, TokenCache};
use crate::clock::Time;
use crate::config::{Config, Endpoint, IssuerConfig, KeySource, WhenStale};
use crate::discovery::{Discovery, MAX_METADATA_BYTES};
use crate::feed::{Feed, FeedConfig, NoSharedData, SharedData};
use crate::fetch::{Schedule, TIMEOUT_SECONDS};
use crate::forward::{self, Header, Stripped};
use crate::introspection::{Introspection, MAX_ANSWER_BYTES, Standing};
use crate::keys::{KeySet, MAX_JWKS_BYTES, Skipped};
use crate::revocations::MAX_PAGE_BYTES;
use crate::rules::{self, Access, Rule};
use crate::secret::Secret;
use crate::signature::{HostVerifier, NoHostVerifier};
use crate::verify::{self, ParsedToken, Refusal, TokenReference, VerifiedToken};

/// The parts of a request that the guard reads, as the client sent them.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// `:method`.
    pub method: &'a [u8],
    /// `:path`, with the query.
    pub target: &'a [u8],
    /// Every `Authorization` header.
    pub authorization: &'a [&'a [u8]],
}

/// Whether a request may be held until a fetch has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// The request may be held.
    Left,
    /// The request was held already.
    Over,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The request passes, with these headers added.
    Allow(Rc<[Header]>),
    /// The filter answers the request itself.
    Answer(Answer),
    Deny(Denial),
    /// The request waits until this fetch has ended.
    Wait {
        /// Index of the issuer. If several issuers share a feed, this is the first of them when the request
        /// waits for the feed.
        issuer: usize,
        subject: Subject,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub decision: Decision,
    /// The token of the request, once it is verified.
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

/// What the host must do with a request. When the host has done so, it calls [`Guard::count`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    pub fate: Fate,
    /// Why the guard refuses the request, or would refuse it without report-only mode.
    pub denial: Option<Denial>,
    /// The token of the request, once it is verified.
    pub token: Option<Rc<TokenReference>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// The request goes to the resource server.
    Pass {
        add: Rc<[Header]>,
        /// Whether the `Authorization` headers must be removed first.
        withhold_authorization: bool,
    },
    Answer(Answer),
}

impl Effect {
    /// The outcome in the access log: `allowed`, `anonymous`, `metadata`, or the name of the denial.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match (&self.denial, &self.fate, &self.token) {
            (Some(denial), ..) => denial.name(),
            (None, Fate::Answer(_), _) => access_log::METADATA,
            (None, Fate::Pass { .. }, Some(_)) => access_log::ALLOWED,
            (None, Fate::Pass { .. }, None) => access_log::ANONYMOUS,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The metadata of the issuer, which names the address of the keys.
    Metadata,
    Keys,
    /// The revocation feed.
    Revocations,
    /// The answer of the introspection endpoint to the question with this number.
    Introspection(u64),
}

impl Subject {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Keys => "keys",
            Self::Revocations => "revocations",
            Self::Introspection(_) => "introspection",
        }
    }

    /// The subject without the number of the question.
    const fn kind(self) -> Self {
        match self {
            Self::Introspection(_) => Self::Introspection(0),
            other => other,
        }
    }

    /// Longest body that is read, in bytes.
    #[must_use]
    pub const fn longest_answer(self) -> usize {
        match self {
            Self::Metadata => MAX_METADATA_BYTES,
            Self::Keys => MAX_JWKS_BYTES,
            Self::Revocations => MAX_PAGE_BYTES,
            Self::Introspection(_) => MAX_ANSWER_BYTES,
        }
    }
}

/// A fetch that the host must start now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// Index of the issuer. If several issuers share a feed, this is the first of them.
    pub issuer: usize,
    pub subject: Subject,
    /// The path includes the query.
    pub endpoint: Endpoint,
    /// Time limit of the fetch, in seconds.
    pub timeout: u64,
    /// Form for a POST. Without a form, the fetch is a GET.
    pub form: Option<Form>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// `Authorization`.
    pub authorization: Secret,
    /// `application/x-www-form-urlencoded`.
    pub body: Secret,
}

impl Fetch {
    #[must_use]
    pub const fn method(&self) -> &'static str {
        match self.form {
            Some(_) => "POST",
            None => "GET",
        }
    }

    /// Headers of the request, except those that the endpoint determines.
    #[must_use]
    pub fn headers(&self) -> Vec<(&'static str, &str)> {
        let mut headers = vec![("accept", "application/json")];
        if let Some(form) = &self.form {
            headers.push(("content-type", "application/x-www-form-urlencoded"));
            headers.push(("authorization", form.authorization.expose()));
        }
        headers
    }

    #[must_use]
    pub fn body(&self) -> Option<&str> {
        self.form.as_ref().map(|form| form.body.expose())
    }

    /// Key under which the log counts failures: one for each endpoint, not one for each token.
    #[must_use]
    pub const fn log_source(&self) -> (usize, Subject) {
        (self.issuer, self.subject.kind())
    }

    /// What the requests that need this fetch wait for. Requests that wait for keys wait for the metadata too.
    #[must_use]
    pub const fn source(&self) -> (usize, Subject) {
        match self.subject {
            Subject::Metadata => (self.issuer, Subject::Keys),
            subject => (self.issuer, subject),
        }
    }
}

/// Counts since the last call of [`Guard::take_counts`].
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Requests that passed with a token.
    pub allowed: u64,
    /// Requests that passed on anonymous paths.
    pub anonymous: u64,
    /// Requests that passed only because of report-only mode.
    pub reported: u64,
    /// Lookups that found the token in the cache.
    pub cache_hits: u64,
    /// Lookups that did not find the token in the cache.
    pub cache_misses: u64,
    /// Entries of revocation feeds that were dropped to make room.
    pub revocations_folded: u64,
    /// Entries of revocation feeds that were skipped because their kind is unknown.
    pub revocations_skipped: u64,
    /// Refusals by the name of the denial.
    pub denied: BTreeMap<&'static str, u64>,
}

#[derive(Debug)]
struct IssuerState {
    keys: KeySet,
    /// `None` for inline keys.
    key_schedule: Option<Schedule>,
    keys_fetched_at: Option<u64>,
    /// Address of the keys, from the metadata.
    discovered: Option<Discovered>,
    /// Only used for issuers with an introspection endpoint.
    introspection: Introspection,
    /// The unusable keys that the last remark described.
    skipped_keys: Skipped,
    /// Index of the feed, if the issuer has a feed.
    feed: Option<usize>,
}

#[derive(Debug)]
struct Discovered {
    keys: Endpoint,
    /// Time of the next metadata fetch, in seconds of the steady clock.
    until: u64,
}

/// A feed, with the index of the first issuer that uses this feed.
#[derive(Debug)]
struct SharedFeed {
    issuer: usize,
    feed: Feed,
}

#[derive(Debug)]
pub struct Guard {
    config: Rc<Config>,
    by_name: BTreeMap<String, usize>,
    stripped: Stripped,
    issuers: Vec<IssuerState>,
    feeds: Vec<SharedFeed>,
    time: Time,
    folded: u64,
    skipped: u64,
    cache: TokenCache,
    counts: Counts,
    no_headers: Rc<[Header]>,
    host: Box<dyn HostVerifier>,
    shared_data: Box<dyn SharedData>,
}

/// The feeds, one for each endpoint, and for each issuer the index of its feed.
fn feeds(config: &Config) -> (Vec<SharedFeed>, Vec<Option<usize>>) {
    let mut configs: Vec<(usize, FeedConfig)> = Vec::new();
    let mut of_issuers = Vec::new();
    for (index, issuer) in config.issuers.iter().enumerate() {
        let Some(source) = &issuer.revocations else {
            of_issuers.push(None);
            continue;
        };
        let known = configs
            .iter_mut()
            .position(|(_, feed)| feed.endpoint == source.endpoint);
        of_issuers.push(Some(known.unwrap_or(configs.len())));
        match known.and_then(|known| configs.get_mut(known)) {
            Some((_, feed)) => {
                feed.issuers.push(issuer.issuer.clone());
                feed.poll_seconds = feed.poll_seconds.min(source.poll_seconds);
                let staleness = source.max_staleness_seconds;
                feed.max_staleness_seconds = feed.max_staleness_seconds.min(staleness);
                feed.max_entries = feed.max_entries.max(source.max_entries);
            }
            None => configs.push((
                index,
                FeedConfig {
                    endpoint: source.endpoint.clone(),
                    issuers: vec![issuer.issuer.clone()],
                    poll_seconds: source.poll_seconds,
                    max_staleness_seconds: source.max_staleness_seconds,
                    max_entries: source.max_entries,
                    skew: config.clock_skew_seconds,
                },
            )),
        }
    }
    let feeds = configs.into_iter().map(|(issuer, config)| SharedFeed {
        issuer,
        feed: Feed::new(config),
    });
    (feeds.collect(), of_issuers)
}

impl Guard {
    /// Creates a guard that knows no keys except inline ones.
    #[must_use]
    pub fn new(mut config: Config) -> Self {
        let (feeds, of_issuers) = feeds(&config);
        let issuers = config.issuers.iter_mut().zip(of_issuers);
        let issuers = issuers
            .map(|(config, feed)| IssuerState::new(config, feed))
            .collect();
        let mut by_name = BTreeMap::new();
        for (index, issuer) in config.issuers.iter().enumerate() {
            by_name.insert(issuer.issuer.clone(), index);
        }
        Self {
            by_name,
            stripped: Stripped::new(&config.forward, config.forward_payload.as_deref()),
            issuers,
            feeds,
            time: Time::default(),
            folded: 0,
            skipped: 0,
            cache: TokenCache::new(config.token_cache_entries, config.token_cache_bytes),
            counts: Counts::default(),
            no_headers: Rc::new([]),
            host: Box::new(NoHostVerifier),
            shared_data: Box::new(NoSharedData),
            config: Rc::new(config),
        }
    }

    /// Lets the host verify the signatures of the algorithms that it offers.
    #[must_use]
    pub fn with_host(self, host: Box<dyn HostVerifier>) -> Self {
        Self { host, ..self }
    }

    /// Shares each feed among all VMs, so that only one VM polls, if the host has shared data.
    #[must_use]
    pub fn with_shared_data(mut self, shared_data: Box<dyn SharedData>) -> Self {
        self.feeds.iter_mut().for_each(|shared| shared.feed.share());
        Self {
            shared_data,
            ..self
        }
    }

    /// Sets the time. The host calls this at least once a second.
    pub const fn set_time(&mut self, time: Time) {
        self.time = time;
    }

    /// The wall clock stepped. The guard reads the feeds again, because it may have dropped revocations as
    /// expired too early.
    pub fn doubt(&mut self) {
        for shared in &mut self.feeds {
            shared.feed.doubt(self.time.steady);
        }
    }

    /// Removes expired revocations from a part of each table. The host calls this once a second.
    pub fn sweep(&mut self) {
        for shared in &mut self.feeds {
            shared.feed.sweep(self.time.wall);
        }
    }

    /// Exchanges feed pages with the gateway's other VMs. Returns the first issuer of each feed that had news.
    pub fn keep_in_step(&mut self) -> Vec<usize> {
        let mut news = Vec::new();
        for shared in &mut self.feeds {
            if shared.feed.keep_in_step(&*self.shared_data, self.time) {
                news.push(shared.issuer);
            }
        }
        news
    }

    /// True if the host should call [`Guard::keep_in_step`] twenty times a second.
    #[must_use]
    pub fn follows(&self) -> bool {
        self.feeds.iter().any(|shared| shared.feed.follows())
    }

    /// True while the guard reads the issuer's feed and has not reached the end.
    #[must_use]
    pub fn is_catching_up(&self, issuer: usize) -> bool {
        let feed = self.feed(issuer);
        feed.is_some_and(Feed::is_catching_up)
    }

    /// Takes the remarks about feeds for the log, each with the index of the issuer.
    pub fn take_remarks(&mut self) -> Vec<(usize, String)> {
        let mut remarks = Vec::new();
        for shared in &mut self.feeds {
            let issuer = shared.issuer;
            let new = shared.feed.take_remarks().into_iter();
            remarks.extend(new.map(|remark| (issuer, remark)));
        }
        remarks
    }

    fn feed(&self, issuer: usize) -> Option<&Feed> {
        let index = self.issuers.get(issuer)?.feed?;
        self.feeds.get(index).map(|shared| &shared.feed)
    }

    fn feed_mut(&mut self, issuer: usize) -> Option<&mut Feed> {
        let index = self.issuers.get(issuer)?.feed?;
        self.feeds.get_mut(index).map(|shared| &mut shared.feed)
    }

    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// True if the host must remove this request header, whatever the decision.
    #[must_use]
    pub fn strips(&self, header: &[u8]) -> bool {
        self.stripped.has(header)
    }

    /// Turns a decision into what the host must do, with report-only mode applied. A request that would have to
    /// wait, but was held already, is refused.
    #[must_use]
    pub fn effect(&self, Outcome { decision, token }: Outcome) -> Effect {
        let (fate, denial) = match decision {
            Decision::Allow(add) => (self.pass(add), None),
            Decision::Answer(answer) => (Fate::Answer(answer), None),
            Decision::Deny(denial) if self.config.report_only => {
                (self.pass(Rc::clone(&self.no_headers)), Some(denial))
            }
            Decision::Deny(denial) => return self.refusal(denial, token),
            Decision::Wait { .. } => {
                return self.effect(Outcome {
                    decision: Decision::Deny(Denial::KeysUnavailable),
                    token,
                });
            }
        };
        Effect {
            fate,
            denial,
            token,
        }
    }

    /// Refuses the request, in report-only mode too. For requests that may still carry a header that only the
    /// filter may set, or a token that the resource server must not see.
    #[must_use]
    pub fn refusal(&self, denial: Denial, token: Option<Rc<TokenReference>>) -> Effect {
        Effect {
            fate: Fate::Answer(denial.answer(&self.config)),
            denial: Some(denial),
            token,
        }
    }

    fn pass(&self, add: Rc<[Header]>) -> Fate {
        Fate::Pass {
            add,
            withhold_authorization: !self.config.forward_authorization,
        }
    }

    /// Counts an effect that the host has carried out.
    pub fn count(&mut self, effect: &Effect) {
        let passes = matches!(effect.fate, Fate::Pass { .. });
        if let Some(denial) = &effect.denial {
            *self.counts.denied.entry(denial.name()).or_default() += 1;
            self.counts.reported += u64::from(passes);
        } else if passes && effect.token.is_some() {
            self.counts.allowed += 1;
        } else if passes {
            self.counts.anonymous += 1;
        }
    }

    /// Decides about a request. `tick` is the time of the last tick, at most a second old. The guard calls
    /// `clock` for the exact time only if the token is not in the cache. Both in seconds since 1970.
    pub fn decide(
        &mut self,
        request: Request<'_>,
        patience: Patience,
        tick: u64,
        clock: impl FnOnce() -> u64,
    ) -> Outcome {
        if let Some(answer) = answers::metadata(&self.config, request.method, request.target) {
            return Decision::Answer(answer).into();
        }
        let config = Rc::clone(&self.config);
        let scopes = match needed(&config.rules, &request) {
            Ok(Needed::Nothing) => return Decision::Allow(Rc::clone(&self.no_headers)).into(),
            Ok(Needed::Token(scopes)) => scopes,
            Err(denial) => return denial.into(),
        };
        let credentials = match presented(&request) {
            Ok(credentials) => credentials,
            Err(denial) => return denial.into(),
        };
        self.by_cache(credentials, scopes, tick)
            .unwrap_or_else(|| self.by_verification(credentials, scopes, patience, clock))
    }

    /// Decides about a cached token. `None` if the token is not in the cache, or would no longer be accepted.
    fn by_cache(&mut self, credentials: &[u8], scopes: &[String], tick: u64) -> Option<Outcome> {
        let hit = self.cache.get(credentials)?;
        let still_good = self.issuers.get(hit.issuer).is_some_and(|issuer| {
            issuer.still_good(hit, &self.config, &self.feeds, tick, self.time)
        });
        if !still_good {
            // The full verification then finds the reason.
            self.cache.remove(credentials);
            return None;
        }
        self.counts.cache_hits += 1;
        Some(permitted(scopes, &hit.scopes, &hit.headers, &hit.reference))
    }

    /// Decides about a token that is not in the cache.
    fn by_verification(
        &mut self,
        credentials: &[u8],
        scopes: &[String],
        patience: Patience,
        clock: impl FnOnce() -> u64,
    ) -> Outcome {
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
        let mut feed = state.feed.and_then(|feed| self.feeds.get_mut(feed));
        let moment = Moment {
            now: Time {
                wall: now,
                ..self.time
            },
            skew: self.config.clock_skew_seconds,
            patience,
        };
        match state.check(
            token,
            parsed,
            config,
            feed.as_deref_mut(),
            &*self.host,
            moment,
        ) {
            Err(Check::Wait(subject)) => Decision::Wait {
                issuer: match (subject, feed) {
                    (Subject::Revocations, Some(feed)) => feed.issuer,
                    _ => index,
                },
                subject,
            }
            .into(),
            Err(Check::Deny(denial, token)) => Outcome {
                decision: Decision::Deny(denial),
                token,
            },
            Ok((verified, active_until)) => {
                let not_revoked_at = feed.map_or(0, |feed| feed.feed.revocations().generation());
                let cached = CachedToken {
                    issuer: index,
                    key: verified.key,
                    refused_from: verified.refused_from,
                    reference: verified.reference,
                    not_revoked_at,
                    active_until,
                    scopes: verify::scopes(&verified.claims),
                    headers: forward::headers(
                        &self.config.forward,
                        self.config.forward_payload.as_deref(),
                        &verified.claims,
                    )
                    .into(),
                };
                let outcome = permitted(scopes, &cached.scopes, &cached.headers, &cached.reference);
                self.cache.insert(credentials, cached);
                outcome
            }
        }
    }

    /// Returns the fetches to start now, and counts each as started. Here and in the methods below, times are
    /// seconds of the steady clock.
    pub fn due(&mut self, now: u64) -> Vec<Fetch> {
        let mut due = Vec::new();
        let issuers = self.issuers.iter_mut().zip(&self.config.issuers);
        for (issuer, (state, config)) in issuers.enumerate() {
            let keys = state.due_for_keys(config, now);
            due.extend(keys.map(|(subject, endpoint)| Fetch {
                issuer,
                subject,
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
                subject: Subject::Introspection(question),
                endpoint: source.endpoint.clone(),
                timeout: TIMEOUT_SECONDS,
                form: Some(Form {
                    authorization: source.authorization.clone(),
                    body,
                }),
            }));
        }
        for shared in &mut self.feeds {
            if let Some(request) = shared.feed.due(now) {
                due.push(Fetch {
                    issuer: shared.issuer,
                    subject: Subject::Revocations,
                    endpoint: Endpoint {
                        path: request.path,
                        ..shared.feed.endpoint().clone()
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
            Subject::Metadata => state.discovered(body, config, now).map(|()| Vec::new()),
            Subject::Keys => state.replace_keys(body, config, now),
            Subject::Introspection(question) => {
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
            Subject::Revocations => {
                let time = Time {
                    steady: now,
                    ..self.time
                };
                let feed = state.feed.and_then(|feed| self.feeds.get_mut(feed));
                let answered =
                    feed.map(|shared| shared.feed.answered(body, &*self.shared_data, time));
                answered.unwrap_or(Ok(())).map(|()| Vec::new())
            }
        };
        if outcome.is_err() {
            self.failed(issuer, subject, now);
        }
        outcome
    }

    pub fn failed(&mut self, issuer: usize, subject: Subject, now: u64) {
        match subject {
            Subject::Metadata | Subject::Keys => {
                let state = self.issuers.get_mut(issuer);
                if let Some((state, config)) = state.zip(self.config.issuers.get(issuer)) {
                    state.keys_failed(subject, config, now);
                }
            }
            Subject::Introspection(question) => {
                if let Some(state) = self.issuers.get_mut(issuer) {
                    state.introspection.failed(question, now);
                }
            }
            Subject::Revocations => {
                if let Some(feed) = self.feed_mut(issuer) {
                    feed.failed(now);
                }
            }
        }
    }

    /// True if another fetch follows at once, so that the requests that waited for `fetch` must wait for that
    /// one too. `is_usable`: `fetch` returned something usable.
    #[must_use]
    pub fn goes_on(&self, fetch: &Fetch, is_usable: bool) -> bool {
        match fetch.subject {
            Subject::Metadata => self
                .issuers
                .get(fetch.issuer)
                .is_some_and(|state| state.discovered.is_some()),
            Subject::Revocations => is_usable && self.is_catching_up(fetch.issuer),
            Subject::Keys | Subject::Introspection(_) => false,
        }
    }

    /// True if the guard has keys of this issuer.
    #[must_use]
    pub fn has_keys(&self, issuer: usize) -> bool {
        self.issuers
            .get(issuer)
            .is_some_and(|state| !state.keys.is_empty())
    }

    /// True if a fetch of this subject ever returned something usable.
    #[must_use]
    pub fn is_known(&self, issuer: usize, subject: Subject) -> bool {
        let state = || self.issuers.get(issuer);
        match subject {
            Subject::Metadata => state().is_some_and(|state| state.discovered.is_some()),
            Subject::Keys => self.has_keys(issuer),
            Subject::Introspection(_) => {
                state().is_some_and(|state| state.introspection.is_known())
            }
            Subject::Revocations => {
                let feed = self.feed(issuer);
                feed.is_some_and(|feed| feed.completed_at().is_some())
            }
        }
    }

    /// Returns the counts since the last call.
    pub fn take_counts(&mut self) -> Counts {
        let feeds = || self.feeds.iter().map(|shared| &shared.feed);
        let folded = feeds().map(|feed| feed.revocations().folded()).sum();
        let skipped = feeds().map(Feed::skipped).sum();
        self.counts.revocations_folded = folded - std::mem::replace(&mut self.folded, folded);
        self.counts.revocations_skipped = skipped - std::mem::replace(&mut self.skipped, skipped);
        std::mem::take(&mut self.counts)
    }

    /// Seconds since the oldest key set was fetched. `None` if the keys of an issuer were never fetched, or if
    /// all keys are inline.
    #[must_use]
    pub fn keys_age(&self, now: u64) -> Option<u64> {
        let fetched = self
            .issuers
            .iter()
            .filter(|state| state.key_schedule.is_some());
        oldest(fetched.map(|state| state.keys_fetched_at), now)
    }

    /// Seconds since the oldest feed was complete. `None` if a feed was never complete, or if there are no
    /// feeds.
    #[must_use]
    pub fn revocations_age(&self, now: u64) -> Option<u64> {
        let feeds = self.feeds.iter();
        oldest(feeds.map(|shared| shared.feed.completed_at()), now)
    }

    /// Number of issuers without known keys.
    #[must_use]
    pub fn issuers_without_keys(&self) -> usize {
        let without = self.issuers.iter().filter(|state| state.keys.is_empty());
        without.count()
    }

    /// Number of issuers with a feed that was never complete.
    #[must_use]
    pub fn issuers_without_revocations(&self) -> usize {
        let without = (0..self.issuers.len()).filter(|issuer| {
            let feed = self.feed(*issuer);
            feed.is_some_and(|feed| feed.completed_at().is_none())
        });
        without.count()
    }

    /// Bytes that the cached tokens take.
    #[must_use]
    pub const fn cache_bytes(&self) -> usize {
        self.cache.bytes()
    }

    /// Number of entries in all revocation tables.
    #[must_use]
    pub fn revocation_entries(&self) -> usize {
        let feeds = self.feeds.iter();
        feeds.map(|shared| shared.feed.revocations().len()).sum()
    }

    /// Number of feeds whose table is full, so that the guard refuses old tokens.
    #[must_use]
    pub fn folding_feeds(&self) -> usize {
        let feeds = self.feeds.iter();
        feeds
            .filter(|shared| shared.feed.revocations().folded_until().is_some())
            .count()
    }
}

fn oldest(times: impl Iterator<Item = Option<u64>>, now: u64) -> Option<u64> {
    let times: Option<Vec<u64>> = times.collect();
    times?
        .into_iter()
        .min()
        .map(|time| now.saturating_sub(time))
}

/// The time and the limits of one check.
#[derive(Debug, Clone, Copy)]
struct Moment {
    now: Time,
    /// Clock skew, in seconds.
    skew: u64,
    patience: Patience,
}

enum Check {
    Wait(Subject),
    /// Has the token if it is verified.
    Deny(Denial, Option<Rc<TokenReference>>),
}

impl IssuerState {
    /// Moves the inline keys out of the configuration.
    fn new(config: &mut IssuerConfig, feed: Option<usize>) -> Self {
        let (keys, key_schedule) = match &mut config.keys {
            KeySource::Inline(keys) => (std::mem::take(keys), None),
            KeySource::Fetched {
                refresh_seconds, ..
            }
            | KeySource::Discovered(Discovery {
                refresh_seconds, ..
            }) => (KeySet::default(), Some(Schedule::new(*refresh_seconds))),
        };
        Self {
            keys,
            key_schedule,
            keys_fetched_at: None,
            discovered: None,
            introspection: Introspection::default(),
            skipped_keys: Skipped::default(),
            feed,
        }
    }

    /// True if a cached token would still be accepted. `tick` is in seconds since 1970.
    fn still_good(
        &self,
        hit: &mut CachedToken,
        config: &Config,
        feeds: &[SharedFeed],
        tick: u64,
        time: Time,
    ) -> bool {
        let Some(issuer) = config.issuers.get(hit.issuer) else {
            return false;
        };
        let is_over = tick >= hit.refused_from || time.steady >= hit.active_until;
        if is_over || !self.keys.trusts(&hit.key) {
            return false;
        }
        let Some(shared) = self.feed.and_then(|feed| feeds.get(feed)) else {
            return true;
        };
        if !is_usable(&shared.feed, issuer, time.steady) {
            return false;
        }
        let revocations = shared.feed.revocations();
        if hit.not_revoked_at == revocations.generation() {
            return true;
        }
        let since = std::mem::replace(&mut hit.not_revoked_at, revocations.generation());
        let refusal = revocations.refusal(&hit.reference, &issuer.issuer, since);
        refusal.is_none()
    }

    /// Returns the verified token, and the time until which it counts as active, in seconds of the steady
    /// clock.
    fn check(
        &mut self,
        token: &str,
        parsed: ParsedToken<'_>,
        config: &IssuerConfig,
        feed: Option<&mut SharedFeed>,
        host: &dyn HostVerifier,
        Moment {
            now,
            skew,
            patience,
        }: Moment,
    ) -> Result<(VerifiedToken, u64), Check> {
        let wait_for_keys_or = |schedule: &mut Option<Schedule>, denial| match (schedule, patience)
        {
            (Some(schedule), Patience::Left) => {
                schedule.hurry(now.steady);
                Check::Wait(Subject::Keys)
            }
            _ => Check::Deny(denial, None),
        };
        if self.keys.is_empty() {
            let denial = Denial::KeysUnavailable;
            return Err(wait_for_keys_or(&mut self.key_schedule, denial));
        }
        let verified = match parsed.verify(&self.keys, config, host, now.wall, skew) {
            Ok(verified) => verified,
            Err(Refusal::KeyUnknown) => {
                // While the fetches fail, the key may exist and just not be known here.
                let failing = self.key_schedule.as_ref().is_some_and(Schedule::is_failing);
                let denial = if failing {
                    Denial::KeysUnavailable
                } else {
                    Denial::Token(Refusal::KeyUnknown)
                };
                return Err(wait_for_keys_or(&mut self.key_schedule, denial));
            }
            Err(refusal) => return Err(Check::Deny(Denial::Token(refusal), None)),
        };
        if let Some(source) = &config.introspection {
            let may_wait = patience == Patience::Left;
            let introspection = &mut self.introspection;
            let standing = introspection.standing(source, token, may_wait, now.steady);
            let denial = match standing {
                Standing::Active { until } => return Ok((verified, until)),
                Standing::Asked(question) => {
                    return Err(Check::Wait(Subject::Introspection(question)));
                }
                Standing::Inactive => Denial::Token(Refusal::Revoked),
                Standing::Unknown => Denial::RevocationsUnavailable,
                Standing::Busy => Denial::Busy,
            };
            return Err(Check::Deny(denial, Some(verified.reference)));
        }
        let Some(SharedFeed { feed, .. }) = feed else {
            return Ok((verified, u64::MAX));
        };
        if !is_usable(feed, config, now.steady) {
            if patience == Patience::Left {
                feed.hurry(now.steady);
                return Err(Check::Wait(Subject::Revocations));
            }
            let denial = Denial::RevocationsUnavailable;
            return Err(Check::Deny(denial, Some(verified.reference)));
        }
        let revocations = feed.revocations();
        match revocations.refusal(&verified.reference, &config.issuer, 0) {
            Some(refusal) => {
                let denial = Denial::Token(refusal);
                Err(Check::Deny(denial, Some(verified.reference)))
            }
            None => Ok((verified, u64::MAX)),
        }
    }

    /// Returns the due fetch of metadata or keys, if any, and counts it as started.
    fn due_for_keys(&mut self, config: &IssuerConfig, now: u64) -> Option<(Subject, Endpoint)> {
        let schedule = self.key_schedule.as_mut()?;
        if !schedule.is_due(now) {
            return None;
        }
        let due = match (&config.keys, &self.discovered) {
            (KeySource::Inline(_), _) => return None,
            (KeySource::Fetched { endpoint, .. }, _) => (Subject::Keys, endpoint.clone()),
            (KeySource::Discovered(_), Some(found)) if now < found.until => {
                (Subject::Keys, found.keys.clone())
            }
            (KeySource::Discovered(discovery), _) => {
                (Subject::Metadata, discovery.endpoint.clone())
            }
        };
        schedule.started(now, TIMEOUT_SECONDS);
        Some(due)
    }

    /// Applies the metadata of the issuer. The keys are fetched next.
    fn discovered(&mut self, body: &[u8], config: &IssuerConfig, now: u64) -> Result<(), String> {
        if let KeySource::Discovered(discovery) = &config.keys {
            let keys = discovery.keys_of(&config.issuer, body)?;
            let until = now + discovery.refresh_seconds;
            self.discovered = Some(Discovered { keys, until });
            if let Some(schedule) = &mut self.key_schedule {
                schedule.continues(now);
            }
        }
        Ok(())
    }

    /// A fetch of metadata or keys failed. If the metadata failed, the known address of the keys stays in use.
    fn keys_failed(&mut self, subject: Subject, config: &IssuerConfig, now: u64) {
        let Some(schedule) = &mut self.key_schedule else {
            return;
        };
        match (subject, &mut self.discovered, &config.keys) {
            (Subject::Metadata, Some(found), KeySource::Discovered(discovery)) => {
                found.until = now + discovery.refresh_seconds;
                schedule.continues(now);
            }
            _ => schedule.failed(now),
        }
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
        // Clients with unknown keys can cause fetches, so the same remark is written only once.
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
}

/// True if the feed is fresh enough for tokens of this issuer, or if its configuration allows a stale feed.
fn is_usable(feed: &Feed, issuer: &IssuerConfig, now: u64) -> bool {
    issuer.revocations.as_ref().is_none_or(|source| {
        source.when_stale == WhenStale::Allow || feed.is_fresh(source.max_staleness_seconds, now)
    })
}

enum Needed<'a> {
    /// Nothing: the path is anonymous.
    Nothing,
    /// A token with all of these scopes.
    Token(&'a [String]),
}

/// Returns what the rule for a request requires.
fn needed<'a>(rules: &'a [Rule], request: &Request<'_>) -> Result<Needed<'a>, Denial> {
    match rules::find(rules, request.method, request.target) {
        Err(rules::AmbiguousPath) => Err(Denial::Path),
        Ok(None) => Err(Denial::NoRule),
        Ok(Some(rule)) => Ok(match &rule.access {
            Access::Anonymous => Needed::Nothing,
            Access::Token { scopes } => Needed::Token(scopes),
        }),
    }
}

/// Returns the bearer credentials of a request, which must be the only ones (RFC 6750 §2).
fn presented<'a>(request: &Request<'a>) -> Result<&'a [u8], Denial> {
    match authorization::read(request.authorization) {
        Err(malformed) => Err(Denial::Credentials(malformed)),
        Ok(Credentials::None) => Err(Denial::NoToken),
        Ok(Credentials::Bearer(_)) if has_query_token(request.target) => Err(Denial::TwoTokens),
        Ok(Credentials::Bearer(credentials)) => Ok(credentials),
    }
}

/// Allows the request if the scopes of the verified token suffice.
fn permitted(
    needed: &[String],
    scopes: &[String],
    headers: &Rc<[Header]>,
    token: &Rc<TokenReference>,
) -> Outcome {
    let decision = match require(needed, scopes) {
        Ok(()) => Decision::Allow(Rc::clone(headers)),
        Err(denial) => Decision::Deny(denial),
    };
    Outcome {
        decision,
        token: Some(Rc::clone(token)),
    }
}

fn require(needed: &[String], scopes: &[String]) -> Result<(), Denial> {
    if needed.iter().all(|scope| scopes.contains(scope)) {
        Ok(())
    } else {
        Err(Denial::Scope(needed.to_vec()))
    }
}

/// RFC 6750 §2.3 allows tokens in the query. The guard never accepts such a token, and refuses a request that
/// also has the header.
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
