//! What a change of the registry must not do, and what a plan reads for that from the store in addition to the [`Excerpt`] of
//! its names. All lists are read in pages, so that memory is proportional to the plan.

use std::collections::{BTreeMap, HashSet};

use crate::apply::Plan;
use crate::describe::Registered;
use crate::identities;
use crate::registrations::{Registrations, unserved};
use document::{Place, Problem};
use domain::client::{IntegrationKind, IntegrationType};
use domain::object::ObjectKind;
use domain::registry_index::{Named, NamedKind, account_value, single_sign_on_value};
use domain::{
    Client, ClientId, Excerpt, LegacyInstance, LinkedAccount, ObjectName, RegistryChange, User,
};
use protocol::flow::TokenName;
use protocol::flows;
use protocol::settings::Settings;
use store::{Store, StoreError};

pub const PAGE: usize = 1000;

/// Maximum number of entries of a file that a start applies, in one transaction.
pub const MOST_AT_START: usize = 30_000;

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
    let note = |user: &User| {
        let mut accounts = user.accounts.iter();
        if accounts.any(|one| flows::misfit(TokenName::UserId(&one.user_id), settings).is_some()) {
            count += 1;
            if first.len() < FEW {
                first.push(user.username.to_string());
            }
        }
    };
    each(async |after| store.users(after, PAGE).await, note).await?;
    let others = if count > first.len() { ", ..." } else { "" };
    Ok((count > 0).then(|| {
        format!(
            "users with a user_id longer than legacy_user_id_max ({}), for whom the legacy flow may have no tokens: {count} ({}{others})",
            settings.legacy_user_id_max,
            first.join(", ")
        )
    }))
}

/// Calls `note` for each object that `page` reads after a name.
async fn each<T: Registered>(
    page: impl AsyncFn(String) -> Result<Vec<T>, StoreError>,
    mut note: impl FnMut(&T),
) -> Result<(), StoreError> {
    let mut after = String::new();
    loop {
        let read = page(after).await?;
        read.iter().for_each(&mut note);
        match read.last() {
            Some(last) if read.len() == PAGE => after = last.name().to_owned(),
            Some(_) | None => return Ok(()),
        }
    }
}

/// What the rules of documents depend on.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    pub settings: &'a Settings,
    pub legacy_instances: &'a [LegacyInstance],
    /// Whether clients can present TLS certificates.
    pub takes_certificates: bool,
    /// Whether a start applies the document.
    pub at_start: bool,
}

/// What the rules say about a document, a line each.
pub struct Findings {
    /// Why the document must be refused.
    pub refused: Vec<String>,
    /// What is allowed but unwise.
    pub warnings: Vec<String>,
}

impl Registrations {
    /// The rules of a document as a whole, for `check`, a start and `apply`.
    pub fn problems(&self, surroundings: Surroundings<'_>) -> Findings {
        let Surroundings {
            settings,
            legacy_instances,
            takes_certificates,
            at_start,
        } = surroundings;
        let clients = || self.clients.iter().map(|client| &client.object);
        let users = || self.users.iter().map(|user| &user.object);
        let is_known = |host: &str| legacy_instances.iter().any(|one| one.hostname == host);
        let mut warnings: Vec<String> = self.warnings.iter().map(ToString::to_string).collect();
        warnings.extend(clients().filter_map(|client| {
            let message = unserved(client, is_known, takes_certificates, settings)?;
            let place = self.places.get(&client.object_name())?;
            Some(Problem::new(place, message).to_string())
        }));
        let linked = users().flat_map(|user| &user.identities);
        let linked = linked.map(|linked| &linked.identity);
        warnings.extend(identities::unconfigured(linked, settings));
        // A message about a user of a JSON document begins with the name.
        let is_located = |object: &ObjectName, place: &Place| {
            object.kind == ObjectKind::Client || place.line().is_some()
        };
        let place = |object: &ObjectName| {
            let place = self.places.get(object)?;
            is_located(object, place).then(|| place.clone())
        };
        let has_legacy = !legacy_instances.is_empty();
        let mut refused = misfits(clients(), users(), place, has_legacy, settings);
        let entries = self.clients.len() + self.users.len();
        if at_start && entries > MOST_AT_START {
            refused.push(format!(
                "the registrations file has {entries} entries, and a start applies at most {MOST_AT_START}: leave it out of the \
                 configuration, and run token-service apply, also for an import"
            ));
        }
        Findings { refused, warnings }
    }
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
    change
        .untaken
        .extend(new.into_iter().map(|(named, _)| named));
    Ok(lines)
}

