use std::fmt;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::key_path;
use crate::place::{Located, Place};
use crate::problem::{Problem, Problems};
use crate::schema::{Kind, Spot};
use crate::table::{Places, Table};
#[cfg(feature = "toml")]
use crate::variables::renamed;

/// Reads one table key by key, and remembers the known keys.
pub struct Section<'p> {
    members: Map<String, Value>,
    /// The keys and indices from the root of the document to this table.
    path: String,
    depth: usize,
    place: Place,
    places: Places,
    known: Vec<&'static str>,
    problems: &'p Problems,
    /// Only where a schema is made.
    spot: Option<Spot<'p>>,
}

impl<'p> Section<'p> {
    /// Reads `table` as the whole document.
    pub fn root(table: Table, problems: &'p Problems) -> Self {
        Self {
            members: table.members,
            path: String::new(),
            depth: 0,
            place: table.places.of(""),
            places: table.places,
            known: Vec::new(),
            problems,
            spot: problems.schema.as_ref().map(Spot::root),
        }
    }

    fn describe(&self, key: &str, kind: Kind<'_>) {
        if let Some(spot) = &self.spot {
            spot.describe(key, &kind);
        }
    }

    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// Reports a problem at `place`. A message about one value must start with its key and a colon.
    pub fn report(&self, place: &Place, message: impl Into<String>) {
        self.problems.report(place, message);
    }

    /// Reports a problem with the value at `key`, whether the value was taken or not.
    pub fn problem(&self, key: &str, what: &str) {
        self.wrong(&self.place_of(key), key, what);
    }

    fn place_of(&self, key: &str) -> Place {
        self.places.of(&key_path::member(&self.path, key))
    }

    /// Reports a problem with the value at `place`, whose key is `key`.
    fn wrong(&self, place: &Place, key: &str, what: &str) {
        let message = if place.is_json() || place.names(key) {
            what.to_owned()
        } else {
            format!("{key}: {what}")
        };
        self.add(place.clone(), message);
    }

    fn add(&self, place: Place, message: String) {
        self.problems.add(Problem { place, message });
    }

    fn wrong_type(&self, place: &Place, key: &str, expected: &str, found: &Value) {
        let found = type_name(found, place);
        self.wrong(place, key, &format!("expected {expected}, found {found}"));
    }

    /// Takes the value at `key`, of any type.
    pub fn take(&mut self, key: &'static str) -> Option<Located<Value>> {
        self.known.push(key);
        self.describe(key, Kind::Any);
        let value = self.members.remove(key)?;
        let place = self.place_of(key);
        Some(Located { value, place })
    }

    /// Takes one of the remaining values with its key, for tables in which the author chooses the keys.
    pub fn take_any(&mut self) -> Option<(String, Value)> {
        self.spot.iter().for_each(Spot::open);
        let key = self.members.keys().next()?.clone();
        let value = self.members.remove(&key)?;
        Some((key, value))
    }

    /// Takes the text at `key`. An empty text is a problem, because the author has probably forgotten the
    /// value.
    pub fn text(&mut self, key: &'static str) -> Option<Located<String>> {
        self.describe(key, Kind::Text);
        let Located { value, place } = self.take(key)?;
        match value {
            Value::String(text) if text.is_empty() => {
                self.wrong(&place, key, "is empty");
                None
            }
            Value::String(value) => Some(Located { value, place }),
            other => {
                self.wrong_type(&place, key, "a string", &other);
                None
            }
        }
    }

    /// Takes the text at `key`, which must be one of `names`, and returns its index there.
    pub fn choice(&mut self, key: &'static str, names: &[&str]) -> Option<usize> {
        self.describe(key, Kind::Choice(names));
        let text = self.text(key)?.value;
        let index = names.iter().position(|name| *name == text);
        if index.is_none() {
            self.problem(key, &format!("must be {}", names.join(" or ")));
        }
        index
    }

    /// Reports `key` as missing if it is absent.
    pub fn required(&self, key: &str) {
        self.spot.iter().for_each(|spot| spot.require(key));
        if self.has(key) {
            return;
        }
        if self.place.is_json() {
            self.problem(key, "is missing");
        } else {
            self.add(self.place.clone(), format!("{key} is missing"));
        }
    }

