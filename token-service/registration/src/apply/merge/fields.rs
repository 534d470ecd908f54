//! Merging one object, field by field.

use std::collections::{BTreeMap, BTreeSet};

use super::past::Past;
use crate::describe::values::{Item, Values, read_stored, stored};
use crate::describe::{Registered, Rule};
use crate::protection::{Hidden, Protected, Protection, ProtectionError};
use domain::User;
use domain::remembered::{Element, Made};

/// Merges the fields of one object, and records the fields that both sides changed.
pub(super) struct Merger<'a> {
    past: Past<'a>,
    pub(super) conflicts: BTreeSet<&'static str>,
}

/// The outcome of merging a secret that is stored in a protected form.
pub(super) struct Settled {
    pub(super) kept: Option<Protected>,
    /// Whether the stored form comes from the file, as far as known.
    pub(super) is_files: bool,
    pub(super) made: Option<Made>,
}

impl<'a> Merger<'a> {
    pub(super) const fn new(past: Past<'a>) -> Self {
        Self {
            past,
            conflicts: BTreeSet::new(),
        }
    }

    /// Merges the object `file` with the values `files` into `before` with the values `found`. Its secrets keep their stored
    /// form.
    pub(super) fn object<T: Registered>(
        &mut self,
        file: &T,
        before: &T,
        files: &[Values],
        found: &[Values],
    ) -> T {
        let (mut merged, mut kind) = (stored(before), before.integration());
        let mut is_of_files_type = true;
        for (said, found) in files.iter().zip(found) {
            let field = said.field;
            if !field.is_of(kind) {
                continue;
            }
            let (said, found) = (&said.items, &found.items);
            match field.rule {
                Rule::Hidden => {}
                Rule::Type if said == found => {}
                Rule::Type if self.list(field.key, said, found).into_iter().eq(said) => {
                    (merged, kind) = (stored(file), file.integration());
                }
                Rule::Type => is_of_files_type = false,
                // The file describes another integration type.
                rule if rule != Rule::Enabled && !is_of_files_type => {}
                rule => field.set(&mut merged, &self.choose(field.key, rule, said, found)),
            }
        }
        read_stored(merged).unwrap_or_else(|| before.clone())
    }

