//! Descriptions of clients, users and legacy instances: one [`Field`] per field.
//!
//! Generated from these descriptions: the reader of files and JSON, the JSON views, the OpenAPI schemas, the comparison
//! and merging of files (D-27), the flags and tables of the command line, and the tables of `docs/configuration.md`.

pub(crate) mod checks;
pub(crate) mod member;
pub(crate) mod reading;
pub mod shape;
pub(crate) mod value;
pub mod view;

#[cfg(test)]
mod tests;

use domain::client::IntegrationKind;
use domain::remembered::{ObjectKind, ObjectName};
use domain::{Excerpt, RegistryChange};

use member::{Member, Secret};
use reading::Entry;
use shape::Key;
use view::Derived;

pub use checks::{MAX_CLAIM_LENGTH, MAX_SECRET_LENGTH, MIN_SECRET_LENGTH};
pub use reading::{Completeness, Registration};

pub trait Registered: Clone + Send + Sync + 'static {
    const KIND: ObjectKind;
    /// Key of the name in files and JSON.
    const NAME_KEY: &'static str;
    const DESCRIPTION: Description<Self>;

    /// The name, unique among the objects of the kind.
    fn name(&self) -> &str;

    /// The name under which the store remembers files for the object.
    fn object_name(&self) -> ObjectName {
        ObjectName::new(Self::KIND, self.name())
    }

    /// The integration type; `None` for kinds without integration types.
    fn integration(&self) -> Option<IntegrationKind> {
        None
    }

    /// Reads the values that the other fields depend on. Reports wrong values and returns `None`.
    fn begin(entry: &mut Entry<'_, '_>) -> Option<Self>;

    fn find<'a>(stored: &'a Excerpt, name: &str) -> Option<&'a Self>;

    /// Spells the names of other objects as they are registered.
    fn spell_names(&mut self, _stored: &Excerpt) {}

    /// The list in `change` of objects to add or replace.
    fn put(change: &mut RegistryChange) -> &mut Vec<Self>;

    /// Adds the removal of the object to `change`.
    fn remove(&self, change: &mut RegistryChange);
}

pub struct Description<T: 'static> {
    /// Name and description of the schema of registrations.
    pub registration: (&'static str, &'static str),
    /// Name and description of the schema of views.
    pub view: (&'static str, &'static str),
    /// The fields in display order.
    pub fields: &'static [Field<T>],
}

impl<T> Description<T> {
    /// The fields with a secret that is stored in a protected form, by key.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = (&'static str, &'static Secret<T>)> {
        self.fields.iter().flat_map(|field| {
            let secrets = field.members.iter().filter_map(|member| member.secret());
            secrets.map(|secret| (field.key, secret))
        })
    }
}

pub struct Field<T: 'static> {
    /// Key in files and JSON. Differences and the audit log use it too.
    pub key: &'static str,
    /// Another key for the same field in another form.
    pub alternative: Option<Key>,
    /// Name in output for people.
    pub label: &'static str,
    pub help: &'static str,
    /// Additional help for registrations; may be empty.
    pub given: &'static str,
    /// True if every registration must contain the field.
    pub required: bool,
    pub flag: Option<Flag>,
    /// True if lists for people have a column for the field.
    pub column: bool,
    /// What views show instead of the field.
    pub shown: Option<&'static [Derived<T>]>,
    pub(crate) rule: Rule,
    pub(crate) members: &'static [&'static dyn Member<T>],
}

/// The command-line flag of a field.
#[derive(Debug, Clone, Copy)]
pub enum Flag {
    /// `--LONG VALUE`; repeated for a list.
    Value {
        long: &'static str,
        /// Placeholder of the value in the help.
        value: &'static str,
    },
    /// `--LONG FILE`: a file with a secret.
    File(&'static str),
    /// `--LONG ALIAS=FILE`: a name and a file.
    NamedFile(&'static str),
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

pub(crate) const fn flag(long: &'static str, value: &'static str) -> Option<Flag> {
    Some(Flag::Value { long, value })
}

pub(crate) const fn flags(
    on: (&'static str, &'static str),
    off: (&'static str, &'static str),
    default: bool,
) -> Option<Flag> {
    Some(Flag::Switch { on, off, default })
}

/// How a file and the registry are merged in a field (D-27).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The name of the object. It never differs.
    Name,
    /// The integration type. It determines the fields of the object.
    Type,
    /// A single value, which may be absent.
    Value,
    /// A list, merged value by value.
    List,
    /// A list that must not become empty.
    FilledList,
    /// Whether the object is enabled. If nothing is remembered, disabled is the safer state.
    Enabled,
    /// Client secrets. Not merged as a list: a secret that a command removed stays removed, and a secret that a command
    /// created stays the only secret.
    ClientSecrets,
    /// A secret that is stored in a protected form.
    Hidden,
}

impl<T> Field<T> {
    /// A field with a single value that may be absent, without a flag.
    pub(crate) const fn new(key: &'static str, label: &'static str, help: &'static str) -> Self {
        Self {
            key,
            alternative: None,
            label,
            help,
            given: "",
            required: false,
            flag: None,
            column: false,
            shown: None,
            rule: Rule::Value,
            members: &[],
        }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static str> {
        let alternative = self.alternative.iter();
        std::iter::once(self.key).chain(alternative.map(|key| key.key))
    }

    /// The integration types with the field; empty if all objects have it.
    pub fn types(&self) -> Vec<IntegrationKind> {
        let members = self.members.iter();
        members.flat_map(|member| member.types()).copied().collect()
    }

    /// The member with the field in an object of the type `integration`.
    pub(crate) fn member(
        &self,
        integration: Option<IntegrationKind>,
    ) -> Option<&'static dyn Member<T>> {
        let has = |types: &[IntegrationKind]| {
            types.is_empty() || integration.is_some_and(|kind| types.contains(&kind))
        };
        let mut members = self.members.iter().copied();
        members.find(|member| has(member.types()))
    }

    /// Names of the stored members of the domain type with the field.
    pub fn stored(&self) -> impl Iterator<Item = &'static str> {
        let members = self.members.iter();
        members.flat_map(|member| member.names()).copied()
    }

    /// True if the field has a single value that may be absent.
    #[must_use]
    pub fn is_optional(&self) -> bool {
        self.members.iter().all(|member| member.is_optional())
    }

    #[must_use]
    pub fn can_change(&self) -> bool {
        !matches!(self.rule, Rule::Name | Rule::Type)
    }
}