    /// Takes the text at `key`. An absent text is a problem.
    pub fn required_text(&mut self, key: &'static str) -> Option<Located<String>> {
        self.required(key);
        self.text(key)
    }

    /// Takes the text at `key` and parses it with `parse`. An error of `parse` is a problem.
    pub fn parsed<T, E: fmt::Display>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<Located<T>> {
        let Located { value, place } = self.text(key)?;
        match parse(&value) {
            Ok(value) => Some(Located { value, place }),
            Err(error) => {
                self.wrong(&place, key, &error.to_string());
                None
            }
        }
    }

    /// Takes the path at `key`, and resolves it with [`Place::resolve`].
    #[cfg(feature = "toml")]
    pub fn path(&mut self, key: &'static str) -> Option<std::path::PathBuf> {
        self.text(key).map(|text| text.place.resolve(&text.value))
    }

    /// Takes the boolean at `key`. An environment variable contains `true` or `false`.
    pub fn flag(&mut self, key: &'static str) -> Option<Located<bool>> {
        self.describe(key, Kind::Flag);
        let Located { value, place } = self.take(key)?;
        let flag = match &value {
            Value::Bool(flag) => Some(*flag),
            Value::String(text) if place.is_variable() => text.parse().ok(),
            _ => None,
        };
        if flag.is_none() {
            self.wrong_type(&place, key, "true or false", &value);
        }
        flag.map(|value| Located { value, place })
    }

    /// Takes the boolean at `key`, or `word`, which stands for `meaning`.
    pub fn flag_or<T>(
        &mut self,
        key: &'static str,
        (word, meaning): (&str, T),
        of_flag: impl FnOnce(bool) -> T,
    ) -> Option<T> {
        self.describe(key, Kind::FlagOr(word));
        let Located { value, place } = self.take(key)?;
        match &value {
            Value::Bool(flag) => Some(of_flag(*flag)),
            Value::String(text) if text == word => Some(meaning),
            other => {
                let expected = format!("true, false or \"{word}\"");
                self.wrong_type(&place, key, &expected, other);
                None
            }
        }
    }

    /// Takes the whole number at `key`, which must lie within `range`. Accepts floats with a whole value,
    /// because hosts that build JSON from protobuf write every number as a float.
    pub fn number(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> Option<Located<u64>> {
        self.describe(key, Kind::Number(&range));
        let Located { value, place } = self.take(key)?;
        let number = match &value {
            Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
            Value::String(text) if place.is_variable() => text.parse().ok(),
            other => {
                self.wrong_type(&place, key, "an integer", other);
                return None;
            }
        };
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            let (least, most) = (range.start(), range.end());
            let what = format!("must be a whole number from {least} to {most}");
            self.wrong(&place, key, &what);
        }
        number.map(|value| Located { value, place })
    }

    /// Takes the whole number at `key`, 1 to 4294967295.
    pub fn positive(&mut self, key: &'static str) -> Option<Located<NonZeroU32>> {
        let Located { value, place } = self.number(key, 1..=u32::MAX.into())?;
        let value = NonZeroU32::new(u32::try_from(value).ok()?)?;
        Some(Located { value, place })
    }

    /// Takes the list of texts at `key`. An environment variable separates them by commas.
    pub fn texts(&mut self, key: &'static str) -> Option<Vec<Located<String>>> {
        self.list(key, |text| text)
    }

    /// Takes the list of texts at `key`, without places.
    pub fn values(&mut self, key: &'static str) -> Option<Vec<String>> {
        self.list(key, |text| text.value)
    }

    fn list<T>(
        &mut self,
        key: &'static str,
        element: impl Fn(Located<String>) -> T,
    ) -> Option<Vec<T>> {
        self.describe(key, Kind::Texts);
        let Located { value, place } = self.take(key)?;
        let mut texts = Vec::new();
        match value {
            Value::Array(values) => {
                let path = key_path::member(&self.path, key);
                for (index, value) in values.into_iter().enumerate() {
                    let place = self.places.of(&key_path::element(&path, index));
                    match value {
                        Value::String(value) => texts.push(element(Located { value, place })),
                        other => self.wrong_type(&place, key, "strings in the list", &other),
                    }
                }
            }
            Value::String(text) if place.is_variable() => {
                if text.trim().is_empty() {
                    self.wrong(&place, key, "is empty");
                    return None;
                }
                let items = text.split(',').map(str::trim);
                for item in items.filter(|item| !item.is_empty()) {
                    let (value, place) = (item.to_owned(), place.clone());
                    texts.push(element(Located { value, place }));
                }
            }
            other => {
                self.wrong_type(&place, key, "a list of strings", &other);
                return None;
            }
        }
        Some(texts)
    }

