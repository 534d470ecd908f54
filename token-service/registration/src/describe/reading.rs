//! Reading registered objects from files and JSON, field by field.

use std::collections::BTreeMap;
use std::fmt;

use super::checks::{claim_text, unique};
use super::{Field, Registered};
use crate::protection::Hidden;
use document::{Located, Place, Problems, Section};
use domain::client::IntegrationKind;
use domain::clock::Timestamp;
use domain::remembered::ObjectKind;

/// An object as it is registered.
pub struct Registration<T> {
    /// The object, without the secrets of which only a protected form is kept.
    pub object: T,
    /// Those secrets, by the keys of their fields. What is absent stays as it is stored.
    pub(crate) hidden: BTreeMap<&'static str, Hidden>,
}

impl<T> Registration<T> {
    /// The registration of an object that has no such secrets, or keeps those that are stored.
    pub const fn of(object: T) -> Self {
        Self {
            object,
            hidden: BTreeMap::new(),
        }
    }

    /// The secret that is registered under the key of a field.
    #[must_use]
    pub fn hidden(&self, key: &str) -> Option<&Hidden> {
        self.hidden.get(key)
    }
}

/// Whether a registration says everything, or may leave out what is stored or made for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// A file: it must hold the client secrets and certificates.
    Whole,
    /// A change through the administration: client secrets and certificates have operations of their own there.
    Partial,
}

/// What the entries of one document share.
pub(crate) struct Reading {
    pub(crate) completeness: Completeness,
    /// Tells which certificates have expired.
    pub(crate) now: Timestamp,
    /// What is allowed but unwise.
    pub(crate) warnings: Problems,
    /// The first place of each name.
    pub(crate) names: BTreeMap<ObjectKind, BTreeMap<String, Place>>,
    pub(crate) bound_users: Vec<Located<String>>,
}

impl Reading {
    pub(crate) fn new(completeness: Completeness, now: Timestamp) -> Self {
        Self {
            completeness,
            now,
            warnings: Problems::default(),
            names: BTreeMap::new(),
            bound_users: Vec::new(),
        }
    }

    /// Reads the entries of the list `list`.
    pub(crate) fn list<T: Registered>(
        &mut self,
        root: &mut Section<'_>,
        list: &'static str,
    ) -> Vec<Registration<T>> {
        let sections = root.sections(list).into_iter();
        sections
            .filter_map(|section| self.object(section))
            .collect()
    }

    /// Reads an object.
    pub(crate) fn object<T: Registered>(
        &mut self,
        section: Section<'_>,
    ) -> Option<Registration<T>> {
        let fields = T::DESCRIPTION.fields;
        let mut entry = Entry::new(fields, section, self);
        let mut object = T::begin(&mut entry).map(Registration::of);
        entry.fields(fields, object.as_mut());
        entry.section.finish();
        object
    }
}

/// One entry of a document, while it is read.
pub struct Entry<'e, 'p> {
    pub(crate) section: Section<'p>,
    /// The integration type of a client, once it is known.
    pub(crate) integration: Option<IntegrationKind>,
    pub(crate) reading: &'e mut Reading,
    given: Vec<&'static str>,
}

impl<'e, 'p> Entry<'e, 'p> {
    /// An entry with these fields.
    pub(crate) fn new<T>(
        fields: &[Field<T>],
        section: Section<'p>,
        reading: &'e mut Reading,
    ) -> Self {
        let keys = fields.iter().flat_map(Field::keys);
        Self {
            given: keys.filter(|key| section.has(key)).collect(),
            section,
            integration: None,
            reading,
        }
    }

    /// Reads the fields into `into`, if there is something to read into.
    pub(crate) fn fields<T>(
        &mut self,
        fields: &[Field<T>],
        mut into: Option<&mut Registration<T>>,
    ) {
        for field in fields {
            if let Some(member) = field.member(self.integration) {
                member.read(self, field.key, into.as_deref_mut());
                continue;
            }
            for key in field.keys() {
                match self.integration {
                    Some(kind) => {
                        let why = format!("not for a client of type {}", kind.name());
                        self.section.refuse(key, &why);
                    }
                    // Which fields there are depends on a type that is wrong itself.
                    None => self.section.skip(key),
                }
            }
        }
    }

    /// Whether the entry has the key, also if it was read already.
    pub(crate) fn gives(&self, key: &str) -> bool {
        self.given.contains(&key)
    }

    /// The text at `key`, read by `parse`, whose error is reported.
    pub(crate) fn text<V, E: fmt::Display>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<V, E>,
    ) -> Option<V> {
        self.section.parsed(key, parse).map(|text| text.value)
    }

    /// The text at `key`, which must be there, read by `parse`, whose error is reported.
    pub(crate) fn required<V, E: fmt::Display>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<V, E>,
    ) -> Option<V> {
        self.section.required(key);
        self.text(key, parse)
    }

    /// Notes the object's name, and reports it if another object of the kind has it already.
    pub(crate) fn name(&mut self, kind: ObjectKind, key: &str, name: &Located<String>) {
        let names = self.reading.names.entry(kind).or_default();
        unique(&self.section, key, name, names);
    }
}

/// Reads text that becomes a claim; see [`claim_text`].
pub(crate) fn claim(entry: &mut Entry<'_, '_>, key: &'static str) -> Option<Option<String>> {
    entry.text(key, claim_text).map(Some)
}

/// Reads text that becomes a claim and must be there.
pub(crate) fn required_claim(entry: &mut Entry<'_, '_>, key: &'static str) -> Option<String> {
    entry.required(key, claim_text)
}

/// Reads a flag.
pub(crate) fn switch(entry: &mut Entry<'_, '_>, key: &'static str) -> Option<bool> {
    entry.section.flag(key).map(|flag| flag.value)
}
