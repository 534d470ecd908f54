//! Linked identities: an identity belongs to at most one user.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::apply::Plan;
use crate::change::Edit;
use crate::registrations::Registrations;
use domain::audit_entry::Entry;
use domain::registry_index::{Named, NamedKind, email_value, identity_value};
use domain::{Excerpt, Identity, LinkedIdentity, Notice, ObjectKind, ObjectName, User, Username};
use protocol::Settings;
use protocol::identity_provider::IdentityProvider;
use store::{Store, StoreError};

/// An identity that `username` is to get and `holder` has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub username: Username,
    pub holder: Username,
    pub identity: Identity,
}

impl fmt::Display for Held {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            username,
            holder,
            identity,
        } = self;
        write!(
            formatter,
            "user {username}: identities: {holder} has {identity}: unlink it there first"
        )
    }
}

/// The identities that a user of the plan gets and another user has. If there are any, the plan must be refused. Without
/// any, the store makes the change only if there are still none. If the other user may lose the identity (`may_lose`), the plan takes
/// the identity from that user in the same transaction.
pub async fn taken(
    plan: &mut Plan,
    stored: &Excerpt,
    store: &dyn Store,
    may_lose: impl Fn(&User, &Identity) -> bool,
) -> Result<Vec<Held>, StoreError> {
    let mut new = BTreeMap::new();
    for user in &plan.change.put_users {
        for (identity, value) in new_identities(user, stored) {
            new.insert(value, (identity.clone(), user.username.clone()));
        }
    }
    let mut held = Vec::new();
    let mut losing: BTreeMap<Username, (User, User)> = BTreeMap::new();
    for (value, holder) in holders(new.keys().cloned().collect(), store).await? {
        let Some((identity, username)) = new.get(&value) else {
            continue;
        };
        if holder == *username {
            continue;
        }
        let mut put = plan.change.put_users.iter();
        let is_given = match put.find(|user| user.username == holder) {
            _ if plan.change.remove_users.contains(&holder) => true,
            Some(user) => !user.has_identity(identity),
            None => {
                if !losing.contains_key(&holder)
                    && let Some(user) = store.user(holder.clone()).await?
                {
                    losing.insert(holder.clone(), (user.clone(), user));
                }
                match losing.get_mut(&holder) {
                    // Unlinked meanwhile: the store looks again.
                    Some((before, _)) if !before.has_identity(identity) => continue,
                    Some((before, after)) if may_lose(before, identity) => {
                        let identities = &mut after.identities;
                        identities.retain(|linked| linked.identity != *identity);
                        true
                    }
                    // The row of a user who has it may be unreadable.
                    _ => false,
                }
            }
        };
        if is_given {
            new.remove(&value);
        } else {
            held.push(Held {
                username: username.clone(),
                identity: identity.clone(),
                holder,
            });
        }
    }
    for (before, after) in losing
        .into_values()
        .filter(|(before, after)| before != after)
    {
        plan.put(after, Some(&before));
    }
    let untaken = new.into_iter().map(|(value, (_, username))| Named {
        kind: NamedKind::Identity,
        value,
        name: username.to_string(),
    });
    plan.change.untaken.extend(untaken);
    Ok(held)
}

/// A warning for each issuer of these identities that the configuration does not list.
pub fn unconfigured<'a>(
    identities: impl IntoIterator<Item = &'a Identity>,
    settings: &Settings,
) -> Vec<String> {
    let issuers = identities.into_iter().map(|identity| &*identity.issuer);
    let issuers = issuers.filter(|issuer| settings.identity_provider(issuer).is_none());
    let issuers: BTreeSet<&str> = issuers.collect();
    let warning = |issuer| {
        format!(
            "nobody can sign in as a person of {issuer}: there is no [[identity_providers]] with this issuer"
        )
    };
    issuers.into_iter().map(warning).collect()
}

