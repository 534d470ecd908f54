//! What differs between two states of an object, for people to read.

use std::fmt;

use crate::describe::{Registered, Rule};
use domain::remembered::{Element, ObjectName};

/// The values that an object has in a field.
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

/// How a change of a field is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// Old and new value.
    Value,
    /// What came and what went.
    List,
    /// By its name alone.
    Secret,
}

/// The change of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldChange {
    /// The field's key in a registrations file.
    pub field: &'static str,
    /// Old and new value, for people; `None` for secrets.
    pub values: Option<String>,
}

impl FieldChange {
    /// The fields that differ.
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

/// The values of a field, for people.
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

/// One difference between file and registry, for people to read. Its text names fields, never their values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Client, user or legacy instance that differs.
    pub object: ObjectName,
    /// What applying the file does to the object.
    pub kind: DifferenceKind,
}

/// What applying a file does to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DifferenceKind {
    /// Adds the object.
    Added,
    /// Changes these fields.
    Changed(Vec<FieldChange>),
    /// Removes the object and revokes what was issued to it.
    Removed,
}

impl Difference {
    /// The names of the fields that change.
    #[must_use]
    pub fn fields(&self) -> Vec<&'static str> {
        match &self.kind {
            DifferenceKind::Changed(changes) => changes.iter().map(|one| one.field).collect(),
            DifferenceKind::Added | DifferenceKind::Removed => Vec::new(),
        }
    }

    /// The text, followed by a line for each field with its old and its new value; secrets have none.
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
