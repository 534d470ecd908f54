//! The decision about each request. A [`Guard`] holds all keys, revocations and cached tokens of one VM. The
//! [`driver`](crate::driver) passes the time in, and carries out the fetches that [`Guard::due`] returns. The guard
//! calls the host only to verify signatures and to read and write shared data.

mod counts;
mod effect;
mod fetching;
mod hand_over;
mod issuer;
mod possession;
mod requirements;
mod shared_feed;

use std::collections::BTreeMap;
use std::sync::Arc;

use claims::dpop::UsedProofs;
use keys::signature::{HostVerifier, NoHostVerifier};
use serde_json::Value;

pub(crate) use self::counts::Counts;
pub use self::counts::Metrics;
pub use self::effect::{Authorization, Connection, Effect, Fate, Request};
pub(crate) use self::effect::{Decision, Patience};

use self::issuer::{Checked, IssuerState, Moment};
use self::possession::Permit;
use self::requirements::{Presented, needed, presented, scopes_of};
use self::shared_feed::{SharedFeed, feeds};
use crate::answers;
use crate::authorization::{self, Credentials, Scheme};
use crate::cache::{CachedToken, TokenCache};
use crate::clock::Time;
use crate::config::{Config, ForwardAuthorization};
use crate::fetch::{Fetch, FetchId, FetchKind};
use crate::forward::{self, Header, Stripped};
use crate::rules::Access;
use crate::shared_data::{NoSharedData, SharedData};
use crate::verdict::{Denial, Verdict};
use crate::verify::{self, ParsedToken, Refusal, TokenReference};

#[derive(Debug)]
pub struct Guard {
    config: Arc<Config>,
    by_name: BTreeMap<String, usize>,
    stripped: Stripped,
    issuers: Vec<IssuerState>,
    feeds: Vec<SharedFeed>,
    time: Time,
    cache: TokenCache,
    counts: Counts,
    no_headers: Arc<[Header]>,
    host: Host,
}

/// What the guard uses of its host.
#[derive(Debug)]
struct Host {
    verifier: Box<dyn HostVerifier>,
    shared_data: Box<dyn SharedData>,
    /// Where the host has no shared data.
    used_proofs: UsedProofs,
}

