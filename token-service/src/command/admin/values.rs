//! Text output of clients, users and legacy instances.

use std::time::{Duration, UNIX_EPOCH};

use super::table::{self, lines, yes};
use domain::clock::{Clock as _, Timestamp};
use registry::objects::{
    AccountView, CertificateView, ClientView, IdentityView, LegacyInstanceView, SecretView,
    UserView,
};
use system::SystemClock;

pub(super) trait Shown {
    const COLUMNS: &'static [&'static str];

    fn cells(&self) -> Vec<String>;

    /// The names and values of a card, without lines for absent values.
    fn lines(&self) -> Vec<(&'static str, Option<String>)>;
}

/// An object as lines of name and value.
pub(super) fn card<V: Shown>(view: &V) -> String {
    table::card(view.lines())
}

pub(super) fn rows<V: Shown>(views: &[V]) -> String {
    table::list(V::COLUMNS.iter().copied(), views.iter().map(V::cells))
}

impl Shown for ClientView {
    const COLUMNS: &'static [&'static str] = &[
        "CLIENT ID",
        "TYPE",
        "NAME",
        "ENABLED",
        "CREDENTIALS",
        "CERTIFICATES",
    ];

    fn cells(&self) -> Vec<String> {
        let attention = |certificate: &CertificateView| match &*certificate.state {
            "valid" => certificate.alias.clone(),
            state => format!("{} {state}", certificate.alias),
        };
        let certificates = self.certificates.iter().flatten().map(attention);
        vec![
            self.client_id.clone(),
            self.r#type.clone(),
            self.name.clone(),
            yes(self.enabled),
            self.credentials.to_string(),
            certificates.collect::<Vec<String>>().join(", "),
        ]
    }

    fn lines(&self) -> Vec<(&'static str, Option<String>)> {
        let certificate = |one: &CertificateView| {
            let CertificateView {
                alias,
                x5t,
                not_after,
                state,
                ..
            } = one;
            format!("{alias}  x5t {x5t}  until {not_after}  {state}")
        };
        let keys = self.keys.iter().flatten();
        let keys = keys.map(|key| format!("{}  {}", key.kid, key.public_key));
        vec![
            ("Client ID", Some(self.client_id.clone())),
            ("Type", Some(self.r#type.clone())),
            ("Name", Some(self.name.clone())),
            ("Home page", self.home_url.clone()),
            ("Enabled", Some(yes(self.enabled))),
            (
                "Only bound tokens",
                Some(yes(self.dpop_bound_access_tokens)),
            ),
            (
                "Bound to certificates",
                Some(yes(self.tls_client_certificate_bound_access_tokens)),
            ),
            ("Second factor", self.second_factor.clone()),
            ("Identity providers", list(&self.identity_providers)),
            ("Scopes", lines(self.scopes.clone())),
            ("Redirect URIs", list(&self.redirect_uris)),
            (
                "Pushed requests only",
                self.require_pushed_authorization_requests.map(yes),
            ),
            (
                "Live secrets",
                lines(self.secret_times.iter().flatten().map(secret)),
            ),
            ("Keys", lines(keys)),
            ("Assertion audience", self.client_assertion_audience.clone()),
            ("TLS certificates", list(&self.tls_client_certificates)),
            (
                "Certificates",
                lines(self.certificates.iter().flatten().map(certificate)),
            ),
            ("Organization", self.organization.clone()),
            ("Bound user", self.bound_user.clone()),
            ("Hostname", self.hostname.clone()),
            ("Managed by", self.managed_by.clone()),
            ("Changes", list(&self.changes)),
            ("Warnings", list(&self.warnings)),
        ]
    }
}

impl Shown for UserView {
    const COLUMNS: &'static [&'static str] = &[
        "USERNAME",
        "E-MAIL",
        "ORGANIZATION",
        "ENABLED",
        "CANNOT SIGN IN",
        "PASSWORD",
        "SECOND FACTOR",
        "LAST SIGN-IN",
        "LINKED ACCOUNTS",
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.username.clone(),
            self.email.clone().unwrap_or_default(),
            self.organization.clone().unwrap_or_default(),
            yes(self.enabled),
            self.cannot_sign_in.clone().unwrap_or_default(),
            yes(self.has_password),
            yes(self.has_second_factor),
            self.last_sign_in_at.clone().unwrap_or_default(),
            self.accounts.len().to_string(),
        ]
    }

    fn lines(&self) -> Vec<(&'static str, Option<String>)> {
        vec![
            ("Username", Some(self.username.clone())),
            ("E-mail", self.email.clone()),
            ("Organization", self.organization.clone()),
            ("Enabled", Some(yes(self.enabled))),
            ("Cannot sign in", self.cannot_sign_in.clone()),
            ("Password", Some(yes(self.has_password))),
            (
                "Must change password",
                self.must_change_password.then(|| yes(true)),
            ),
            ("Second factor", Some(yes(self.has_second_factor))),
            ("Last sign-in", self.last_sign_in_at.clone()),
            ("Single sign-on", Some(yes(self.single_sign_on))),
            ("Linked accounts", lines(self.accounts.iter().map(account))),
            (
                "Linked identities",
                lines(self.identities.iter().flatten().map(identity)),
            ),
            (
                "Identities by e-mail",
                lines(self.identities_by_email.iter().flatten().map(identity)),
            ),
            ("Managed by", self.managed_by.clone()),
            ("Changes", list(&self.changes)),
            ("Warnings", list(&self.warnings)),
        ]
    }
}

