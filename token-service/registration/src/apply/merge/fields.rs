//! Merging one object, field by field.

use std::collections::{BTreeMap, BTreeSet};

use super::past::Past;
use crate::describe::member::{Pick, Secret};
use crate::describe::{Registered, Rule};
use crate::protection::{Hidden, Protected, Protection, ProtectionError};
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

    /// Merges the object. Its secrets keep their stored form.
    pub(super) fn object<T: Registered>(&mut self, file: &T, stored: &T) -> T {
        let mut merged = stored.clone();
        let mut is_of_files_type = true;
        for field in T::DESCRIPTION.fields {
            let Some(member) = field.member(merged.integration()) else {
                continue;
            };
            let (said, found) = (member.elements(file), member.elements(stored));
            match field.rule {
                Rule::Name | Rule::Hidden => {}
                Rule::Type if said == found => {}
                Rule::Type if self.list(field.key, &said, &found) == [Pick::File(0)] => {
                    merged = file.clone();
                }
                Rule::Type => is_of_files_type = false,
                // The file describes another integration type.
                rule if rule != Rule::Enabled && !is_of_files_type => {}
                rule => {
                    let picks = self.choose(field.key, rule, &said, &found);
                    member.assemble(&picks, file, stored, &mut merged);
                }
            }
        }
        merged
    }

    fn choose(
        &mut self,
        field: &'static str,
        rule: Rule,
        said: &[Element],
        found: &[Element],
    ) -> Vec<Pick> {
        match rule {
            Rule::FilledList => self.filled_list(field, said, found),
            Rule::Enabled => self.enabled(field, said, found),
            Rule::ClientSecrets => self.client_secrets(field, said, found),
            Rule::Name | Rule::Type | Rule::Value | Rule::List | Rule::Hidden => {
                self.list(field, said, found)
            }
        }
    }

    /// The result if only one side changed the field; `None` if both sides changed it.
    fn one_side(&self, field: &str, said: &[Element], found: &[Element]) -> Option<Vec<Pick>> {
        let bases = self.past.said(field);
        if said == found || bases.contains(&said) {
            Some(all(found, Pick::Stored))
        } else if bases.contains(&found) {
            Some(all(said, Pick::File))
        } else {
            None
        }
    }

    /// Merges a list value by value. Values are matched by key.
    fn list(&mut self, field: &'static str, said: &[Element], found: &[Element]) -> Vec<Pick> {
        if let Some(picks) = self.one_side(field, said, found) {
            return picks;
        }
        let bases = self.past.said(field);
        let (in_file, in_store) = (by_key(said), by_key(found));
        let mut merged = Vec::new();
        let added = said.iter().filter(|one| !in_store.contains_key(&*one.key));
        for Element { key, .. } in found.iter().chain(added) {
            let (file, stored) = (in_file.get(&**key), in_store.get(&**key));
            let value = |side: Option<&(usize, &Element)>| side.map(|(_, one)| one.value.clone());
            let (of_file, of_store) = (value(file), value(stored));
            let before = |wanted: &Option<String>| {
                bases.iter().any(|base| {
                    let found = base.iter().find(|element| element.key == *key);
                    found.map(|element| &element.value) == wanted.as_ref()
                })
            };
            let (of_stored, of_files) = (
                stored.map(|(index, one)| (Pick::Stored(*index), *one)),
                file.map(|(index, one)| (Pick::File(*index), *one)),
            );
            let chosen = if of_file == of_store || before(&of_file) {
                of_stored
            } else if before(&of_store) {
                of_files
            } else {
                self.conflicts.insert(field);
                of_stored
            };
            merged.extend(chosen);
        }
        let of_files: BTreeSet<_> = said.iter().map(|one| (&one.key, &one.value)).collect();
        let of_both = merged.iter().map(|(_, one)| (&one.key, &one.value));
        if of_both.collect::<BTreeSet<_>>() == of_files {
            return all(said, Pick::File);
        }
        merged.into_iter().map(|(pick, _)| pick).collect()
    }

    fn filled_list(
        &mut self,
        field: &'static str,
        said: &[Element],
        found: &[Element],
    ) -> Vec<Pick> {
        let merged = self.list(field, said, found);
        if !merged.is_empty() || said.is_empty() {
            return merged;
        }
        self.conflicts.insert(field);
        if found.is_empty() {
            all(said, Pick::File)
        } else {
            all(found, Pick::Stored)
        }
    }

    fn enabled(&mut self, field: &'static str, said: &[Element], found: &[Element]) -> Vec<Pick> {
        if self.past.remembered.is_some() {
            return self.list(field, said, found);
        }
        let is_enabled = |side: &[Element]| side.iter().any(|flag| flag.value == "true");
        if !is_enabled(said) {
            return all(said, Pick::File);
        }
        if !is_enabled(found) {
            self.conflicts.insert(field);
        }
        all(found, Pick::Stored)
    }

    fn client_secrets(
        &mut self,
        field: &'static str,
        said: &[Element],
        found: &[Element],
    ) -> Vec<Pick> {
        if let Some(picks) = self.one_side(field, said, found) {
            return picks;
        }
        if !said.is_empty() && said.iter().all(|secret| found.contains(secret)) {
            // The file contains the result of a rotation, so its earlier contents no longer count.
            let bases = self.past.said(field);
            let over = |secret: &Element| {
                bases.iter().any(|base| base.contains(secret)) && !said.contains(secret)
            };
            let live = found.iter().enumerate().filter(|(_, one)| !over(one));
            return live.map(|(index, _)| Pick::Stored(index)).collect();
        }
        self.conflicts.insert(field);
        all(found, Pick::Stored)
    }

    /// Merges a secret that is stored in a protected form.
    pub(super) fn secret<T>(
        &mut self,
        field: &'static str,
        secret: &Secret<T>,
        given: &Hidden,
        stored: &T,
        protection: &dyn Protection,
    ) -> Result<Settled, ProtectionError> {
        let owner = (secret.owner)(stored);
        let stored = (secret.get)(stored);
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

fn all(side: &[Element], pick: fn(usize) -> Pick) -> Vec<Pick> {
    (0..side.len()).map(pick).collect()
}

fn by_key(side: &[Element]) -> BTreeMap<&str, (usize, &Element)> {
    let indexed = side.iter().enumerate();
    indexed
        .map(|(index, one)| (&*one.key, (index, one)))
        .collect()
}
