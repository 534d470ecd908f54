//! Identity providers: their keys, their endpoints, and the redemption of their codes. These are the only requests that the service
//! sends to identity providers, and their addresses come from the configuration: an issuer's own origin and the listed hosts.
//!
//! Each provider has one fetch at a time, of metadata and then keys, at intervals. A token whose key is unknown causes a fetch
//! sooner, but at most one in two seconds, and all such tokens wait for the same. Keys that were fetched stay in use while the
//! provider does not answer.

mod fetching;
mod redeeming;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use futures_util::future::join_all;
use keys::algorithm::Algorithm;
use keys::failures::{Failures, Severity};
use keys::schedule::{Schedule, TIMEOUT_SECONDS};
use keys::{Key, KeySet};
use process::fetch::Client;
use protocol::identity_provider::{IdentityProvider, ProviderKeys, Unavailable};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use url::Url;

use crate::config::{Config, ProviderConnection, REFRESH_SECONDS};
use crate::telemetry::metrics::ProviderMetrics;
pub(crate) use redeeming::RedeemError;

/// Time limit for all requests together that one person or client waits for, with the wait for a turn.
const TIMEOUT: Duration = Duration::from_secs(TIMEOUT_SECONDS);

/// Redemptions of one provider at once, each with a thread. More wait.
const REDEMPTIONS: usize = 16;

/// Requests that wait for one provider's next fetch. More are answered by what is known.
const MOST_WAITING: usize = 256;

/// How often a due fetch is looked for.
const EVERY: Duration = Duration::from_secs(1);

/// The same, while a request waits for the fetch.
const TICK: Duration = Duration::from_millis(100);

/// Where people sign in at a provider, and where the service redeems their codes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoints {
    pub authorization_endpoint: Url,
    pub token_endpoint: Url,
    /// Authorization responses have the parameter `iss` (RFC 9207 §3).
    pub iss_parameter_supported: bool,
    /// `token_endpoint_auth_methods_supported`; empty if the provider does not say.
    pub token_endpoint_auth_methods: Vec<String>,
}

/// All providers of the configuration.
#[derive(Debug)]
pub(crate) struct Providers(BTreeMap<String, Arc<Provider>>);

#[derive(Debug)]
struct Provider {
    settings: IdentityProvider,
    connection: ProviderConnection,
    client: Client,
    metrics: ProviderMetrics,
    /// Time limit for all that one person or client waits for.
    limit: Duration,
    start: Instant,
    state: Mutex<State>,
    waiting: Semaphore,
    redemptions: Arc<Semaphore>,
}

#[derive(Debug)]
struct State {
    schedule: Schedule,
    /// Closed when the running fetch has ended.
    running: Option<watch::Receiver<()>>,
    keys: KeySet,
    /// When the keys were fetched.
    keys_at: Option<Instant>,
    endpoints: Option<Arc<Endpoints>>,
    /// Why the last fetch failed.
    failure: Option<String>,
    fetches: Failures,
    redemptions: Failures,
}

/// Until when one person or client, who comes now, waits for all requests together.
pub(crate) fn deadline() -> Instant {
    Instant::now() + TIMEOUT
}

impl Providers {
    /// # Errors
    /// A file of the configuration cannot be read: certificates, a client secret or a client's key.
    pub(crate) fn new(config: &Config, metrics: &ProviderMetrics) -> anyhow::Result<Self> {
        Self::within(config, metrics, TIMEOUT)
    }

    /// [`Self::new`] with another time limit.
    fn within(config: &Config, metrics: &ProviderMetrics, limit: Duration) -> anyhow::Result<Self> {
        let start = Instant::now();
        let settings = config.protocol.identity_providers.iter();
        let providers = settings.zip(&config.identity_providers);
        let providers = providers.map(|(settings, connection)| {
            let of = || format!("identity provider {}", settings.id);
            if let Some(credential) = &connection.credential {
                redeeming::check(credential).with_context(of)?;
            }
            metrics.register(&settings.id);
            let provider = Provider {
                client: Client::new(connection.ca_file.as_deref()).with_context(of)?,
                settings: settings.clone(),
                connection: connection.clone(),
                metrics: metrics.clone(),
                limit,
                start,
                state: Mutex::new(State {
                    schedule: Schedule::new(REFRESH_SECONDS),
                    running: None,
                    keys: KeySet::default(),
                    keys_at: None,
                    endpoints: None,
                    failure: None,
                    fetches: Failures::default(),
                    redemptions: Failures::default(),
                }),
                waiting: Semaphore::new(MOST_WAITING),
                redemptions: Arc::new(Semaphore::new(REDEMPTIONS)),
            };
            Ok((settings.id.clone(), Arc::new(provider)))
        });
        Ok(Self(providers.collect::<anyhow::Result<_>>()?))
    }

