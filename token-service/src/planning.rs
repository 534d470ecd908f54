//! What a plan of a registry change reads from the store in addition to the [`Excerpt`] of its names. All lists are read
//! in pages, so that memory is proportional to the plan.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;

use document::{Place, Problem};
use domain::client::{IntegrationKind, IntegrationType};
use domain::registry_index::{Named, NamedKind, account_value, single_sign_on_value};
use domain::remembered::ObjectKind;
use domain::{
    Client, ClientId, Excerpt, FileChange, LinkedAccount, ObjectName, RegistryChange, User,
    Username,
};
use protocol::flow::TokenName;
use protocol::flows;
use protocol::settings::Settings;
use registration::apply::Plan;
use registration::describe::Registered as _;
use registration::registrations::Registrations;
use store::{Store, StoreError};

pub(crate) const PAGE: usize = 1000;

/// Maximum number of users that a warning names.
const FEW: usize = 5;

/// One line for each name of the change that legacy access tokens have no room for (protocol.md §2.5). If there are any, the
/// change must be refused. `place` finds the place of an object in the document. Without a legacy instance or client, no token
/// contains a user ID in this form (`has_legacy`).
pub fn misfits<'a>(
    clients: impl IntoIterator<Item = &'a Client>,
    users: impl IntoIterator<Item = &'a User>,
    place: impl Fn(&ObjectName) -> Option<Place>,
    has_legacy: bool,
    settings: &Settings,
) -> Vec<String> {
    let located = |object: ObjectName, line: String| match place(&object) {
        Some(place) => Problem::new(&place, line).to_string(),
        None => line,
    };
    let of_client = |client: &Client| {
        let reason = flows::misfit(TokenName::Client(client), settings)?;
        Some(located(
            client.object_name(),
            format!("client_id: {reason}"),
        ))
    };
    let of_user = |user: &User| {
        let mut accounts = user.accounts.iter();
        let reason = accounts
            .find_map(|account| flows::misfit(TokenName::UserId(&account.user_id), settings))?;
        Some(located(
            user.object_name(),
            format!("user {}: {reason}", user.username),
        ))
    };
    let mut lines = Vec::new();
    let mut has_legacy = has_legacy;
    for client in clients {
        has_legacy |= client.integration.kind() == IntegrationKind::Legacy;
        lines.extend(of_client(client));
    }
    if has_legacy {
        lines.extend(users.into_iter().filter_map(of_user));
    }
    lines
}

/// A warning about the users of whom legacy access tokens have no room, if `change` registers the first legacy instance: the
/// users who were registered before have User IDs of any length.
pub async fn unfit_for_legacy(
    change: &RegistryChange,
    stored: &Excerpt,
    store: &dyn Store,
    settings: &Settings,
) -> Result<Option<String>, StoreError> {
    if change.put_legacy_instances.is_empty() || !stored.legacy_instances().is_empty() {
        return Ok(None);
    }
    let (mut count, mut first) = (0, Vec::new());
    let page = |after| store.users(after, PAGE);
    let name = |user: &User| user.username.to_string();
    visit(String::new(), page, name, |user| {
        let mut accounts = user.accounts.iter();
        if accounts.any(|one| flows::misfit(TokenName::UserId(&one.user_id), settings).is_some()) {
            count += 1;
            if first.len() < FEW {
                first.push(user.username.to_string());
            }
        }
        ControlFlow::Continue(())
    })
    .await?;
    let others = if count > first.len() { ", ..." } else { "" };
    Ok((count > 0).then(|| {
        format!(
            "users with a user_id longer than legacy_user_id_max ({}), for whom the legacy flow may have no tokens: {count} ({}{others})",
            settings.legacy_user_id_max,
            first.join(", ")
        )
    }))
}

/// [`misfits`] of a document.
pub fn misfits_of(
    registrations: &Registrations,
    place: impl Fn(&ObjectName) -> Option<Place>,
    has_legacy: bool,
    settings: &Settings,
) -> Vec<String> {
    let clients = registrations.clients.iter().map(|client| &client.object);
    let users = registrations.users.iter().map(|user| &user.object);
    misfits(clients, users, place, has_legacy, settings)
}

/// One line for each client of the change that must authenticate and has nothing to do so any more. If there are any, the
/// change must be refused. A client in `stored` that had nothing before may change.
pub fn mute<'a>(
    clients: impl IntoIterator<Item = &'a Client>,
    stored: &Excerpt,
) -> impl Iterator<Item = String> {
    let is_mute = |client: &Client| {
        !client.is_public() && client.secrets().is_empty() && client.key_authentication.is_empty()
    };
    let mute = clients.into_iter().filter(move |client| {
        let before = stored.client(&client.client_id);
        is_mute(client) && !before.is_some_and(|before| is_mute(before))
    });
    mute.map(|client| {
        let id = &client.client_id;
        format!(
            "client {id}: without a secret, keys and TLS certificates it could not authenticate"
        )
    })
}

