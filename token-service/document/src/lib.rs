//! TOML documents with the environment laid over them, and JSON bodies, as a tree that remembers where each value was
//! written. Readers take what they know; whatever is left, missing or wrong becomes a [`Problem`], and all
//! problems are reported together.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml_span::value::ValueInner;

/// What a JSON body as a whole is called as a [`Place`].
pub const BODY: &str = "body";

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A file; the line counts from 1 and is absent when the file as a whole is meant.
    File {
        /// The file, as it was named.
        path: Arc<Path>,
        /// The line.
        line: Option<usize>,
    },
    /// An environment variable.
    Variable(String),
    /// A JSON body; the path of keys and indices, such as `clients.0.name`, empty for the whole.
    Body(String),
    /// Nowhere: a default.
    Default,
}

impl Place {
    /// The file at `path` as a whole.
    #[must_use]
    pub fn file(path: &Path) -> Self {
        Self::File {
            path: path.into(),
            line: None,
        }
    }

    /// Resolves a path that was written here: relative ones are relative to the file's folder, or to the
    /// working folder when they come from a variable.
    #[must_use]
    pub fn resolve(&self, path: &str) -> PathBuf {
        let folder = match self {
            Self::File { path, .. } => path.parent(),
            Self::Variable(_) | Self::Body(_) | Self::Default => None,
        };
        folder.map_or_else(|| PathBuf::from(path), |folder| folder.join(path))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => {
                path.display().fmt(formatter)?;
                line.map_or(Ok(()), |line| write!(formatter, ":{line}"))
            }
            Self::Variable(name) => formatter.write_str(name),
            Self::Body(path) if path.is_empty() => formatter.write_str(BODY),
            Self::Body(path) => formatter.write_str(path),
            Self::Default => formatter.write_str("default"),
        }
    }
}

/// A value and where it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Where it was written.
    pub place: Place,
}

impl<T> Located<T> {
    /// A default.
    #[must_use]
    pub const fn default_value(value: T) -> Self {
        Self {
            value,
            place: Place::Default,
        }
    }
}

/// Something to be mended, and where. Messages never repeat a secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Place of the value in the file.
    pub place: Place,
    /// The problem, in words.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.message)
    }
}

/// Collects problems while a document is read.
#[derive(Debug, Default)]
pub struct Problems(RefCell<Vec<Problem>>);

impl Problems {
    /// Adds one.
    pub fn report(&self, place: &Place, message: impl Into<String>) {
        self.0.borrow_mut().push(Problem {
            place: place.clone(),
            message: message.into(),
        });
    }

    /// Whether there are none so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// The problems so far, in the order of their places.
    #[must_use]
    pub fn into_sorted(self) -> Vec<Problem> {
        let mut problems = self.0.into_inner();
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

/// A document, with the environment laid over it, that cannot be used. Displayed as one line per problem.
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

enum Value {
    Text(String),
    Flag(bool),
    Whole(i64),
    List(Vec<Entry>),
    Table(Table),
    /// A TOML type that no key takes.
    Other(&'static str),
}

impl Value {
    const fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Flag(_) => "a boolean",
            Self::Whole(_) => "an integer",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Other(name) => name,
        }
    }
}

struct Entry {
    place: Place,
    value: Value,
}

/// A table of the tree. It may hold secrets, so it has no `Debug`.
pub struct Table {
    place: Place,
    entries: BTreeMap<String, Entry>,
}

impl Table {
    /// A table without entries.
    #[must_use]
    pub const fn empty(place: Place) -> Self {
        Self {
            place,
            entries: BTreeMap::new(),
        }
    }

    /// Reads a TOML document. The parser stops at its first syntax error, which is reported with its line.
    #[must_use]
    pub fn parse(path: &Path, text: &str, problems: &Problems) -> Self {
        let file = SourceFile::new(path, text);
        match toml_span::parse(text).map(|mut document| document.take()) {
            Ok(ValueInner::Table(table)) => file.table(table, Place::file(path)),
            Ok(_) => Self::empty(Place::file(path)),
            Err(error) => {
                problems.report(&file.place(error.span.start), error.to_string());
                Self::empty(Place::file(path))
            }
        }
    }

