//! Metrics for Prometheus. No label has a value that clients choose freely.

use std::sync::atomic::Ordering;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry, Unit};

use domain::clock::Timestamp;
use domain::{AuditAction, CertificateExpiry, Layout};
use process::output;
use protocol::Context;
use protocol::Directory;
use protocol::token::rotation::{Policy, Signers};
use store::{Counts, Store};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Route {
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

/// Names and values of `N` labels.
type Labels<const N: usize, V = &'static str> = [(&'static str, V); N];

#[derive(Debug, Clone, Default)]
pub(crate) struct FeedMetrics {
    /// Number of held requests.
    pub held: Gauge,
    /// Number of times that a revocation ended the wait of held requests.
    pub wake_ups: Counter,
}

impl FeedMetrics {
    fn new(of: &mut Registry) -> Self {
        Self {
            held: new(
                of,
                "revocation_feed_held_requests",
                "Requests of gateways that wait for the next revocation",
            ),
            wake_ups: new(
                of,
                "revocation_feed_wake_ups",
                "How often waiting gateways were told of revocations, all at once",
            ),
        }
    }
}

/// What became of a message to a person.
#[derive(Debug, Clone, Default)]
pub(crate) struct MailMetrics {
    /// Messages that the server took.
    pub sent: Counter,
    /// Messages that it did not take.
    pub failed: Counter,
    /// Messages for which the queue had no room.
    pub dropped: Counter,
}

impl MailMetrics {
    fn new(of: &mut Registry) -> Self {
        Self {
            sent: new(
                of,
                "mail_sent",
                "Messages to people that the mail server took",
            ),
            failed: new(
                of,
                "mail_failed",
                "Messages to people that the mail server did not take",
            ),
            dropped: new(
                of,
                "mail_dropped",
                "Messages to people that were not sent because too many waited",
            ),
        }
    }
}

/// What became of a request to an identity provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProviderOutcome {
    Ok,
    /// No connection, or no answer in time.
    NoAnswer,
    /// An unexpected HTTP status.
    Status,
    /// An answer that is not what the standards say.
    Malformed,
    /// The token endpoint refused a code.
    Refused,
    /// The token endpoint refused the credentials of the service.
    InvalidClient,
}

impl ProviderOutcome {
    const ALL: [Self; 6] = [
        Self::Ok,
        Self::NoAnswer,
        Self::Status,
        Self::Malformed,
        Self::Refused,
        Self::InvalidClient,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NoAnswer => "no_answer",
            Self::Status => "status",
            Self::Malformed => "malformed",
            Self::Refused => "refused",
            Self::InvalidClient => "invalid_client",
        }
    }
}

/// Requests to identity providers, and their keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProviderMetrics {
    requests: Family<Labels<3, String>, Counter>,
    keys_age: Family<Labels<1, String>, Gauge>,
}

impl ProviderMetrics {
    fn new(of: &mut Registry) -> Self {
        Self {
            requests: new(
                of,
                "identity_provider_requests",
                "Requests to identity providers by provider, request and outcome",
            ),
            keys_age: new_seconds(
                of,
                "identity_provider_keys_age",
                "Time since the last successful fetch of the provider's keys",
            ),
        }
    }

    /// Creates the series of a provider at zero: Prometheus sees an increase only from the second sample of a series.
    pub(crate) fn register(&self, provider: &str) {
        for request in ["metadata", "keys", "token"] {
            for outcome in ProviderOutcome::ALL {
                self.counter(provider, request, outcome, 0);
            }
        }
    }

    pub(crate) fn count(&self, provider: &str, request: &str, outcome: ProviderOutcome) {
        self.counter(provider, request, outcome, 1);
    }

    #[cfg(test)]
    pub(crate) fn counted(&self, provider: &str, request: &str, outcome: ProviderOutcome) -> u64 {
        self.counter(provider, request, outcome, 0)
    }

    fn counter(&self, provider: &str, request: &str, outcome: ProviderOutcome, count: u64) -> u64 {
        let labels = [
            ("provider", provider.to_owned()),
            ("request", request.to_owned()),
            ("outcome", outcome.name().to_owned()),
        ];
        let counter = self.requests.get_or_create(&labels);
        counter.inc_by(count) + count
    }

    pub(crate) fn keys_age(&self, provider: &str, age: Duration) {
        let labels = [("provider", provider.to_owned())];
        set(&self.keys_age.get_or_create(&labels), age.as_secs());
    }
}

