//! Accessors for the described fields of domain types.

use serde_json::Value;

use super::reading::{Entry, Registration};
use super::shape::Shape;
use super::value::Content;
use crate::protection::{Hidden, Protected};
use domain::Username;
use domain::client::IntegrationKind;
use domain::remembered::Element;

/// The source of one value in a merged field, with its index there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pick {
    /// A value of the file.
    File(usize),
    /// A value of the registry.
    Stored(usize),
}

/// A member, or several members, of the domain type `T` that contain a field.
pub(crate) trait Member<T>: Sync {
    /// The integration types with this member; empty if all objects have it.
    fn types(&self) -> &'static [IntegrationKind] {
        &[]
    }

    /// Names of the members in the stored form.
    fn names(&self) -> &[&'static str];

    /// Shape of the field in registrations.
    fn shape(&self) -> Shape {
        Shape::Text
    }

    /// True if the value may be absent.
    fn is_optional(&self) -> bool {
        false
    }

    /// Reads the field into `into`, if `into` is `Some`. Reports wrong and missing values.
    fn read(
        &self,
        _entry: &mut Entry<'_, '_>,
        _key: &'static str,
        _into: Option<&mut Registration<T>>,
    ) {
    }

    /// The values for comparison.
    fn elements(&self, object: &T) -> Vec<Element>;

    fn json(&self, _object: &T) -> Value {
        Value::Null
    }

    /// Sets the field of `into` to the values in `picks`.
    fn assemble(&self, _picks: &[Pick], _file: &T, _stored: &T, _into: &mut T) {}

    /// The accessors for the secret, if the field is a secret that is stored in a protected form.
    fn secret(&self) -> Option<&Secret<T>> {
        None
    }
}

/// A member that is read together with the object: its name or its type.
pub(crate) struct Fixed<T>(pub(crate) &'static str, pub(crate) fn(&T) -> &str);

impl<T> Member<T> for Fixed<T> {
    fn names(&self) -> &[&'static str] {
        std::slice::from_ref(&self.0)
    }

    fn elements(&self, object: &T) -> Vec<Element> {
        (self.1)(object).to_owned().elements()
    }

    fn json(&self, object: &T) -> Value {
        Value::String((self.1)(object).to_owned())
    }
}

pub(crate) struct Lens<T, V> {
    pub(crate) types: &'static [IntegrationKind],
    pub(crate) names: &'static [&'static str],
    pub(crate) get: fn(&T) -> Option<&V>,
    pub(crate) get_mut: fn(&mut T) -> Option<&mut V>,
    /// Reads the value at a key; `None` if it is absent or wrong. Wrong values are reported.
    pub(crate) read: fn(&mut Entry<'_, '_>, &'static str) -> Option<V>,
}

impl<T, V: Content> Lens<T, V> {
    fn items(&self, object: &T) -> Vec<V::Item> {
        (self.get)(object).map(V::items).unwrap_or_default()
    }
}

impl<T, V: Content> Member<T> for Lens<T, V> {
    fn types(&self) -> &'static [IntegrationKind] {
        self.types
    }

    fn names(&self) -> &[&'static str] {
        self.names
    }

    fn shape(&self) -> Shape {
        V::SHAPE
    }

    fn is_optional(&self) -> bool {
        V::OPTIONAL
    }

    fn read(
        &self,
        entry: &mut Entry<'_, '_>,
        key: &'static str,
        into: Option<&mut Registration<T>>,
    ) {
        let value = (self.read)(entry, key);
        let member = into.and_then(|into| (self.get_mut)(&mut into.object));
        if let (Some(member), Some(value)) = (member, value) {
            *member = value;
        }
    }

    fn elements(&self, object: &T) -> Vec<Element> {
        (self.get)(object).map(V::elements).unwrap_or_default()
    }

    fn json(&self, object: &T) -> Value {
        (self.get)(object).map(V::json).unwrap_or_default()
    }

    fn assemble(&self, picks: &[Pick], file: &T, stored: &T, into: &mut T) {
        let (file, stored) = (self.items(file), self.items(stored));
        let picked = picks.iter().filter_map(|pick| match pick {
            Pick::File(index) => file.get(*index),
            Pick::Stored(index) => stored.get(*index),
        });
        let value = V::assemble(picked.cloned().collect());
        if let (Some(member), Some(value)) = ((self.get_mut)(into), value) {
            *member = value;
        }
    }
}

/// The [`Lens`] for a member that every object of the type has.
macro_rules! member {
    ($object:ty, $member:ident, $read:expr) => {
        crate::describe::member::Lens {
            types: &[],
            names: &[stringify!($member)],
            get: |object: &$object| Some(&object.$member),
            get_mut: |object: &mut $object| Some(&mut object.$member),
            read: $read,
        }
    };
}

/// The [`Lens`] for a member that only clients of some integration types have.
macro_rules! member_of_types {
    ($($kind:ident)|+, $member:ident, $read:expr) => {
        crate::describe::member::Lens {
            types: &[$(domain::client::IntegrationKind::$kind),+],
            names: &[stringify!($member)],
            get: |client: &domain::Client| match &client.integration {
                $(domain::client::IntegrationType::$kind { $member, .. })|+ => Some($member),
                _ => None,
            },
            get_mut: |client: &mut domain::Client| match &mut client.integration {
                $(domain::client::IntegrationType::$kind { $member, .. })|+ => Some($member),
                _ => None,
            },
            read: $read,
        }
    };
}

pub(crate) use {member, member_of_types};

/// A member that contains the protected form of a secret.
pub(crate) struct Secret<T> {
    pub(crate) names: &'static [&'static str],
    pub(crate) owner: fn(&T) -> &Username,
    pub(crate) get: fn(&T) -> Option<Protected>,
    pub(crate) set: fn(&mut T, Protected),
    /// Reads the secret; `None` if it is absent or wrong. Wrong values are reported.
    pub(crate) read: fn(&mut Entry<'_, '_>) -> Option<Hidden>,
}

impl<T> Member<T> for Secret<T> {
    fn names(&self) -> &[&'static str] {
        self.names
    }

    fn read(
        &self,
        entry: &mut Entry<'_, '_>,
        key: &'static str,
        into: Option<&mut Registration<T>>,
    ) {
        let secret = (self.read)(entry);
        if let (Some(into), Some(secret)) = (into, secret) {
            into.hidden.insert(key, secret);
        }
    }

    fn elements(&self, object: &T) -> Vec<Element> {
        let kept = (self.get)(object).map(|kept| match kept {
            Protected::Hash { hash, .. } => hash,
            Protected::Sealed(sealed) => data_encoding::HEXLOWER.encode(&sealed),
        });
        kept.elements()
    }

    fn secret(&self) -> Option<&Secret<T>> {
        Some(self)
    }
}