    /// Reads the TOML file at `path`; one that cannot be read is a problem.
    #[must_use]
    pub fn read(path: &Path, problems: &Problems) -> Self {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(path, &text, problems),
            Err(error) => {
                problems.report(&Place::file(path), format!("cannot be read: {error}"));
                Self::empty(Place::file(path))
            }
        }
    }

    /// Reads a JSON object. What is `null` is taken as absent.
    #[must_use]
    pub fn from_json(object: serde_json::Map<String, serde_json::Value>) -> Self {
        json_table(object, String::new())
    }

    /// Where the path of keys and indices, as in [`Place::Body`], was written: itself, or else the innermost table or
    /// list around it that is there.
    #[must_use]
    pub fn place_of(&self, path: &str) -> &Place {
        let mut place = &self.place;
        let mut segments = path.split('.');
        let mut next = segments.next().and_then(|key| self.entries.get(key));
        while let Some(entry) = next {
            place = &entry.place;
            next = segments.next().and_then(|segment| match &entry.value {
                Value::Table(table) => table.entries.get(segment),
                Value::List(list) => list.get(segment.parse::<usize>().ok()?),
                _ => None,
            });
        }
        place
    }

    /// Lays the variables whose names start with `prefix` over the table: `{prefix}SECTION__KEY` replaces
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
        for (path, name, value) in variables {
            let place = Place::Variable(name.clone());
            if name.bytes().any(|byte| byte.is_ascii_lowercase()) {
                problems.report(&place, "variables are written in capitals");
            } else if let Ok(value) = value.into_string() {
                self.put(&path, &place, value, problems);
            } else {
                problems.report(&place, "is not UTF-8");
            }
        }
    }

    fn put(&mut self, path: &[String], place: &Place, value: String, problems: &Problems) {
        let Some((key, rest)) = path.split_first() else {
            return;
        };
        if rest.is_empty() {
            let entry = Entry {
                place: place.clone(),
                value: Value::Text(value),
            };
            self.entries.insert(key.clone(), entry);
            return;
        }
        let index: Option<usize> = rest.first().and_then(|segment| segment.parse().ok());
        let entry = self.entries.entry(key.clone()).or_insert_with(|| Entry {
            place: place.clone(),
            value: match index {
                Some(_) => Value::List(Vec::new()),
                None => Value::Table(Self::empty(place.clone())),
            },
        });
        match (&mut entry.value, index) {
            (Value::Table(table), _) => table.put(rest, place, value, problems),
            (Value::List(list), Some(index)) => {
                if list.len() == index {
                    list.push(Entry {
                        place: place.clone(),
                        value: Value::Table(Self::empty(place.clone())),
                    });
                }
                match list.get_mut(index).map(|entry| &mut entry.value) {
                    Some(Value::Table(table)) => {
                        table.put(rest.get(1..).unwrap_or_default(), place, value, problems);
                    }
                    _ => problems.report(place, format!("{key} has no table number {index}")),
                }
            }
            _ => problems.report(place, format!("{key} has no keys of its own")),
        }
    }
}

fn json_table(object: serde_json::Map<String, serde_json::Value>, path: String) -> Table {
    let entries = object
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| {
            let entry = json_entry(value, json_path(&path, &key));
            (key, entry)
        })
        .collect();
    Table {
        place: Place::Body(path),
        entries,
    }
}

fn json_entry(value: serde_json::Value, path: String) -> Entry {
    let value = match value {
        serde_json::Value::String(text) => Value::Text(text),
        serde_json::Value::Bool(flag) => Value::Flag(flag),
        serde_json::Value::Number(_) => Value::Other("a number"),
        serde_json::Value::Null => Value::Other("null"),
        serde_json::Value::Array(list) => Value::List(
            list.into_iter()
                .enumerate()
                .map(|(index, value)| json_entry(value, json_path(&path, &index.to_string())))
                .collect(),
        ),
        serde_json::Value::Object(object) => Value::Table(json_table(object, path.clone())),
    };
    Entry {
        place: Place::Body(path),
        value,
    }
}