/// One line for each object of an import that takes something from a registered person (D-52): a client that could act for the
/// person without a sign-in, a user with an account or a single-sign-on address of the person. If there are any, the change must
/// be refused. Without any, the store makes the change only if there are still none.
pub async fn takeovers(
    change: &mut RegistryChange,
    stored: &Excerpt,
    store: &dyn Store,
) -> Result<Vec<String>, StoreError> {
    let clients = change.put_clients.iter().filter_map(|client| {
        let (id, whom) = (&client.client_id, acts_for(client, stored)?);
        Some(format!(
            "client {id}: could act for {whom} without a sign-in: register the client with a command"
        ))
    });
    let mut lines: Vec<String> = clients.collect();
    let mut new = Vec::new();
    for user in &change.put_users {
        let before = stored.user(&user.username).map(|user| &**user);
        let mut add = |kind, value, what| {
            let name = user.username.to_string();
            new.push((Named { kind, value, name }, what));
        };
        for account in &user.accounts {
            let is_new = !before.is_some_and(|before| before.accounts.contains(account));
            if let Some(value) = account_value(account).filter(|_| is_new) {
                let LinkedAccount { user_id, site, .. } = account;
                add(
                    NamedKind::Account,
                    value,
                    format!("the account {user_id} at {site}"),
                );
            }
        }
        let email = single_sign_on_value(user);
        if let Some(email) = email.filter(|email| {
            let before = before.and_then(single_sign_on_value);
            before.as_ref() != Some(email)
        }) {
            let what = format!("the single-sign-on address {email}");
            add(NamedKind::SingleSignOn, email, what);
        }
    }
    let mut holders: BTreeMap<(NamedKind, String), Vec<String>> = BTreeMap::new();
    for kind in [NamedKind::Account, NamedKind::SingleSignOn] {
        let values = new.iter().filter(|(one, _)| one.kind == kind);
        let values = values.map(|(one, _)| one.value.clone()).collect();
        for (value, username) in store.users_with(kind, values).await? {
            let names = holders.entry((kind, value)).or_default();
            names.push(username.to_string());
        }
    }
    for (Named { kind, value, name }, what) in &new {
        let names = holders.entry((*kind, value.clone())).or_default();
        match names.iter().find(|other| *other != name) {
            Some(other) => lines.push(format!("user {name}: {other} has {what}")),
            // Nobody else of the document gets it either.
            None => names.push(name.clone()),
        }
    }
    change.untaken = new.into_iter().map(|(named, _)| named).collect();
    Ok(lines)
}

/// The registered users for whom the client can get tokens without a sign-in, and could not before.
fn acts_for(client: &Client, stored: &Excerpt) -> Option<String> {
    let before = stored.client(&client.client_id);
    let before = before.map(|before| &before.integration);
    match &client.integration {
        IntegrationType::UserBound { bound_user, .. } => {
            let is_known = matches!(before, Some(IntegrationType::UserBound { bound_user: known, .. }) if known == bound_user);
            let user = stored.user(bound_user).filter(|_| !is_known)?;
            Some(user.username.to_string())
        }
        IntegrationType::NonInteractive { organization, .. } => {
            let is_known = matches!(before, Some(IntegrationType::NonInteractive { organization: known, .. }) if known == organization);
            (!is_known).then(|| "registered users".to_owned())
        }
        IntegrationType::WebServer { .. }
        | IntegrationType::Installed { .. }
        | IntegrationType::Legacy { .. } => None,
    }
}

