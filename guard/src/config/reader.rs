//! Walking a JSON object and collecting every problem with its path.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

/// An object that is being read. Members that nobody asked for are problems.
pub(super) struct Object<'p> {
    members: Map<String, Value>,
    path: String,
    /// Keys that were asked for.
    known: Vec<String>,
    problems: &'p mut Vec<String>,
}

impl<'p> Object<'p> {
    pub(super) fn root(members: Map<String, Value>, problems: &'p mut Vec<String>) -> Self {
        Self {
            members,
            path: String::new(),
            known: Vec::new(),
            problems,
        }
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    pub(super) fn problem(&mut self, key: &str, what: &str) {
        let path = self.path_of(key);
        self.problems.push(format!("{path}: {what}"));
    }

    pub(super) fn has(&mut self, key: &str) -> bool {
        self.known.push(key.to_owned());
        self.members.contains_key(key)
    }

    pub(super) fn keys(&self) -> Vec<String> {
        self.members.keys().cloned().collect()
    }

    pub(super) fn take(&mut self, key: &str) -> Option<Value> {
        self.known.push(key.to_owned());
        self.members.remove(key)
    }

    pub(super) fn require(&mut self, key: &str) {
        if !self.has(key) {
            self.problem(key, "is missing");
        }
    }

    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        match self.take(key)? {
            Value::String(text) if !text.is_empty() => Some(text),
            _ => {
                self.problem(key, "must be a string that is not empty");
                None
            }
        }
    }

    pub(super) fn required_text(&mut self, key: &str) -> Option<String> {
        self.require(key);
        self.text(key)
    }

    pub(super) fn flag(&mut self, key: &str) -> Option<bool> {
        match self.take(key)? {
            Value::Bool(flag) => Some(flag),
            _ => {
                self.problem(key, "must be true or false");
                None
            }
        }
    }

    /// A whole number. Hosts that build JSON from protobuf write every number as a float.
    pub(super) fn number(&mut self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.take(key)?;
        let number = value
            .as_u64()
            .or_else(|| whole(value.as_f64()?))
            .filter(|number| range.contains(number));
        if number.is_none() {
            let (least, most) = (range.start(), range.end());
            self.problem(
                key,
                &format!("must be a whole number from {least} to {most}"),
            );
        }
        number
    }

    pub(super) fn texts(&mut self, key: &str) -> Option<Vec<String>> {
        let value = self.take(key)?;
        let texts = value.as_array().and_then(|values| {
            values
                .iter()
                .map(|value| value.as_str().map(ToOwned::to_owned))
                .collect::<Option<Vec<_>>>()
        });
        if texts.is_none() {
            self.problem(key, "must be a list of strings");
        }
        texts
    }

    /// The object at `key`, read by `read` to its last member.
    pub(super) fn object<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&mut Object<'_>) -> T,
    ) -> Option<T> {
        match self.take(key)? {
            Value::Object(members) => Some(self.within(key, members, read)),
            _ => {
                self.problem(key, "must be an object");
                None
            }
        }
    }

    /// `members` as the object at `key`.
    pub(super) fn within<T>(
        &mut self,
        key: &str,
        members: Map<String, Value>,
        read: impl FnOnce(&mut Object<'_>) -> T,
    ) -> T {
        let mut object = Object {
            members,
            path: self.path_of(key),
            known: Vec::new(),
            problems: self.problems,
        };
        let read = read(&mut object);
        object.finish();
        read
    }

    /// Reads the list of objects at `key`; whether there is none.
    pub(super) fn objects(&mut self, key: &str, mut read: impl FnMut(Object<'_>)) -> bool {
        let values = match self.take(key) {
            None => return false,
            Some(Value::Array(values)) => values,
            Some(_) => {
                self.problem(key, "must be a list of objects");
                return false;
            }
        };
        let is_empty = values.is_empty();
        for (index, value) in values.into_iter().enumerate() {
            let path = format!("{}[{index}]", self.path_of(key));
            match value {
                Value::Object(members) => read(Object {
                    members,
                    path,
                    known: Vec::new(),
                    problems: self.problems,
                }),
                _ => self.problems.push(format!("{path}: must be an object")),
            }
        }
        is_empty
    }

    /// Reports what is left.
    pub(super) fn finish(&mut self) {
        for key in self.keys() {
            let what = match closest(&key, &self.known) {
                Some(known) => format!("is not known; did you mean {known}?"),
                None => "is not known".to_owned(),
            };
            self.problem(&key, &what);
        }
        self.members.clear();
    }
}

/// The known key that `key` is a likely misspelling of: at most one edit, and one more per four characters, as in the token
/// service's files.
fn closest<'k>(key: &str, known: &'k [String]) -> Option<&'k String> {
    known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(key, known), known))
        .filter(|(distance, _)| *distance <= 1 + key.chars().count() / 4)
        .min()
        .map(|(_, known)| known)
}

fn whole(number: f64) -> Option<u64> {
    // Up to 2^53 every whole number is exact.
    let whole = number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number);
    whole.then_some(number as u64)
}