fn json_path(parent: &str, key: &str) -> String {
    if parent.is_empty() {
        key.to_owned()
    } else {
        format!("{parent}.{key}")
    }
}

struct SourceFile {
    path: Arc<Path>,
    /// Byte offset of every line but the first.
    line_starts: Vec<usize>,
}

impl SourceFile {
    fn new(path: &Path, text: &str) -> Self {
        Self {
            path: path.into(),
            line_starts: text.match_indices('\n').map(|(at, _)| at + 1).collect(),
        }
    }

    fn place(&self, offset: usize) -> Place {
        let line = 1 + self.line_starts.partition_point(|start| *start <= offset);
        Place::File {
            path: Arc::clone(&self.path),
            line: Some(line),
        }
    }

    fn table(&self, table: toml_span::value::Table<'_>, place: Place) -> Table {
        let entries = table
            .into_iter()
            .map(|(key, value)| {
                let place = self.place(key.span.start);
                (key.name.into_owned(), self.entry(value, place))
            })
            .collect();
        Table { place, entries }
    }

    fn entry(&self, mut value: toml_span::Value<'_>, place: Place) -> Entry {
        let value = match value.take() {
            ValueInner::String(text) => Value::Text(text.into_owned()),
            ValueInner::Boolean(flag) => Value::Flag(flag),
            ValueInner::Integer(number) => Value::Whole(number),
            ValueInner::Float(_) => Value::Other("a float"),
            ValueInner::Table(table) => Value::Table(self.table(table, place.clone())),
            ValueInner::Array(list) => Value::List(
                list.into_iter()
                    .map(|value| {
                        let place = self.place(value.span.start);
                        self.entry(value, place)
                    })
                    .collect(),
            ),
        };
        Entry { place, value }
    }
}

/// Reads one table key by key and remembers which keys it was asked for.
pub struct Section<'p> {
    table: Table,
    /// The keys that lead here, for suggestions.
    path: Vec<String>,
    known: Vec<&'static str>,
    problems: &'p Problems,
}

impl<'p> Section<'p> {
    /// Reads `table`, the whole document.
    #[must_use]
    pub const fn root(table: Table, problems: &'p Problems) -> Self {
        Self {
            table,
            path: Vec::new(),
            known: Vec::new(),
            problems,
        }
    }

    /// Where the table was written.
    #[must_use]
    pub const fn place(&self) -> &Place {
        &self.table.place
    }

    /// Reports a problem with what was written at `place`.
    pub fn report(&self, place: &Place, message: impl Into<String>) {
        self.problems.report(place, message);
    }

    fn take(&mut self, key: &'static str) -> Option<Entry> {
        self.known.push(key);
        self.table.entries.remove(key)
    }

    fn wrong_type(&self, place: &Place, key: &str, expected: &str, found: &Value) {
        let message = format!("{key}: expected {expected}, found {}", found.type_name());
        self.report(place, message);
    }

    /// The text at `key`. An empty text is a problem, because it is a forgotten value.
    pub fn text(&mut self, key: &'static str) -> Option<Located<String>> {
        let Entry { place, value } = self.take(key)?;
        match value {
            Value::Text(value) if value.is_empty() => {
                self.report(&place, format!("{key}: is empty"));
                None
            }
            Value::Text(value) => Some(Located { value, place }),
            other => {
                self.wrong_type(&place, key, "a string", &other);
                None
            }
        }
    }

    /// Reports `key` as missing unless it is there.
    pub fn required(&self, key: &str) {
        if !self.has(key) {
            self.report(self.place(), format!("{key} is missing"));
        }
    }

