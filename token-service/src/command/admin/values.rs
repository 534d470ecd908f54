//! Text output of clients, users and legacy instances: lines and columns derived from the descriptions of the fields.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;

use super::table;
use crate::http::admin::Object;
use domain::clock::{Clock as _, Timestamp};
use registration::describe::{Field, Record, Registered, Shape};
use system::SystemClock;

/// An object as lines of name and value.
pub(super) fn card<T: Registered>(view: &Object) -> String {
    let lines = viewed::<T>().filter(|field| field.card);
    table::card(lines.map(|field| (field.label, text(field, view.get(field.key)))))
}

pub(super) fn rows<T: Registered>(views: &[Object]) -> String {
    let columns = || viewed::<T>().filter(|field| field.column);
    let heads = columns().map(|field| field.label.to_uppercase());
    let cells = views
        .iter()
        .map(|view| columns().map(|field| cell(field, view.get(field.key))));
    table::list(heads, cells)
}

/// The fields of a view in display order.
fn viewed<T: Registered>() -> impl Iterator<Item = &'static Field> {
    let fields = T::DESCRIPTION.fields.iter();
    fields.filter(|field| field.viewed().is_some())
}

/// A complete value: a list has one line per item; `None` if there is no value.
fn text(field: &Field, value: Option<&Value>) -> Option<String> {
    match (field.shape, value?) {
        (Shape::Records(record), Value::Array(items)) => {
            table::lines(items.iter().map(|item| line(record, item)))
        }
        (_, Value::Array(items)) => table::lines(items.iter().map(single)),
        (_, value) => Some(single(value)),
    }
}

/// A value as a table cell: for a list the number of items, for certificates those that need attention.
fn cell(field: &Field, value: Option<&Value>) -> String {
    let Some(value) = value else {
        return String::new();
    };
    match (field.shape, value) {
        (Shape::Records(record), Value::Array(items)) if record.name == "CertificateView" => {
            let certificates = items.iter().map(|item| {
                let state = member(item, "state").filter(|state| *state != "valid");
                let state = state.map_or(String::new(), |state| format!(" {state}"));
                format!("{}{state}", member(item, "alias").unwrap_or_default())
            });
            certificates.collect::<Vec<String>>().join(", ")
        }
        (_, Value::Array(items)) => items.len().to_string(),
        (_, value) => single(value),
    }
}

fn single(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(flag) => table::yes(*flag),
        other => other.to_string(),
    }
}

fn member<'v>(item: &'v Value, key: &str) -> Option<&'v str> {
    item.get(key).and_then(Value::as_str)
}

fn line(record: &Record, item: &Value) -> String {
    let text = |key| member(item, key).unwrap_or_default();
    match record.name {
        "SecretView" => secret(item),
        "CertificateView" => format!(
            "{}  x5t {}  until {}  {}",
            text("alias"),
            text("x5t"),
            text("not_after"),
            text("state")
        ),
        _ => {
            let values = record.keys.iter().map(|(key, _)| text(key));
            values.collect::<Vec<_>>().join("  ")
        }
    }
}

/// The times of a live client secret.
fn secret(item: &Value) -> String {
    let now = SystemClock.now();
    let time = |at: &str| match humantime::parse_rfc3339(at) {
        Ok(moment) => {
            let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
            let ago = now.since(Timestamp::from_seconds(since.as_secs()));
            format!("{at} ({} ago)", roughly(ago))
        }
        Err(_) => at.to_owned(),
    };
    let [added, used] = ["added_at", "last_used_at"].map(|key| member(item, key).map(time));
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
