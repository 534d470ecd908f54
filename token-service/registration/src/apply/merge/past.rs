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
        let of = |said: &'a Said| said.get(field).map_or(&[][..], Vec::as_slice);
        let start = match self.occasion {
            Occasion::Start => remembered.start.as_ref(),
            Occasion::Apply | Occasion::Overwrite => None,
        };
        std::iter::once(&remembered.last)
            .chain(start)
            .map(of)
            .collect()
    }

    /// The stored forms of secrets from files.
    pub(super) fn made(self) -> BTreeMap<String, Made> {
        let remembered = self.remembered;
        remembered.map(|one| one.made.clone()).unwrap_or_default()
    }

    /// What to remember of an object for which the file contains `said`.
    pub(super) fn next(
        self,
        object: ObjectName,
        said: Said,
        made: BTreeMap<String, Made>,
    ) -> Remembered {
        let before = self.remembered;
        let start = before.and_then(|before| before.start.as_ref());
        match self.occasion {
            Occasion::Apply | Occasion::Overwrite => Remembered {
                object,
                last: said,
                start: start.cloned(),
                made,
            },
            Occasion::Start => {
                let untouched = |field: &String, elements: &Vec<Element>| {
                    start.and_then(|start| start.get(field)) == Some(elements)
                };
                let mut last = said.clone();
                for (field, elements) in &mut last {
                    if untouched(field, elements)
                        && let Some(before) = before.and_then(|before| before.last.get(field))
                    {
                        elements.clone_from(before);
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
    }
}