    /// The text at `key`, which must be there.
    pub fn required_text(&mut self, key: &'static str) -> Option<Located<String>> {
        self.required(key);
        self.text(key)
    }

    /// The text at `key`, read by `parse`, whose error is reported.
    pub fn parsed<T, E: fmt::Display>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<Located<T>> {
        let Located { value, place } = self.text(key)?;
        match parse(&value) {
            Ok(value) => Some(Located { value, place }),
            Err(error) => {
                self.report(&place, format!("{key}: {error}"));
                None
            }
        }
    }

    /// The path at `key`, resolved by [`Place::resolve`].
    pub fn path(&mut self, key: &'static str) -> Option<PathBuf> {
        self.text(key).map(|text| text.place.resolve(&text.value))
    }

    /// The boolean at `key`; `true` or `false` in a variable.
    pub fn flag(&mut self, key: &'static str) -> Option<Located<bool>> {
        let Entry { place, value } = self.take(key)?;
        let value = match (&value, &place) {
            (Value::Flag(flag), _) => *flag,
            (Value::Text(text), Place::Variable(_)) if text == "true" => true,
            (Value::Text(text), Place::Variable(_)) if text == "false" => false,
            (other, Place::Variable(_)) => {
                self.wrong_type(&place, key, "true or false", other);
                return None;
            }
            (other, _) => {
                self.wrong_type(&place, key, "a boolean", other);
                return None;
            }
        };
        Some(Located { value, place })
    }

    /// The whole number at `key`, 1 to 4294967295.
    pub fn positive(&mut self, key: &'static str) -> Option<Located<NonZeroU32>> {
        let Entry { place, value } = self.take(key)?;
        let number = match (&value, &place) {
            (Value::Whole(number), _) => u32::try_from(*number).ok(),
            (Value::Text(text), Place::Variable(_)) => text.parse().ok(),
            (other, _) => {
                self.wrong_type(&place, key, "an integer", other);
                return None;
            }
        };
        let number = number.and_then(NonZeroU32::new);
        if number.is_none() {
            self.report(
                &place,
                format!("{key}: must be a whole number from 1 to {}", u32::MAX),
            );
        }
        number.map(|value| Located { value, place })
    }

    /// The list of texts at `key`; separated by commas in a variable.
    pub fn texts(&mut self, key: &'static str) -> Option<Vec<Located<String>>> {
        let Entry { place, value } = self.take(key)?;
        match value {
            Value::List(entries) => Some(
                entries
                    .into_iter()
                    .filter_map(|Entry { place, value }| match value {
                        Value::Text(value) => Some(Located { value, place }),
                        other => {
                            self.wrong_type(&place, key, "strings in the list", &other);
                            None
                        }
                    })
                    .collect(),
            ),
            Value::Text(text) if matches!(place, Place::Variable(_)) => Some(
                text.split(',')
                    .map(str::trim)
                    .filter(|item| !item.is_empty())
                    .map(|item| Located {
                        value: item.to_owned(),
                        place: place.clone(),
                    })
                    .collect(),
            ),
            other => {
                self.wrong_type(&place, key, "a list of strings", &other);
                None
            }
        }
    }

    /// The table at `key`; an empty one when it is absent.
    pub fn section(&mut self, key: &'static str) -> Self {
        let table = match self.take(key) {
            None => Table::empty(self.place().clone()),
            Some(entry) => match entry.value {
                Value::Table(table) => table,
                other => {
                    self.wrong_type(&entry.place, key, "a table", &other);
                    Table::empty(entry.place)
                }
            },
        };
        self.child(table, [key.to_owned()])
    }

    /// The tables of the list at `key`; none when it is absent.
    pub fn sections(&mut self, key: &'static str) -> Vec<Self> {
        let Some(Entry { place, value }) = self.take(key) else {
            return Vec::new();
        };
        let Value::List(entries) = value else {
            self.wrong_type(&place, key, "a list of tables", &value);
            return Vec::new();
        };
        entries
            .into_iter()
            .enumerate()
            .filter_map(|(index, entry)| match entry.value {
                Value::Table(table) => Some(self.child(table, [key.to_owned(), index.to_string()])),
                other => {
                    self.wrong_type(&entry.place, key, "tables in the list", &other);
                    None
                }
            })
            .collect()
    }

