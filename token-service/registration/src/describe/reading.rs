//! Reading of registered objects from files and JSON, field by field.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::checks::{claim_text, unique};
use super::{Field, Registered};
use crate::protection::Hidden;
use document::{Located, Place, Problems, Section};
use domain::client::IntegrationKind;
use domain::clock::Timestamp;
use domain::remembered::{ObjectKind, ObjectName};

pub struct Registration<T> {
    /// The object without its protected secrets.
    pub object: T,
    /// The protected secrets, by key of the field. Absent secrets keep their stored form.
    pub(crate) hidden: BTreeMap<&'static str, Hidden>,
}

impl<T> Registration<T> {
    /// The registration of an object without secrets, or with unchanged secrets.
    pub const fn of(object: T) -> Self {
        Self {
            object,
            hidden: BTreeMap::new(),
        }
    }

    /// The registered secret of the field `key`.
    #[must_use]
    pub fn hidden(&self, key: &str) -> Option<&Hidden> {
        self.hidden.get(key)
    }
}

/// Whether a registration must be complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// A file must contain the client secrets and certificates.
    Whole,
    /// A change through the administration API has separate operations for client secrets and certificates, so it may
    /// omit them.
    Partial,
}

/// Shared state of the entries of one document.
pub(crate) struct Reading {
    pub(crate) completeness: Completeness,
    /// Decides which certificates have expired.
    pub(crate) now: Timestamp,
    /// Values that are allowed but not advisable.
    pub(crate) warnings: Problems,
    /// The first place of each name.
    pub(crate) names: BTreeMap<ObjectKind, BTreeMap<String, Place>>,
    pub(crate) bound_users: Vec<Located<String>>,
    /// Objects about which the document alone does not say everything.
    pub(crate) unsettled: BTreeSet<ObjectName>,
    is_unsettled: bool,
}

impl Reading {
    pub(crate) fn new(completeness: Completeness, now: Timestamp) -> Self {
        Self {
            completeness,
            now,
            warnings: Problems::default(),
            names: BTreeMap::new(),
            bound_users: Vec::new(),
            unsettled: BTreeSet::new(),
            is_unsettled: false,
        }
    }

    /// Adds a warning about the current object.
    pub(crate) fn warn(&mut self, place: &Place, message: impl Into<String>) {
        self.warnings.report(place, message);
        self.is_unsettled = true;
    }

    /// Records that the current object depends on more than the document.
    pub(crate) const fn rests_on_more(&mut self) {
        self.is_unsettled = true;
    }

    /// Reads the entries of the list `list`.
    pub(crate) fn list<T: Registered>(
        &mut self,
        root: &mut Section<'_>,
        list: &'static str,
    ) -> Vec<Registration<T>> {
        let sections = root.each(list);
        sections
            .filter_map(|section| self.object(section))
            .collect()
    }

    pub(crate) fn object<T: Registered>(
        &mut self,
        section: Section<'_>,
    ) -> Option<Registration<T>> {
        let fields = T::DESCRIPTION.fields;
        let mut entry = Entry::new(fields, section, self);
        let mut object = T::begin(&mut entry).map(Registration::of);
        entry.fields(fields, object.as_mut());
        entry.section.finish();
        if std::mem::take(&mut self.is_unsettled)
            && let Some(registration) = &object
        {
            self.unsettled.insert(registration.object.object_name());
        }
        object
    }
}

/// An entry of a document during reading.
pub struct Entry<'e, 'p> {
    pub(crate) section: Section<'p>,
    /// The integration type of a client, after it was read.
    pub(crate) integration: Option<IntegrationKind>,
    pub(crate) reading: &'e mut Reading,
    /// The name of the object, after it was read.
    pub(crate) name: String,
    given: Vec<&'static str>,
}

impl<'e, 'p> Entry<'e, 'p> {
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
            name: String::new(),
            reading,
        }
    }

    /// Reads the fields into `into`, if `into` is `Some`.
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
                    // The type is wrong, so its fields are unknown.
                    None => self.section.skip(key),
                }
            }
        }
    }

    /// True if the entry contains the key, even if the key was already read.
    pub(crate) fn gives(&self, key: &str) -> bool {
        self.given.contains(&key)
    }

    /// Parses the text at `key` with `parse`, and reports its error.
    pub(crate) fn text<V, E: fmt::Display>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<V, E>,
    ) -> Option<V> {
        self.section.parsed(key, parse).map(|text| text.value)
    }

    /// Parses the required text at `key` with `parse`, and reports its error.
    pub(crate) fn required<V, E: fmt::Display>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<V, E>,
    ) -> Option<V> {
        self.section.required(key);
        self.text(key, parse)
    }

    /// Records the object's name. Reports the name if another object of the kind has it.
    pub(crate) fn name(&mut self, kind: ObjectKind, key: &str, name: &Located<String>) {
        self.name.clone_from(&name.value);
        let names = self.reading.names.entry(kind).or_default();
        unique(&self.section, key, name, names);
    }
}

/// Reads a text that becomes a claim; see [`claim_text`].
pub(crate) fn claim(entry: &mut Entry<'_, '_>, key: &'static str) -> Option<Option<String>> {
    entry.text(key, claim_text).map(Some)
}

/// Reads a required text that becomes a claim.
pub(crate) fn required_claim(entry: &mut Entry<'_, '_>, key: &'static str) -> Option<String> {
    entry.required(key, claim_text)
}

/// Reads a boolean.
pub(crate) fn switch(entry: &mut Entry<'_, '_>, key: &'static str) -> Option<bool> {
    entry.section.flag(key).map(|flag| flag.value)
}
