//! The common commands of clients, users and legacy instances.

use serde_json::{Value, json};
use ureq::http::Method;

use super::connection::{Answer, Paging, query};
use super::form::{Change, Named, New, path};
use super::{Connected, table, values};
use crate::http::admin::Object;
use crate::http::admin::grants::GrantView;
use crate::http::admin::pages::Page;
use domain::object::ObjectKind;
use registration::describe::Registered;

pub(super) fn add<T: Registered>(arguments: &Connected<New<T>>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    let mut body = own.body()?;
    body.insert(T::DESCRIPTION.name_key.to_owned(), json!(own.named.name));
    administration
        .send(Method::POST, &path::<T>(), &body)?
        .print(registered::<T>)
}

/// The response to a registration: a view, or a client and its new secret.
pub(super) fn registered<T: Registered>(answer: &Object) -> String {
    let client = answer.get("client").and_then(Value::as_object);
    let card = values::card::<T>(client.unwrap_or(answer));
    match answer.get("client_secret").and_then(Value::as_str) {
        None => card,
        Some(secret) => format!("{card}\n\nClient secret, shown this once:\n{secret}"),
    }
}

/// Registers an object or replaces the object with the same name.
pub(super) fn put<T: Registered>(arguments: &Connected<New<T>>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    administration
        .send(Method::PUT, &own.named.path(), &own.body()?)?
        .print(values::card::<T>)
}

pub(super) fn update<T: Registered>(arguments: &Connected<Change<T>>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    let patch = own.body()?;
    anyhow::ensure!(!patch.is_empty(), "nothing to change: see --help");
    administration
        .send(Method::PATCH, &own.named.path(), &patch)?
        .print(values::card::<T>)
}

pub(super) fn list<T: Registered>(arguments: &Connected<Paging>) -> anyhow::Result<()> {
    let (paging, administration) = arguments.open()?;
    let path = format!("{}{}", path::<T>(), paging.query(&[]));
    let page: Answer<Page<Object>> = administration.get(&path)?;
    page.print(|page| table::with_next(values::rows::<T>(&page.items), page.next.as_deref()))
}

pub(super) fn show<T: Registered>(arguments: &Connected<Named<T>>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    administration.get(&own.path())?.print(values::card::<T>)
}

/// Changes who defines an object: `release` or `adopt`.
pub(super) fn hand_over<T: Registered>(
    arguments: &Connected<Named<T>>,
    operation: &str,
) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    let path = format!("{}/{operation}", own.path());
    administration
        .act(Method::POST, &path)?
        .print(values::card::<T>)
}

/// Maximum number of grants that the output of a removal counts.
const MOST_COUNTED: usize = 500;

pub(super) fn remove<T: Registered>(arguments: &Connected<Named<T>>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    let (kind, name) = (T::DESCRIPTION.kind, &own.name);
    let removed = format!("Removed the {} {name}.", kind.name());
    if kind == ObjectKind::LegacyInstance {
        administration.delete(&own.path())?;
        return administration.print(&json!({"removed": name}), |_| removed);
    }
    let query = query(&[
        (T::DESCRIPTION.name_key, Some(name.clone())),
        ("limit", Some(MOST_COUNTED.to_string())),
    ]);
    let page: Answer<Page<GrantView>> = administration.get(&format!("/grants{query}"))?;
    let grants = page.value.items.iter();
    let live = grants.filter(|grant| grant.revoked_at.is_none()).count();
    administration.delete(&own.path())?;
    let least = page.value.next.map_or("", |_| "at least ");
    let sessions = match kind {
        ObjectKind::User => ", sessions",
        ObjectKind::Client | ObjectKind::LegacyInstance => "",
    };
    administration.print(&json!({"removed": name, "grants_revoked": live}), |_| {
        format!(
            "{removed} {least}{live} grants revoked; its codes{sessions} and every access token issued to it have \
             ended too."
        )
    })
}