    fn child(&self, table: Table, keys: impl IntoIterator<Item = String>) -> Self {
        Self {
            table,
            path: self.path.iter().cloned().chain(keys).collect(),
            known: Vec::new(),
            problems: self.problems,
        }
    }

    /// Whether `key` is there and was not taken yet.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.table.entries.contains_key(key)
    }

    /// Reports `key`, if it is there, as out of place here for the reason `why`.
    pub fn refuse(&mut self, key: &'static str, why: &str) {
        if let Some(entry) = self.take(key) {
            self.report(&entry.place, format!("{key}: {why}"));
        }
    }

    /// Passes over `key`, known but of no use here.
    pub fn skip(&mut self, key: &'static str) {
        self.take(key);
    }

    /// Reports every key that was not asked for. Call it when all known keys have been.
    pub fn finish(self) {
        for (key, entry) in &self.table.entries {
            let suggestion = closest(key, &self.known);
            let message = match (&entry.place, suggestion) {
                (Place::Variable(name), Some(known)) => {
                    let known = known.to_ascii_uppercase();
                    // The prefix is one segment, then come those that lead here.
                    let at = self.path.len() + 1;
                    let name: Vec<&str> = name
                        .split("__")
                        .enumerate()
                        .map(|(index, segment)| if index == at { &known } else { segment })
                        .collect();
                    format!("unknown setting; did you mean {}?", name.join("__"))
                }
                (Place::Variable(_), None) => "unknown setting".to_owned(),
                (_, Some(known)) => format!("unknown key {key}; did you mean {known}?"),
                (_, None) => format!("unknown key {key}"),
            };
            self.report(&entry.place, message);
        }
    }
}

