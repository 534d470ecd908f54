//! Decides about requests. It holds all state of one VM. The time comes in with each call, and what
//! must be fetched goes out as a value; of the host it calls only the verification of signatures and the shared data.

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
        /// Index of the issuer. Of issuers with the same feed, the first stands for all where the feed is awaited.
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

/// What the host must do about a request. [`Guard::count`] counts it once it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// Whether the request passes.
    pub fate: Fate,
    /// Why the request is refused, or would be, were the mode not report-only.
    pub denial: Option<Denial>,
    /// The token that it came with, once that is verified.
    pub token: Option<Rc<TokenReference>>,
}

/// Whether a request passes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It goes on to the resource server.
    Pass {
        /// Headers to add.
        add: Rc<[Header]>,
        /// Whether the `Authorization` headers must be removed first.
        withhold_authorization: bool,
    },
    /// The filter answers.
    Answer(Answer),
}

impl Effect {
    /// The name in the access log: `allowed`, `anonymous`, `metadata`, or the name of the denial.
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

/// What is fetched of an issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Its metadata, to find its keys.
    Metadata,
    /// Its JWK set.
    Keys,
    /// Its revocation feed.
    Revocations,
    /// Its answer to this question about a token.
    Introspection(u64),
}

impl Subject {
    /// The name in logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Keys => "keys",
            Self::Revocations => "revocations",
            Self::Introspection(_) => "introspection",
        }
    }

    /// The same for all questions.
    const fn kind(self) -> Self {
        match self {
            Self::Introspection(_) => Self::Introspection(0),
            other => other,
        }
    }

    /// Longest answer that is read, in bytes.
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

/// A fetch that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// Index of the issuer. Of issuers with the same feed, the first stands for all.
    pub issuer: usize,
    /// What.
    pub subject: Subject,
    /// From where; the path includes the query.
    pub endpoint: Endpoint,
    /// How long it may take, in seconds.
    pub timeout: u64,
    /// What is posted; a GET if `None`.
    pub form: Option<Form>,
}

/// A form with credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// `Authorization`.
    pub authorization: Secret,
    /// `application/x-www-form-urlencoded`.
    pub body: Secret,
}

impl Fetch {
    /// The method of the request.
    #[must_use]
    pub const fn method(&self) -> &'static str {
        match self.form {
            Some(_) => "POST",
            None => "GET",
        }
    }

    /// Headers of the request, beside those that its endpoint determines.
    #[must_use]
    pub fn headers(&self) -> Vec<(&'static str, &str)> {
        let mut headers = vec![("accept", "application/json")];
        if let Some(form) = &self.form {
            headers.push(("content-type", "application/x-www-form-urlencoded"));
            headers.push(("authorization", form.authorization.expose()));
        }
        headers
    }

    /// The body of the request.
    #[must_use]
    pub fn body(&self) -> Option<&str> {
        self.form.as_ref().map(|form| form.body.expose())
    }

    /// What the log counts failures of: the endpoint, not each token that it is asked about.
    #[must_use]
    pub const fn log_source(&self) -> (usize, Subject) {
        (self.issuer, self.subject.kind())
    }

    /// What requests that need this fetch wait for: those that need keys wait for the metadata too.
    #[must_use]
    pub const fn source(&self) -> (usize, Subject) {
        match self.subject {
            Subject::Metadata => (self.issuer, Subject::Keys),
            subject => (self.issuer, subject),
        }
    }
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
    /// Entries of revocation feeds that were dropped to make room.
    pub revocations_folded: u64,
    /// Entries of revocation feeds that were skipped because their kind is unknown.
    pub revocations_skipped: u64,
    /// Refusals by name.
    pub denied: BTreeMap<&'static str, u64>,
}

#[derive(Debug)]
struct IssuerState {
    keys: KeySet,
    /// `None` for inline keys.
    key_schedule: Option<Schedule>,
    keys_fetched_at: Option<u64>,
    /// Where the metadata says that the keys are.
    discovered: Option<Discovered>,
    /// Of an issuer that is asked about each token.
    introspection: Introspection,
    /// What was last remarked about keys that cannot be used.
    skipped_keys: Skipped,
    /// Index of the feed; `None` without one.
    feed: Option<usize>,
}

/// What an issuer's metadata said.
#[derive(Debug)]
struct Discovered {
    keys: Endpoint,
    /// When it is fetched again, in seconds of the steady clock.
    until: u64,
}

/// A feed, and the first of its issuers.
#[derive(Debug)]
struct SharedFeed {
    issuer: usize,
    feed: Feed,
}

/// All state of one VM.
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