    /// Fetches keys and endpoints when they are due, until aborted.
    pub(crate) async fn run(&self) {
        join_all(self.0.values().map(|provider| async {
            let mut ticks = interval(EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                provider.fetch_if_due();
            }
        }))
        .await;
    }

    /// False if the last fetch from `provider` failed.
    pub(crate) fn answers(&self, provider: &IdentityProvider) -> bool {
        let provider = self.of(provider);
        provider.is_ok_and(|provider| provider.state().failure.is_none())
    }

    /// Where people sign in at `provider`. Waits five seconds at most.
    ///
    /// # Errors
    /// The endpoints were never fetched, or people do not sign in with the provider.
    pub(crate) async fn endpoints(
        &self,
        provider: &IdentityProvider,
    ) -> Result<Arc<Endpoints>, Unavailable> {
        self.of(provider)?.endpoints().await
    }

    /// Redeems an authorization code for an ID token, which is not verified yet. Waits until the [`deadline`] at most.
    ///
    /// # Errors
    /// [`RedeemError`].
    pub(crate) async fn redeem(
        &self,
        provider: &IdentityProvider,
        code: &str,
        redirect_uri: &str,
        code_verifier: &str,
        until: Instant,
    ) -> Result<String, RedeemError> {
        let provider = self.of(provider)?;
        provider
            .redeem(code, redirect_uri, code_verifier, until)
            .await
    }

    /// Fetches metadata and keys of `provider` now. Returns the number of usable keys, and the endpoints if people sign in with the
    /// provider.
    ///
    /// # Errors
    /// [`Unavailable`] if an answer is missing or unusable.
    pub(crate) async fn probe(
        &self,
        provider: &IdentityProvider,
    ) -> Result<(usize, Option<Arc<Endpoints>>), Unavailable> {
        let provider = self.of(provider)?;
        provider.fetch().await;
        let state = provider.state();
        match &state.failure {
            Some(why) => Err(provider.unavailable(why)),
            None => Ok((state.keys.len(), state.endpoints.clone())),
        }
    }

    /// Sets the gauges of the metrics.
    pub(crate) fn measure(&self) {
        for (id, provider) in &self.0 {
            if let Some(at) = provider.state().keys_at {
                provider.metrics.keys_age(id, at.elapsed());
            }
        }
    }

    fn of(&self, provider: &IdentityProvider) -> Result<&Arc<Provider>, Unavailable> {
        self.0.get(&provider.id).ok_or_else(|| Unavailable {
            provider: provider.id.clone(),
            why: "it is not in the configuration".to_owned(),
        })
    }
}

#[async_trait]
impl ProviderKeys for Providers {
    async fn key(
        &self,
        provider: &IdentityProvider,
        kid: &str,
        algorithm: Algorithm,
    ) -> Result<Option<Arc<Key>>, Unavailable> {
        self.of(provider)?.key(kid, algorithm).await
    }
}

impl Provider {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seconds of the steady clock.
    fn now(&self) -> u64 {
        self.start.elapsed().as_secs()
    }

    fn unavailable(&self, why: impl Into<String>) -> Unavailable {
        Unavailable {
            provider: self.settings.id.clone(),
            why: why.into(),
        }
    }

    fn late(&self) -> Unavailable {
        self.unavailable(format!("no answer within {:?}", self.limit))
    }

    /// Why there is no answer. The library does not name the limit when the time is over.
    fn no_answer(&self, why: String, until: Instant) -> String {
        match Instant::now() < until {
            true => why,
            false => self.late().why,
        }
    }

