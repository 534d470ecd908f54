//! Descriptions of clients, users and legacy instances: one [`Field`] per field, as plain data.
//!
//! Generated from these descriptions: the JSON views, the OpenAPI schemas, the comparison of objects,
//! the flags and tables of the command line, and the tables of `docs/configuration.md`.

pub(crate) mod checks;
pub(crate) mod reading;
pub(crate) mod values;

#[cfg(test)]
mod tests;

use serde::Serialize;
use serde_json::Value;

use domain::client::{ClientSecret, IntegrationKind};
use domain::clock::Timestamp;
use domain::object::{ObjectKind, ObjectName};
use domain::{Excerpt, Managed, RegistryChange, SecretTimes, User};

use reading::Entry;

pub use reading::{Completeness, Registration};
pub use values::{registration, view};

pub trait Registered: Clone + PartialEq + Serialize + Send + Sync + 'static {
    const DESCRIPTION: &'static Description;

    /// The name, unique among the objects of the kind.
    fn name(&self) -> &str;

    fn object_name(&self) -> ObjectName {
        ObjectName::new(Self::DESCRIPTION.kind, self.name())
    }

    /// Reads all fields. Reports wrong and missing values.
    fn read(entry: &mut Entry<'_, '_>) -> Option<Registration<Self>>;

    /// The values of the keys that only views have, as an object; `null` for an absent value. `_times` may contain times
    /// of secrets of other clients.
    fn shown(&self, _now: Timestamp, _times: &[SecretTimes]) -> Value {
        Value::Null
    }

    /// Takes the values that [`registration`] leaves out from `before`, if the object has no such values.
    fn complete(&mut self, _before: &Self) {}

    /// What the change from `before` to this object does that is allowed but may surprise, for people. With `_revokes`, the
    /// change ends all tokens of the object.
    fn warnings(&self, _before: Option<&Self>, _revokes: bool) -> Vec<String> {
        Vec::new()
    }

    /// The user, whose password and second factor are stored in a protected form; `None` for another kind.
    fn user(&self) -> Option<&User> {
        None
    }

    fn user_mut(&mut self) -> Option<&mut User> {
        None
    }

    /// The client secrets; empty for an object without client secrets.
    fn client_secrets(&self) -> &[ClientSecret] {
        &[]
    }

    fn client_secrets_mut(&mut self) -> Option<&mut Vec<ClientSecret>> {
        None
    }

    /// The file that defines the object, and whether the object is enabled.
    fn owner(&self) -> (Option<&Managed>, bool);

    fn owner_mut(&mut self) -> (&mut Option<Managed>, &mut bool);

    /// Takes what only the store sets from `before`.
    fn keep_versions(&mut self, _before: &Self) {}

    /// True if a command disabled the object.
    fn is_suspended(&self) -> bool {
        match self.owner() {
            (Some(managed), _) => managed.suspended,
            (None, enabled) => !enabled,
        }
    }

    fn find<'a>(stored: &'a Excerpt, name: &str) -> Option<&'a Self>;

    /// Spells the names of other objects as they are registered.
    fn spell_names(&mut self, _stored: &Excerpt) {}

    /// The list in `change` of objects to add or replace.
    fn put(change: &mut RegistryChange) -> &mut Vec<Self>;

    fn remove(&self, change: &mut RegistryChange);
}

#[derive(Debug)]
pub struct Description {
    pub kind: ObjectKind,
    /// Last segment of the path of all objects in the administration; for clients and users their key in files too.
    pub list: &'static str,
    /// Key of the name in files and JSON.
    pub name_key: &'static str,
    /// Placeholder of the name in the help of the command line.
    pub name_value: &'static str,
    /// Flag for the name of a new object, as an alternative to the argument.
    pub name_flag: Option<&'static str>,
    /// Name and description of the schema of registrations.
    pub registration: (&'static str, &'static str),
    /// Name and description of the schema of views.
    pub view: (&'static str, &'static str),
    pub fields: &'static [Field],
}

