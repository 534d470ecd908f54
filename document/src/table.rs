use serde_json::{Map, Value};

#[cfg(feature = "toml")]
use crate::lines::Lines;
use crate::place::Place;

/// The values of a document and their places. There is no `Debug`, because values may be secrets.
pub struct Table {
    pub(crate) members: Map<String, Value>,
    pub(crate) places: Places,
}

/// The places of the values of a document.
#[derive(Clone, Default)]
pub(crate) struct Places {
    /// Places in a file or in environment variables.
    #[cfg(feature = "toml")]
    pub(crate) lines: std::rc::Rc<Lines>,
}

impl Places {
    /// The place of the value at `path`, or else of the innermost table or list that contains it and exists.
    pub(crate) fn of(&self, path: &str) -> Place {
        #[cfg(feature = "toml")]
        if let Some(place) = self.lines.around(path) {
            return place.clone();
        }
        Place::Json(path.to_owned())
    }
}

impl Table {
    /// Takes a JSON object in which `null` is a value, of the wrong type for every key.
    pub fn from_strict_json(members: Map<String, Value>) -> Self {
        Self {
            members,
            places: Places::default(),
        }
    }

    /// Takes a JSON object in which `null` stands for an absent member.
    pub fn from_json(mut members: Map<String, Value>) -> Self {
        remove_nulls(&mut members);
        Self::from_strict_json(members)
    }
}

fn remove_nulls(members: &mut Map<String, Value>) {
    members.retain(|_, value| !value.is_null());
    members.values_mut().for_each(remove_nulls_below);
}

fn remove_nulls_below(value: &mut Value) {
    match value {
        Value::Object(members) => remove_nulls(members),
        Value::Array(values) => values.iter_mut().for_each(remove_nulls_below),
        _ => {}
    }
}