/// What the store contains, for the metrics.
#[derive(Debug)]
pub(crate) struct Stored {
    pub counts: Counts,
    /// The certificates that expire first.
    pub certificates: Vec<CertificateExpiry>,
}

const PREFIX: &str = "token_service";

/// Gauges of what the store contains. They are left out while the store fails.
#[derive(Debug)]
struct StoredMetrics {
    registry: Registry,
    grants: Gauge,
    sessions: Gauge,
    revocations: Gauge,
    audit_entries: Gauge,
    owed_notices: Gauge,
    owed_notice_age: Gauge,
    certificate_expiry: Family<Labels<2, String>, Gauge>,
    clients: Gauge,
    users: Gauge,
}

impl StoredMetrics {
    fn new() -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let of = &mut registry;
        Self {
            grants: new(of, "grants", "Grants in the store"),
            sessions: new(of, "sessions", "Sign-in sessions in the store"),
            revocations: new(of, "revocations", "Entries of the revocation feed"),
            audit_entries: new(of, "audit_entries", "Entries of the audit log in the store"),
            owed_notices: new(
                of,
                "owed_notices",
                "People to whom the service still has to mail a notice of a change",
            ),
            owed_notice_age: new_seconds(
                of,
                "owed_notice_age",
                "Time since the oldest change that the service still has to report to a person by mail; 0 if there is none",
            ),
            certificate_expiry: new_seconds(
                of,
                "certificate_expires_in",
                "Remaining validity of a non-interactive client's certificate",
            ),
            clients: new(of, "clients", "Registered clients"),
            users: new(of, "users", "Registered users"),
            registry,
        }
    }

    fn set(&self, stored: &Stored, now: Timestamp) {
        let counts = stored.counts;
        set(&self.grants, counts.grants);
        set(&self.sessions, counts.sessions);
        set(&self.revocations, counts.revocations);
        set(&self.audit_entries, counts.audit_entries);
        set(&self.owed_notices, counts.owed_notices);
        let age = counts.owed_since.map_or(0, |since| difference(now, since));
        self.owed_notice_age.set(age);
        set(&self.clients, counts.clients);
        set(&self.users, counts.users);
        self.certificate_expiry.clear();
        for certificate in &stored.certificates {
            let labels = [
                ("client_id", certificate.client_id.to_string()),
                ("alias", certificate.alias.clone()),
            ];
            self.certificate_expiry
                .get_or_create(&labels)
                .set(difference(certificate.not_after, now));
        }
    }
}

/// The counters and their text format.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    stored: StoredMetrics,
    log_lines_dropped: Counter,
    audit_lines_dropped: Counter,
    requests: Family<Answer, Counter>,
    durations: Family<Route, Histogram, fn() -> Histogram>,
    token_requests: Family<Labels<2>, Counter>,
    refused_clients: Family<Labels<1>, Counter>,
    without_address: Counter,
    events: Family<Labels<1>, Counter>,
    passwords_waiting: Gauge,
    layout: Gauge,
    key_age: Family<Labels<2, String>, Gauge>,
    pub feed: FeedMetrics,
    pub mail: MailMetrics,
    pub providers: ProviderMetrics,
    revocations_refused: Counter,
}

/// Registers a new metric.
fn new<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

fn new_seconds<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
    metric
}

/// Registers the metrics of the store, and returns the gauge of its layout.
fn of_store(registry: &mut Registry, store: &dyn Store, directory: &Directory) -> Gauge {
    let of = registry.sub_registry_with_prefix("store");
    store.register_metrics(of);
    directory.register_metrics(of);
    of.register(
        "unreadable_rows",
        "Rows skipped because they cannot be read",
        store::unreadable_rows(),
    );
    of.register(
        "ended_for_room",
        "Sessions, legacy codes and grants that ended because the user had reached the limit",
        store::ended_for_room(),
    );
    let newest: Gauge = new(
        of,
        "newest_layout",
        "The newest layout that this version knows",
    );
    newest.set(Layout::NEWEST.number().into());
    new(
        of,
        "layout",
        "The layout in use; lower than the newest until an operator finishes the upgrade",
    )
}