/// The feeds of all issuers, one for each endpoint, and the index of each issuer's.
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
    /// A guard that knows nothing yet but inline keys.
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

    /// With signatures checked by the host, where it can.
    #[must_use]
    pub fn with_host(self, host: Box<dyn HostVerifier>) -> Self {
        Self { host, ..self }
    }

    /// With one poll of a feed for all VMs, where the host has shared data.
    #[must_use]
    pub fn with_shared_data(mut self, shared_data: Box<dyn SharedData>) -> Self {
        self.feeds.iter_mut().for_each(|shared| shared.feed.share());
        Self {
            shared_data,
            ..self
        }
    }

    /// The time, at least once a second.
    pub const fn set_time(&mut self, time: Time) {
        self.time = time;
    }

    /// The wall clock stepped: revocations that were forgotten under the wrong time are read again.
    pub fn doubt(&mut self) {
        for shared in &mut self.feeds {
            shared.feed.doubt(self.time.steady);
        }
    }

    /// Forgets revocations that are over, a part of them at each call: once a second.
    pub fn sweep(&mut self) {
        for shared in &mut self.feeds {
            shared.feed.sweep(self.time.wall);
        }
    }

    /// Keeps the feeds in step with the gateway's other VMs. Returns the issuers whose feeds brought something.
    pub fn keep_in_step(&mut self) -> Vec<usize> {
        let mut news = Vec::new();
        for shared in &mut self.feeds {
            if shared.feed.keep_in_step(&*self.shared_data, self.time) {
                news.push(shared.issuer);
            }
        }
        news
    }

    /// Whether [`Guard::keep_in_step`] should be called twenty times a second.
    #[must_use]
    pub fn follows(&self) -> bool {
        self.feeds.iter().any(|shared| shared.feed.follows())
    }

    /// Whether the issuer's feed is being read and its end is not reached yet.
    #[must_use]
    pub fn is_catching_up(&self, issuer: usize) -> bool {
        let feed = self.feed(issuer);
        feed.is_some_and(Feed::is_catching_up)
    }

    /// What the log should say about feeds, each with its issuer.
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

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether a request header must be removed, whatever becomes of the request.
    #[must_use]
    pub fn strips(&self, header: &[u8]) -> bool {
        self.stripped.has(header)
    }

    /// What a decision means for the host, report-only mode included. A request that was told to wait and has no patience
    /// left is refused.
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

    /// A refusal, in report-only mode too: for a request that may still carry what only the filter may set, or a token that
    /// the resource server must not see.
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

    /// Counts what was carried out.
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

    /// Decides. `tick` is the time of the last tick, good to a second; `clock` is asked for the exact time only
    /// when a token is seen for the first time. Seconds since 1970.
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

    /// Decides about a token that was verified before, if what was found then still holds.
    fn by_cache(&mut self, credentials: &[u8], scopes: &[String], tick: u64) -> Option<Outcome> {
        let hit = self.cache.get(credentials)?;
        let still_good = self.issuers.get(hit.issuer).is_some_and(|issuer| {
            issuer.still_good(hit, &self.config, &self.feeds, tick, self.time)
        });
        if !still_good {
            // The full way says what is wrong with it now.
            self.cache.remove(credentials);
            return None;
        }
        self.counts.cache_hits += 1;
        Some(permitted(scopes, &hit.scopes, &hit.headers, &hit.reference))
    }

    /// Decides about a token that is seen for the first time.
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

    /// The fetches that are due. Each counts as started. Times are those of the steady clock, here and below.
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

    /// A fetch failed.
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

    /// Whether another fetch follows at once for the requests that wait for this one, which brought something usable or
    /// did not.
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

    /// Whether the issuer's keys were ever known.
    #[must_use]
    pub fn has_keys(&self, issuer: usize) -> bool {
        self.issuers
            .get(issuer)
            .is_some_and(|state| !state.keys.is_empty())
    }

    /// Whether a fetch of this ever brought something usable.
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

    /// What happened since the last call.
    pub fn take_counts(&mut self) -> Counts {
        let feeds = || self.feeds.iter().map(|shared| &shared.feed);
        let folded = feeds().map(|feed| feed.revocations().folded()).sum();
        let skipped = feeds().map(Feed::skipped).sum();
        self.counts.revocations_folded = folded - std::mem::replace(&mut self.folded, folded);
        self.counts.revocations_skipped = skipped - std::mem::replace(&mut self.skipped, skipped);
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
        let feeds = self.feeds.iter();
        oldest(feeds.map(|shared| shared.feed.completed_at()), now)
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
        let without = (0..self.issuers.len()).filter(|issuer| {
            let feed = self.feed(*issuer);
            feed.is_some_and(|feed| feed.completed_at().is_none())
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
        let feeds = self.feeds.iter();
        feeds.map(|shared| shared.feed.revocations().len()).sum()
    }

    /// Feeds whose table is full, so that tokens are refused for their age.
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

/// When a token is looked at.
#[derive(Debug, Clone, Copy)]
struct Moment {
    now: Time,
    /// Clock skew, in seconds.
    skew: u64,
    patience: Patience,
}

enum Check {
    Wait(Subject),
    /// With the token, if it is verified.
    Deny(Denial, Option<Rc<TokenReference>>),
}

impl IssuerState {
    /// Takes inline keys out of the configuration.
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

    /// Whether a token that was verified once would be accepted again. `tick` in seconds since 1970.
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

    /// The verified token, and until when it counts as active: seconds of the steady clock.
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
                // Without an answer from the issuer, nobody can say that the key is not there.
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

    /// The fetch on the way to keys that is due, if one is: it counts as started.
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

    /// The issuer's metadata came: its keys are fetched next.
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

    /// A fetch on the way to keys failed. Without newer metadata, the keys are where they were.
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
}

/// Whether the feed says enough to decide about tokens of this issuer.
fn is_usable(feed: &Feed, issuer: &IssuerConfig, now: u64) -> bool {
    issuer.revocations.as_ref().is_none_or(|source| {
        source.when_stale == WhenStale::Allow || feed.is_fresh(source.max_staleness_seconds, now)
    })
}

/// What a request must have to pass.
enum Needed<'a> {
    /// Nothing: the path is open to everybody.
    Nothing,
    /// A token with all of these scopes.
    Token(&'a [String]),
}

/// What the first rule that fits asks of a request.
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

/// The one bearer token of a request (RFC 6750 §2).
fn presented<'a>(request: &Request<'a>) -> Result<&'a [u8], Denial> {
    match authorization::read(request.authorization) {
        Err(malformed) => Err(Denial::Credentials(malformed)),
        Ok(Credentials::None) => Err(Denial::NoToken),
        Ok(Credentials::Bearer(_)) if has_query_token(request.target) => Err(Denial::TwoTokens),
        Ok(Credentials::Bearer(credentials)) => Ok(credentials),
    }
}

/// Allows what a verified token permits.
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