/// A key of registrations, views or both.
#[derive(Debug)]
pub struct Field {
    /// Key in files and JSON. Differences and the audit log use it too.
    pub key: &'static str,
    /// Name in output for people, as a line and as a column; empty for a key that only registrations have.
    pub label: &'static str,
    pub help: &'static str,
    /// Additional help for registrations; may be empty.
    pub given: &'static str,
    /// True if every registration has the key, or every view for a key that only views have.
    pub required: bool,
    pub flag: Option<Flag>,
    /// For a list: the flags that add and remove single values of an existing object.
    pub edits: Option<[&'static str; 2]>,
    /// True if the output for a single object has a line for the key.
    pub card: bool,
    /// True if lists have a column for the key.
    pub column: bool,
    /// The integration types with the field; empty if all objects have it.
    pub types: &'static [IntegrationKind],
    pub shape: Shape,
    pub(crate) place: In,
    pub(crate) rule: Rule,
    /// Members of the stored form that contain the field: an object has the first or the second. Empty if the only one
    /// has the name of the key.
    pub(crate) members: &'static [&'static str],
    /// The text of a value in the stored form.
    pub(crate) text: fn(&Value) -> String,
}

/// Where a key occurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum In {
    Both,
    /// Views show the field under other keys, or not at all.
    Registrations,
    /// [`Registered::shown`] has the value.
    Views,
}

#[derive(Debug, Clone, Copy)]
pub enum Flag {
    /// `--LONG VALUE`, with the placeholder of the value in the help; repeated for a list.
    Value(&'static str, &'static str),
    /// `--LONG FILE`: a file with a secret.
    File(&'static str),
    /// `--LONG NAME=FILE`: a name and a file, with the placeholder of both in the help.
    NamedFile(&'static str, &'static str),
    /// A pair of flags, each with its help. New objects have only the flag that changes the default.
    Switch {
        /// The flag for `true`, and its help.
        on: (&'static str, &'static str),
        /// The flag for `false`, and its help.
        off: (&'static str, &'static str),
        /// The state if a registration does not contain the field.
        default: bool,
    },
}

/// How objects are compared in a field, and who sets it (D-27).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Never compared: the name of the object, another form of a field, or what only views have.
    None,
    /// The integration type. A command cannot change it.
    Type,
    Value,
    /// A single value, which may be absent.
    Optional,
    List,
    /// State: whether the object is enabled.
    Enabled,
    /// State: the live client secrets.
    ClientSecrets,
    /// State: a secret that is stored in a protected form.
    Hidden,
}

impl Rule {
    /// True for state, which commands change although a file defines the object.
    pub(crate) const fn is_state(self) -> bool {
        matches!(self, Self::Enabled | Self::ClientSecrets | Self::Hidden)
    }
}

#[derive(Debug, Clone, Copy)]
pub enum Shape {
    Text,
    Flag,
    Count,
    Texts,
    Records(&'static Record),
}

/// Objects of texts in a list.
#[derive(Debug)]
pub struct Record {
    pub name: &'static str,
    pub help: &'static str,
    /// True if every object has all keys.
    pub required: bool,
    /// The keys, each with its help.
    pub keys: &'static [(&'static str, &'static str)],
}

impl Field {
    /// A text without a flag, in all objects.
    pub(crate) const fn new(key: &'static str, label: &'static str, help: &'static str) -> Self {
        Self {
            key,
            label,
            help,
            given: "",
            required: false,
            flag: None,
            edits: None,
            card: true,
            column: false,
            types: &[],
            shape: Shape::Text,
            place: In::Both,
            rule: Rule::Value,
            members: &[],
            text: values::plain,
        }
    }

    /// A key that only views have.
    pub(crate) const fn shown(key: &'static str, label: &'static str, help: &'static str) -> Self {
        Self {
            place: In::Views,
            rule: Rule::None,
            ..Self::new(key, label, help)
        }
    }

    /// True if objects of the type `integration` have the field.
    pub(crate) fn is_of(&self, integration: Option<IntegrationKind>) -> bool {
        self.types.is_empty() || integration.is_some_and(|kind| self.types.contains(&kind))
    }

    /// True if the field has a single value that may be absent.
    pub fn is_optional(&self) -> bool {
        self.rule == Rule::Optional
    }

    pub fn can_change(&self) -> bool {
        !matches!(self.rule, Rule::None | Rule::Type)
    }

    /// Whether every registration has the key; `None` if no registration has it.
    pub fn registered(&self) -> Option<bool> {
        (self.place != In::Views).then_some(self.required)
    }

    /// Whether every view has the key; `None` if no view has it.
    pub fn viewed(&self) -> Option<bool> {
        match self.place {
            In::Both => Some(self.types.is_empty() && !self.is_optional()),
            In::Registrations => None,
            In::Views => Some(self.required),
        }
    }
}