    async fn key(
        self: &Arc<Self>,
        kid: &str,
        algorithm: Algorithm,
    ) -> Result<Option<Arc<Key>>, Unavailable> {
        let known = |state: &State| state.keys.get(kid, algorithm).cloned();
        if let Some(key) = self.known(known) {
            return Ok(Some(key));
        }
        self.next_fetch().await?;
        let state = self.state();
        match known(&state) {
            None if state.failure.is_some() || state.keys_at.is_none() => Err(self.failure(&state)),
            key => Ok(key),
        }
    }

    async fn endpoints(self: &Arc<Self>) -> Result<Arc<Endpoints>, Unavailable> {
        if self.settings.client_id.is_none() {
            return Err(self.unavailable("it has no client_id in the configuration"));
        }
        let known = |state: &State| state.endpoints.clone();
        if let Some(endpoints) = self.known(known) {
            return Ok(endpoints);
        }
        self.next_fetch().await?;
        let state = self.state();
        known(&state).ok_or_else(|| self.failure(&state))
    }

    fn failure(&self, state: &State) -> Unavailable {
        let why = state.failure.as_deref();
        self.unavailable(why.unwrap_or("too many requests wait for it"))
    }

    /// What is known, without waiting. If a fetch is due, it starts.
    fn known<T>(self: &Arc<Self>, known: impl Fn(&State) -> Option<T>) -> Option<T> {
        let known = known(&self.state())?;
        self.fetch_if_due();
        Some(known)
    }

    /// Waits for the end of the next fetch, which starts as soon as the schedule allows.
    ///
    /// # Errors
    /// The fetch did not end in time, or too many wait already.
    async fn next_fetch(self: &Arc<Self>) -> Result<(), Unavailable> {
        let Ok(_place) = self.waiting.try_acquire() else {
            return Err(self.unavailable("too many requests wait for it"));
        };
        let mut running = {
            let mut state = self.state();
            match state.running() {
                Some(running) => running,
                None => {
                    state.schedule.hurry(self.now());
                    self.start_fetch(&mut state)
                }
            }
        };
        // Nothing is sent: the channel closes when the fetch has ended.
        let ended = timeout(self.limit, running.changed()).await;
        ended.map(drop).map_err(|_| self.late())
    }

    fn fetch_if_due(self: &Arc<Self>) {
        let mut state = self.state();
        if state.running().is_none() && state.schedule.is_due(self.now()) {
            self.start_fetch(&mut state);
        }
    }

    /// Starts a task that continues when the request that started it ends.
    fn start_fetch(self: &Arc<Self>, state: &mut State) -> watch::Receiver<()> {
        let (end, running) = watch::channel(());
        state.running = Some(running.clone());
        let provider = Arc::clone(self);
        tokio::spawn(async move {
            let mut ticks = interval(TICK);
            while !provider.state().schedule.is_due(provider.now()) {
                ticks.tick().await;
            }
            provider.fetch().await;
            drop(end);
        });
        running
    }
}

impl State {
    fn running(&self) -> Option<watch::Receiver<()>> {
        let running = self.running.as_ref();
        running
            .filter(|running| running.has_changed().is_ok())
            .cloned()
    }
}

/// What the log and error messages get of a reason, which may quote the provider.
fn clipped(why: &str) -> String {
    const LONGEST: usize = 300;
    let printable = why.chars().filter(|character| !character.is_control());
    printable.take(LONGEST).collect()
}

/// The messages of failures in the log.
const UNAVAILABLE: &str = "identity provider unavailable";
const CREDENTIALS_REFUSED: &str = "the identity provider refused the credentials of the service: check client_id, and \
                                   client_secret_file or client_key_file";

/// Writes a failure to the log, unless the log has it.
fn log_failure(
    severity: Option<Severity>,
    provider: &str,
    request: &str,
    why: &str,
    message: &str,
) {
    match severity {
        Some(Severity::Error) => {
            tracing::error!(provider, request, why, "{message}");
        }
        Some(Severity::Warning | Severity::Info) => {
            tracing::warn!(provider, request, why, "{message}");
        }
        None => {}
    }
}