impl Guard {
    /// Creates a guard that knows no keys except inline ones.
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
            cache: TokenCache::new(config.token_cache_entries, config.token_cache_bytes),
            counts: Counts::default(),
            no_headers: Arc::new([]),
            host: Host {
                verifier: Box::new(NoHostVerifier),
                shared_data: Box::new(NoSharedData),
                used_proofs: UsedProofs::default(),
            },
            config: Arc::new(config),
        }
    }

    /// Creates a guard with the same configuration, for another thread. It shares the feeds with this one, which reads
    /// them, and for now the keys ([`Guard::adopt`]), but has its own cache.
    #[must_use]
    pub(crate) fn sibling(
        &self,
        verifier: Box<dyn HostVerifier>,
        shared_data: Box<dyn SharedData>,
    ) -> Self {
        Self {
            by_name: self.by_name.clone(),
            stripped: self.stripped.clone(),
            issuers: self.issuers.iter().map(IssuerState::sibling).collect(),
            feeds: self.feeds.iter().map(SharedFeed::sibling).collect(),
            time: self.time,
            cache: TokenCache::new(
                self.config.token_cache_entries,
                self.config.token_cache_bytes,
            ),
            counts: Counts::default(),
            no_headers: Arc::new([]),
            host: Host {
                verifier,
                shared_data,
                used_proofs: self.host.used_proofs.clone(),
            },
            config: Arc::clone(&self.config),
        }
    }

    /// Takes over what another guard of this process learned from a fetch of keys or metadata, and when they are fetched next.
    pub(crate) fn adopt(&mut self, fetch: &Fetch, other: &Self) {
        let states = self.issuers.get_mut(fetch.issuer);
        let states = states.zip(other.issuers.get(fetch.issuer));
        if let Some((state, other)) = states
            && matches!(fetch.kind, FetchKind::Keys | FetchKind::Metadata)
        {
            state.adopt(other);
        }
    }

    /// Lets the host verify the signatures of the algorithms that it offers.
    #[must_use]
    pub fn with_host(mut self, verifier: Box<dyn HostVerifier>) -> Self {
        self.host.verifier = verifier;
        self
    }

    /// Shares each feed among all VMs, so that only one VM polls, if the host has shared data. Takes over the keys that an
    /// earlier VM has left there.
    #[must_use]
    pub fn with_shared_data(mut self, shared_data: Box<dyn SharedData>) -> Self {
        self.own_feeds().for_each(|shared| shared.write().share());
        for (state, config) in self.issuers.iter_mut().zip(&self.config.issuers) {
            state.inherit_keys(config, &*shared_data);
        }
        self.host.shared_data = shared_data;
        self
    }

    /// Sets the time. The host calls this at least once a second.
    pub(crate) const fn set_time(&mut self, time: Time) {
        self.time = time;
    }

    pub(crate) fn shared_data(&self) -> &dyn SharedData {
        &*self.host.shared_data
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// True if the host must remove this request header, whatever the decision.
    pub fn strips(&self, header: &[u8]) -> bool {
        self.stripped.has(header)
    }

    /// The header of `forward` that `name`, in lower case, spells in another way.
    pub fn respelled(&self, name: &str) -> Option<&str> {
        self.stripped.respelled(name)
    }

    /// Refuses the request, unless report-only mode lets it pass.
    pub fn denial(&self, denial: Denial, token: Option<Arc<TokenReference>>) -> Effect {
        self.denied(denial, token, Scheme::Bearer, Vec::new)
    }

    /// Refuses the request, in report-only mode too. For requests that may still carry a header that only the
    /// filter may set, or a token that the resource server must not see.
    pub fn refusal(&self, denial: Denial, token: Option<Arc<TokenReference>>) -> Effect {
        self.refused(denial, token, Scheme::Bearer, &[])
    }

    /// `scopes`: those that the rule requires.
    #[cold]
    fn denied(
        &self,
        denial: Denial,
        token: Option<Arc<TokenReference>>,
        scheme: Scheme,
        scopes: impl FnOnce() -> Vec<String>,
    ) -> Effect {
        if self.config.report_only {
            return Effect {
                denial: Some(denial),
                ..self.pass(Arc::clone(&self.no_headers), token, false)
            };
        }
        let scopes = match denial.status(&self.config) == 401 {
            true => scopes(),
            false => Vec::new(),
        };
        self.refused(denial, token, scheme, &scopes)
    }

    #[cold]
    fn refused(
        &self,
        denial: Denial,
        token: Option<Arc<TokenReference>>,
        scheme: Scheme,
        scopes: &[String],
    ) -> Effect {
        let answer = denial.answer(&self.config, scheme, scopes, self.time.wall);
        Effect {
            fate: Fate::Answer(answer),
            denial: Some(denial),
            token,
        }
    }

    /// The configuration may withhold the `Authorization` headers of every request.
    fn pass(
        &self,
        add: Arc<[Header]>,
        token: Option<Arc<TokenReference>>,
        withhold: bool,
    ) -> Effect {
        let never = self.config.forward_authorization == ForwardAuthorization::Withheld;
        let authorization = match withhold || never {
            true => Authorization::Withheld,
            false => Authorization::AsSent,
        };
        Effect {
            fate: Fate::Pass { add, authorization },
            denial: None,
            token,
        }
    }

    /// Counts an effect that the host has carried out.
    pub(crate) fn count(&mut self, effect: &Effect) {
        let passes = matches!(effect.fate, Fate::Pass { .. });
        if let Some(denial) = &effect.denial {
            match denial.is_step() {
                true => self.counts.nonces_offered += 1,
                false => *self.counts.denied.entry(denial.name()).or_default() += 1,
            }
            self.counts.reported += u64::from(passes);
        } else if passes && effect.token.is_some() {
            self.counts.allowed += 1;
        } else if passes {
            self.counts.anonymous += 1;
        }
    }

    /// Decides about a request, with report-only mode applied. The guard calls `clock` for the exact time, in seconds since 1970,
    /// only if the token is not in the cache, or comes with a proof.
    pub(crate) fn decide(
        &mut self,
        request: Request<'_>,
        patience: Patience,
        clock: impl Fn() -> u64,
    ) -> Decision {
        if let Some(answer) = answers::metadata(&self.config, request.method, request.target) {
            return Decision::Now(Effect {
                fate: Fate::Answer(answer),
                denial: None,
                token: None,
            });
        }
        let access = match needed(&self.config.rules, &request) {
            Ok(access) => access,
            Err(denial) => return Decision::Now(self.denial(denial, None)),
        };
        if let Access::Anonymous {
            forward_authorization,
        } = *access
        {
            let has_some = !request.authorization.is_empty();
            // In report-only mode, the resource server still checks tokens itself.
            let withhold = has_some && !forward_authorization && !self.config.report_only;
            let add = Arc::clone(&self.no_headers);
            return Decision::Now(self.pass(add, None, withhold));
        }
        let mut scheme = Scheme::default();
        let verdict = match presented(&self.config, &request, &mut scheme) {
            Err(denial) => Verdict::Deny(denial, None),
            Ok(mut presented) => {
                // If the token would no longer be accepted, the full verification finds the reason.
                let hit = self.cache.get_if(presented.credentials, |hit| {
                    let issuer = self.issuers.get(hit.issuer);
                    issuer.is_some_and(|issuer| {
                        issuer.still_good(hit, &self.config, &self.feeds, self.time)
                    })
                });
                match hit {
                    Some(hit) => {
                        self.counts.cache_hits += 1;
                        let inspector = self.host.inspector(&self.config);
                        inspector.permitted(&access, hit, &mut presented, &request, &clock)
                    }
                    None => {
                        let access = access.into_owned();
                        self.by_verification(&mut presented, &request, &access, patience, &clock)
                    }
                }
            }
        };
        self.effect(verdict, scheme, &request)
    }

    /// What becomes of a request with this verdict. Not inlined into each instance of [`Guard::decide`], which must fit into
    /// little of the processor's cache.
    #[inline(never)]
    fn effect(
        &self,
        verdict: Verdict<Permit, FetchId>,
        scheme: Scheme,
        request: &Request<'_>,
    ) -> Decision {
        match verdict {
            Verdict::Wait(source) => Decision::After(source),
            Verdict::Accepted((add, token)) => {
                let mut effect = self.pass(add, Some(token), false);
                if scheme == Scheme::Dpop
                    && self.config.forward_authorization == ForwardAuthorization::AsBearer
                    && let Some(value) = as_bearer(request)
                    && let Fate::Pass { authorization, .. } = &mut effect.fate
                {
                    *authorization = Authorization::AsBearer(value);
                }
                Decision::Now(effect)
            }
            Verdict::Deny(denial, token) => {
                let scopes = || scopes_of(&self.config.rules, request);
                Decision::Now(self.denied(denial, token, scheme, scopes))
            }
        }
    }

    /// Decides about a token that is not in the cache. Apart from the code for known tokens, which must fit into little of the
    /// processor's cache.
    #[cold]
    fn by_verification(
        &mut self,
        presented: &mut Presented<'_>,
        request: &Request<'_>,
        needed: &Access,
        patience: Patience,
        clock: &impl Fn() -> u64,
    ) -> Verdict<Permit, FetchId> {
        let credentials = presented.credentials;
        let token = match authorization::access_token(credentials) {
            Ok(token) => token,
            Err(malformed) => return Verdict::Deny(Denial::Credentials(malformed), None),
        };
        self.counts.cache_misses += 1;
        let now = clock();
        let parsed = match ParsedToken::parse(token, &self.config.issuers, &self.by_name) {
            Ok(parsed) => parsed,
            Err(refusal) => return Verdict::Deny(Denial::Token(refusal), None),
        };
        let index = parsed.issuer;
        let (Some(state), Some(config)) =
            (self.issuers.get_mut(index), self.config.issuers.get(index))
        else {
            return Verdict::Deny(Denial::Token(Refusal::Issuer), None);
        };
        let feed = state.feed.and_then(|feed| self.feeds.get(feed));
        let moment = Moment {
            now: Time {
                wall: now,
                ..self.time
            },
            skew: self.config.clock_skew_seconds,
            patience,
        };
        match state.check(token, parsed, config, feed, &*self.host.verifier, moment) {
            Verdict::Wait(source) => Verdict::Wait(source),
            Verdict::Deny(denial, token) => Verdict::Deny(denial, token),
            Verdict::Accepted(Checked {
                token: verified,
                active_until,
                not_revoked_at,
            }) => {
                let cached = CachedToken {
                    issuer: index,
                    key: verified.key,
                    refused_from: verified.refused_from,
                    reference: verified.reference,
                    confirmation: verified.confirmation,
                    not_revoked_at,
                    active_until,
                    authenticated_at: verified.claims.get("auth_time").and_then(Value::as_u64),
                    scopes: verify::scopes(&verified.claims),
                    claims: self.config.rules.values_in(&verified.claims),
                    headers: forward::headers(
                        &self.config.forward,
                        self.config.forward_payload.as_deref(),
                        &verified.claims,
                    )
                    .into(),
                };
                let inspector = self.host.inspector(&self.config);
                let verdict = inspector.permitted(needed, &cached, presented, request, || now);
                self.cache.insert(credentials, cached);
                verdict
            }
        }
    }
}

/// The value of `Authorization` with the scheme Bearer.
#[cold]
fn as_bearer(request: &Request<'_>) -> Option<String> {
    let Ok(Credentials::Token(_, token)) = authorization::read(request.authorization) else {
        return None;
    };
    let token = str::from_utf8(token).ok()?;
    Some(format!("Bearer {token}"))
}

#[cfg(test)]
mod tests;
