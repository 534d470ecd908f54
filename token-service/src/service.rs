//! The running service: configuration, directory of registrations, store, clock, randomness, keys.

pub(crate) mod limits;
pub(crate) mod notices;
pub(crate) mod readiness;
pub(crate) mod sweep_time;
pub(crate) mod upkeep;

use std::io::IsTerminal as _;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use claims::dpop::UsedProofs;
use process::Opener;
use tokio::sync::{Mutex, Notify};

use crate::admin_tokens::{AdminTokens, Holder};
use crate::config::Config;
use crate::feed::RevocationFeed;
use crate::mail::Mailer;
use crate::providers::Providers;
use crate::service::limits::RevocationLimit;
use crate::service::readiness::{ClockDifference, Readiness};
use crate::telemetry::audit_log::{AuditLog, Entry, Origin, StandardOutput};
use crate::telemetry::metrics::Metrics;
use domain::clock::{Clock, Timestamp};
use domain::random::Random;
use domain::{AuditAction, AuditEvent, RegistryChange, RegistryOutcome, RegistrySummary};
use protocol::Context;
use protocol::Directory;
use protocol::secret_uses::SecretUses;
use protocol::token::rotation::{self, Policy};
use protocol::token::{IdentityTokens, KeyRing, KeyRingError, carry_out};
use registry::change::Registry;
use secrets::sealing::EncryptionKey;
use store::{Store, StoreError};

/// The running service, shared by all requests.
pub(crate) struct Service {
    pub config: Config,
    pub store: Arc<dyn Store>,
    /// Read once per request.
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    /// Seals and opens secrets at rest.
    pub encryption_key: EncryptionKey,
    pub audit: Arc<AuditLog>,
    pub metrics: Metrics,
    pub revocation_limit: RevocationLimit,
    pub feed: RevocationFeed,
    /// `None`: the service sends no messages.
    pub mailer: Option<Mailer>,
    /// Wakes the task that sends notices, after a change that owes one.
    pub owed: Notify,
    pub providers: Providers,
    pub secret_uses: SecretUses,
    pub readiness: Readiness,
    used_proofs: UsedProofs,
    pushed_proofs: UsedProofs,
    admin_tokens: AdminTokens,
    directory: Directory,
    registry_turn: Mutex<()>,
    keys: ArcSwap<KeyRing>,
    /// Why the current signing key cannot be opened.
    unopened: ArcSwapOption<KeyRingError>,
    identity_tokens: IdentityTokens,
    draining: OnceLock<Opener>,
}

impl Service {
    /// Assembles the service and opens the signing keys. The first start creates the first key.
    ///
    /// # Errors
    /// If the keys, or a file that the configuration of mail names, cannot be read.
    pub(crate) async fn new(
        config: Config,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        encryption_key: EncryptionKey,
        admin_tokens: AdminTokens,
    ) -> anyhow::Result<Self> {
        let directory = Directory::open(Arc::clone(&store), CACHE_BYTES).await?;
        let policy = Policy::of(&config.protocol, &directory.summary().legacy_instances);
        let keys = KeyRing::open(&*store, &encryption_key, &policy, clock.now()).await?;
        let is_terminal = std::io::stdout().is_terminal();
        let output =
            StandardOutput::of(config.audit.standard_output, config.log_format, is_terminal);
        let audit = Arc::new(AuditLog::new(&config.audit, output));
        let metrics = Metrics::new(&*store, &directory, clock.now());
        let feed = RevocationFeed::new(
            Arc::clone(&store),
            config.protocol.issuer.clone(),
            metrics.feed.clone(),
        );
        let mail = config.mail.as_ref();
        let mailer = mail.map(|mail| Mailer::new(mail, metrics.mail.clone()));
        let mailer = mailer.transpose()?;
        let providers = Providers::new(&config, &metrics.providers)?;
        Ok(Self {
            providers,
            revocation_limit: RevocationLimit::new(config.revocations_per_second),
            config,
            feed,
            mailer,
            owed: Notify::new(),
            audit,
            metrics,
            secret_uses: SecretUses::default(),
            readiness: Readiness::default(),
            used_proofs: UsedProofs::default(),
            pushed_proofs: UsedProofs::default(),
            admin_tokens,
            registry_turn: Mutex::default(),
            draining: OnceLock::new(),
            store,
            clock,
            random,
            encryption_key,
            directory,
            keys: ArcSwap::from_pointee(keys),
            unopened: ArcSwapOption::empty(),
            identity_tokens: IdentityTokens::default(),
        })
    }

