//! TOML files.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::{Map, Value};
use toml_span::value::ValueInner;

use crate::key_path;
use crate::lines::Lines;
use crate::place::Place;
use crate::problem::Problems;
use crate::table::{Places, Table};

impl Table {
    /// A table without values.
    pub fn empty(place: Place) -> Self {
        Self::with_lines(Map::new(), Lines::of(place))
    }

    /// Reads a TOML document. A syntax error is a problem with its line; the parser stops at the first one.
    pub fn parse(path: &Path, text: &str, problems: &Problems) -> Self {
        Source::new(path.into(), text, problems).read(text)
    }

    /// Reads the TOML file at `path`. A file that cannot be read is a problem.
    pub fn read(path: &Path, problems: &Problems) -> Self {
        match read_text(path, problems) {
            Some(text) => Self::parse(path, &text, problems),
            None => Self::empty(Place::file(path)),
        }
    }

    fn with_lines(members: Map<String, Value>, lines: Lines) -> Self {
        let lines = Rc::new(lines);
        Self {
            members,
            places: Places { lines },
        }
    }
}

/// The text of the file at `path`. A file that cannot be read is a problem.
pub fn read_text(path: &Path, problems: &Problems) -> Option<String> {
    let read = std::fs::read_to_string(path);
    let report = |error| problems.report(&Place::file(path), format!("cannot be read: {error}"));
    read.map_err(report).ok()
}

/// Converts the values of a file to JSON, and records their lines.
struct Source<'a> {
    path: Arc<Path>,
    /// Byte offsets of all lines except the first.
    line_starts: Vec<usize>,
    lines: Lines,
    problems: &'a Problems,
}

impl<'a> Source<'a> {
    fn new(path: Arc<Path>, text: &str, problems: &'a Problems) -> Self {
        let whole = Place::File {
            path: Arc::clone(&path),
            line: None,
        };
        Self {
            path,
            line_starts: text.match_indices('\n').map(|(at, _)| at + 1).collect(),
            lines: Lines::of(whole),
            problems,
        }
    }

    fn read(mut self, text: &str) -> Table {
        let members = match toml_span::parse(text).map(|mut document| document.take()) {
            Ok(ValueInner::Table(table)) => self.members(table, ""),
            Ok(_) => Map::new(),
            Err(error) => {
                let place = self.place(error.span.start);
                self.problems.report(&place, error.to_string());
                Map::new()
            }
        };
        Table::with_lines(members, self.lines)
    }

    fn place(&self, offset: usize) -> Place {
        let line = self.line_starts.partition_point(|start| *start <= offset);
        Place::File {
            path: Arc::clone(&self.path),
            line: Some(1 + line),
        }
    }

    /// Converts the table at `path`. The place of each member is that of its key.
    fn members(&mut self, table: toml_span::value::Table<'_>, path: &str) -> Map<String, Value> {
        let mut members = Map::new();
        for (key, value) in table {
            let at = key_path::member(path, &key.name);
            let value = self.value(value, at, key.span.start);
            members.insert(key.name.into_owned(), value);
        }
        members
    }

    /// Converts the value at `path`, which starts at the byte `offset`.
    fn value(&mut self, mut value: toml_span::Value<'_>, path: String, offset: usize) -> Value {
        let place = self.place(offset);
        let value = match value.take() {
            ValueInner::String(text) => Value::String(text.into_owned()),
            ValueInner::Boolean(flag) => Value::Bool(flag),
            ValueInner::Integer(number) => Value::from(number),
            // JSON has no infinity and no NaN, and no key accepts them.
            ValueInner::Float(number) => {
                if !number.is_finite() {
                    let key = key_path::last_key(&path);
                    let message = format!("{key}: must be a finite number");
                    self.problems.report(&place, message);
                }
                Value::from(number)
            }
            ValueInner::Table(table) => Value::Object(self.members(table, &path)),
            ValueInner::Array(list) => {
                let values = list.into_iter().enumerate();
                let values = values.map(|(index, value)| {
                    let start = value.span.start;
                    self.value(value, key_path::element(&path, index), start)
                });
                Value::Array(values.collect())
            }
        };
        self.lines.places.insert(path, place);
        value
    }
}