/// Removes the identities of a registrations file that other users keep at a start, and returns them.
pub async fn leave(
    registrations: &mut Registrations,
    store: &dyn Store,
) -> Result<Vec<Held>, StoreError> {
    let found = holders(values_of(registrations), store).await?;
    let name =
        |(_, holder): &(String, Username)| ObjectName::new(ObjectKind::User, holder.as_str());
    let stored = match found.is_empty() {
        true => Excerpt::default(),
        false => store.excerpt(found.iter().map(name).collect()).await?,
    };
    let holders = found.into_iter().map(|(value, holder)| {
        // The row of a user who has it may be unreadable.
        let user = stored.user(&holder).map(|user| User::clone(user));
        (value, user.unwrap_or_else(|| User::new(holder)))
    });
    let held = kept_by_others(registrations, &holders.collect::<Vec<_>>());
    for user in &mut registrations.users {
        let User {
            username,
            identities,
            ..
        } = &mut user.object;
        let is_held = |identity: &Identity| {
            let mut held = held.iter();
            held.any(|one| one.username == *username && one.identity == *identity)
        };
        identities.retain(|linked| !is_held(&linked.identity));
    }
    Ok(held)
}

/// The identities of a registrations file that other users keep at a start: `holders` are the users in the store, each with the
/// value of the identity in the index. A user whom a file manages gives away what the file no longer lists, but not what a
/// sign-in linked.
pub fn kept_by_others(registrations: &Registrations, holders: &[(String, User)]) -> Vec<Held> {
    let users = || registrations.users.iter().map(|user| &user.object);
    let listed: BTreeSet<&Username> = users().map(|user| &user.username).collect();
    let mut gets = BTreeMap::new();
    for user in users() {
        for LinkedIdentity { identity, .. } in &user.identities {
            gets.extend(identity_value(identity).map(|value| (value, (user, identity))));
        }
    }
    let kept = holders.iter().filter_map(|(value, holder)| {
        let (user, identity) = gets.get(value)?;
        let gives = holder.managed.is_some()
            && listed.contains(&holder.username)
            && !holder.is_linked_by_email(identity);
        (holder.username != user.username && !gives).then(|| Held {
            username: user.username.clone(),
            holder: holder.username.clone(),
            identity: (*identity).clone(),
        })
    });
    kept.collect()
}

/// The values in the index of the identities in a registrations file.
pub fn values_of(registrations: &Registrations) -> Vec<String> {
    let users = registrations.users.iter();
    let identities = users.flat_map(|user| &user.object.identities);
    identities
        .filter_map(|linked| identity_value(&linked.identity))
        .collect()
}

/// One line for each identity that the user loses and that the next sign-in may link again, by the e-mail address.
pub fn may_return(before: &User, after: &User, settings: &Settings) -> Vec<String> {
    let lost = before.identities.iter().map(|linked| &linked.identity);
    let lost = lost.filter(|identity| !after.has_identity(identity));
    let returns = lost.filter(|identity| returns(after, identity, settings));
    let warning = |identity| {
        let name = &after.username;
        format!(
            "user {name}: the next sign-in of {identity} may link it again by the e-mail address: disable the user, or change \
             the address"
        )
    };
    returns.map(warning).collect()
}

/// True if the next sign-in of the identity may link it to the user by the e-mail address.
fn returns(user: &User, identity: &Identity, settings: &Settings) -> bool {
    let email = user.email.as_deref().filter(|_| user.enabled);
    let provider = settings.identity_provider(&identity.issuer);
    let provider = provider.filter(|provider| provider.link_by_email);
    provider
        .zip(email)
        .is_some_and(|(provider, email)| provider.has_email(email))
}

/// Whether a person may unlink an own identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unlinking {
    Possible,
    /// The file that defines the user lists the identity (D-27).
    Managed,
    /// It would not last: the next sign-in may link the identity again by the e-mail address.
    Returns,
    /// The person has no other way to sign in.
    OnlyWay,
}

/// Whether `user` may unlink `identity`. `has_password`: the user can sign in with a password too.
pub fn unlinking(
    user: &User,
    identity: &Identity,
    has_password: bool,
    settings: &Settings,
) -> Unlinking {
    let signs_in = |identity: &Identity| {
        let provider = settings.identity_provider(&identity.issuer);
        provider.is_some_and(|provider| provider.client_id.is_some())
    };
    let mut others = user.identities.iter().map(|linked| &linked.identity);
    if user.managed.is_some() && !user.is_linked_by_email(identity) {
        Unlinking::Managed
    } else if returns(user, identity, settings) {
        Unlinking::Returns
    } else if has_password
        || !signs_in(identity)
        || others.any(|other| other != identity && signs_in(other))
    {
        Unlinking::Possible
    } else {
        Unlinking::OnlyWay
    }
}