/// Also removes the clients and users that are not in `listed`, and forgets what was remembered of them. Users to whom
/// clients in `listed` are bound stay. `stored` contains the clients in `listed`.
pub async fn prune(
    plan: &mut Plan,
    listed: &HashSet<ObjectName>,
    stored: &Excerpt,
    store: &dyn Store,
) -> Result<(), StoreError> {
    let bound = bound_users(plan, listed, stored);
    let page = |after| store.clients(after, PAGE);
    visit(String::new(), page, client_id, |client| {
        if !listed.contains(&client.object_name()) {
            plan.remove(&client);
        }
        ControlFlow::Continue(())
    })
    .await?;
    let page = |after| store.users(after, PAGE);
    let name = |user: &User| user.username.to_string();
    visit(String::new(), page, name, |user| {
        match bound.get(&user.username) {
            _ if listed.contains(&user.object_name()) => {}
            Some(client_id) => plan.keep_bound(&user, client_id),
            None => plan.remove(&user),
        }
        ControlFlow::Continue(())
    })
    .await?;
    let page = |after| store.remembered_objects(false, after, PAGE);
    let name = |object: &ObjectName| Some(object.clone());
    visit(None, page, name, |object| {
        if object.kind != ObjectKind::LegacyInstance && !listed.contains(&object) {
            plan.change.forget.push(object);
        }
        ControlFlow::Continue(())
    })
    .await?;
    if !plan.change.forget.is_empty() {
        // A start adds forgotten objects again, so it must read all of its file.
        plan.change.applied_file = FileChange::Forget;
    }
    plan.sort();
    Ok(())
}

/// The users to whom clients in `listed` are bound after `plan`, each with one of the clients.
fn bound_users(
    plan: &Plan,
    listed: &HashSet<ObjectName>,
    stored: &Excerpt,
) -> HashMap<Username, ClientId> {
    let stored = stored.clients().map(|client| &**client);
    let put: HashMap<&ClientId, &Client> = stored
        .chain(&plan.change.put_clients)
        .filter(|client| listed.contains(&client.object_name()))
        .map(|client| (&client.client_id, client))
        .collect();
    let clients = put.into_values();
    clients
        .filter_map(|client| Some((client.bound_user()?.clone(), client.client_id.clone())))
        .collect()
}

/// The service's own files with registrations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnFiles {
    /// Only the configuration, with legacy instances.
    Configuration,
    ConfigurationAndRegistrations,
}

/// Forgets objects that left the service's own files, so that they can return to them as new objects. `is_listed` is
/// true for the objects in `files`.
pub async fn forget_left(
    plan: &mut Plan,
    files: OwnFiles,
    is_listed: impl Fn(&ObjectName) -> bool,
    store: &dyn Store,
) -> Result<(), StoreError> {
    let only_instances = files == OwnFiles::Configuration;
    // The key before the keys of all legacy instances.
    let start = only_instances.then(|| ObjectName::new(ObjectKind::LegacyInstance, ""));
    let page = |after| store.remembered_objects(true, after, PAGE);
    let name = |object: &ObjectName| Some(object.clone());
    visit(start, page, name, |object| {
        if only_instances && object.kind != ObjectKind::LegacyInstance {
            return ControlFlow::Break(());
        }
        if !is_listed(&object) {
            plan.change.forget.push(object);
        }
        ControlFlow::Continue(())
    })
    .await
}

fn client_id(client: &Client) -> String {
    client.client_id.to_string()
}

/// Calls `each` for every row after `start`, until `each` breaks. `name` returns the name after which the next page
/// begins.
async fn visit<T, N, F>(
    start: N,
    page: impl Fn(N) -> F,
    name: impl Fn(&T) -> N,
    mut each: impl FnMut(T) -> ControlFlow<()>,
) -> Result<(), StoreError>
where
    F: Future<Output = Result<Vec<T>, StoreError>>,
{
    let mut after = start;
    loop {
        let found = page(after).await?;
        let last = found.last().map(&name).filter(|_| found.len() == PAGE);
        if found.into_iter().try_for_each(&mut each).is_break() {
            return Ok(());
        }
        match last {
            Some(last) => after = last,
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Visits the numbers of a list of `count`, until the number `last`.
    async fn visited(count: usize, last: usize) -> (Vec<usize>, usize) {
        let pages = std::cell::Cell::new(0);
        let page = async |after: usize| {
            pages.set(pages.get() + 1);
            Ok((after + 1..=count).take(PAGE).collect())
        };
        let mut seen = Vec::new();
        let each = |number| {
            seen.push(number);
            if number == last {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        visit(0, page, |number| *number, each).await.unwrap();
        (seen, pages.get())
    }

    #[tokio::test]
    async fn every_row_is_visited_once() {
        for (count, pages) in [
            (0, 1),
            (1, 1),
            (PAGE - 1, 1),
            (PAGE, 2),
            (PAGE + 1, 2),
            (2 * PAGE + 5, 3),
        ] {
            let (seen, read) = visited(count, usize::MAX).await;
            assert!(seen.into_iter().eq(1..=count), "{count}");
            assert_eq!(read, pages, "{count}");
        }
        let (seen, read) = visited(2 * PAGE, 7).await;
        assert_eq!((seen.len(), read), (7, 1));
    }
}
