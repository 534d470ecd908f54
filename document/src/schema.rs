//! What a reader asks for, as a JSON Schema (draft 7). A reader describes itself while it reads sample documents, so
//! that the schema has the keys, types, ranges and choices of the reader and no others.

use std::cell::Cell;
use std::ops::RangeInclusive;

use serde_json::{Map, Value, json};

/// What a reader expects at a key.
pub(crate) enum Kind<'k> {
    Any,
    Text,
    Choice(&'k [&'k str]),
    Flag,
    /// A boolean, or this text.
    FlagOr(&'k str),
    Number(&'k RangeInclusive<u64>),
    Texts,
    Section,
    Sections,
    /// At least one.
    RequiredSections,
}

/// The schema that has been described so far.
#[derive(Default)]
pub(crate) struct Schema(Cell<Value>);

impl Schema {
    pub(crate) fn made(&self) -> Value {
        let schema = self.0.take();
        self.0.set(schema.clone());
        schema
    }

    /// Changes the schema at `pointer` (RFC 6901), which may be new.
    fn change(&self, pointer: &str, change: impl FnOnce(&mut Map<String, Value>)) {
        let mut schema = self.0.take();
        let mut place = members(&mut schema);
        for part in pointer.split('/').skip(1) {
            place = place.and_then(|place| members(place.entry(part).or_insert(Value::Null)));
        }
        if let Some(place) = place {
            change(place);
        }
        self.0.set(schema);
    }
}

fn members(value: &mut Value) -> Option<&mut Map<String, Value>> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

/// The place of a section in a schema, and the keys that the section required.
pub(crate) struct Spot<'p> {
    schema: &'p Schema,
    pointer: String,
    required: Cell<Vec<String>>,
}

impl<'p> Spot<'p> {
    pub(crate) fn root(schema: &'p Schema) -> Self {
        Self::at(schema, String::new())
    }

    /// The object at `key`; `is_chosen` if the author chose the key.
    pub(crate) fn member(&self, key: &str, is_chosen: bool) -> Self {
        match is_chosen {
            true => self.below("additionalProperties"),
            false => self.below(&format!("properties/{key}")),
        }
    }

    /// The objects of the list at `key`.
    pub(crate) fn element(&self, key: &str) -> Self {
        let element = self.below(&format!("properties/{key}/items"));
        self.schema.change(&element.pointer, |object| {
            object.entry("type").or_insert(json!("object"));
        });
        element
    }

    /// Another object at this place.
    pub(crate) fn again(&self) -> Self {
        Self::at(self.schema, self.pointer.clone())
    }

    fn below(&self, step: &str) -> Self {
        Self::at(self.schema, format!("{}/{step}", self.pointer))
    }

    fn at(schema: &'p Schema, pointer: String) -> Self {
        schema.change(&pointer, |object| {
            // Where the author chooses the keys, this is a schema.
            let others = object.entry("additionalProperties");
            others.or_insert(Value::Bool(false));
        });
        Self {
            schema,
            pointer,
            required: Cell::default(),
        }
    }

    pub(crate) fn describe(&self, key: &str, kind: &Kind<'_>) {
        let described = match kind {
            Kind::Any => json!({}),
            Kind::Text => json!({"type": "string", "minLength": 1}),
            Kind::Choice(names) => json!({"enum": names}),
            Kind::Flag => json!({"type": "boolean"}),
            Kind::FlagOr(word) => json!({"enum": [true, false, word]}),
            Kind::Number(range) => {
                json!({"type": "integer", "minimum": range.start(), "maximum": range.end()})
            }
            Kind::Texts => json!({"type": "array", "items": {"type": "string"}}),
            Kind::Section => json!({"type": "object"}),
            Kind::Sections => json!({"type": "array"}),
            Kind::RequiredSections => json!({"type": "array", "minItems": 1}),
        };
        let pointer = format!("{}/properties/{key}", self.pointer);
        self.schema.change(&pointer, |value| {
            for (name, member) in described.as_object().into_iter().flatten() {
                value.entry(name).or_insert_with(|| member.clone());
            }
        });
    }

    /// The author chooses the keys of this section.
    pub(crate) fn open(&self) {
        let pointer = format!("{}/additionalProperties", self.pointer);
        self.schema.change(&pointer, |_| {});
    }

    pub(crate) fn require(&self, key: &str) {
        let mut required = self.required.take();
        required.push(key.to_owned());
        self.required.set(required);
    }

    /// A key is required if every section at this place requires the key.
    pub(crate) fn finish(&self) {
        let required = self.required.take();
        self.schema
            .change(&self.pointer, |object| match object.get_mut("required") {
                Some(Value::Array(known)) => {
                    known.retain(|key| required.iter().any(|required| key == required));
                }
                _ => drop(object.insert("required".to_owned(), json!(required))),
            });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Problems, Section, Table};

    /// What a reader asks for becomes a schema. A key is required where every section requires the key.
    #[test]
    fn a_reader_describes_itself() {
        let problems = Problems::with_schema();
        for sample in [
            json!({"name": "a", "size": 3, "lists": [{"of": "one"}, {}], "free": {"x": {"y": true}}}),
            json!({"name": "b", "kind": "one", "lists": [{"of": "two", "flag": true}]}),
        ] {
            let Value::Object(members) = sample else {
                panic!("not an object");
            };
            let mut root = Section::root(Table::from_strict_json(members), &problems);
            root.required_text("name");
            root.number("size", 1..=9);
            root.choice("kind", &["one", "other"]);
            for mut list in root.sections("lists") {
                if list.has("of") {
                    list.required("of");
                }
                list.text("of");
                list.flag("flag");
                list.finish();
            }
            root.optional("free", |free| {
                while let Some((name, Value::Object(members))) = free.take_any() {
                    let mut inner = free.within(&name, members);
                    inner.flag("y");
                    inner.finish();
                }
                Some(())
            });
            root.finish();
        }
        let expected = json!({
            "additionalProperties": false,
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "minLength": 1},
                "size": {"type": "integer", "minimum": 1, "maximum": 9},
                "kind": {"enum": ["one", "other"], "type": "string", "minLength": 1},
                "lists": {"type": "array", "items": {
                    "type": "object",
                    "additionalProperties": false,
                    "required": [],
                    "properties": {
                        "of": {"type": "string", "minLength": 1},
                        "flag": {"type": "boolean"},
                    },
                }},
                "free": {
                    "type": "object",
                    "required": [],
                    "additionalProperties": {
                        "additionalProperties": false,
                        "required": [],
                        "properties": {"y": {"type": "boolean"}},
                    },
                },
            },
        });
        assert_eq!(problems.schema(), expected);
        assert!(problems.is_empty());
    }
}
