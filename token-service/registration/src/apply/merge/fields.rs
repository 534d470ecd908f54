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

/// A field of the object, with its values in the file and in the registry.
#[derive(Clone, Copy)]
struct Sides<'v> {
    field: &'static str,
    said: &'v [Item],
    found: &'v [Item],
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
            let sides = Sides {
                field: field.key,
                said: &said.items,
                found: &found.items,
            };
            match field.rule {
                Rule::Hidden => {}
                Rule::Type if sides.said == sides.found => {}
                Rule::Type if self.list(sides).into_iter().eq(sides.said) => {
                    (merged, kind) = (stored(file), file.integration());
                }
                Rule::Type => is_of_files_type = false,
                // The file describes another integration type.
                rule if rule != Rule::Enabled && !is_of_files_type => {}
                rule => field.set(&mut merged, &self.choose(rule, sides)),
            }
        }
        read_stored(merged).unwrap_or_else(|| before.clone())
    }

    fn choose<'v>(&mut self, rule: Rule, sides: Sides<'v>) -> Vec<&'v Item> {
        match rule {
            Rule::FilledList => self.filled_list(sides),
            Rule::Enabled => self.enabled(sides),
            Rule::ClientSecrets => self.client_secrets(sides),
            Rule::Name | Rule::Type | Rule::Value | Rule::Optional | Rule::List | Rule::Hidden => {
                self.list(sides)
            }
        }
    }

    /// Records that both sides changed the field. The registry stays.
    fn conflict<'v>(&mut self, sides: Sides<'v>) -> Vec<&'v Item> {
        self.conflicts.insert(sides.field);
        sides.found.iter().collect()
    }

    /// The result if only one side changed the field; `None` if both sides changed it.
    fn one_side<'v>(&self, sides: Sides<'v>) -> Option<Vec<&'v Item>> {
        let bases = self.past.said(sides.field);
        let is_base = |side: &[Item]| {
            let mut bases = bases.iter();
            bases.any(|base| base.iter().eq(side.iter().map(|item| &item.element)))
        };
        if sides.said == sides.found || is_base(sides.said) {
            Some(sides.found.iter().collect())
        } else {
            is_base(sides.found).then(|| sides.said.iter().collect())
        }
    }

    /// Merges a list value by value. Values are matched by key.
    fn list<'v>(&mut self, sides: Sides<'v>) -> Vec<&'v Item> {
        if let Some(picked) = self.one_side(sides) {
            return picked;
        }
        let Sides { field, said, found } = sides;
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
        let of_file: Vec<&Item> = said.iter().collect();
        if texts(&merged) == texts(&of_file) {
            return of_file;
        }
        merged
    }

    fn filled_list<'v>(&mut self, sides: Sides<'v>) -> Vec<&'v Item> {
        let merged = self.list(sides);
        if !merged.is_empty() || sides.said.is_empty() {
            return merged;
        }
        let kept = self.conflict(sides);
        match kept.is_empty() {
            true => sides.said.iter().collect(),
            false => kept,
        }
    }

    fn enabled<'v>(&mut self, sides: Sides<'v>) -> Vec<&'v Item> {
        if self.past.remembered.is_some() {
            return self.list(sides);
        }
        let is_enabled = |side: &[Item]| side.iter().any(|flag| flag.element.value == "true");
        match (is_enabled(sides.said), is_enabled(sides.found)) {
            (false, _) => sides.said.iter().collect(),
            (true, false) => self.conflict(sides),
            (true, true) => sides.found.iter().collect(),
        }
    }

    fn client_secrets<'v>(&mut self, sides: Sides<'v>) -> Vec<&'v Item> {
        if let Some(picked) = self.one_side(sides) {
            return picked;
        }
        let Sides { field, said, found } = sides;
        if said.is_empty() || !said.iter().all(|secret| found.contains(secret)) {
            return self.conflict(sides);
        }
        // The file contains the result of a rotation, so its earlier contents no longer count.
        let bases = self.past.said(field);
        let is_over = |secret: &&Item| {
            let mut bases = bases.iter();
            bases.any(|base| base.contains(&secret.element)) && !said.contains(secret)
        };
        found.iter().filter(|one| !is_over(one)).collect()
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

fn by_key(side: &[Item]) -> BTreeMap<&str, &Item> {
    let items = side.iter();
    items.map(|item| (&*item.element.key, item)).collect()
}
