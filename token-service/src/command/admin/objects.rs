//! The common commands of clients, users and legacy instances.

use std::io::IsTerminal as _;

use clap::ValueEnum;
use serde::de::DeserializeOwned;
use serde_json::json;
use ureq::http::Method;

use super::connection::{Administration, Answer, Paging, query};
use super::form::{Form, Named, Removal, object_path, path};
use super::values::{Shown, card, rows};
use super::{Connected, table, terminal};
use crate::command::output::counted;
use crate::http::admin::grants::GrantView;
use crate::http::admin::pages::Page;
use domain::object::ObjectKind;
use domain::{Client, LegacyInstance, User};
use registry::describe::Registered;

pub(super) fn add<F: Form, A: DeserializeOwned>(
    arguments: &Connected<F>,
    text: impl FnOnce(&A) -> String,
) -> anyhow::Result<A> {
    let (own, administration) = arguments.open()?;
    let mut body = own.body()?;
    body.insert(F::Object::NAME_KEY.to_owned(), json!(own.name()));
    let answer = administration.send(Method::POST, &path::<F::Object>(), &body)?;
    answer.print(text)?;
    Ok(answer.value)
}

pub(super) fn update<F: Form>(arguments: &Connected<F>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    let patch = own.body()?;
    anyhow::ensure!(!patch.is_empty(), "nothing to change: see --help");
    let path = object_path::<F::Object>(own.name());
    administration
        .send(Method::PATCH, &path, &patch)?
        .print(card::<F::Object>)
}

/// Which objects of a list.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Listing {
    #[command(flatten)]
    paging: Paging,
    /// Only clients whose Client ID or name, or users whose username, e-mail address or organization contains this text. Case does
    /// not matter.
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
}

pub(super) fn list<T: Registered<View: Shown>>(
    arguments: &Connected<Listing>,
) -> anyhow::Result<()> {
    let (listing, administration) = arguments.open()?;
    list_of::<T>(listing, &administration, &[])
}

/// Lists what `filter` finds too: parameters of the query.
pub(super) fn list_of<T: Registered<View: Shown>>(
    listing: &Listing,
    administration: &Administration,
    filter: &[(&str, Option<String>)],
) -> anyhow::Result<()> {
    let search = ("search", listing.search.clone());
    let filter: Vec<_> = filter.iter().cloned().chain([search]).collect();
    let path = format!("{}{}", path::<T>(), listing.paging.query(&filter));
    let page: Answer<Page<T::View>> = administration.get(&path)?;
    page.print(|page| table::with_next(rows(&page.items), page.next.as_deref()))
}

pub(super) fn show<T: Registered>(arguments: &Connected<Named<T>>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    administration.get(&own.path())?.print(card::<T>)
}

pub(super) fn name_of(value: impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct HandOver {
    /// Kind of the object.
    kind: Kind,
    /// The Client ID, username or hostname.
    name: String,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Kind {
    Client,
    User,
    LegacyInstance,
}

/// Changes who defines an object: `release` or `adopt`.
pub(super) fn hand_over(arguments: &Connected<HandOver>, operation: &str) -> anyhow::Result<()> {
    match arguments.own.kind {
        Kind::Client => handed_over::<Client>(arguments, operation),
        Kind::User => handed_over::<User>(arguments, operation),
        Kind::LegacyInstance => handed_over::<LegacyInstance>(arguments, operation),
    }
}

fn handed_over<T: Registered>(
    arguments: &Connected<HandOver>,
    operation: &str,
) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    let path = format!("{}/{operation}", object_path::<T>(&own.name));
    administration.act(Method::POST, &path)?.print(card::<T>)
}

/// Maximum number of grants that the output of a removal counts.
const MOST_COUNTED: usize = 500;

pub(super) fn remove<T: Registered>(arguments: &Connected<Removal<T>>) -> anyhow::Result<()> {
    let (Removal { named: own, yes }, administration) = arguments.open()?;
    let (kind, name) = (T::KIND, &own.name);
    let ends = match kind {
        ObjectKind::LegacyInstance => "",
        ObjectKind::Client | ObjectKind::User => " and revoke everything issued to it",
    };
    // Scripts are never asked.
    if !yes && std::io::stdin().is_terminal() {
        terminal::confirm(&format!("Remove the {} {name}{ends}?", kind.name()))?;
    }
    let removed = format!("Removed the {} {name}.", kind.name());
    if kind == ObjectKind::LegacyInstance {
        administration.delete(&own.path())?;
        return administration.print(&json!({"removed": name}), |_| removed);
    }
    let query = query(&[
        (T::NAME_KEY, Some(name.clone())),
        ("limit", Some(MOST_COUNTED.to_string())),
    ]);
    let page: Answer<Page<GrantView>> = administration.get(&format!("/grants{query}"))?;
    let grants = page.value.items.iter();
    let live = grants.filter(|grant| grant.revoked_at.is_none()).count() as u64;
    administration.delete(&own.path())?;
    let least = page.value.next.map_or("", |_| "at least ");
    let sessions = match kind {
        ObjectKind::User => ", sessions",
        ObjectKind::Client | ObjectKind::LegacyInstance => "",
    };
    administration.print(&json!({"removed": name, "grants_revoked": live}), |_| {
        let grants = counted(live, "grant");
        format!(
            "{removed} {least}{grants} revoked; its codes{sessions} and every access token issued to it have \
             ended too."
        )
    })
}