    /// Takes the table at `key`; an empty table if it is absent.
    pub fn section(&mut self, key: &'static str) -> Self {
        self.open(key)
            .unwrap_or_else(|| self.within(key, Map::new()))
    }

    /// Takes the table at `key`, reads it with `read`, and reports unknown keys.
    pub fn optional<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<T> {
        let mut section = self.open(key)?;
        let value = read(&mut section);
        section.finish();
        value
    }

    /// Uses `members` as the table at `key`.
    pub fn within(&self, key: &str, members: Map<String, Value>) -> Self {
        let path = key_path::member(&self.path, key);
        let is_chosen = !self.known.contains(&key);
        let spot = self.spot.as_ref().map(|spot| spot.member(key, is_chosen));
        self.child(members, path, self.depth + 1, spot)
    }

    fn open(&mut self, key: &'static str) -> Option<Self> {
        self.describe(key, Kind::Section);
        let Located { value, place } = self.take(key)?;
        match value {
            Value::Object(members) => Some(self.within(key, members)),
            other => {
                let expected = self.written(&place, key, nouns(&place).0, ["[", "]"]);
                self.wrong_type(&place, key, &expected, &other);
                None
            }
        }
    }

    /// `expected`, with the line that begins it in a file.
    fn written(
        &self,
        place: &Place,
        key: &str,
        expected: &str,
        [open, close]: [&str; 2],
    ) -> String {
        if place.is_json() {
            return expected.to_owned();
        }
        let path = key_path::member(&self.path, key);
        // Numbers of elements are not written.
        let parts = path
            .split('[')
            .map(|part| part.split_once(']').map_or(part, |(_, rest)| rest));
        format!("{expected} ({open}{}{close})", parts.collect::<String>())
    }

    /// Takes the tables of the list at `key`; none if the list is absent.
    pub fn sections(&mut self, key: &'static str) -> Vec<Self> {
        self.each(key).collect()
    }

    /// Takes the tables of the list at `key` one by one, until there are too many problems; none if the list is absent.
    pub fn each(&mut self, key: &'static str) -> impl Iterator<Item = Self> + use<'p> {
        self.describe(key, Kind::Sections);
        let value = self.take(key);
        let problems = self.problems;
        let tables = value.map(|value| self.tables(key, value));
        tables
            .into_iter()
            .flatten()
            .take_while(|_| !problems.are_enough())
    }

    /// Takes the tables of the list at `key`. An absent list is a problem; an empty list is a problem with the
    /// message `empty`.
    pub fn required_sections(&mut self, key: &'static str, empty: &str) -> Vec<Self> {
        self.required(key);
        self.describe(key, Kind::RequiredSections);
        let Some(value) = self.take(key) else {
            return Vec::new();
        };
        if value.value.as_array().is_some_and(Vec::is_empty) {
            self.wrong(&value.place, key, empty);
        }
        self.tables(key, value).collect()
    }

    fn tables(
        &self,
        key: &'static str,
        list: Located<Value>,
    ) -> impl Iterator<Item = Self> + use<'p> {
        let Located { value, place } = list;
        let values = match value {
            Value::Array(values) => values,
            other => {
                let expected = self.written(&place, key, nouns(&place).1, ["[[", "]]"]);
                self.wrong_type(&place, key, &expected, &other);
                Vec::new()
            }
        };
        let path = key_path::member(&self.path, key);
        let spot = self.spot.as_ref().map(|spot| spot.element(key));
        let list = self.child(Map::new(), path, self.depth + 2, spot);
        let values = values.into_iter().enumerate();
        values.filter_map(move |(index, value)| {
            let path = key_path::element(&list.path, index);
            match value {
                Value::Object(members) => {
                    let spot = list.spot.as_ref().map(Spot::again);
                    Some(list.child(members, path, list.depth, spot))
                }
                other => {
                    let place = list.places.of(&path);
                    list.wrong_type(&place, key, nouns(&place).2, &other);
                    None
                }
            }
        })
    }

