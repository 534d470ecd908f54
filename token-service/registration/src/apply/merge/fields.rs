//! Merging one object, field by field.

use std::collections::{BTreeMap, BTreeSet};

use super::past::Past;
use crate::describe::values::{Item, Values, integration, read_stored, stored};
use crate::describe::{Registered, Rule};
use crate::protection::{Hidden, Protection, ProtectionError, stored_digest};
use domain::User;
use domain::remembered::{Element, Made};

/// Merges `file` with the values `files` into `before` with the values `found`. Secrets that are stored in a protected form
/// stay. Also returns the fields that both sides changed.
pub(super) fn merged<T: Registered>(
    past: Past<'_>,
    (file, files): (&T, &[Values]),
    (before, found): (&T, &[Values]),
) -> (T, BTreeSet<&'static str>) {
    let mut merged = stored(before);
    let mut conflicts = BTreeSet::new();
    let mut is_of_files_type = true;
    for (said, found) in files.iter().zip(found) {
        let field = said.field;
        // The file may describe another integration type.
        let is_described = is_of_files_type || field.rule == Rule::Enabled;
        if field.rule == Rule::Hidden || !field.is_of(integration(&merged)) || !is_described {
            continue;
        }
        let sides = Sides {
            bases: past.said(field.key),
            said: &said.items,
            found: &found.items,
        };
        let (items, is_conflict) = sides.merged(field.rule);
        if is_conflict {
            conflicts.insert(field.key);
        }
        if field.rule != Rule::Type {
            field.set(&mut merged, &items);
        } else if sides.said != sides.found {
            is_of_files_type = items.into_iter().eq(sides.said);
            if is_of_files_type {
                merged = stored(file);
            }
        }
    }
    let merged = read_stored(merged).unwrap_or_else(|| before.clone());
    (merged, conflicts)
}

/// Merges a secret that is stored in a protected form into `user`. Returns `None` if the user then has the secret of the
/// file, as far as known, otherwise whether both sides changed the secret.
pub(super) fn merge_secret(
    past: Past<'_>,
    given: &Hidden,
    user: &mut User,
    made: &mut BTreeMap<String, Made>,
    protection: &dyn Protection,
) -> Result<Option<bool>, ProtectionError> {
    let (field, tag) = (given.field(), given.tag(&user.username, protection));
    let bases = past.said(field);
    let stored = stored_digest(user, field);
    let is_made = stored.is_some() && stored == made.get(field).map(|made| made.digest);
    if bases.contains(&[single(&tag)].as_slice()) {
        return Ok((!is_made).then_some(false));
    }
    if !given.is_of(user, protection)? {
        // Neither the file nor a command had set a secret before, so the file sets the first secret.
        let is_first = stored.is_none() && bases.contains(&[].as_slice());
        if !is_made && !is_first {
            return Ok(Some(true));
        }
        given.store_in(user, protection)?;
    }
    made.extend(made_of(user, field, &tag));
    Ok(None)
}

/// What to remember of the stored form of a secret of the file, with the tag of the secret.
pub(super) fn made_of(user: &User, field: &str, tag: &str) -> Option<(String, Made)> {
    let made = Made {
        value: tag.to_owned(),
        digest: stored_digest(user, field)?,
    };
    Some((field.to_owned(), made))
}

/// The value of a field that is not a list.
pub(super) fn single(value: &str) -> Element {
    Element {
        key: String::new(),
        value: value.to_owned(),
    }
}

/// A field of an object: its values in earlier files, in the file and in the registry.
struct Sides<'v> {
    /// Empty if no file was ever applied to the object.
    bases: Vec<&'v [Element]>,
    said: &'v [Item],
    found: &'v [Item],
}

impl<'v> Sides<'v> {
    /// The merged values, and whether both sides changed the field. On a conflict, the registry stays.
    fn merged(&self, rule: Rule) -> (Vec<&'v Item>, bool) {
        let all = |side: &'v [Item]| side.iter().collect();
        let is_disabled = |side: &[Item]| side.iter().all(|flag| flag.element.value != "true");
        if rule == Rule::Enabled && self.bases.is_empty() && is_disabled(self.said) {
            return (all(self.said), false);
        }
        let (merged, is_conflict) = match (self.one_side(), rule) {
            (Some(picked), _) => (all(picked), false),
            (None, Rule::ClientSecrets) => self.client_secrets(),
            (None, _) => self.list(),
        };
        if rule == Rule::FilledList && merged.is_empty() && !self.said.is_empty() {
            let is_empty = self.found.is_empty();
            return (all(if is_empty { self.said } else { self.found }), true);
        }
        (merged, is_conflict)
    }

    /// The result if only one side changed the field; `None` if both sides changed it.
    fn one_side(&self) -> Option<&'v [Item]> {
        let is_base = |side: &[Item]| {
            let mut bases = self.bases.iter();
            bases.any(|base| base.iter().eq(side.iter().map(|item| &item.element)))
        };
        if self.said == self.found || is_base(self.said) {
            Some(self.found)
        } else {
            is_base(self.found).then_some(self.said)
        }
    }

    /// Merges a list that both sides changed, value by value. Values are matched by key.
    fn list(&self) -> (Vec<&'v Item>, bool) {
        let (in_file, in_store) = (by_key(self.said), by_key(self.found));
        let mut merged: Vec<&'v Item> = Vec::new();
        let mut is_conflict = false;
        let added = self.said.iter().map(|one| &*one.element.key);
        let added = added.filter(|key| !in_store.contains_key(key));
        let found = self.found.iter().map(|one| &*one.element.key);
        for key in found.chain(added) {
            let (file, stored) = (in_file.get(key), in_store.get(key));
            let was = |side: Option<&&Item>| {
                self.bases.iter().any(|base| {
                    let found = base.iter().find(|element| element.key == key);
                    found == side.map(|item| &item.element)
                })
            };
            let is_files = file != stored && !was(file) && was(stored);
            is_conflict |= file != stored && !was(file) && !was(stored);
            merged.extend(if is_files { file } else { stored });
        }
        // The same values, in the order of the file.
        let is_files = merged.iter().all(|item| self.said.contains(item))
            && self.said.iter().all(|item| merged.contains(&item));
        if is_files {
            merged = self.said.iter().collect();
        }
        (merged, is_conflict)
    }

    fn client_secrets(&self) -> (Vec<&'v Item>, bool) {
        let is_live = |secret| self.found.contains(secret);
        if self.said.is_empty() || !self.said.iter().all(is_live) {
            return (self.found.iter().collect(), true);
        }
        // The file contains the result of a rotation, so its earlier contents no longer count.
        let is_over = |secret: &&Item| {
            let mut bases = self.bases.iter();
            bases.any(|base| base.contains(&secret.element)) && !self.said.contains(secret)
        };
        let live = self.found.iter().filter(|secret| !is_over(secret));
        (live.collect(), false)
    }
}

fn by_key(side: &[Item]) -> BTreeMap<&str, &Item> {
    let items = side.iter();
    items.map(|item| (&*item.element.key, item)).collect()
}