/// The registered users for whom the client can get tokens without a sign-in, and could not before.
fn acts_for(client: &Client, stored: &Excerpt) -> Option<String> {
    let whom = |client: &Client| match &client.integration {
        IntegrationType::UserBound { bound_user, .. } => Some((Some(bound_user.clone()), None)),
        IntegrationType::NonInteractive { organization, .. } => Some((None, organization.clone())),
        IntegrationType::WebServer { .. }
        | IntegrationType::Installed { .. }
        | IntegrationType::Legacy { .. } => None,
    };
    let before = stored.client(&client.client_id);
    let before = before.and_then(|before| whom(before));
    let new = whom(client).filter(|new| before.as_ref() != Some(new))?;
    match new {
        (Some(bound_user), _) => Some(stored.user(&bound_user)?.username.to_string()),
        (None, _) => Some("registered users".to_owned()),
    }
}

/// The clients and users that a file manages: clients first, each kind sorted by name.
pub async fn managed(store: &dyn Store) -> Result<Vec<ObjectName>, StoreError> {
    fn note<T: Registered>(objects: &mut Vec<ObjectName>) -> impl FnMut(&T) {
        move |object: &T| objects.extend(object.owner().0.map(|_| object.object_name()))
    }
    let mut objects = Vec::new();
    let clients = async |after| store.clients(after, PAGE).await;
    each(clients, note::<Client>(&mut objects)).await?;
    let users = async |after| store.users(after, PAGE).await;
    each(users, note::<User>(&mut objects)).await?;
    Ok(objects)
}

/// Also removes what is [`managed`] and not in `listed`. Users to whom other clients are bound stay, and what no file manages any
/// more.
pub async fn prune(
    plan: &mut Plan,
    managed: &[ObjectName],
    listed: &HashSet<ObjectName>,
    store: &dyn Store,
) -> Result<(), StoreError> {
    let left = managed.iter().filter(|one| !listed.contains(one));
    let left: Vec<ObjectName> = left.cloned().collect();
    for names in left.chunks(PAGE) {
        let stored = store.excerpt(names.to_vec()).await?;
        for object in names {
            if let Some(client) = Client::find(&stored, &object.name)
                && object.kind == ObjectKind::Client
                && client.managed.is_some()
            {
                plan.remove(client);
            }
            if let Some(user) = User::find(&stored, &object.name)
                && object.kind == ObjectKind::User
                && user.managed.is_some()
            {
                match bound(plan, user, store).await? {
                    Some(client_id) => plan.keep_bound(user, &client_id),
                    None => plan.remove(user),
                }
            }
        }
    }
    plan.sort();
    Ok(())
}

/// A client that is bound to the user after `plan`.
async fn bound(
    plan: &Plan,
    user: &User,
    store: &dyn Store,
) -> Result<Option<ClientId>, StoreError> {
    let change = &plan.change;
    let put = change.put_clients.iter();
    let mut bound = put.filter(|client| client.bound_user() == Some(&user.username));
    if let Some(client) = bound.next() {
        return Ok(Some(client.client_id.clone()));
    }
    let stored = store.clients_bound_to(user.username.clone(), usize::MAX);
    let is_left = |id: &ClientId| {
        let mut put = change.put_clients.iter();
        !change.remove_clients.contains(id) && !put.any(|client| client.client_id == *id)
    };
    Ok(stored.await?.into_iter().find(is_left))
}