    pub(crate) fn keys(&self) -> Arc<KeyRing> {
        self.keys.load_full()
    }

    pub(crate) fn key_policy(&self) -> Policy {
        let summary = self.directory.summary();
        Policy::of(&self.config.protocol, &summary.legacy_instances)
    }

    /// Carries out the due steps for the signing keys and loads changed keys.
    ///
    /// # Errors
    /// A [`KeyRingError`]; the loaded keys stay unchanged.
    pub(crate) async fn maintain_keys(&self) -> Result<(), KeyRingError> {
        let (policy, now) = (self.key_policy(), self.clock.now());
        let keys = self.keys();
        let refreshed = keys.refreshed(&*self.store, &self.encryption_key, &policy, now);
        match refreshed.await {
            Ok(keys) => {
                self.unopened.store(None);
                if let Some(keys) = keys {
                    self.keys.store(Arc::new(keys));
                }
                Ok(())
            }
            Err(error) => {
                if matches!(error, KeyRingError::Sealing { signs: true, .. }) {
                    self.unopened.store(Some(Arc::new(error.clone())));
                }
                Err(error)
            }
        }
    }

    /// Why this process cannot open the current signing key: its tokens would be the only ones of an old key, and it
    /// refuses the tokens of other replicas. `None` if it can.
    pub(crate) fn unopened_signing_key(&self) -> Option<Arc<KeyRingError>> {
        self.unopened.load_full()
    }

    /// Rotates the signing keys on demand: see [`rotation::on_demand`]. The audit log gets `event`. This process signs with
    /// them after [`Self::maintain_keys`].
    pub(crate) async fn rotate_keys(
        &self,
        announced: bool,
        event: AuditEvent,
    ) -> Result<(), KeyRingError> {
        let (policy, now) = (self.key_policy(), self.clock.now());
        let keys = self.store.signing_keys().await?;
        let steps = rotation::on_demand(&keys, &policy, announced, now);
        let events: Arc<[AuditEvent]> = [event].into();
        let audit = Arc::clone(&events);
        let left = carry_out(steps, &*self.store, &self.encryption_key, audit, now).await?;
        if !left.is_empty() {
            self.store.append_audit(left).await?;
        }
        self.recorded(&events);
        Ok(())
    }

    /// Where requests look up clients and users.
    pub(crate) const fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The holder of this admin token, according to the current file of admin tokens; compared in constant time.
    pub(crate) fn administrator(&self, presented: &[u8]) -> Option<Holder> {
        self.admin_tokens.holder(presented)
    }

    pub(crate) fn record(&self, origin: &Origin, entry: Entry) {
        let event = self.event(origin, entry);
        self.metrics.event(event.action);
        self.audit.record(event);
    }

    pub(crate) fn event(&self, origin: &Origin, entry: Entry) -> AuditEvent {
        entry.event(origin, self.clock.now(), self.config.audit.keep_for)
    }

    /// Counts and prints entries that the store has appended to the audit log together with their change.
    pub(crate) fn recorded(&self, events: &[AuditEvent]) {
        for event in events {
            self.metrics.event(event.action);
            self.audit.tell(event);
        }
    }

    /// Counts `count` entries that the store has appended to the audit log, and prints their number only.
    pub(crate) fn recorded_unlisted(&self, action: AuditAction, count: u64) {
        self.metrics.events(action, count);
        let detail = format!("{count} more at this start; token-service audit lists them");
        let entry = Entry::new(action).detail(detail);
        self.audit.tell(&self.event(&Origin::default(), entry));
    }

    /// From now on the service asks clients to open a new connection, and reports that it is not ready, unless the parent of
    /// the process keeps the sockets for the next process.
    pub(crate) fn start_draining(&self, opener: Opener) {
        let _ = self.draining.set(opener);
        self.feed.end();
    }

