//! The values of an object, field by field, from its stored form: for comparison and as JSON.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Field, In, Registered, Rule, Shape};
use domain::SecretTimes;
use domain::clock::Timestamp;

/// The values of a field, as text.
#[derive(Debug, Clone)]
pub(crate) struct Values {
    pub(crate) field: &'static Field,
    pub(crate) texts: Vec<String>,
}

impl Values {
    /// The values of all fields that can differ.
    pub(crate) fn of<T: Registered>(object: &T) -> Vec<Self> {
        let stored = stored(object);
        let fields = T::DESCRIPTION.fields.iter();
        let values = fields.map(|field| Self {
            field,
            texts: field.texts(&stored).collect(),
        });
        values.filter(|one| one.field.rule != Rule::None).collect()
    }
}

pub(crate) fn stored<T: Registered>(object: &T) -> Map<String, Value> {
    match serde_json::to_value(object) {
        Ok(Value::Object(stored)) => stored,
        _ => Map::new(),
    }
}

/// A value that is text in the stored form, or a flag.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The text of a value of this type.
pub(crate) fn parsed<V: for<'de> Deserialize<'de>>(
    value: &Value,
    text: impl FnOnce(V) -> String,
) -> String {
    V::deserialize(value).map_or_else(|_| plain(value), text)
}

impl Field {
    pub(crate) const fn is_list(&self) -> bool {
        matches!(self.rule, Rule::List | Rule::ClientSecrets)
    }

    /// The member of a stored object that contains the field.
    fn member(&self, stored: &Map<String, Value>) -> Option<&'static str> {
        let mut names = self.stored().iter();
        names.find(|name| stored.contains_key(**name)).copied()
    }

    /// Names of the members of the stored form with the field.
    pub(crate) const fn stored(&self) -> &[&'static str] {
        if self.members.is_empty() {
            std::slice::from_ref(&self.key)
        } else {
            self.members
        }
    }

    fn stored_values(&self, stored: &Map<String, Value>) -> Vec<Value> {
        let value = self.member(stored).and_then(|name| stored.get(name));
        match value {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(values)) if self.is_list() => values.clone(),
            // The stored form of a scope is its tokens, separated by spaces.
            Some(Value::String(tokens)) if self.is_list() => {
                let tokens = tokens.split(' ').filter(|token| !token.is_empty());
                tokens.map(Value::from).collect()
            }
            Some(value) => vec![value.clone()],
        }
    }

    fn texts(&self, stored: &Map<String, Value>) -> impl Iterator<Item = String> {
        let values = self.stored_values(stored).into_iter();
        values.map(|value| (self.text)(&value))
    }

    /// The value in registrations and views, if it has the same form there.
    fn json(&self, stored: &Map<String, Value>) -> Option<Value> {
        self.member(stored)?;
        let mut values = self.stored_values(stored).into_iter();
        match self.shape {
            Shape::Texts => Some(self.texts(stored).collect()),
            _ if self.is_list() => Some(values.collect()),
            _ => values.next(),
        }
    }
}

/// The object in the form of a registration, without the keys that only registrations have. Patches are applied to this
/// form.
pub fn registration<T: Registered>(object: &T) -> Map<String, Value> {
    let stored = stored(object);
    let fields = T::DESCRIPTION.fields.iter();
    let both = fields.filter(|field| field.place == In::Both);
    both.filter_map(|field| Some((field.key.to_owned(), field.json(&stored)?)))
        .collect()
}

/// The object in the form of views, without secrets and hashes.
pub fn view<T: Registered>(
    object: &T,
    now: Timestamp,
    times: &[SecretTimes],
) -> Map<String, Value> {
    let mut view = registration(object);
    for field in T::DESCRIPTION.fields {
        let is_empty = view.get(field.key) == Some(&Value::Array(Vec::new()));
        if is_empty && field.viewed() == Some(false) {
            view.remove(field.key);
        }
    }
    if let Value::Object(shown) = object.shown(now, times) {
        view.extend(shown.into_iter().filter(|(_, value)| !value.is_null()));
    }
    view
}
