//! Text output of clients, users and legacy instances.

use std::time::{Duration, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::table::{self, lines, yes};
use domain::clock::{Clock as _, Timestamp};
use registry::describe::Registered;
use registry::describe::fields::Field;
use registry::objects::{
    AccountView, CertificateView, ClientKeyView, ClientView, IdentityView, LegacyInstanceView,
    SecretView, UserView,
};
use system::SystemClock;

pub(super) trait Shown {
    const COLUMNS: &'static [&'static str];

    fn cells(&self) -> Vec<String>;
}

/// An object as lines of name and value, without lines for absent values.
pub(super) fn card<T: Registered>(view: &T::View) -> String {
    let members = serde_json::to_value(view).unwrap_or_default();
    let shown = T::FIELDS.iter().filter(|field| !field.label.is_empty());
    table::card(shown.map(|&Field { key, label, .. }| {
        let value = members.get(key);
        (label, value.and_then(|value| text(key, value)))
    }))
}

/// `None` for an empty list.
fn text(key: &str, value: &Value) -> Option<String> {
    match value {
        Value::Bool(flag) => Some(yes(*flag)),
        Value::Array(items) => lines(items.iter().map(|item| match key {
            "secret_times" => read(item, secret),
            "keys" => read(item, client_key),
            "certificates" => read(item, certificate),
            "accounts" => read(item, account),
            "identities" | "identities_by_email" => read(item, identity),
            _ => read(item, String::clone),
        })),
        value => Some(read(value, String::clone)),
    }
}

fn read<V: DeserializeOwned>(value: &Value, text: impl Fn(&V) -> String) -> String {
    let value = serde_json::from_value(value.clone());
    value.as_ref().map(text).unwrap_or_default()
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

fn certificate(certificate: &CertificateView) -> String {
    let CertificateView {
        alias,
        x5t,
        not_after,
        state,
        ..
    } = certificate;
    format!("{alias}  x5t {x5t}  until {not_after}  {state}")
}

fn client_key(ClientKeyView { kid, public_key }: &ClientKeyView) -> String {
    format!("{kid}  {public_key}")
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