/// The change by which `user`, as known to a page, unlinks an own identity, and the user's name. `None` if the user must not do that, has
/// no such identity, or has other credentials by now. `tell` as for [`link_by_email`].
pub async fn unlink(
    user: &User,
    identity: &Identity,
    has_password: impl Fn(&User) -> bool,
    settings: &Settings,
    store: &dyn Store,
    tell: impl Fn(&User) -> (Entry, Option<Notice>),
) -> Result<Option<Edit<Username>>, StoreError> {
    let name = ObjectName::new(ObjectKind::User, user.username.as_str());
    let stored = store.excerpt(vec![name]).await?;
    let before = stored.user(&user.username).map(|user| &**user);
    let Some(before) = before.filter(|before| {
        before.still_has(user.credentials_version)
            && before.has_identity(identity)
            && unlinking(before, identity, has_password(before), settings) == Unlinking::Possible
    }) else {
        return Ok(None);
    };
    let mut after = before.clone();
    let linked = &mut after.identities;
    linked.retain(|linked| linked.identity != *identity);
    let mut plan = Plan::on(&stored);
    plan.put(after, Some(before));
    let (entry, notice) = tell(before);
    plan.change.notices.extend(notice);
    let credentials = (before.username.clone(), before.credentials_version);
    plan.change.credentials.push(credentials);
    Ok(Some(
        Edit::with(plan, [entry]).map(|_| before.username.clone()),
    ))
}

/// The identities that the user does not have in `stored`, with their values in the index.
pub fn new_identities<'a>(
    user: &'a User,
    stored: &Excerpt,
) -> impl Iterator<Item = (&'a Identity, String)> {
    let before = stored.user(&user.username).cloned();
    let identities = user.identities.iter().map(|linked| &linked.identity);
    let new = identities.filter(move |identity| {
        !before
            .as_ref()
            .is_some_and(|before| before.has_identity(identity))
    });
    new.filter_map(|identity| Some((identity, identity_value(identity)?)))
}

/// The users who have one of these values, each with the value.
async fn holders(
    values: Vec<String>,
    store: &dyn Store,
) -> Result<Vec<(String, Username)>, StoreError> {
    match values.is_empty() {
        true => Ok(Vec::new()),
        false => store.users_with(NamedKind::Identity, values).await,
    }
}

/// The change that links `identity` to the user whom the provider's verified e-mail address `email` names, and the user's name.
/// `None` if the provider does not link by e-mail, if the address is not in a domain of the provider, if not exactly one enabled user
/// has the address, or if the user has another identity at the provider: the address may have gone to another person there.
/// `tell` returns the entry for the audit log, and what the person is told.
pub async fn link_by_email(
    provider: &IdentityProvider,
    identity: &Identity,
    email: &str,
    store: &dyn Store,
    tell: impl Fn(&User) -> (Entry, Option<Notice>),
) -> Result<Option<Edit<Username>>, StoreError> {
    if !provider.link_by_email || provider.issuer != identity.issuer || !provider.has_email(email) {
        return Ok(None);
    }
    let (Some(address), Some(value)) = (email_value(email), identity_value(identity)) else {
        return Ok(None);
    };
    let found = store.users_with_email(email.to_owned()).await?;
    let [username] = &found[..] else {
        return Ok(None);
    };
    let name = ObjectName::new(ObjectKind::User, username.as_str());
    let stored = store.excerpt(vec![name]).await?;
    let before = stored.user(username).map(|user| &**user);
    let Some(before) = before.filter(|user| {
        // Nothing but the case of ASCII letters may differ: the index takes the Kelvin sign for a k.
        let own = user.email.as_deref();
        let has_address = own.is_some_and(|own| own.eq_ignore_ascii_case(email));
        let mut identities = user.identities.iter();
        let is_known = identities.any(|linked| linked.identity.issuer == provider.issuer);
        user.enabled && !is_known && has_address
    }) else {
        return Ok(None);
    };
    let mut plan = Plan::on(&stored);
    let mut user = before.clone();
    user.identities.push(LinkedIdentity {
        identity: identity.clone(),
        by_email: true,
    });
    plan.put(user, Some(before));
    let untaken = [(NamedKind::Identity, value), (NamedKind::Email, address)];
    let untaken = untaken.into_iter().map(|(kind, value)| Named {
        kind,
        value,
        name: username.to_string(),
    });
    plan.change.untaken.extend(untaken);
    let (entry, notice) = tell(before);
    plan.change.notices.extend(notice);
    Ok(Some(Edit::with(plan, [entry]).map(|_| username.clone())))
}
