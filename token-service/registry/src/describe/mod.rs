//! What clients, users and legacy instances have in common: how they are read, compared and shown.

pub(crate) mod checks;
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

use reading::Entry;

pub use reading::{Completeness, Registration};

pub trait Registered: Clone + PartialEq + Send + Sync + 'static {
    const KIND: ObjectKind;
    /// Last segment of the path of all objects in the administration; for clients and users their key in files too.
    const LIST: &'static str;
    /// Key of the name in files and JSON.
    const NAME_KEY: &'static str;
    /// The keys that only views have.
    const ONLY_VIEWED: &'static [&'static str];
    /// The keys of secrets and certificates, which stay if a change does not name them.
    const ONLY_REGISTERED: &'static [&'static str] = &[];
    /// The lists of which a change can add and remove single values; for a list of objects, with the key that identifies an
    /// object.
    const EDITABLE: &'static [(&'static str, Option<&'static str>)] = &[];

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

    /// The values in which states of the object can differ.
    fn values(&self) -> Vec<Values>;

    /// Takes the values of [`Self::ONLY_REGISTERED`] from `before`, if the object has no such values.
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

/// What the answer to a change says beside the object.
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
pub struct Values {
    /// Key in files and JSON. Differences and the audit log use it too.
    pub(crate) key: &'static str,
    pub(crate) rule: Rule,
    pub(crate) texts: Vec<String>,
}

impl Values {
    fn new(key: &'static str, rule: Rule, values: impl IntoIterator<Item: ToString>) -> Self {
        let texts = values.into_iter().map(|value| value.to_string()).collect();
        Self { key, rule, texts }
    }
}

pub(crate) fn single(key: &'static str, value: impl IntoIterator<Item: ToString>) -> Values {
    Values::new(key, Rule::Single, value)
}

pub(crate) fn list(key: &'static str, values: impl IntoIterator<Item: ToString>) -> Values {
    Values::new(key, Rule::List, values)
}

pub(crate) fn state(key: &'static str, value: bool) -> Values {
    Values::new(key, Rule::State, [value])
}

pub(crate) fn states(key: &'static str, values: impl IntoIterator<Item: ToString>) -> Values {
    Values::new(key, Rule::States, values)
}

pub(crate) fn secret(key: &'static str, values: impl IntoIterator<Item: ToString>) -> Values {
    Values::new(key, Rule::Secret, values)
}

/// The object in the form of a registration, without [`Registered::ONLY_REGISTERED`]. Patches are applied to this form.
pub fn registration<T: Registered>(object: &T) -> Map<String, Value> {
    let view = object.view(
        Timestamp::default(),
        &Observed::default(),
        Effects::default(),
    );
    let mut members = match serde_json::to_value(view) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    };
    members.retain(|key, _| !T::ONLY_VIEWED.contains(&&**key));
    members
}

/// `None` for an empty list, which views leave out.
pub(crate) fn present<V>(values: impl IntoIterator<Item = V>) -> Option<Vec<V>> {
    let values: Vec<V> = values.into_iter().collect();
    (!values.is_empty()).then_some(values)
}