impl Shown for LegacyInstanceView {
    const COLUMNS: &'static [&'static str] = &["HOSTNAME", "AUTHORIZATION SERVER", "ENABLED"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.hostname.clone(),
            self.auth_server_hostname.clone(),
            yes(self.enabled),
        ]
    }

    fn lines(&self) -> Vec<(&'static str, Option<String>)> {
        vec![
            ("Hostname", Some(self.hostname.clone())),
            (
                "Authorization server",
                Some(self.auth_server_hostname.clone()),
            ),
            ("Enabled", Some(yes(self.enabled))),
            ("Managed by", self.managed_by.clone()),
            ("Warnings", list(&self.warnings)),
        ]
    }
}

fn list(values: &Option<Vec<String>>) -> Option<String> {
    lines(values.iter().flatten().cloned())
}

pub(super) fn account(account: &AccountView) -> String {
    let AccountView {
        user_id,
        username,
        site,
    } = account;
    format!("{user_id}  {username}  {site}")
}

fn identity(IdentityView { issuer, subject }: &IdentityView) -> String {
    format!("{subject}  {issuer}")
}

/// The times of a live client secret.
fn secret(secret: &SecretView) -> String {
    let now = SystemClock.now();
    let time = |at: &String| match humantime::parse_rfc3339(at) {
        Ok(moment) => {
            let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
            let ago = now.since(Timestamp::from_seconds(since.as_secs()));
            format!("{at} ({} ago)", roughly(ago))
        }
        Err(_) => at.clone(),
    };
    let [added, used] = [&secret.added_at, &secret.last_used_at].map(|at| at.as_ref().map(time));
    format!(
        "added {}, {}",
        added.unwrap_or_default(),
        used.map_or_else(|| "no use noted".to_owned(), |at| format!("last used {at}"))
    )
}

/// A time rounded to its largest unit, because the age of a secret needs no precision.
fn roughly(time: Duration) -> String {
    const UNITS: [(u64, &str); 3] = [(24 * 3600, "days"), (3600, "h"), (60, "min")];
    let seconds = time.as_secs();
    let unit = UNITS.iter().find(|(unit, _)| seconds >= *unit);
    unit.map_or_else(
        || format!("{seconds} s"),
        |(unit, name)| format!("{} {name}", seconds / unit),
    )
}
