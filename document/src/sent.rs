//! A file whose values are sent to a receiver as JSON. The receiver reports problems by path, but the author of
//! the file needs file and line.

use std::rc::Rc;

use serde_json::{Map, Value};

use crate::key_path;
use crate::lines::Lines;
use crate::place::{BODY, Place};
use crate::problem::Problem;
use crate::table::Table;

impl Table {
    /// The values to send.
    pub const fn members(&self) -> &Map<String, Value> {
        &self.members
    }

    /// The values, for changes before they are sent.
    pub const fn members_mut(&mut self) -> &mut Map<String, Value> {
        &mut self.members
    }

    /// Records that the value sent at the path `sent` was written at the path `written`.
    pub fn moved(&mut self, written: &str, sent: &str) {
        let lines = Rc::make_mut(&mut self.places.lines);
        lines.moved.insert(sent.to_owned(), written.to_owned());
    }

    /// The place of the value at `path`, in the form of [`Place::Json`]; or else of the innermost table or list
    /// that contains it and exists.
    pub fn place_of(&self, path: &str) -> Place {
        self.places.of(path)
    }

    /// Converts a problem that the receiver reported as `line`: replaces paths with file and line. `None` if
    /// `line` does not start with the path of a value.
    pub fn located(&self, line: &str) -> Option<Problem> {
        let lines = &self.places.lines;
        let (path, message) = line.split_once(": ")?;
        let message = with_lines(lines, message);
        if path == BODY {
            return Some(Problem {
                place: self.place_of(""),
                message,
            });
        }
        let first = path.split(['.', '[']).next()?;
        if !self.members.contains_key(first) {
            return None;
        }
        let key = key_path::last_key(lines.written(path));
        let message = if self.is_table_of_list(path) {
            message
        } else if lines.at(path).is_some() {
            format!("{key}: {message}")
        } else {
            // A missing value has no place in the document, so the message names its key.
            format!("{key} {message}")
        };
        Some(Problem {
            place: self.place_of(path),
            message,
        })
    }

    /// True if `path` is an element of a list. Such an element has no key.
    fn is_table_of_list(&self, path: &str) -> bool {
        let mut segments = path.split(['.', '[']);
        let first = segments.next().and_then(|key| self.members.get(key));
        let value = segments.try_fold(first, |value, segment| {
            Some(match value? {
                Value::Object(members) => members.get(segment),
                Value::Array(values) => {
                    let index = segment.strip_suffix(']')?.parse::<usize>();
                    values.get(index.ok()?)
                }
                _ => None,
            })
        });
        path.ends_with(']') && matches!(value, Some(Some(Value::Object(_))))
    }
}

/// Adds the place in the file to a `message` that ends with a path, such as `web is already at
/// clients[0].client_id`.
fn with_lines(lines: &Lines, message: &str) -> String {
    match message.rsplit_once(" at ") {
        Some((start, path)) => match lines.at(path) {
            Some(place) => format!("{start} at {place}"),
            None => message.to_owned(),
        },
        None => message.to_owned(),
    }
}
