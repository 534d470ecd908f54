//! Metrics for Prometheus. No label has a value that clients choose freely.

use std::sync::atomic::Ordering;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::feed::FeedMetrics;
use domain::clock::Timestamp;
use domain::{AuditAction, CertificateExpiry};
use process::output;
use protocol::Context;
use protocol::token::rotation::{Policy, Signers};
use store::{Counts, Directory, Store};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Route {
    /// The path's pattern, or `unknown`.
    pub route: String,
    /// The method; `OTHER` for uncommon methods.
    pub method: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answer {
    route: String,
    method: &'static str,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Grant {
    grant_type: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refusal {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ActionLabel(AuditAction);

impl EncodeLabelValue for ActionLabel {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.0.name().encode(encoder)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Event {
    action: ActionLabel,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Key {
    kid: String,
    algorithm: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CertificateLabel {
    client_id: String,
    alias: String,
}

/// The counters and their text format.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    log_lines_dropped: Counter,
    audit_lines_dropped: Counter,
    requests: Family<Answer, Counter>,
    durations: Family<Route, Histogram, fn() -> Histogram>,
    token_requests: Family<Grant, Counter>,
    refused_clients: Family<Refusal, Counter>,
    events: Family<Event, Counter>,
    grants: Gauge,
    sessions: Gauge,
    revocations: Gauge,
    audit_entries: Gauge,
    passwords_waiting: Gauge,
    key_age: Family<Key, Gauge>,
    certificate_expiry: Family<CertificateLabel, Gauge>,
    clients: Gauge,
    users: Gauge,
    /// Start time, in seconds since 1970-01-01 UTC.
    start: Gauge,
    feed: FeedMetrics,
    revocations_refused: Counter,
}

impl Metrics {
    /// Creates counters at zero. `store` and `directory` add their own counters.
    #[must_use]
    pub fn new(store: &dyn Store, directory: &Directory, now: Timestamp) -> Self {
        let mut registry = Registry::with_prefix("token_service");
        let of_store = registry.sub_registry_with_prefix("store");
        store.register_metrics(of_store);
        directory.register_metrics(of_store);
        of_store.register(
            "unreadable_rows",
            "Rows skipped because they cannot be read",
            store::unreadable_rows(),
        );
        of_store.register(
            "ended_for_room",
            "Sessions, legacy codes and grants that ended because the user had reached the limit",
            store::ended_for_room(),
        );
        let (log_lines_dropped, audit_lines_dropped) = (Counter::default(), Counter::default());
        registry.register(
            "log_lines_dropped",
            "Log lines dropped because the reader of standard error was too slow",
            Counter::clone(&log_lines_dropped),
        );
        registry.register(
            "audit_lines_dropped",
            "Audit lines dropped because the reader of standard output was too slow",
            Counter::clone(&audit_lines_dropped),
        );
        let mut metrics = Self {
            registry: Registry::default(),
            log_lines_dropped,
            audit_lines_dropped,
            requests: Family::default(),
            durations: Family::new_with_constructor(request_durations),
            token_requests: Family::default(),
            refused_clients: Family::default(),
            events: Family::default(),
            grants: Gauge::default(),
            sessions: Gauge::default(),
            revocations: Gauge::default(),
            audit_entries: Gauge::default(),
            passwords_waiting: Gauge::default(),
            key_age: Family::default(),
            certificate_expiry: Family::default(),
            clients: Gauge::default(),
            users: Gauge::default(),
            start: Gauge::default(),
            feed: FeedMetrics::default(),
            revocations_refused: Counter::default(),
        };
        metrics
            .start
            .set(i64::try_from(now.seconds()).unwrap_or(i64::MAX));
        metrics.register(&mut registry);
        metrics.registry = registry;
        // Prometheus sees an increase only from the second sample of a series, so series with alerts on the first event
        // exist from the start.
        for action in [AuditAction::CodeReplayed, AuditAction::RefreshTokenReused] {
            let action = ActionLabel(action);
            drop(metrics.events.get_or_create(&Event { action }));
        }
        metrics
    }

    /// Counts a client that revokes too often.
    pub fn revocation_refused(&self) {
        self.revocations_refused.inc();
    }

    #[must_use]
    pub const fn feed(&self) -> &FeedMetrics {
        &self.feed
    }

    fn register(&self, registry: &mut Registry) {
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        registry.register("build", "The running version", Info::new(version));
        self.feed.register(registry);
        registry.register(
            "revocations_refused",
            "Revocations refused because the client exceeded its rate",
            self.revocations_refused.clone(),
        );
        registry.register(
            "http_requests",
            "Requests by route, method and status",
            self.requests.clone(),
        );
        registry.register_with_unit(
            "http_request_duration",
            "Time from the head of a request to the head of its response",
            Unit::Seconds,
            self.durations.clone(),
        );
        registry.register(
            "token_requests",
            "Token requests by grant type and outcome: ok, or the error code",
            self.token_requests.clone(),
        );
        registry.register(
            "refused_clients",
            "Failed client authentications by reason; wrong_secret counts guesses",
            self.refused_clients.clone(),
        );
        registry.register(
            "events",
            "Entries of the audit log by action",
            self.events.clone(),
        );
        registry.register("grants", "Grants in the store", self.grants.clone());
        registry.register(
            "sessions",
            "Sign-in sessions in the store",
            self.sessions.clone(),
        );
        registry.register(
            "revocations",
            "Entries of the revocation feed",
            self.revocations.clone(),
        );
        registry.register(
            "audit_entries",
            "Entries of the audit log in the store",
            self.audit_entries.clone(),
        );
        registry.register(
            "passwords_waiting",
            "Password checks that wait for a free core",
            self.passwords_waiting.clone(),
        );
        registry.register_with_unit(
            "signing_key_age",
            "Time since the signing key began to sign; negative while it is announced",
            Unit::Seconds,
            self.key_age.clone(),
        );
        registry.register_with_unit(
            "certificate_expires_in",
            "Remaining validity of a non-interactive client's certificate",
            Unit::Seconds,
            self.certificate_expiry.clone(),
        );
        registry.register("clients", "Registered clients", self.clients.clone());
        registry.register("users", "Registered users", self.users.clone());
        registry.register_with_unit(
            "start_time",
            "Start of the process, in Unix time",
            Unit::Seconds,
            self.start.clone(),
        );
    }

    /// Counts a response. `took` is `None` for a request that was held.
    pub fn answered(&self, route: Route, status: u16, took: Option<Duration>) {
        self.requests
            .get_or_create(&Answer {
                route: route.route.clone(),
                method: route.method,
                status,
            })
            .inc();
        if let Some(took) = took {
            self.durations
                .get_or_create(&route)
                .observe(took.as_secs_f64());
        }
    }

    /// Counts a token request with its outcome: `ok` or the error code.
    pub fn token_request(&self, grant_type: Option<&'static str>, outcome: &'static str) {
        let grant_type = grant_type.unwrap_or("unknown");
        self.token_requests
            .get_or_create(&Grant {
                grant_type,
                outcome,
            })
            .inc();
    }

    pub fn client_refused(&self, reason: &'static str) {
        self.refused_clients
            .get_or_create(&Refusal { reason })
            .inc();
    }

    pub fn event(&self, action: AuditAction) {
        self.events(action, 1);
    }

    pub fn events(&self, action: AuditAction, count: u64) {
        let action = ActionLabel(action);
        self.events.get_or_create(&Event { action }).inc_by(count);
    }

    /// The metrics as OpenMetrics text, with gauges from `context`.
    pub fn text(
        &self,
        context: &Context<'_>,
        counts: Counts,
        certificates: &[CertificateExpiry],
        passwords_waiting: usize,
    ) -> Result<String, std::fmt::Error> {
        let gauge = |gauge: &Gauge, value: u64| {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        gauge(&self.grants, counts.grants);
        gauge(&self.sessions, counts.sessions);
        gauge(&self.revocations, counts.revocations);
        gauge(&self.audit_entries, counts.audit_entries);
        gauge(&self.passwords_waiting, passwords_waiting as u64);
        gauge(&self.clients, counts.clients);
        gauge(&self.users, counts.users);
        let counter = |counter: &Counter, lines: &output::Lines| {
            counter
                .inner()
                .fetch_max(lines.dropped(), Ordering::Relaxed);
        };
        counter(&self.log_lines_dropped, output::standard_error());
        counter(&self.audit_lines_dropped, output::standard_output());
        let now = context.now;
        self.keys(context);
        self.certificate_expiry.clear();
        for certificate in certificates {
            let label = CertificateLabel {
                client_id: certificate.client_id.to_string(),
                alias: certificate.alias.clone(),
            };
            self.certificate_expiry
                .get_or_create(&label)
                .set(difference(certificate.not_after, now));
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }

    fn keys(&self, context: &Context<'_>) {
        let (keys, now) = (context.keys, context.now);
        let signers = Signers::at(
            keys.sealed(),
            &Policy::of(context.settings, &context.summary.legacy_instances),
            now,
        );
        self.key_age.clear();
        let signing = [signers.current, signers.legacy].into_iter().flatten();
        let announced = keys.sealed().iter().filter(|key| now < key.signs_from);
        for key in signing.chain(announced) {
            let label = Key {
                kid: key.kid.clone(),
                algorithm: key.algorithm.name(),
            };
            self.key_age
                .get_or_create(&label)
                .set(difference(now, key.signs_from));
        }
    }
}

/// Buckets from 0.5 ms to 16 s.
fn request_durations() -> Histogram {
    Histogram::new(exponential_buckets(0.0005, 2.0, 16))
}

/// Seconds from `earlier` to `later`; negative if `later` is before `earlier`.
fn difference(later: Timestamp, earlier: Timestamp) -> i64 {
    let seconds = |at: Timestamp| i64::try_from(at.seconds()).unwrap_or(i64::MAX);
    seconds(later).saturating_sub(seconds(earlier))
}
