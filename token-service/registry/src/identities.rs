//! Linked identities: an identity belongs to at most one user.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::apply::Plan;
use domain::registry_index::{Named, NamedKind, email_value, identity_value};
use domain::{
    AuditEvent, Excerpt, Identity, LinkedIdentity, ObjectKind, ObjectName, RegistryChange, User,
    Username,
};
use protocol::Settings;
use protocol::identity_provider::IdentityProvider;
use store::{Store, StoreError};

/// One line for each identity that a user of the plan gets and another user has. If there are any, the plan must be refused. Without
/// any, the store makes the change only if there are still none. If the other user may lose the identity (`may_lose`), the plan takes
/// the identity from that user in the same transaction.
pub async fn taken(
    plan: &mut Plan,
    stored: &Excerpt,
    store: &dyn Store,
    may_lose: impl Fn(&User, &Identity) -> bool,
) -> Result<Vec<String>, StoreError> {
    let mut new = BTreeMap::new();
    for user in &plan.change.put_users {
        for (identity, value) in new_identities(user, stored) {
            new.insert(value, (identity.clone(), user.username.clone()));
        }
    }
    let mut lines = Vec::new();
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
            lines.push(line(username, &holder, identity));
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
    Ok(lines)
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

/// One line for each identity that the user loses and that the next sign-in may link again, by the e-mail address.
pub fn may_return(before: &User, after: &User, settings: &Settings) -> Vec<String> {
    let email = after.email.as_deref().filter(|_| after.enabled);
    let lost = before.identities.iter().map(|linked| &linked.identity);
    let lost = lost.filter(|identity| !after.has_identity(identity));
    let returns = lost.filter(|identity| {
        let provider = settings.identity_provider(&identity.issuer);
        let provider = provider.filter(|provider| provider.link_by_email);
        provider
            .zip(email)
            .is_some_and(|(provider, email)| provider.has_email(email))
    });
    let warning = |identity| {
        let name = &after.username;
        format!(
            "user {name}: the next sign-in of {identity} may link it again by the e-mail address: disable the user, or change \
             the address"
        )
    };
    returns.map(warning).collect()
}

/// Says that `holder` has the identity that `username` is to get.
pub(crate) fn line(username: &Username, holder: &Username, identity: &Identity) -> String {
    format!("user {username}: identities: {holder} has {identity}: unlink it there first")
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
pub(crate) async fn holders(
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
/// has the address, or if the user has another identity at the provider: the address may have gone to another person there. If the
/// change is overtaken, ask again.
pub async fn link_by_email(
    provider: &IdentityProvider,
    identity: &Identity,
    email: &str,
    store: &dyn Store,
    event: impl Fn(&Username) -> AuditEvent,
) -> Result<Option<(Username, RegistryChange)>, StoreError> {
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
    let change = RegistryChange {
        untaken: untaken.collect(),
        audit: Arc::new([event(username)]),
        ..plan.change
    };
    Ok(Some((username.clone(), change)))
}
