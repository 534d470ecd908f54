//! How clients, users and legacy instances are described: one [`Field`] for each of their fields.
//!
//! The reader of files and JSON, the JSON views, the schemas of OpenAPI, the comparison and merging of files (D-27), the flags
//! and tables of the command line, and the tables of `docs/configuration.md` follow from these descriptions.

pub(crate) mod checks;
pub(crate) mod member;
pub(crate) mod reading;
pub mod shape;
pub(crate) mod value;
pub mod view;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use domain::client::IntegrationKind;
use domain::remembered::{ObjectKind, ObjectName};
use domain::{Registry, RegistryChange};

use member::{Member, Secret};
use reading::Entry;
use shape::Key;
use view::Derived;

pub use checks::{MAX_CLAIM_LENGTH, MAX_SECRET_LENGTH, MIN_SECRET_LENGTH};
pub use reading::{Completeness, Registration};

/// A kind of object that is registered.
pub trait Registered: Clone + Send + Sync + 'static {
    /// Kind of the objects.
    const KIND: ObjectKind;
    /// Key of the name.
    const NAME_KEY: &'static str;
    /// Description of the objects.
    const DESCRIPTION: Description<Self>;

    /// Name of the object, unlike that of any other of its kind.
    fn name(&self) -> &str;

    /// The object as it is remembered.
    fn object_name(&self) -> ObjectName {
        ObjectName::new(Self::KIND, self.name())
    }

    /// Integration type, if the kind has some.
    fn integration(&self) -> Option<IntegrationKind> {
        None
    }

    /// Reads what every object must have before its other fields can be read. `None` if that is wrong, which is reported.
    fn begin(entry: &mut Entry<'_, '_>) -> Option<Self>;

    /// All objects of the kind, in no order.
    fn all(registry: &Registry) -> Vec<Arc<Self>>;

    /// The object with this name.
    fn find(registry: &Registry, name: &str) -> Option<Arc<Self>>;

    /// Lists of the objects that a change puts.
    fn put(change: &mut RegistryChange) -> &mut Vec<Self>;

    /// Has a change remove the object.
    fn remove(&self, change: &mut RegistryChange);
}

/// Description of the objects of type `T`.
pub struct Description<T: 'static> {
    /// Schema of a registration: its name and what it describes.
    pub registration: (&'static str, &'static str),
    /// Schema of a view: its name and what it describes.
    pub view: (&'static str, &'static str),
    /// The fields, in the order in which people see them.
    pub fields: &'static [Field<T>],
}

impl<T> Description<T> {
    /// The secrets of which only a protected form is kept, by the keys of their fields.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = (&'static str, &'static Secret<T>)> {
        self.fields.iter().flat_map(|field| {
            let secrets = field.members.iter().filter_map(|member| member.secret());
            secrets.map(|secret| (field.key, secret))
        })
    }
}

/// A field of an object.
pub struct Field<T: 'static> {
    /// Key in files and JSON, and name in differences and the audit log.
    pub key: &'static str,
    /// Another key that gives the field in another form.
    pub alternative: Option<Key>,
    /// Name for people.
    pub label: &'static str,
    /// What the field means.
    pub help: &'static str,
    /// What a registration must know beyond that; may be empty.
    pub given: &'static str,
    /// Whether every registration has the field.
    pub required: bool,
    /// Flag of the command line.
    pub flag: Option<Flag>,
    /// Whether lists for people have a column for the field.
    pub column: bool,
    /// What a view shows in place of the field.
    pub shown: Option<&'static [Derived<T>]>,
    pub(crate) rule: Rule,
    pub(crate) members: &'static [&'static dyn Member<T>],
}

/// How the command line gives a field.
#[derive(Debug, Clone, Copy)]
pub enum Flag {
    /// `--LONG VALUE`, several times for a list.
    Value {
        /// Name of the flag.
        long: &'static str,
        /// Name of the value.
        value: &'static str,
    },
    /// `--LONG FILE`: the file with a secret.
    File(&'static str),
    /// `--LONG ALIAS=FILE`: a record with a name and the text of a file.
    NamedFile(&'static str),
    /// A flag for each state, with what it does. New objects have the one against the default.
    Switch {
        /// The state `true`.
        on: (&'static str, &'static str),
        /// The state `false`.
        off: (&'static str, &'static str),
        /// The state of a registration that does not have the field.
        default: bool,
    },
}

/// The flag `--long VALUE`.
pub(crate) const fn flag(long: &'static str, value: &'static str) -> Option<Flag> {
    Some(Flag::Value { long, value })
}

/// The flags of two states.
pub(crate) const fn flags(
    on: (&'static str, &'static str),
    off: (&'static str, &'static str),
    default: bool,
) -> Option<Flag> {
    Some(Flag::Switch { on, off, default })
}

/// How a file and the registry come together in a field (D-27).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The name of the object: it never differs.
    Name,
    /// The integration type: it decides which fields there are.
    Type,
    /// One value, or none.
    Value,
    /// A list, value by value.
    List,
    /// A list that may not become empty.
    FilledList,
    /// Whether the object may be used: where nothing is remembered, disabled is the safer state.
    Enabled,
    /// Client secrets, which are no list: a secret that a command ended or made stays ended or the only one.
    ClientSecrets,
    /// A secret of which only a protected form is kept.
    Hidden,
}

impl<T> Field<T> {
    /// One value, which may be absent, without a flag.
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

    /// The keys that give the field.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static str> {
        let alternative = self.alternative.iter();
        std::iter::once(self.key).chain(alternative.map(|key| key.key))
    }

    /// The integration types that have the field; none if all objects have it.
    pub fn types(&self) -> Vec<IntegrationKind> {
        let members = self.members.iter();
        members.flat_map(|member| member.types()).copied().collect()
    }

    /// Where an object of the type `integration` has the field.
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

    /// Names of the members of the domain type that have the field, as they are stored.
    pub fn stored(&self) -> impl Iterator<Item = &'static str> {
        let members = self.members.iter();
        members.flat_map(|member| member.names()).copied()
    }

    /// Whether the field has one value, or none.
    #[must_use]
    pub fn is_optional(&self) -> bool {
        self.members.iter().all(|member| member.is_optional())
    }

    /// Whether a patch can change the field.
    #[must_use]
    pub fn can_change(&self) -> bool {
        !matches!(self.rule, Rule::Name | Rule::Type)
    }
}
