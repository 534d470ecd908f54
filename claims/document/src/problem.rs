//! Problems of a document, collected while it is read.

use std::cell::Cell;
use std::fmt;

use crate::place::Place;

/// Something to be mended, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Place of the value.
    pub place: Place,
    /// The problem, in words that never repeat a secret. They start with the key of the value and a colon, unless the place
    /// names the key.
    pub message: String,
}

impl Problem {
    /// What is wrong at `place`. A `message` about one value starts with its key and a colon; both are left out where the
    /// place names the key.
    #[must_use]
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

/// Collects problems while a document is read.
#[derive(Default)]
pub struct Problems(Cell<Vec<Problem>>);

impl Problems {
    /// Adds [`Problem::new`].
    pub fn report(&self, place: &Place, message: impl Into<String>) {
        self.add(Problem::new(place, message));
    }

    pub(crate) fn add(&self, problem: Problem) {
        let mut problems = self.0.take();
        problems.push(problem);
        self.0.set(problems);
    }

    /// Whether there are none so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let problems = self.0.take();
        let is_empty = problems.is_empty();
        self.0.set(problems);
        is_empty
    }

    /// The problems so far, in the order in which they were found.
    #[must_use]
    pub fn into_found(self) -> Vec<Problem> {
        self.0.into_inner()
    }

    /// The problems so far, in the order of their places.
    #[must_use]
    pub fn into_sorted(self) -> Vec<Problem> {
        let mut problems = self.into_found();
        problems.sort();
        problems
    }

    /// `value` when there are none.
    ///
    /// # Errors
    /// [`InvalidDocument`] with all of them.
    pub fn none_or<T>(self, value: T) -> Result<T, InvalidDocument> {
        let problems = self.into_sorted();
        if problems.is_empty() {
            Ok(value)
        } else {
            Err(InvalidDocument { problems })
        }
    }
}

/// A document that cannot be used. Displayed as one line per problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidDocument {
    /// Everything that is to be mended, in the order of the places.
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
