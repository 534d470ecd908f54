//! What the store remembers of an object that a file lists again.

use std::collections::BTreeMap;

use domain::remembered::{Element, Made, ObjectName, Remembered, Said};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// The service starts with its own file.
    Start,
    Apply,
    /// An operator applies a file that overwrites the changes of commands.
    Overwrite,
    /// An operator adds the objects of another server (D-52). No file manages them afterwards (D-27).
    Import {
        /// Change registered objects that no file manages.
        overwrites: bool,
    },
}

/// What the store remembers of an object, for this occasion.
#[derive(Clone, Copy)]
pub(super) struct Past<'a> {
    pub(super) remembered: Option<&'a Remembered>,
    pub(super) occasion: Occasion,
}

impl<'a> Past<'a> {
    /// The earlier contents of files for a field; empty if no file was ever applied to the object.
    pub(super) fn said(self, field: &str) -> Vec<&'a [Element]> {
        let Some(remembered) = self.remembered else {
            return Vec::new();
        };
        let start = remembered.start.as_ref();
        let start = start.filter(|_| self.occasion == Occasion::Start);
        std::iter::once(&remembered.last)
            .chain(start)
            .map(|said| said.get(field).map_or(&[][..], Vec::as_slice))
            .collect()
    }

    /// What to remember of an object for which the file contains `said`.
    pub(super) fn next(
        self,
        object: ObjectName,
        said: Said,
        made: BTreeMap<String, Made>,
    ) -> Remembered {
        let start = self.remembered.and_then(|before| before.start.as_ref());
        if self.occasion != Occasion::Start {
            return Remembered {
                object,
                last: said,
                start: start.cloned(),
                made,
            };
        }
        let mut last = said.clone();
        if let Some((before, start)) = self.remembered.zip(start) {
            for (field, elements) in &mut last {
                let is_untouched = start.get(field) == Some(elements);
                if let Some(before) = before.last.get(field).filter(|_| is_untouched) {
                    elements.clone_from(before);
                }
            }
        }
        Remembered {
            object,
            last,
            start: Some(said),
            made,
        }
    }
}
