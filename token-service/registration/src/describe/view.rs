//! The JSON form of views and registrations.

use serde_json::{Map, Value};

use super::member::Pick;
use super::shape::{Key, Record, Shape};
use super::{Field, Registered, Rule};
use domain::SecretTimes;
use domain::clock::Timestamp;

/// Inputs of a view in addition to the object.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    pub now: Timestamp,
    /// Times of client secrets. May contain secrets of other clients.
    pub secret_times: &'a [SecretTimes],
}

/// A key of a view that is computed from the object.
pub struct Derived<T: 'static> {
    pub key: Key,
    /// Name in output for people, as a line and as a column.
    pub label: &'static str,
    /// True if the output for a single object has a line for the key.
    pub card: bool,
    /// True if lists have a column for the key.
    pub column: bool,
    value: fn(&T, &Moment<'_>) -> Option<Value>,
}

impl<T> Derived<T> {
    /// A key with a line and a column.
    pub(crate) const fn new(
        key: Key,
        label: &'static str,
        value: fn(&T, &Moment<'_>) -> Option<Value>,
    ) -> Self {
        Self {
            key,
            label,
            card: true,
            column: true,
            value,
        }
    }

    /// A key of a nested object in a view.
    pub(crate) const fn nested(key: Key, value: fn(&T, &Moment<'_>) -> Option<Value>) -> Self {
        Self::new(key, key.key, value)
    }

    /// Removes the column.
    pub(crate) const fn card(mut self) -> Self {
        self.column = false;
        self
    }

    /// Removes the line.
    pub(crate) const fn column(mut self) -> Self {
        self.card = false;
        self
    }

    /// Builds an object with the keys of `derived`.
    pub(crate) fn object(derived: &[Self], of: &T, moment: &Moment<'_>) -> Value {
        let mut object = Map::new();
        for one in derived {
            let value = (one.value)(of, moment);
            object.extend(value.map(|value| (one.key.key.to_owned(), value)));
        }
        Value::Object(object)
    }

    pub(crate) fn keys(derived: &[Self]) -> Vec<Key> {
        derived.iter().map(|one| one.key).collect()
    }
}

impl<T> Field<T> {
    /// Shape of the field in registrations.
    #[must_use]
    pub fn shape(&self) -> Shape {
        let member = self.members.first();
        match member.map(|member| member.shape()) {
            // A registration contains one secret, even for a client with two secrets.
            Some(Shape::List(item)) if self.rule == Rule::ClientSecrets => *item,
            shape => shape.unwrap_or(Shape::Text),
        }
    }

    /// The keys of the field in a registration.
    #[must_use]
    pub fn registered(&self) -> Vec<Key> {
        let own = Key {
            key: self.key,
            help: self.help,
            shape: self.shape(),
            required: self.required,
        };
        std::iter::once(own).chain(self.alternative).collect()
    }

    /// True if every view contains the field.
    fn is_always_viewed(&self) -> bool {
        let mut members = self.members.iter();
        members.all(|member| member.types().is_empty() && !member.is_optional())
    }

    /// The keys of the field in a view.
    #[must_use]
    pub fn viewed(&self) -> Vec<Key> {
        if let Some(derived) = self.shown {
            return Derived::keys(derived);
        }
        vec![Key {
            key: self.key,
            help: self.help,
            shape: self.shape(),
            required: self.is_always_viewed(),
        }]
    }

    /// The value of a field with the same form in registrations and views.
    fn value(&self, object: &T) -> Option<Value> {
        let values = self.members.iter().map(|member| member.json(object));
        values.into_iter().find(|value| !value.is_null())
    }
}

/// A nested object with the same fields in registrations and views, such as a linked account or a certificate.
pub(crate) fn record<T>(fields: &[Field<T>], name: &'static str, help: &'static str) -> Record {
    let keys = fields.iter().flat_map(Field::registered).collect();
    Record { name, help, keys }
}

/// The object in the form of views, without secrets and hashes.
#[must_use]
pub fn view<T: Registered>(object: &T, moment: &Moment<'_>) -> Map<String, Value> {
    let mut view = Map::new();
    for field in T::DESCRIPTION.fields {
        if let Some(derived) = field.shown {
            if let Value::Object(derived) = Derived::object(derived, object, moment) {
                view.extend(derived);
            }
            continue;
        }
        let value = field.value(object);
        let is_empty = value
            .as_ref()
            .is_some_and(|value| *value == Value::Array(Vec::new()));
        if let Some(value) = value.filter(|_| !is_empty || field.is_always_viewed()) {
            view.insert(field.key.to_owned(), value);
        }
    }
    view
}

/// The object in the form of a registration, without the fields that views show in another form. Patches are applied to
/// this form.
#[must_use]
pub fn registration<T: Registered>(object: &T) -> Map<String, Value> {
    let fields = T::DESCRIPTION.fields.iter();
    let own = fields.filter(|field| field.shown.is_none());
    own.filter_map(|field| Some((field.key.to_owned(), field.value(object)?)))
        .collect()
}

/// Copies the fields that [`registration`] leaves out from `before` to `object`, if `object` has no value for them.
pub fn complete<T: Registered>(object: &mut T, before: &T) {
    let fields = T::DESCRIPTION.fields.iter();
    for field in fields.filter(|field| field.shown.is_some()) {
        for member in field.members {
            if member.elements(object).is_empty() {
                let all: Vec<Pick> = (0..member.elements(before).len())
                    .map(Pick::Stored)
                    .collect();
                let file = object.clone();
                member.assemble(&all, &file, before, object);
            }
        }
    }
}
