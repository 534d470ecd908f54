//! Differences between two states of an object, for people.

use std::fmt;

use crate::describe::{self, Registered, Rule, Values};
use domain::{Managed, ObjectName};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldChange {
    /// The field's key in registrations files.
    pub field: &'static str,
    /// Old and new value as text; `None` for secrets.
    pub values: Option<String>,
}

/// In place of the file, where no file defines an object.
pub(crate) const NOBODY: &str = "nothing";

impl FieldChange {
    /// The fields in which two states of an object differ, and whether a file manages it.
    pub(super) fn between<T: Registered>(before: &T, after: &T) -> Vec<Self> {
        let differing = differing(before, after);
        let mut changes: Vec<Self> = differing
            .map(|(before, after)| Self {
                field: before.key,
                values: values(&before, &after),
            })
            .collect();
        let owners = [before, after].map(|object| object.owner().0);
        if let [Some(_), None] | [None, Some(_)] = owners {
            let name =
                |file: Option<&Managed>| file.map_or_else(|| NOBODY.to_owned(), Managed::to_string);
            let [before, after] = owners.map(name);
            changes.push(Self {
                field: "managed_by",
                values: Some(format!("{before} -> {after}")),
            });
        }
        changes
    }
}

fn differing<T: Registered>(before: &T, after: &T) -> impl Iterator<Item = (Values, Values)> {
    let [before, after] = [before, after].map(describe::values);
    let pairs = before.into_iter().zip(after);
    pairs.filter(|(before, after)| before.texts != after.texts)
}

/// The fields of the definition in which two states of an object differ: what a file sets, and commands do not (D-27).
pub fn redefined<T: Registered>(before: &T, after: &T) -> Vec<&'static str> {
    let defined = differing(before, after).filter(|(before, _)| !before.rule.is_state());
    defined.map(|(before, _)| before.key).collect()
}

/// Old and new value, or for a list the added and removed values. `None` for secrets.
fn values(before: &Values, after: &Values) -> Option<String> {
    let single = |values: &Values| match values.texts.first() {
        Some(text) => format!("{text:?}"),
        None => "nothing".to_owned(),
    };
    match before.rule {
        Rule::Secret | Rule::Ignored => return None,
        Rule::Single | Rule::State => {
            return Some(format!("{} -> {}", single(before), single(after)));
        }
        Rule::List | Rule::States => {}
    }
    let only = |one: &Values, other: &Values, sign: char| -> Vec<String> {
        let missing = one.texts.iter().filter(|text| !other.texts.contains(text));
        missing
            .map(|text| format!("{sign}{}", visible(text)))
            .collect()
    };
    let mut changes = only(before, after, '-');
    changes.extend(only(after, before, '+'));
    if changes.is_empty() {
        changes.push("another order".to_owned());
    }
    Some(changes.join(" "))
}

/// The text with escapes for what people do not see. Quotes stay: accounts and keys contain them.
fn visible(text: &str) -> String {
    const QUOTES: [char; 3] = ['"', '\'', '\\'];
    let part = |part: &str| {
        let plain = part.trim_end_matches(QUOTES);
        let quotes = part.strip_prefix(plain).unwrap_or_default();
        format!("{}{quotes}", plain.escape_debug())
    };
    text.split_inclusive(QUOTES).map(part).collect()
}

/// A difference between file and registry, for people. Its text contains the names of fields, never their values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub object: ObjectName,
    pub kind: DifferenceKind,
}

/// The effect of applying a file to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DifferenceKind {
    Added,
    Changed(Vec<FieldChange>),
    /// Removes the object and revokes its tokens.
    Removed,
}

impl Difference {
    pub fn fields(&self) -> Vec<&'static str> {
        match &self.kind {
            DifferenceKind::Changed(changes) => changes.iter().map(|one| one.field).collect(),
            DifferenceKind::Added | DifferenceKind::Removed => Vec::new(),
        }
    }

    /// One text per changed field, with the old and the new value unless they are secret.
    pub fn lines(&self) -> Vec<String> {
        let DifferenceKind::Changed(changes) = &self.kind else {
            return Vec::new();
        };
        let changes = changes.iter();
        let line = |change: &FieldChange| match &change.values {
            Some(values) => format!("{}: {values}", change.field),
            None => change.field.to_owned(),
        };
        changes.map(line).collect()
    }

    /// The text, followed by a line with the old and the new value of each field. Secrets have no such line.
    pub fn with_values(&self) -> String {
        let mut text = self.to_string();
        if let DifferenceKind::Changed(changes) = &self.kind {
            for FieldChange { field, values } in changes {
                if let Some(values) = values {
                    text.push_str(&format!("\n    {field}: {values}"));
                }
            }
        }
        text
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectName { kind, name } = &self.object;
        let kind = kind.name();
        match &self.kind {
            DifferenceKind::Added => write!(formatter, "+ {kind} {name}"),
            DifferenceKind::Changed(_) => {
                write!(formatter, "~ {kind} {name}: {}", self.fields().join(", "))
            }
            DifferenceKind::Removed => write!(formatter, "- {kind} {name}"),
        }
    }
}
