//! The common commands of clients, users and legacy instances.

use serde_json::json;
use ureq::http::Method;

use super::connection::{Answer, Paging, query};
use super::form::{Change, Commanded, Named, New};
use super::{Connected, table, values};
use crate::admin::schema::View;
use crate::admin::views::{GrantView, Page};
use domain::remembered::ObjectKind;

pub(super) fn add<T: Commanded>(arguments: &Connected<New<T>>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    let mut body = own.body()?;
    body.insert(T::DESCRIPTION.name_key.to_owned(), json!(own.named.name));
    administration
        .send(Method::POST, T::PATH, &body)?
        .print(T::registered)
}

/// Registers an object or replaces the object with the same name.
pub(super) fn put<T: Commanded>(arguments: &Connected<New<T>>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    administration
        .send(Method::PUT, &own.named.path(), &own.body()?)?
        .print(|view: &View<T>| values::rows(std::slice::from_ref(view)))
}

pub(super) fn update<T: Commanded>(arguments: &Connected<Change<T>>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    let patch = own.body()?;
    anyhow::ensure!(!patch.is_empty(), "nothing to change: see --help");
    administration
        .send(Method::PATCH, &own.named.path(), &patch)?
        .print(values::card::<T>)
}

pub(super) fn list<T: Commanded>(arguments: &Connected<Paging>) -> anyhow::Result<()> {
    let (paging, administration) = arguments.open()?;
    let path = format!("{}{}", T::PATH, paging.query(&[]));
    let page: Answer<Page<View<T>>> = administration.get(&path)?;
    page.print(|page| table::with_next(values::rows(&page.items), page.next.as_deref()))
}

pub(super) fn show<T: Commanded>(arguments: &Connected<Named<T>>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    administration.get(&own.path())?.print(values::card::<T>)
}

/// Maximum number of grants that the output of a removal counts.
const MOST_COUNTED: usize = 500;

pub(super) fn remove<T: Commanded>(arguments: &Connected<Named<T>>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    let (kind, name) = (T::DESCRIPTION.kind.name(), &own.name);
    let owner = match T::DESCRIPTION.kind {
        ObjectKind::Client => Some("client_id"),
        ObjectKind::User => Some("username"),
        ObjectKind::LegacyInstance => None,
    };
    let Some(owner) = owner else {
        administration.delete(&own.path())?;
        let removed = json!({"removed": name});
        return administration.print(&removed, |_| format!("Removed the {kind} {name}."));
    };
    let query = query(&[
        (owner, Some(name.clone())),
        ("limit", Some(MOST_COUNTED.to_string())),
    ]);
    let page: Answer<Page<GrantView>> = administration.get(&format!("/grants{query}"))?;
    let live = page.value.items.iter();
    let live = live.filter(|grant| grant.revoked_at.is_none()).count();
    administration.delete(&own.path())?;
    let least = if page.value.next.is_some() {
        "at least "
    } else {
        ""
    };
    let removed = json!({"removed": name, "grants_revoked": live});
    administration.print(&removed, |_| {
        let sessions = match T::DESCRIPTION.kind {
            ObjectKind::User => ", sessions",
            ObjectKind::Client | ObjectKind::LegacyInstance => "",
        };
        format!(
            "Removed the {kind} {name}. {least}{live} grants revoked; its codes{sessions} and every access token issued \
             to it have ended too."
        )
    })
}
