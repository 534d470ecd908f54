//! Reading of registered objects from files and JSON, field by field.

use std::collections::BTreeMap;
use std::fmt;

use super::Registered;
use super::checks::unique;
use document::{Located, Place, Problems, Section};
use domain::client::IntegrationKind;
use domain::clock::Timestamp;
use domain::object::ObjectKind;
use secrets::protection::Hidden;

pub struct Registration<T> {
    /// The object without its protected secrets.
    pub object: T,
    /// The protected secrets, at most one for each field. Absent secrets keep their stored form.
    pub hidden: Vec<Hidden>,
    /// The line of the entry.
    pub line: Option<usize>,
}

impl<T> Registration<T> {
    /// The registration of an object without secrets, or with unchanged secrets.
    pub const fn of(object: T) -> Self {
        Self {
            object,
            hidden: Vec::new(),
            line: None,
        }
    }
}

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
    /// The first place of what at most one user of a document has: linked identities and accounts, each with the word for it.
    pub(crate) owned: BTreeMap<String, Place>,
    pub(crate) bound_users: Vec<Located<String>>,
    /// True if an entry names another file, whose content counts too.
    pub(crate) names_files: bool,
}

impl Reading {
    pub(crate) fn new(completeness: Completeness, now: Timestamp) -> Self {
        Self {
            completeness,
            now,
            warnings: Problems::default(),
            names: BTreeMap::new(),
            owned: BTreeMap::new(),
            bound_users: Vec::new(),
            names_files: false,
        }
    }

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
        let line = section.place().line();
        let mut entry = Entry {
            section,
            integration: None,
            reading: self,
        };
        let read = T::read(&mut entry);
        entry.section.finish();
        read.map(|read| Registration { line, ..read })
    }
}

pub struct Entry<'e, 'p> {
    pub(crate) section: Section<'p>,
    /// The integration type of a client, after it was read.
    pub(crate) integration: Option<IntegrationKind>,
    pub(crate) reading: &'e mut Reading,
}

impl Entry<'_, '_> {
    /// Parses the text at `key` with `parse`, and reports its error.
    pub(crate) fn text<V, E: fmt::Display>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<V, E>,
    ) -> Option<V> {
        self.section.parsed(key, parse).map(|text| text.value)
    }

    /// Reads the flag `enabled`, which is `true` by default.
    pub(crate) fn enabled(&mut self) -> bool {
        self.section.flag("enabled").is_none_or(|flag| flag.value)
    }

    /// Reports the object's name if another object of the kind has it.
    pub(crate) fn name(&mut self, kind: ObjectKind, key: &str, name: &Located<String>) {
        let names = self.reading.names.entry(kind).or_default();
        unique(&self.section, key, name, names);
    }

    pub(crate) fn warn(&mut self, place: &Place, message: impl Into<String>) {
        self.reading.warnings.report(place, message);
    }
}

/// Parses the required text at `key` with `parse`, and reports its error.
pub(crate) fn required<V, E: fmt::Display>(
    section: &mut Section<'_>,
    key: &'static str,
    parse: impl FnOnce(&str) -> Result<V, E>,
) -> Option<V> {
    section.required(key);
    section.parsed(key, parse).map(|text| text.value)
}
