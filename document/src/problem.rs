//! Problems of a document, collected while the document is read.

use std::cell::Cell;
use std::fmt;

use crate::place::Place;
use crate::schema::Schema;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    pub place: Place,
    /// The message contains no secret. It starts with the key of the value and a colon, unless the place
    /// contains the key.
    pub message: String,
}

impl Problem {
    /// Creates a problem at `place`. A `message` about one value starts with its key and a colon, which are
    /// removed if the place contains the key.
    pub fn new(place: &Place, message: impl Into<String>) -> Self {
        let message = message.into();
        let message = match message.split_once(": ") {
            Some((key, rest)) if place.names(key) => rest.to_owned(),
            _ => message,
        };
        Self {
            place: place.clone(),
            message,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.message)
    }
}

/// Maximum number of problems of a document. Who has to correct more of them corrects these first.
const MOST: usize = 1000;

#[derive(Default)]
pub struct Problems {
    found: Cell<Vec<Problem>>,
    pub(crate) schema: Option<Schema>,
    /// True if there was no room for a problem, or reading stopped for lack of room.
    are_more: Cell<bool>,
}

impl Problems {
    /// Adds [`Problem::new`].
    pub fn report(&self, place: &Place, message: impl Into<String>) {
        self.add(Problem::new(place, message));
    }

    pub(crate) fn add(&self, problem: Problem) {
        let mut found = self.found.take();
        if found.len() < MOST {
            found.push(problem);
        } else {
            self.are_more.set(true);
        }
        self.found.set(found);
    }

    /// True if there is no room for another problem, so that reading more of the document is of no use.
    pub(crate) fn are_enough(&self) -> bool {
        let found = self.found.take();
        let are_enough = found.len() >= MOST;
        self.found.set(found);
        if are_enough {
            self.are_more.set(true);
        }
        are_enough
    }

    /// Collects the schema of the documents that are read, as well as their problems.
    pub fn with_schema() -> Self {
        Self {
            schema: Some(Schema::default()),
            ..Self::default()
        }
    }

    /// The JSON Schema of the documents that were read: all keys that readers asked for. Null without
    /// [`with_schema`](Self::with_schema).
    pub fn schema(&self) -> serde_json::Value {
        let schema = self.schema.as_ref();
        schema.map(Schema::made).unwrap_or_default()
    }

    /// Adds the problems of a part of the document.
    pub fn extend(&self, part: InvalidDocument) {
        part.problems
            .into_iter()
            .for_each(|problem| self.add(problem));
    }

    pub fn is_empty(&self) -> bool {
        let found = self.found.take();
        let is_empty = found.is_empty();
        self.found.set(found);
        is_empty
    }

    /// The problems in the order in which they were found.
    pub fn into_found(self) -> Vec<Problem> {
        self.found.into_inner()
    }

    /// The problems in the order of their places. If there may be more, the last one says so.
    pub fn into_sorted(self) -> Vec<Problem> {
        let are_more = self.are_more.get();
        let mut problems = self.into_found();
        problems.sort();
        if are_more && let Some(last) = problems.last_mut() {
            last.message = format!("these are the first {} problems; there are more", MOST - 1);
        }
        problems
    }

    /// Returns `value` if there are no problems.
    ///
    /// # Errors
    /// [`InvalidDocument`] with all problems.
    pub fn none_or<T>(self, value: T) -> Result<T, InvalidDocument> {
        let problems = self.into_sorted();
        if problems.is_empty() {
            Ok(value)
        } else {
            Err(InvalidDocument { problems })
        }
    }
}

/// A document that cannot be used. `Display` writes one line for each problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidDocument {
    /// In the order of the places.
    pub problems: Vec<Problem>,
}

impl std::error::Error for InvalidDocument {}

impl fmt::Display for InvalidDocument {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                formatter.write_str("\n")?;
            }
            problem.fmt(formatter)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_bounded() {
        for (count, expected) in [
            (MOST, "wrong"),
            (MOST + 1, "these are the first 999 problems; there are more"),
        ] {
            let problems = Problems::default();
            for number in 0..count {
                problems.report(&Place::Json(format!("list[{number:04}]")), "wrong");
            }
            let invalid = problems.none_or(()).unwrap_err();
            assert_eq!(invalid.problems.len(), MOST);
            let last = invalid.problems.last().unwrap();
            assert_eq!(last.to_string(), format!("list[0999]: {expected}"));
        }
    }
}
