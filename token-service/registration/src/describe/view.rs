//! What views and registrations look like in JSON.

use serde_json::{Map, Value};

use super::member::Pick;
use super::shape::{Key, Record, Shape};
use super::{Field, Registered, Rule};
use domain::SecretTimes;
use domain::clock::Timestamp;

/// What a view is made with beyond the object.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// The time.
    pub now: Timestamp,
    /// What is known of client secrets, of these and other clients.
    pub secret_times: &'a [SecretTimes],
}

/// A key of a view that is made of the object in a way of its own.
pub struct Derived<T: 'static> {
    /// The key.
    pub key: Key,
    /// Name for people, of a line and a column.
    pub label: &'static str,
    /// Whether a single object is shown with a line for the key.
    pub card: bool,
    /// Whether lists have a column for the key.
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

    /// A key of an object within a view.
    pub(crate) const fn nested(key: Key, value: fn(&T, &Moment<'_>) -> Option<Value>) -> Self {
        Self::new(key, key.key, value)
    }

    /// The key without a column.
    pub(crate) const fn card(mut self) -> Self {
        self.column = false;
        self
    }

    /// The key without a line.
    pub(crate) const fn column(mut self) -> Self {
        self.card = false;
        self
    }

    /// The keys of `derived` as an object.
    pub(crate) fn object(derived: &[Self], of: &T, moment: &Moment<'_>) -> Value {
        let mut object = Map::new();
        for one in derived {
            let value = (one.value)(of, moment);
            object.extend(value.map(|value| (one.key.key.to_owned(), value)));
        }
        Value::Object(object)
    }

    /// The keys of `derived`.
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
            // A registration gives one secret, also to a client that has two.
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

    /// Whether views have the field for every object.
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

    /// The value of a field that a registration and a view have alike.
    fn value(&self, object: &T) -> Option<Value> {
        let values = self.members.iter().map(|member| member.json(object));
        values.into_iter().find(|value| !value.is_null())
    }
}

/// A linked account and a certificate: an object with described fields, all of which a registration and a view have alike.
pub(crate) fn record<T>(fields: &[Field<T>], name: &'static str, help: &'static str) -> Record {
    let keys = fields.iter().flat_map(Field::registered).collect();
    Record { name, help, keys }
}

/// The object as views show it: no secret, no hash.
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

/// The object as a registration, without the fields that views show in another form: what a patch is laid over.
#[must_use]
pub fn registration<T: Registered>(object: &T) -> Map<String, Value> {
    let fields = T::DESCRIPTION.fields.iter();
    let own = fields.filter(|field| field.shown.is_none());
    own.filter_map(|field| Some((field.key.to_owned(), field.value(object)?)))
        .collect()
}

/// Gives `object` what its registration could leave out and did, as it is in `before`: the fields that [`registration`] does
/// not have.
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
