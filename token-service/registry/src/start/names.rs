//! The names in a registrations file.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::describe::Registered as _;
use crate::file::RegistrationsFile;
use crate::registrations::{Draft, Registrations, Sought};
use domain::digest::Digest;
use domain::object::{ObjectKind, ObjectName};
use domain::{Identity, User, Username};

/// The names in a file, each with the line of its entry; 0 for entries that were not read.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) exact: HashMap<ObjectName, usize>,
    /// Usernames of entries that were read, without letter case, unless that is the name itself.
    folded: HashMap<String, usize>,
    /// Digests of the identities of entries that were read, each with the line.
    identities: HashMap<Digest, usize>,
}

impl Names {
    pub(super) fn list(&self, sought: Sought<'_>) -> bool {
        match sought {
            Sought::Object(object) => self.exact.contains_key(object),
            Sought::User(username) => self.alike(username).is_some(),
        }
    }

    /// The line of a user with this name in any letter case.
    fn alike(&self, username: &Username) -> Option<usize> {
        let folded = username.folded();
        let line = self.folded.get(&*folded);
        let line = line.or_else(|| self.exact.get(&ObjectName::new(ObjectKind::User, folded)));
        line.copied()
    }

    /// True if the user's entry was read: the entry does not list what another entry does. An identity that a sign-in linked stays
    /// nevertheless.
    pub(super) fn gives(&self, user: &User, identity: &Identity) -> bool {
        let line = self.exact.get(&user.object_name());
        user.managed.is_some()
            && line.is_some_and(|line| *line > 0)
            && !user.is_linked_by_email(identity)
    }

    /// Adds the names and identities of a part. Reports those that an earlier part has, names also in another letter case; the draft
    /// compares those of the part itself.
    pub(super) fn note(&mut self, draft: &Draft<Registrations>, file: &RegistrationsFile) {
        let mut folded = Vec::new();
        let mut exact = Vec::new();
        for (kind, name, place) in draft.places() {
            let line = place.line().unwrap_or_default();
            let object = ObjectName::new(kind, name);
            if let Some(first) = self.exact.get(&object) {
                let key = match kind {
                    ObjectKind::Client => "client_id",
                    ObjectKind::User | ObjectKind::LegacyInstance => "username",
                };
                let first = file.line(*first);
                draft.report(place, format!("{key}: {name} is already at {first}"));
                continue;
            }
            let username = Username::parse(name).filter(|_| kind == ObjectKind::User);
            if let Some(username) = username {
                if let Some(first) = self.alike(&username) {
                    let first = file.line(first);
                    let message = format!(
                        "username: {name} differs from the name at {first} only in letter case: keep one of the two"
                    );
                    draft.report(place, message);
                }
                if let Cow::Owned(name) = username.folded() {
                    folded.push((name, line));
                }
            }
            exact.push((object, line));
        }
        for (identity, place) in draft.identities() {
            let line = place.line().unwrap_or_default();
            match self.identities.entry(Digest::of(identity.as_bytes())) {
                Entry::Occupied(first) => {
                    let first = file.line(*first.get());
                    let message = format!("linked identity: {identity} is already at {first}");
                    draft.report(place, message);
                }
                Entry::Vacant(new) => drop(new.insert(line)),
            }
        }
        self.folded.extend(folded);
        self.exact.extend(exact);
    }
}
