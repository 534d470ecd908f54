//! Differences between two states of an object, for people.

use std::fmt;

use crate::describe::{Registered, Rule};
use domain::remembered::{Element, ObjectName};

/// The values of an object in a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Values {
    pub(super) field: &'static str,
    pub(super) elements: Vec<Element>,
    pub(super) shown: Shown,
}

impl Values {
    /// The values of all fields that can differ.
    pub(super) fn of<T: Registered>(object: &T) -> Vec<Self> {
        let fields = T::DESCRIPTION.fields.iter();
        let fields = fields.filter(|field| field.rule != Rule::Name);
        let values = fields.map(|field| {
            let members = field.members.iter();
            Self {
                field: field.key,
                elements: members.flat_map(|member| member.elements(object)).collect(),
                shown: match field.rule {
                    Rule::Name | Rule::Type | Rule::Value | Rule::Enabled => Shown::Value,
                    Rule::List | Rule::FilledList => Shown::List,
                    Rule::ClientSecrets | Rule::Hidden => Shown::Secret,
                },
            }
        });
        values.collect()
    }
}

/// How the output shows a change of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// Old and new value.
    Value,
    /// Added and removed values.
    List,
    /// Only the name of the field.
    Secret,
}

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
        let differing = pairs.filter(|(before, after)| before.elements != after.elements);
        differing
            .map(|(before, after)| Self {
                field: before.field,
                values: values(before, after),
            })
            .collect()
    }
}

fn values(before: &Values, after: &Values) -> Option<String> {
    match before.shown {
        Shown::Secret => None,
        Shown::Value => Some(format!("{} -> {}", text(before), text(after))),
        Shown::List => {
            let only = |one: &Values, other: &Values, sign: char| -> Vec<String> {
                let elements = one.elements.iter();
                let missing = elements.filter(|element| !other.elements.contains(element));
                missing
                    .map(|element| format!("{sign}{}", element.value.escape_debug()))
                    .collect()
            };
            let mut changes = only(before, after, '-');
            changes.extend(only(after, before, '+'));
            if changes.is_empty() {
                changes.push("another order".to_owned());
            }
            Some(changes.join(" "))
        }
    }
}

/// The values of a field as text.
pub(super) fn text(values: &Values) -> String {
    let texts: Vec<String> = values
        .elements
        .iter()
        .map(|element| match values.shown {
            Shown::Value => format!("{:?}", element.value),
            Shown::List | Shown::Secret => element.value.escape_debug().to_string(),
        })
        .collect();
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
    /// The names of the changed fields.
    #[must_use]
    pub fn fields(&self) -> Vec<&'static str> {
        match &self.kind {
            DifferenceKind::Changed(changes) => changes.iter().map(|one| one.field).collect(),
            DifferenceKind::Added | DifferenceKind::Removed => Vec::new(),
        }
    }

    /// The text, followed by a line with the old and the new value of each field. Secrets have no such line.
    #[must_use]
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
