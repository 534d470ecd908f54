//! Differences between two states of an object, for people.

use std::fmt;

use crate::describe::Rule;
use crate::describe::values::{Item, Values};
use domain::remembered::ObjectName;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldChange {
    /// The field's key in registrations files.
    pub field: &'static str,
    /// Old and new value as text; `None` for secrets.
    pub values: Option<String>,
}

impl FieldChange {
    pub(super) fn between(before: &[Values], after: &[Values]) -> Vec<Self> {
        let pairs = before.iter().zip(after);
        let differing = pairs.filter(|(before, after)| before.items != after.items);
        differing
            .map(|(before, after)| Self {
                field: before.field.key,
                values: values(before, after),
            })
            .collect()
    }
}

/// Old and new value, or for a list the added and removed values.
fn values(before: &Values, after: &Values) -> Option<String> {
    if is_secret(before) {
        return None;
    }
    if !before.field.is_list() {
        return Some(format!("{} -> {}", text(before), text(after)));
    }
    let only = |one: &Values, other: &Values, sign: char| -> Vec<String> {
        let items = one.items.iter();
        let missing = items.filter(|item| !other.items.contains(item));
        missing
            .map(|item| format!("{sign}{}", item.element.value.escape_debug()))
            .collect()
    };
    let mut changes = only(before, after, '-');
    changes.extend(only(after, before, '+'));
    if changes.is_empty() {
        changes.push("another order".to_owned());
    }
    Some(changes.join(" "))
}

/// True if the output contains only the name of the field.
pub(super) const fn is_secret(values: &Values) -> bool {
    matches!(values.field.rule, Rule::ClientSecrets | Rule::Hidden)
}

pub(super) fn text(values: &Values) -> String {
    let text = |Item { element, .. }: &Item| match values.field.is_list() {
        true => element.value.escape_debug().to_string(),
        false => format!("{:?}", element.value),
    };
    let texts: Vec<String> = values.items.iter().map(text).collect();
    if texts.is_empty() {
        "nothing".to_owned()
    } else {
        texts.join(" ")
    }
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