    /// True if the service is about to stop.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get().is_some()
    }

    /// True if the service is about to stop and its sockets end with it.
    pub(crate) fn is_leaving(&self) -> bool {
        self.draining.get() == Some(&Opener::Program)
    }

    /// How much the clock differs from the database's, if that is more than the tolerated difference.
    ///
    /// # Errors
    /// The store cannot take writes, or does not answer soon: see [`Readiness::of`].
    pub(crate) async fn ready(&self) -> Result<Option<ClockDifference>, StoreError> {
        let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
        let tolerated = self.config.protocol.lifetimes.clock_skew;
        let check = || async move {
            let before = clock.now();
            let database = store.ready().await?;
            let span = (before, clock.now());
            Ok(database.and_then(|database| ClockDifference::of(span, database, tolerated)))
        };
        self.readiness.of(check).await
    }

    pub(crate) fn moment(&self) -> Moment {
        self.moment_at(self.clock.now())
    }

    /// The current registrations and keys, for a request that came at `now`.
    pub(crate) fn moment_at(&self, now: Timestamp) -> Moment {
        Moment {
            summary: self.directory.summary(),
            keys: self.keys(),
            now,
        }
    }

    /// Like [`Self::moment`], for issuing tokens: see [`Directory::are_recent`].
    ///
    /// # Errors
    /// [`StoreError`] if registrations in memory may be too old.
    pub(crate) fn issuing_moment(&self, now: Timestamp) -> Result<Moment, StoreError> {
        if self.directory.are_recent(Instant::now()) {
            return Ok(self.moment_at(now));
        }
        let reason = "the registrations cannot be compared with those in the store";
        Err(StoreError::Failed(reason.to_owned()))
    }

    pub(crate) fn context<'a>(&'a self, moment: &'a Moment) -> Context<'a> {
        Context {
            settings: &self.config.protocol,
            directory: &self.directory,
            summary: &moment.summary,
            store: &*self.store,
            keys: &moment.keys,
            identity_tokens: &self.identity_tokens,
            encryption_key: &self.encryption_key,
            secret_uses: &self.secret_uses,
            used_proofs: &self.used_proofs,
            pushed_proofs: &self.pushed_proofs,
            provider_keys: &self.providers,
            random: &*self.random,
            now: moment.now,
        }
    }

    /// Waits until the second `at` is over: the next token has a later `iat`. Not longer, if the clock steps back.
    pub(crate) async fn until_after(&self, at: Timestamp) {
        let mut ticks = tokio::time::interval(TICK);
        let over = async {
            while self.clock.now() <= at {
                ticks.tick().await;
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(2), over).await;
    }

    /// Forgets what changed in the store, so that changes take effect.
    pub(crate) async fn follow_registrations(&self) -> Result<(), StoreError> {
        self.directory.follow().await
    }
}

impl Registry for Service {
    fn turn(&self) -> &Mutex<()> {
        &self.registry_turn
    }

    /// The entries in the audit log count. If this process cannot read the change, the log says so, because the change is made, and
    /// the upkeep reads registrations again.
    async fn make(&self, change: RegistryChange) -> Result<RegistryOutcome, StoreError> {
        let events = Arc::clone(&change.audit);
        let owes = !change.notices.is_empty();
        let outcome = self.store.change_registry(change, self.clock.now()).await?;
        if outcome == RegistryOutcome::Changed {
            if owes {
                self.owed.notify_one();
            }
            self.recorded(&events);
            if let Err(error) = self.follow_registrations().await {
                tracing::warn!(%error, "a change was made, but this process has not read it yet");
            }
        }
        Ok(outcome)
    }
}

/// How often a revocation looks whether its second is over.
const TICK: Duration = Duration::from_millis(20);

/// Memory for clients and users that requests use, in bytes. Others are read from the store when a request needs them.
const CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// Registrations, signing keys and time, the same for the whole request.
#[derive(Debug)]
pub(crate) struct Moment {
    pub summary: Arc<RegistrySummary>,
    pub keys: Arc<KeyRing>,
    pub now: Timestamp,
}
