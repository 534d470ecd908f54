//! Environment variables that replace values of a document.

use std::ffi::OsString;
use std::rc::Rc;

use serde_json::{Map, Value};

use crate::key_path;
use crate::lines::Lines;
use crate::place::Place;
use crate::problem::Problems;
use crate::table::Table;

impl Table {
    /// Replaces values by the variables whose names start with `prefix`: `{prefix}SECTION__KEY` replaces
    /// `section.key`, and `{prefix}LIST__0__KEY` belongs to the first table of a list of tables.
    pub fn overlay(
        &mut self,
        prefix: &str,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        problems: &Problems,
    ) {
        let mut variables: Vec<(Vec<String>, String, OsString)> = environment
            .into_iter()
            .filter_map(|(name, value)| {
                let name = name.into_string().ok()?;
                let path = name.strip_prefix(prefix)?.split("__");
                let path = path.map(str::to_ascii_lowercase).collect();
                Some((path, name, value))
            })
            .collect();
        // Shorter segments first, so that 2 comes before 10.
        variables.sort_by_cached_key(|(path, ..)| {
            path.iter()
                .map(|segment| (segment.len(), segment.clone()))
                .collect::<Vec<_>>()
        });
        let lines = Rc::make_mut(&mut self.places.lines);
        for (path, name, value) in variables {
            let place = Place::Variable(name.clone());
            if name.bytes().any(|byte| byte.is_ascii_lowercase()) {
                problems.report(&place, "variables are written in capitals");
            } else if let Ok(value) = value.into_string() {
                let variable = Variable { place, value };
                if let Err(message) = variable.put(&mut self.members, "", &path, lines) {
                    problems.report(&variable.place, message);
                }
            } else {
                problems.report(&place, "is not UTF-8");
            }
        }
    }
}

struct Variable {
    place: Place,
    value: String,
}

impl Variable {
    /// Sets the value at `keys` below `members`, the table at `path`. Creates missing tables and lists.
    fn put(
        &self,
        members: &mut Map<String, Value>,
        path: &str,
        keys: &[String],
        lines: &mut Lines,
    ) -> Result<(), String> {
        let Some((key, rest)) = keys.split_first() else {
            return Err("names a table; add __ and a key of it".to_owned());
        };
        let path = key_path::member(path, key);
        let Some(next) = rest.first() else {
            lines.places.insert(path, self.place.clone());
            members.insert(key.clone(), Value::String(self.value.clone()));
            return Ok(());
        };
        let index: Option<usize> = next.parse().ok();
        let value = members.entry(key.clone()).or_insert_with(|| {
            lines.places.insert(path.clone(), self.place.clone());
            match index {
                Some(_) => Value::Array(Vec::new()),
                None => Value::Object(Map::new()),
            }
        });
        match (value, index) {
            (Value::Object(members), _) => self.put(members, &path, rest, lines),
            (Value::Array(list), Some(index)) => {
                let path = key_path::element(&path, index);
                if list.len() == index {
                    lines.places.insert(path.clone(), self.place.clone());
                    list.push(Value::Object(Map::new()));
                }
                match list.get_mut(index) {
                    Some(Value::Object(members)) => {
                        self.put(members, &path, rest.get(1..).unwrap_or_default(), lines)
                    }
                    _ => Err(format!("{key} has no table number {index}")),
                }
            }
            _ => Err(format!("{key} has no keys")),
        }
    }
}

/// The `name` of a variable with the segment at the index `at` replaced by the key `known`.
pub(crate) fn renamed(name: &str, at: usize, known: &str) -> String {
    let known = known.to_ascii_uppercase();
    let segments = name.split("__").enumerate();
    let segments: Vec<&str> = segments
        .map(|(index, segment)| if index == at { &known } else { segment })
        .collect();
    segments.join("__")
}