    fn choose<'v>(
        &mut self,
        field: &'static str,
        rule: Rule,
        said: &'v [Item],
        found: &'v [Item],
    ) -> Vec<&'v Item> {
        match rule {
            Rule::FilledList => self.filled_list(field, said, found),
            Rule::Enabled => self.enabled(field, said, found),
            Rule::ClientSecrets => self.client_secrets(field, said, found),
            Rule::Name | Rule::Type | Rule::Value | Rule::Optional | Rule::List | Rule::Hidden => {
                self.list(field, said, found)
            }
        }
    }

    /// The result if only one side changed the field; `None` if both sides changed it.
    fn one_side<'v>(
        &self,
        field: &str,
        said: &'v [Item],
        found: &'v [Item],
    ) -> Option<Vec<&'v Item>> {
        let bases = self.past.said(field);
        let is_base = |side: &[Item]| {
            let mut bases = bases.iter();
            bases.any(|base| base.iter().eq(side.iter().map(|item| &item.element)))
        };
        if said == found || is_base(said) {
            Some(all(found))
        } else {
            is_base(found).then(|| all(said))
        }
    }

    /// Merges a list value by value. Values are matched by key.
    fn list<'v>(
        &mut self,
        field: &'static str,
        said: &'v [Item],
        found: &'v [Item],
    ) -> Vec<&'v Item> {
        if let Some(picked) = self.one_side(field, said, found) {
            return picked;
        }
        let bases = self.past.said(field);
        let (in_file, in_store) = (by_key(said), by_key(found));
        let mut merged = Vec::new();
        let added = said.iter().map(|one| &*one.element.key);
        let added = added.filter(|key| !in_store.contains_key(key));
        for key in found.iter().map(|one| &*one.element.key).chain(added) {
            let (file, stored) = (in_file.get(key), in_store.get(key));
            let was = |side: Option<&&Item>| {
                bases.iter().any(|base| {
                    let found = base.iter().find(|element| element.key == key);
                    found == side.map(|item| &item.element)
                })
            };
            let chosen = if file == stored || was(file) {
                stored
            } else if was(stored) {
                file
            } else {
                self.conflicts.insert(field);
                stored
            };
            merged.extend(chosen.copied());
        }
        let texts = |items: &[&'v Item]| -> BTreeSet<(&'v str, &'v str)> {
            let elements = items.iter().map(|item| &item.element);
            elements.map(|one| (&*one.key, &*one.value)).collect()
        };
        if texts(&merged) == texts(&all(said)) {
            return all(said);
        }
        merged
    }

    fn filled_list<'v>(
        &mut self,
        field: &'static str,
        said: &'v [Item],
        found: &'v [Item],
    ) -> Vec<&'v Item> {
        let merged = self.list(field, said, found);
        if !merged.is_empty() || said.is_empty() {
            return merged;
        }
        self.conflicts.insert(field);
        all(if found.is_empty() { said } else { found })
    }

    fn enabled<'v>(
        &mut self,
        field: &'static str,
        said: &'v [Item],
        found: &'v [Item],
    ) -> Vec<&'v Item> {
        if self.past.remembered.is_some() {
            return self.list(field, said, found);
        }
        let is_enabled = |side: &[Item]| side.iter().any(|flag| flag.element.value == "true");
        if !is_enabled(said) {
            return all(said);
        }
        if !is_enabled(found) {
            self.conflicts.insert(field);
        }
        all(found)
    }

    fn client_secrets<'v>(
        &mut self,
        field: &'static str,
        said: &'v [Item],
        found: &'v [Item],
    ) -> Vec<&'v Item> {
        if let Some(picked) = self.one_side(field, said, found) {
            return picked;
        }
        if !said.is_empty() && said.iter().all(|secret| found.contains(secret)) {
            // The file contains the result of a rotation, so its earlier contents no longer count.
            let bases = self.past.said(field);
            let is_over = |secret: &&Item| {
                let mut bases = bases.iter();
                bases.any(|base| base.contains(&secret.element)) && !said.contains(secret)
            };
            return found.iter().filter(|one| !is_over(one)).collect();
        }
        self.conflicts.insert(field);
        all(found)
    }

    /// Merges a secret that is stored in a protected form.
    pub(super) fn secret(
        &mut self,
        field: &'static str,
        given: &Hidden,
        before: &User,
        protection: &dyn Protection,
    ) -> Result<Settled, ProtectionError> {
        let owner = &before.username;
        let stored = Protected::of(before, field);
        let tag = given.tag(owner, protection);
        let bases = self.past.said(field);
        let made = self.past.made().remove(field);
        let is_made = |stored: &Protected| {
            made.as_ref()
                .is_some_and(|made| made.digest == stored.digest())
        };
        let stored_made = stored.as_ref().is_some_and(is_made);
        // Neither the file nor a command had set a secret before, so the file sets the first secret.
        let first = stored.is_none() && bases.contains(&[].as_slice());
        if bases.contains(&[single(&tag)].as_slice()) {
            return Ok(Settled {
                kept: stored,
                is_files: stored_made,
                made,
            });
        }
        let kept = match stored {
            Some(stored) if given.is(&stored, owner, protection)? => stored,
            _ if stored_made || first => given.protect(owner, protection)?,
            stored => {
                self.conflicts.insert(field);
                return Ok(Settled {
                    kept: stored,
                    is_files: false,
                    made,
                });
            }
        };
        Ok(Settled {
            made: Some(Made {
                value: tag,
                digest: kept.digest(),
            }),
            kept: Some(kept),
            is_files: true,
        })
    }
}

/// The value of a field that is not a list.
pub(super) fn single(value: &str) -> Element {
    Element {
        key: String::new(),
        value: value.to_owned(),
    }
}

fn all(side: &[Item]) -> Vec<&Item> {
    side.iter().collect()
}

fn by_key(side: &[Item]) -> BTreeMap<&str, &Item> {
    let items = side.iter();
    items.map(|item| (&*item.element.key, item)).collect()
}
