//! Strict JSON objects: duplicate member names are an error, at every depth.
//!
//! RFC 7519 §4 lets a parser reject duplicate claim names or keep the last one. Two parsers that choose
//! differently read two different tokens. This parser rejects duplicate names (RFC 8725 §2.4).

use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Why a text is not a strict JSON object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The text is not JSON, or is JSON but not an object.
    #[error("not a JSON object")]
    NotAnObject,
    #[error("the member {0:?} occurs twice")]
    Duplicate(String),
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

/// How deep objects and arrays may be nested; the object itself is the first level.
pub const MAX_DEPTH: usize = 64;

/// Parses a JSON object in UTF-8.
///
/// # Errors
/// [`JsonError::Duplicate`] with the repeated name, [`JsonError::TooDeep`] beyond [`MAX_DEPTH`], and
/// [`JsonError::NotAnObject`] in all other cases.
pub fn parse_object(text: &[u8]) -> Result<Map<String, Value>, JsonError> {
    let text = str::from_utf8(text).map_err(|_| JsonError::NotAnObject)?;
    let mut fault = None;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let parsed = StrictValue {
        fault: &mut fault,
        levels_left: MAX_DEPTH,
    }
    .deserialize(&mut deserializer)
    .and_then(|value| deserializer.end().map(|()| value));
    match (parsed, fault) {
        (_, Some(fault)) => Err(fault),
        (Ok(Value::Object(object)), None) => Ok(object),
        _ => Err(JsonError::NotAnObject),
    }
}

/// Editors of Windows begin a text with this character, and so do some servers.
pub const BYTE_ORDER_MARK: &str = "\u{feff}";

/// True if the text is in UTF-16, as `>` of Windows PowerShell writes it.
pub fn is_utf_16(text: &[u8]) -> bool {
    text.starts_with(&[0xff, 0xfe]) || text.starts_with(&[0xfe, 0xff])
}

/// The text without a byte order mark at its start.
pub fn unmarked(text: &[u8]) -> &[u8] {
    text.strip_prefix(BYTE_ORDER_MARK.as_bytes())
        .unwrap_or(text)
}

/// [`parse_object`] for a file: a byte order mark before it is ignored (RFC 8259 §8.1).
///
/// # Errors
/// As for [`parse_object`].
pub fn parse_file(text: &[u8]) -> Result<Map<String, Value>, JsonError> {
    parse_object(unmarked(text))
}

/// Builds a [`Value`]. Stops at the first repeated name or at a level too deep, and stores the reason in
/// `fault`.
struct StrictValue<'a> {
    fault: &'a mut Option<JsonError>,
    levels_left: usize,
}

impl StrictValue<'_> {
    /// Returns the number of levels left for the members of an object or array.
    fn descend<E: de::Error>(&mut self) -> Result<usize, E> {
        self.levels_left.checked_sub(1).ok_or_else(|| {
            *self.fault = Some(JsonError::TooDeep);
            E::custom("nested too deeply")
        })
    }
}

impl<'de> DeserializeSeed<'de> for StrictValue<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictValue<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut sequence: A) -> Result<Value, A::Error> {
        let levels_left = self.descend()?;
        let mut values = Vec::new();
        while let Some(value) = sequence.next_element_seed(StrictValue {
            fault: &mut *self.fault,
            levels_left,
        })? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Value, A::Error> {
        let levels_left = self.descend()?;
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if object.contains_key(&name) {
                *self.fault = Some(JsonError::Duplicate(name));
                return Err(de::Error::custom("duplicate member"));
            }
            let value = members.next_value_seed(StrictValue {
                fault: &mut *self.fault,
                levels_left,
            })?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

/// Reads a claim's value as seconds since 1970 (NumericDate, RFC 7519). A fraction is cut off.
///
/// `None` for strings, negative numbers and numbers beyond `u64`. Callers must refuse such a token, and not
/// treat the claim as absent (RFC 8725 §3.4).
pub fn numeric_date(value: &Value) -> Option<u64> {
    let number = value.as_number()?;
    if let Some(seconds) = number.as_u64() {
        return Some(seconds);
    }
    let seconds = number.as_f64()?;
    // Up to 2^53, each second has its own `f64`.
    (0.0..9_007_199_254_740_992.0)
        .contains(&seconds)
        .then_some(seconds as u64)
}

/// A member of the object. `null` counts as absent, because some libraries write unset members as `null` (D-10).
pub fn present<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    object.get(name).filter(|value| !value.is_null())
}

/// Deserializes one claim as `T`.
///
/// # Errors
/// [`ClaimError::Missing`] if the object has no such member, [`ClaimError::WrongType`] if the member is not a
/// `T`.
pub fn claim<'de, T: Deserialize<'de>>(
    object: &'de Map<String, Value>,
    name: &'static str,
) -> Result<T, ClaimError> {
    let value = object.get(name).ok_or(ClaimError::Missing(name))?;
    T::deserialize(value).map_err(|_| ClaimError::WrongType(name))
}

/// Why a claim could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("{0} has the wrong type")]
    WrongType(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_refused_at_every_depth() {
        assert_eq!(
            parse_object(br#"{"a":1,"a":2}"#),
            Err(JsonError::Duplicate("a".into()))
        );
        assert_eq!(
            parse_object(br#"{"x":[{"b":1,"b":1}]}"#),
            Err(JsonError::Duplicate("b".into()))
        );
        // The escape stands for the same name.
        assert_eq!(
            parse_object(br#"{"a":1,"\u0061":2}"#),
            Err(JsonError::Duplicate("a".into()))
        );
    }

    #[test]
    fn only_one_whole_object_is_accepted() {
        for text in [
            "",
            "[]",
            "1",
            "{}{}",
            "{} x",
            "{\"a\":}",
            "\u{feff}{}",
            "nul",
        ] {
            assert_eq!(
                parse_object(text.as_bytes()),
                Err(JsonError::NotAnObject),
                "{text}"
            );
        }
        assert_eq!(parse_object(b"\xff{}"), Err(JsonError::NotAnObject));
        assert_eq!(parse_object(b" {} ").map(|object| object.len()), Ok(0));
    }

    #[test]
    fn deep_nesting_is_refused_without_a_stack_overflow() {
        let text = format!("{{\"a\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(parse_object(text.as_bytes()), Err(JsonError::TooDeep));
        let nested =
            |levels: usize| format!("{{\"a\":{}1{}}}", "[".repeat(levels), "]".repeat(levels));
        assert!(parse_object(nested(MAX_DEPTH - 1).as_bytes()).is_ok());
        assert_eq!(
            parse_object(nested(MAX_DEPTH).as_bytes()),
            Err(JsonError::TooDeep)
        );
    }

    #[test]
    fn dates_of_the_wrong_type_are_refused() {
        let read = |text: &str| {
            let object = parse_object(format!("{{\"exp\":{text}}}").as_bytes()).unwrap();
            numeric_date(&object["exp"])
        };
        assert_eq!(read("1700000000"), Some(1_700_000_000));
        assert_eq!(read("1700000000.9"), Some(1_700_000_000));
        for wrong in ["\"1700000000\"", "-1", "1e99", "null", "[1]", "true"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