/// The known key that `key` is a likely misspelling of: at most one edit, and one more per four characters.
fn closest<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(key, known), *known))
        .filter(|(distance, _)| *distance <= 1 + key.chars().count() / 4)
        .min()
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        text: &str,
        environment: &[(&str, &str)],
        read: impl FnOnce(&mut Section<'_>),
    ) -> Vec<String> {
        let problems = Problems::default();
        let mut table = Table::parse(Path::new("folder/a.toml"), text, &problems);
        let environment = environment
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)));
        table.overlay("T__", environment, &problems);
        let mut section = Section::root(table, &problems);
        read(&mut section);
        section.finish();
        let problems = problems.into_sorted();
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn values_know_their_line() {
        let text = "a = 'x'\n\n[s]\nb = true\n\n[[t]]\nc = ['1',\n '2']\n\n[[t]]\n";
        let problems = read(text, &[], |root| {
            let a = root.text("a").unwrap();
            assert_eq!(
                (a.value.as_str(), a.place.to_string().as_str()),
                ("x", "folder/a.toml:1")
            );
            let mut s = root.section("s");
            assert_eq!(s.flag("b").unwrap().place.to_string(), "folder/a.toml:4");
            s.finish();
            let mut tables = root.sections("t").into_iter();
            let mut first = tables.next().unwrap();
            let list = first.texts("c").unwrap();
            let places: Vec<_> = list.iter().map(|item| item.place.to_string()).collect();
            assert_eq!(places, ["folder/a.toml:7", "folder/a.toml:8"]);
            let mut second = tables.next().unwrap();
            assert!(second.required_text("c").is_none());
        });
        assert_eq!(problems, ["folder/a.toml:10: c is missing"]);
    }

    #[test]
    fn every_problem_is_reported() {
        let text = "colour = 'x'\nflag = 'true'\ntext = 1\nempty = ''\nlist = [1, 'a']\n[table]\n\
                    x = 1\n[single]\n";
        let problems = read(text, &[], |root| {
            assert!(root.text("color").is_none());
            assert!(root.flag("flag").is_none());
            assert!(root.text("text").is_none());
            assert!(root.text("empty").is_none());
            assert_eq!(root.texts("list").unwrap().len(), 1);
            assert!(root.text("table").is_none());
            assert!(root.sections("single").is_empty());
        });
        assert_eq!(
            problems,
            [
                "folder/a.toml:1: unknown key colour; did you mean color?",
                "folder/a.toml:2: flag: expected a boolean, found a string",
                "folder/a.toml:3: text: expected a string, found an integer",
                "folder/a.toml:4: empty: is empty",
                "folder/a.toml:5: list: expected strings in the list, found an integer",
                "folder/a.toml:6: table: expected a string, found a table",
                "folder/a.toml:8: single: expected a list of tables, found a table",
            ]
        );
    }

    #[test]
    fn a_syntax_error_has_its_line() {
        let problems = read("a = 'x'\nb = \n", &[], |root| {
            root.text("a");
        });
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("folder/a.toml:2: "), "{problems:?}");
        assert_eq!(
            read("a = 1\na = 2\n", &[], |_| ()),
            ["folder/a.toml:2: duplicate key: `a`"]
        );
    }

    #[test]
    fn variables_win_over_the_file() {
        let text = "a = 'file'\nl = ['x']\n[s]\nb = false\n[[t]]\nc = 'file'\nd = 'file'\n";
        let environment = [
            ("T__A", "variable"),
            ("T__L", "1, 2,"),
            ("T__S__B", "true"),
            ("T__T__0__C", "variable"),
            ("T__T__1__C", "second"),
            ("UNRELATED", "x"),
            ("T_A", "x"),
        ];
        let problems = read(text, &environment, |root| {
            let a = root.text("a").unwrap();
            assert_eq!(
                (a.value.as_str(), a.place.to_string().as_str()),
                ("variable", "T__A")
            );
            let list = root.texts("l").unwrap().into_iter().map(|item| item.value);
            assert_eq!(list.collect::<Vec<_>>(), ["1", "2"]);
            assert!(root.section("s").flag("b").unwrap().value);
            let mut tables = root.sections("t").into_iter();
            let mut first = tables.next().unwrap();
            assert_eq!(first.text("c").unwrap().value, "variable");
            assert_eq!(first.text("d").unwrap().value, "file");
            assert_eq!(tables.next().unwrap().text("c").unwrap().value, "second");
        });
        assert_eq!(problems, [""; 0]);
    }

    #[test]
    fn unknown_variables_are_problems() {
        let environment = [
            ("T__COLOUR", "x"),
            ("T__S__FLAGS", "x"),
            ("T__A__B", "x"),
            ("T__T__2__C", "x"),
            ("T__lower", "x"),
            ("T__S__FLAG", "yes"),
        ];
        let problems = read("a = 'x'\n[[t]]\n", &environment, |root| {
            root.text("color");
            root.text("a");
            root.sections("t");
            let mut s = root.section("s");
            s.flag("flag");
            s.finish();
        });
        assert_eq!(
            problems,
            [
                "T__A__B: a has no keys of its own",
                "T__COLOUR: unknown setting; did you mean T__COLOR?",
                "T__S__FLAG: flag: expected true or false, found a string",
                "T__S__FLAGS: unknown setting; did you mean T__S__FLAG?",
                "T__T__2__C: t has no table number 2",
                "T__lower: variables are written in capitals",
            ]
        );
    }

    #[test]
    fn relative_paths_belong_to_their_file() {
        let problems = read("p = 'x/y'\nq = '/abs'\n", &[("T__R", "z")], |root| {
            assert_eq!(root.path("p").unwrap(), Path::new("folder/x/y"));
            assert_eq!(root.path("q").unwrap(), Path::new("/abs"));
            assert_eq!(root.path("r").unwrap(), Path::new("z"));
        });
        assert_eq!(problems, [""; 0]);
    }
}
