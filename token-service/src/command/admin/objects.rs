//! The common commands of clients, users and legacy instances.

use serde_json::json;
use ureq::http::Method;

use super::connection::{Answer, Paging};
use super::form::{Change, Commanded, Named, New};
use super::{Connected, table, values};
use crate::admin::schema::View;
use crate::admin::views::Page;

pub(super) fn add<T: Commanded>(arguments: &Connected<New<T>>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    let mut body = own.body()?;
    body.insert(T::NAME_KEY.to_owned(), json!(own.named.name));
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

pub(super) fn remove<T: Commanded>(arguments: &Connected<Named<T>>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    administration.delete(&own.path())
}
