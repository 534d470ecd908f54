//! Changes of the registry.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use crate::digest::Digest;
use crate::object::ObjectKind;
use crate::registry_index::Named;
use crate::{
    AuditEvent, Client, ClientId, CredentialsVersion, LegacyInstance, Notice, ObjectName, User,
    Username,
};

/// Changes of the registry that are applied together or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistryChange {
    /// Clients to add or replace, by Client ID.
    pub put_clients: Vec<Client>,
    /// Clients in `put_clients` whose codes, grants and tokens the same transaction revokes, as if the client were disabled and
    /// enabled again.
    pub revoke_clients: Vec<ClientId>,
    /// Clients to remove; their grants are revoked in the same transaction.
    pub remove_clients: Vec<ClientId>,
    /// Users to add or replace, by username.
    pub put_users: Vec<User>,
    /// Users to remove; their grants are revoked and their sessions end in the same transaction.
    pub remove_users: Vec<Username>,
    /// Legacy instances to add or replace, by hostname.
    pub put_legacy_instances: Vec<LegacyInstance>,
    pub remove_legacy_instances: Vec<String>,
    /// The position in the sequence of changes at which the change was planned. The change is applied only if nothing
    /// that it [rests on](Premises) has changed since. `None`: always applied.
    pub planned_on: Option<u64>,
    /// Values of users in `put_users` that no other user may have, or the change is overtaken (D-52).
    pub untaken: Vec<Named>,
    /// Users who must still have these credentials, or the change is overtaken: a second factor changes them too, which is no change
    /// of the registry.
    pub credentials: Vec<(Username, CredentialsVersion)>,
    /// What happens to the digest of the registrations file that a start applied last.
    pub applied_file: FileChange,
    /// What people are told of the change, by mail. Owed from the same transaction on.
    pub notices: Vec<Notice>,
    /// Entries that the same transaction appends to the audit log.
    pub audit: Arc<[AuditEvent]>,
}

/// What a change of the registry does to the keyed digest of the registrations file that a start applied last (D-27). The next
/// start with the same file changes nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FileChange {
    #[default]
    Keep,
    /// The next start applies its file again. The digest is random, so that a start that is applying a file notices.
    Forget(Digest),
    /// The change is overtaken unless the store has `before`.
    Replace {
        before: Option<Digest>,
        after: Option<Digest>,
    },
}

impl FileChange {
    /// What the store has after the change; `None` if the change is overtaken.
    pub fn of(self, found: Option<Digest>) -> Option<Option<Digest>> {
        match self {
            Self::Keep => Some(found),
            Self::Forget(random) => Some(Some(random)),
            Self::Replace { before, after } => (found == before).then_some(after),
        }
    }
}

impl RegistryChange {
    /// The objects that the change adds, replaces or removes.
    pub fn touches(&self) -> BTreeSet<ObjectName> {
        let mut touched = BTreeSet::new();
        let mut touch = |kind, name: &str| touched.insert(ObjectName::new(kind, name));
        let put_clients = self.put_clients.iter().map(|client| &client.client_id);
        for client_id in put_clients.chain(&self.remove_clients) {
            touch(ObjectKind::Client, client_id.as_str());
        }
        let put_users = self.put_users.iter().map(|user| &user.username);
        for username in put_users.chain(&self.remove_users) {
            touch(ObjectKind::User, username.as_str());
        }
        let put_instances = self.put_legacy_instances.iter().map(|one| &one.hostname);
        for hostname in put_instances.chain(&self.remove_legacy_instances) {
            touch(ObjectKind::LegacyInstance, hostname);
        }
        touched
    }
}

/// Number of registry changes that a store keeps, counted by object. A reader that missed more changes reads the whole
/// registry again.
pub const CHANGES_KEPT: u64 = 10_000;

/// The changes of the registry after a position in the sequence of changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistryChanges {
    /// The next changes, oldest first. Each change raised the position by 1.
    Known(Vec<ObjectName>),
    /// The store no longer has these changes.
    Forgotten,
}

impl RegistryChanges {
    /// The changes after position `after`, from `rows` of positions and objects sorted by position. `last` is the
    /// current position of the store.
    pub fn behind<E>(
        after: u64,
        last: u64,
        rows: impl IntoIterator<Item = Result<(u64, ObjectName), E>>,
    ) -> Result<Self, E> {
        let mut known = Vec::new();
        for row in rows {
            let (position, touched) = row?;
            if position != after + known.len() as u64 + 1 {
                return Ok(Self::Forgotten);
            }
            known.push(touched);
        }
        Ok(if known.is_empty() && after != last {
            Self::Forgotten
        } else {
            Self::Known(known)
        })
    }
}

/// What a change rests on. If one of these objects changes after planning, the change has to be planned again.
#[derive(Debug, Default)]
pub struct Premises {
    objects: HashSet<ObjectName>,
    clients: bool,
}

