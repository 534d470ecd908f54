//! The places of the values in a file and in the environment variables that replace them.

use std::collections::HashMap;

use crate::key_path;
use crate::place::Place;

/// Places by path.
#[derive(Clone, Default)]
pub(crate) struct Lines {
    /// The place of the whole document.
    pub(crate) whole: Option<Place>,
    pub(crate) places: HashMap<String, Place>,
    /// New paths of values that were moved after the document was read, each with the path in the document.
    pub(crate) moved: HashMap<String, String>,
}

impl Lines {
    /// The places of a document without values.
    pub(crate) fn of(whole: Place) -> Self {
        Self {
            whole: Some(whole),
            ..Self::default()
        }
    }

    /// The path at which the value at `path` was written.
    pub(crate) fn written<'a>(&'a self, path: &'a str) -> &'a str {
        self.moved.get(path).map_or(path, String::as_str)
    }

    /// The place of the value at `path`.
    pub(crate) fn at(&self, path: &str) -> Option<&Place> {
        self.places.get(self.written(path))
    }

    /// The place of the value at `path`, or else of the innermost table or list that contains it and exists.
    pub(crate) fn around(&self, path: &str) -> Option<&Place> {
        let mut path = self.written(path);
        loop {
            match (self.places.get(path), key_path::parent(path)) {
                (Some(place), _) => return Some(place),
                (None, Some(parent)) => path = parent,
                (None, None) => return self.whole.as_ref(),
            }
        }
    }
}
