//! The values of an object, field by field, from its stored form: for comparison, for merging, and as JSON.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Field, In, Registered, Rule, Shape};
use domain::SecretTimes;
use domain::client::IntegrationKind;
use domain::clock::Timestamp;
use domain::remembered::Element;

/// One value of a field. Two values are equal if their texts are.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) element: Element,
    pub(crate) stored: Value,
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.element == other.element
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Values {
    pub(crate) field: &'static Field,
    pub(crate) items: Vec<Item>,
}

impl Values {
    /// The values of all fields that can differ.
    pub(crate) fn of<T: Registered>(object: &T) -> Vec<Self> {
        let stored = stored(object);
        let fields = T::DESCRIPTION.fields.iter();
        let values = fields.map(|field| Self {
            field,
            items: field.items(&stored),
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

/// The object with this stored form; `None` if no object has it.
pub(crate) fn read_stored<T: Registered>(stored: Map<String, Value>) -> Option<T> {
    serde_json::from_value(Value::Object(stored)).ok()
}

/// The integration type of a stored object; `None` for kinds without integration types.
pub(crate) fn integration(stored: &Map<String, Value>) -> Option<IntegrationKind> {
    stored.get("type")?.as_str()?.parse().ok()
}

/// A value that is text in the stored form, or a flag.
pub(crate) fn plain(value: &Value) -> Element {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Element {
        key: text.clone(),
        value: text,
    }
}

/// A value whose text is its key too.
pub(crate) fn parsed<V: for<'de> Deserialize<'de>>(
    value: &Value,
    text: impl FnOnce(V) -> String,
) -> Element {
    V::deserialize(value).map_or_else(|_| plain(value), |parsed| plain(&text(parsed).into()))
}

impl Field {
    pub(crate) const fn is_list(&self) -> bool {
        matches!(
            self.rule,
            Rule::List | Rule::FilledList | Rule::ClientSecrets
        )
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

    fn items(&self, stored: &Map<String, Value>) -> Vec<Item> {
        let value = self.member(stored).and_then(|name| stored.get(name));
        let values = match value {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(values)) if self.is_list() => values.clone(),
            // The stored form of a scope is its tokens, separated by spaces.
            Some(Value::String(tokens)) if self.is_list() => {
                let tokens = tokens.split(' ').filter(|token| !token.is_empty());
                tokens.map(Value::from).collect()
            }
            Some(value) => vec![value.clone()],
        };
        let item = |stored: Value| {
            let mut element = (self.element)(&stored);
            if !self.is_list() {
                element.key.clear();
            }
            Item { element, stored }
        };
        values.into_iter().map(item).collect()
    }

    /// Sets the field of a stored object to `items`. The stored form leaves out some members without a value.
    pub(crate) fn set(&self, stored: &mut Map<String, Value>, items: &[&Item]) {
        let member = self.member(stored).unwrap_or(self.key);
        let mut values = items.iter().map(|item| item.stored.clone());
        let value = match stored.get(member) {
            Some(Value::String(_)) if self.is_list() => {
                let tokens: Vec<&str> = items.iter().map(|item| &*item.element.value).collect();
                Some(tokens.join(" ").into())
            }
            _ if self.is_list() => Some(values.collect()),
            _ => values.next(),
        };
        match value {
            Some(value) => stored.insert(member.to_owned(), value),
            None => stored.remove(member),
        };
    }

    /// The value in registrations and views, if it has the same form there.
    fn json(&self, stored: &Map<String, Value>) -> Option<Value> {
        self.member(stored)?;
        let mut items = self.items(stored).into_iter();
        match self.shape {
            Shape::Texts => Some(items.map(|item| item.element.value).collect()),
            _ if self.is_list() => Some(items.map(|item| item.stored).collect()),
            _ => Some(items.next()?.stored),
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