impl Metrics {
    /// Creates counters at zero. `store` and `directory` add their own counters.
    pub(crate) fn new(store: &dyn Store, directory: &Directory, now: Timestamp) -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let layout = of_store(&mut registry, store, directory);
        let of = &mut registry;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        of.register("build", "The running version", Info::new(version));
        let durations: Family<_, _, fn() -> _> = Family::new_with_constructor(request_durations);
        of.register_with_unit(
            "http_request_duration",
            "Time from the head of a request to the head of its response",
            Unit::Seconds,
            durations.clone(),
        );
        let start: Gauge = new_seconds(of, "start_time", "Start of the process, in Unix time");
        start.set(i64::try_from(now.seconds()).unwrap_or(i64::MAX));
        let metrics = Self {
            log_lines_dropped: new(
                of,
                "log_lines_dropped",
                "Log lines dropped because the reader of standard error was too slow",
            ),
            audit_lines_dropped: new(
                of,
                "audit_lines_dropped",
                "Audit lines dropped because the reader of standard output was too slow",
            ),
            feed: FeedMetrics::new(of),
            mail: MailMetrics::new(of),
            providers: ProviderMetrics::new(of),
            revocations_refused: new(
                of,
                "revocations_refused",
                "Revocations refused because the client exceeded its rate",
            ),
            requests: new(of, "http_requests", "Requests by route, method and status"),
            durations,
            token_requests: new(
                of,
                "token_requests",
                "Token requests by grant type and outcome: ok, or the error code",
            ),
            refused_clients: new(
                of,
                "refused_clients",
                "Failed client authentications by reason; wrong_secret counts guesses",
            ),
            without_address: new(
                of,
                "requests_without_client_address",
                "Requests from trusted_proxies whose X-Forwarded-For is missing or unusable, at endpoints that use the client's address",
            ),
            events: new(of, "events", "Entries of the audit log by action"),
            layout,
            passwords_waiting: new(
                of,
                "passwords_waiting",
                "Password checks that wait for a free core or for memory",
            ),
            key_age: new_seconds(
                of,
                "signing_key_age",
                "Time since the signing key began to sign; negative while it is announced",
            ),
            registry,
            stored: StoredMetrics::new(),
        };
        // Prometheus sees an increase only from the second sample of a series, so series with alerts on the first event
        // exist from the start.
        for action in [AuditAction::CodeReplayed, AuditAction::RefreshTokenReused] {
            metrics.events(action, 0);
        }
        metrics
    }

    /// Counts a client that revokes too often.
    pub(crate) fn revocation_refused(&self) {
        self.revocations_refused.inc();
    }

    /// Counts a response. `took` is `None` for a request that was held.
    pub(crate) fn answered(&self, route: Route, status: u16, took: Option<Duration>) {
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
    pub(crate) fn token_request(&self, grant_type: Option<&'static str>, outcome: &'static str) {
        let grant_type = ("grant_type", grant_type.unwrap_or("unknown"));
        let labels = [grant_type, ("outcome", outcome)];
        self.token_requests.get_or_create(&labels).inc();
    }

    pub(crate) fn without_address(&self) {
        self.without_address.inc();
    }

    pub(crate) fn client_refused(&self, reason: &'static str) {
        let labels = [("reason", reason)];
        self.refused_clients.get_or_create(&labels).inc();
    }

    pub(crate) fn event(&self, action: AuditAction) {
        self.events(action, 1);
    }

    pub(crate) fn events(&self, action: AuditAction, count: u64) {
        let labels = [("action", action.name())];
        self.events.get_or_create(&labels).inc_by(count);
    }

    /// The metrics as OpenMetrics text, with gauges from `context`. `stored` is `None` while the store fails.
    pub(crate) fn text(
        &self,
        context: &Context<'_>,
        stored: Option<&Stored>,
        passwords_waiting: usize,
    ) -> Result<String, std::fmt::Error> {
        set(&self.passwords_waiting, passwords_waiting as u64);
        self.layout.set(context.store.layout().number().into());
        let counter = |counter: &Counter, lines: &output::Lines| {
            counter
                .inner()
                .fetch_max(lines.dropped(), Ordering::Relaxed);
        };
        counter(&self.log_lines_dropped, output::standard_error());
        counter(&self.audit_lines_dropped, output::standard_output());
        self.keys(context);
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        if let Some(stored) = stored {
            self.stored.set(stored, context.now);
            encode_registry(&mut text, &self.stored.registry)?;
        }
        encode_eof(&mut text)?;
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
            let labels = [
                ("kid", key.kid.clone()),
                ("algorithm", key.algorithm.name().to_owned()),
            ];
            self.key_age
                .get_or_create(&labels)
                .set(difference(now, key.signs_from));
        }
    }
}

fn set(gauge: &Gauge, value: u64) {
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
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
