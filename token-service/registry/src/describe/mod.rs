//! What clients, users and legacy instances have in common: how they are read, compared and shown.

pub(crate) mod checks;
pub mod fields;
pub(crate) mod reading;

#[cfg(test)]
mod tests;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use domain::client::ClientSecret;
use domain::clock::Timestamp;
use domain::object::{ObjectKind, ObjectName};
use domain::{Excerpt, Managed, Observed, RegistryChange, User};

use fields::{Field, Part};
use reading::Entry;

pub use reading::{Completeness, Registration};

pub trait Registered: Clone + PartialEq + Send + Sync + 'static {
    const KIND: ObjectKind;
    /// Last segment of the path of all objects in the administration; for clients and users their key in files too.
    const LIST: &'static str;
    /// Key of the name in files and JSON.
    const NAME_KEY: &'static str;
    /// All keys, in the order of views, differences and flags.
    const FIELDS: &'static [Field];

    /// The keys of registrations, in files and JSON.
    type Keys: ToSchema;
    type View: Serialize + DeserializeOwned + ToSchema;

    /// The name, unique among the objects of the kind.
    fn name(&self) -> &str;

    fn object_name(&self) -> ObjectName {
        ObjectName::new(Self::KIND, self.name())
    }

    /// Reads all keys of a registration. Reports wrong and missing values.
    fn read(entry: &mut Entry<'_, '_>) -> Option<Registration<Self>>;

    /// The object without secrets and hashes. `_observed` may be of other objects too.
    fn view(&self, now: Timestamp, _observed: &Observed, effects: Effects) -> Self::View;

    /// The values of a key in differences, if the view has them in another form or not at all.
    fn compared(&self, _key: &str) -> Option<Vec<String>> {
        None
    }

    /// Takes the values of [`Part::Registration`] from `before`, if the object has no such values.
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

/// What the answer to a change says in addition to the object.
#[derive(Debug, Default)]
pub struct Effects {
    /// The changed fields, each with the old and the new value unless they are secret.
    pub changes: Vec<String>,
    pub warnings: Vec<String>,
    /// Live grants whose next refresh lacks a scope (D-42).
    pub losing_grants: usize,
}

/// How a field differs, and who sets it (D-27).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Not compared.
    Ignored,
    /// One value, or none.
    Single,
    List,
    /// State that is shown, such as whether the object is enabled.
    State,
    /// State: a list.
    States,
    /// State: secrets, which nobody is shown.
    Secret,
}

impl Rule {
    /// True for state, which commands change although a file defines the object.
    pub(crate) const fn is_state(self) -> bool {
        matches!(self, Self::State | Self::States | Self::Secret)
    }
}

/// The values of a field, as text. The type has no `Debug`, because a value may be the hash of a secret.
pub(crate) struct Values {
    pub(crate) key: &'static str,
    pub(crate) rule: Rule,
    pub(crate) texts: Vec<String>,
}

/// The values in which states of the object can differ.
pub(crate) fn values<T: Registered>(object: &T) -> Vec<Values> {
    let view = members(object);
    let text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    let of_view = |key: &str| match view.get(key) {
        Some(Value::Array(values)) => values.iter().map(text).collect(),
        value => value.map(text).into_iter().collect(),
    };
    let fields = T::FIELDS.iter().filter(|field| field.rule != Rule::Ignored);
    let values = fields.map(|&Field { key, rule, .. }| Values {
        key,
        rule,
        texts: object.compared(key).unwrap_or_else(|| of_view(key)),
    });
    values.collect()
}

/// The object in the form of a registration, with the keys of [`Part::Both`]. Patches are applied to this form.
pub fn registration<T: Registered>(object: &T) -> Map<String, Value> {
    let mut members = members(object);
    let is_registered = |key: &str| {
        let mut fields = T::FIELDS.iter();
        fields.any(|field| field.key == key && field.part == Part::Both)
    };
    members.retain(|key, _| is_registered(key));
    members
}

fn members<T: Registered>(object: &T) -> Map<String, Value> {
    let view = object.view(
        Timestamp::default(),
        &Observed::default(),
        Effects::default(),
    );
    match serde_json::to_value(view) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

/// The values as text.
pub(crate) fn texts(values: impl IntoIterator<Item: ToString>) -> Vec<String> {
    values.into_iter().map(|value| value.to_string()).collect()
}

/// `None` for an empty list, which views leave out.
pub(crate) fn present<V>(values: impl IntoIterator<Item = V>) -> Option<Vec<V>> {
    let values: Vec<V> = values.into_iter().collect();
    (!values.is_empty()).then_some(values)
}