    fn child(
        &self,
        members: Map<String, Value>,
        path: String,
        depth: usize,
        spot: Option<Spot<'p>>,
    ) -> Self {
        Self {
            members,
            place: self.places.of(&path),
            path,
            depth,
            places: self.places.clone(),
            known: Vec::new(),
            problems: self.problems,
            spot,
        }
    }

    /// True if `key` is present and was not taken.
    pub fn has(&self, key: &str) -> bool {
        self.members.contains_key(key)
    }

    /// True if `key` is present and was not taken, and is not an empty list.
    pub fn has_some(&self, key: &str) -> bool {
        let value = self.members.get(key);
        value.is_some_and(|value| value.as_array().is_none_or(|list| !list.is_empty()))
    }

    /// The value at `key`, which was not taken, if it is an integer.
    pub fn integer(&self, key: &str) -> Option<i64> {
        self.members.get(key)?.as_i64()
    }

    /// Reports `key`, if it is present, as not allowed here for the reason `why`.
    pub fn refuse(&mut self, key: &'static str, why: &str) {
        if let Some(Located { place, .. }) = self.take(key) {
            self.wrong(&place, key, why);
        }
    }

    /// Ignores `key`, which is known but not used here.
    pub fn skip(&mut self, key: &'static str) {
        self.take(key);
    }

    /// Reports every unknown key. Call this when all known keys have been read.
    pub fn finish(self) {
        self.spot.iter().for_each(Spot::finish);
        for key in self.members.keys() {
            let place = self.place_of(key);
            let known = closest(key, &self.known);
            #[cfg(feature = "toml")]
            if let Place::Variable(name) = &place {
                // The prefix is one segment of the name, so the segments of the path follow it.
                let known = known.map(|known| renamed(name, self.depth + 1, known));
                self.report(&place, unlike("setting", known.as_deref()));
                continue;
            }
            let mut message = unlike("key", known);
            // TOML takes every key behind the head of a table for a key of the table.
            if known.is_none() && self.depth == 1 && !place.is_json() && !self.path.ends_with(']') {
                message.push_str(&format!(
                    " of [{}]; keys that belong to no table stand above the first table",
                    self.path
                ));
            }
            self.wrong(&place, key, &message);
        }
    }
}

/// The message about a `name` that is not in `known`.
pub fn unknown(noun: &str, name: &str, known: &[&str]) -> String {
    unlike(noun, closest(name, known))
}

/// Like [`unknown`], with all of `known` if none of them is similar.
pub fn unknown_word(noun: &str, name: &str, known: &[&str]) -> String {
    match closest(name, known) {
        Some(known) => unlike(noun, Some(known)),
        None => format!("unknown {noun}; expected one of {}", known.join(", ")),
    }
}

fn unlike(noun: &str, known: Option<&str>) -> String {
    match known {
        Some(known) => format!("unknown {noun}; did you mean {known}?"),
        None => format!("unknown {noun}"),
    }
}

fn type_name(value: &Value, place: &Place) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a number",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => nouns(place).0,
    }
}

/// The words for a table, a list of tables, and the elements of such a list in the language of the document.
const fn nouns(place: &Place) -> (&'static str, &'static str, &'static str) {
    if place.is_json() {
        ("an object", "a list of objects", "objects in the list")
    } else {
        ("a table", "a list of tables", "tables in the list")
    }
}

/// Returns the known key that `key` probably misspells: at most one edit, plus one for every four
/// characters; or the beginning.
fn closest<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    let is_beginning = |known: &str| key.chars().count() > 2 && known.starts_with(key);
    known
        .iter()
        .map(|known| (strsim::osa_distance(key, known), *known))
        .filter(|(distance, known)| *distance <= 1 + key.chars().count() / 4 || is_beginning(known))
        .min()
        .map(|(_, known)| known)
}

fn whole(number: f64) -> Option<u64> {
    // Up to 2^53, every whole number has its own `f64`.
    let whole = number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number);
    whole.then_some(number as u64)
}