impl Premises {
    /// What `change` rests on:
    /// - The objects that it touches.
    /// - For a client: no user has the client's name (RFC 9700 §4.15), and the bound user exists.
    /// - For a user: no client has the user's name, and no other user has it in another letter case (D-43).
    /// - For the removal of a user: no client is bound to the user.
    pub fn of(change: &RegistryChange) -> Self {
        let touched = change.touches().into_iter();
        let mut premises = Self {
            objects: touched.map(|object| compared(&object)).collect(),
            clients: !change.remove_users.is_empty(),
        };
        let mut rests_on = |kind, name: &str| {
            let object = ObjectName::new(kind, name);
            premises.objects.insert(compared(&object));
        };
        for client in &change.put_clients {
            rests_on(ObjectKind::User, client.client_id.as_str());
            if let Some(bound_user) = client.bound_user() {
                rests_on(ObjectKind::User, bound_user.as_str());
            }
        }
        for user in &change.put_users {
            rests_on(ObjectKind::Client, user.username.as_str());
        }
        premises
    }

    /// True if one of `changes`, which happened after planning, affects a premise.
    pub fn are_overtaken_by(&self, changes: &RegistryChanges) -> bool {
        match changes {
            RegistryChanges::Forgotten => true,
            RegistryChanges::Known(changes) => changes.iter().any(|touched| {
                (self.clients && touched.kind == ObjectKind::Client)
                    || self.objects.contains(&compared(touched))
            }),
        }
    }
}

/// The name by which an object is compared: names of users without case (D-43).
fn compared(object: &ObjectName) -> ObjectName {
    let username = match object.kind {
        ObjectKind::User => Username::parse(&object.name),
        ObjectKind::Client | ObjectKind::LegacyInstance => None,
    };
    username.map_or_else(
        || object.clone(),
        |username| ObjectName::new(object.kind, username.folded()),
    )
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistryOutcome {
    Changed,
    /// Nothing was changed, because something that the change rests on has changed since planning.
    Overtaken,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn public(name: &str) -> Client {
        testing::installed(name, &[])
    }

    fn bound(name: &str, to: &str) -> Client {
        testing::user_bound(name, &[], to)
    }

    fn user(name: &str) -> User {
        testing::user(name, &[])
    }

    fn put(clients: Vec<Client>, users: Vec<User>) -> RegistryChange {
        RegistryChange {
            put_clients: clients,
            put_users: users,
            ..RegistryChange::default()
        }
    }

    fn overtakes(made: &RegistryChange, planned: &RegistryChange) -> bool {
        let made = made.touches().into_iter().collect();
        Premises::of(planned).are_overtaken_by(&RegistryChanges::Known(made))
    }

    #[test]
    fn a_plan_rests_on_its_objects_and_what_they_were_compared_with() {
        let without = |name: &str| RegistryChange {
            remove_users: vec![Username::parse(name).unwrap()],
            ..RegistryChange::default()
        };
        let (web, ada) = (
            put(vec![public("web")], vec![]),
            put(vec![], vec![user("ada")]),
        );
        let other = put(vec![public("other")], vec![user("grace")]);
        let bound_to = |name| put(vec![bound("batch", name)], vec![]);
        for (made, planned, expected) in [
            (&web, &web, true),
            (&other, &web, false),
            (&other, &ada, false),
            (&web, &ada, false),
            // No client may have the name of a user.
            (&put(vec![], vec![user("web")]), &web, true),
            (&put(vec![public("ada")], vec![]), &ada, true),
            // The user that a client is bound to must exist.
            (&without("ada"), &bound_to("ada"), true),
            (&bound_to("ada"), &without("ada"), true),
            (&without("grace"), &bound_to("ada"), false),
            // Names of people are compared without case.
            (&put(vec![], vec![user("ADA")]), &ada, true),
            (&without("Ada"), &bound_to("ADA"), true),
            (&put(vec![public("WEB")], vec![]), &web, false),
        ] {
            assert_eq!(overtakes(made, planned), expected, "{made:?} {planned:?}");
        }
        assert!(Premises::of(&web).are_overtaken_by(&RegistryChanges::Forgotten));
    }

    #[test]
    fn a_gap_in_the_sequence_is_told_as_forgotten() {
        let touched = |name: &str| ObjectName::new(ObjectKind::User, name);
        let behind = |after, last, positions: &[u64]| {
            let rows = positions
                .iter()
                .map(|at| Ok::<_, ()>((*at, touched("ada"))));
            RegistryChanges::behind(after, last, rows).unwrap()
        };
        let known = |count| RegistryChanges::Known(vec![touched("ada"); count]);
        assert_eq!(behind(3, 5, &[4, 5]), known(2));
        assert_eq!(behind(5, 5, &[]), known(0));
        for (after, positions) in [(3, &[5][..]), (3, &[]), (7, &[])] {
            assert_eq!(behind(after, 5, positions), RegistryChanges::Forgotten);
        }
    }
}
