//! Headers that carry claims to the resource server. Clients cannot set these headers.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardedHeader {
    /// Name in lower case.
    pub name: String,
    /// Names of claims. The header carries the first claim that the token has.
    pub claims: Vec<String>,
    pub lists: ListForm,
}

/// The form of a list in a header value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListForm {
    /// The elements, joined by commas. Commas within an element are percent-encoded. Elements that are lists or
    /// objects are written as JSON.
    Comma,
    /// As `Comma`, but with spaces: the form of `scope` (RFC 6749 §3.3).
    Space,
    Json,
}

impl ListForm {
    const fn separator(self) -> Option<char> {
        match self {
            Self::Comma => Some(','),
            Self::Space => Some(' '),
            Self::Json => None,
        }
    }
}

/// Name and value.
pub type Header = (String, String);

/// Returns the headers that carry these claims, and `payload` with all claims. An absent, null or empty claim has no header:
/// some gateways add no header without a value.
pub fn headers(
    forward: &[ForwardedHeader],
    payload: Option<&str>,
    claims: &Map<String, Value>,
) -> Vec<Header> {
    let claim_headers = forward.iter().filter_map(|header| {
        let value = first_present(&header.claims, claims)?;
        let text = text(value, header.lists)?;
        (!text.is_empty()).then(|| (header.name.clone(), text))
    });
    let payload = payload.into_iter().filter_map(|name| {
        let json = serde_json::to_vec(claims).ok()?;
        Some((name.to_owned(), URL_SAFE_NO_PAD.encode(json)))
    });
    claim_headers.chain(payload).collect()
}

/// Returns the value of the first claim of `names` that is not null.
fn first_present<'a>(names: &[String], claims: &'a Map<String, Value>) -> Option<&'a Value> {
    let mut values = names.iter().filter_map(|name| claims.get(name));
    values.find(|value| !value.is_null())
}

fn text(value: &Value, lists: ListForm) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(encode(text, None)),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Array(members) => Some(match lists.separator() {
            Some(separator) => {
                let members = members.iter().map(|member| match member {
                    Value::String(text) => encode(text, Some(separator)),
                    other => encode(&other.to_string(), Some(separator)),
                });
                let members: Vec<String> = members.collect();
                members.join(separator.encode_utf8(&mut [0; 4]))
            }
            None => ascii_json(value),
        }),
        Value::Object(_) => Some(ascii_json(value)),
    }
}

/// Encodes a text as a header value. Percent-encodes percent signs, bytes that are not printable ASCII, and
/// spaces at both ends, and the separator of a list. Any URL decoder restores the claim, and no claim can inject a header.
fn encode(text: &str, separator: Option<char>) -> String {
    let from_first = text.trim_start_matches(' ');
    let inner = from_first.trim_end_matches(' ');
    let leading = text.len() - from_first.len();
    let trailing = from_first.len() - inner.len();
    let mut encoded = "%20".repeat(leading);
    for byte in inner.bytes() {
        match byte {
            b'%' => encoded.push_str("%25"),
            0x20..=0x7e if Some(char::from(byte)) != separator => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded.push_str(&"%20".repeat(trailing));
    encoded
}

/// JSON in ASCII: other characters become `\u` escapes (RFC 8259 §7). Control characters are already escaped.
pub(crate) fn ascii_json(value: &Value) -> String {
    let json = value.to_string();
    let mut ascii = String::with_capacity(json.len());
    for character in json.chars() {
        if matches!(character, ' '..='~') {
            ascii.push(character);
        } else {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                ascii.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    ascii
}

/// The headers that are removed from every request first. A client that could set one of them could act as any
/// user (RFC 9700 §4.13).
#[derive(Debug, Default, Clone)]
pub struct Stripped(Vec<String>);

impl Stripped {
    /// The headers of claims and of the payload.
    pub fn new(forward: &[ForwardedHeader], payload: Option<&str>) -> Self {
        let names = forward.iter().map(|header| header.name.as_str());
        Self(names.chain(payload).map(str::to_owned).collect())
    }

    /// True if a request header is one of them, in any spelling.
    pub fn has(&self, name: &[u8]) -> bool {
        self.0.iter().any(|ours| is_spelling(ours, name))
    }

    /// The header that `name`, in lower case, spells in another way.
    pub fn respelled(&self, name: &str) -> Option<&str> {
        let mut ours = self.0.iter().map(String::as_str);
        ours.find(|ours| *ours != name && is_spelling(ours, name.as_bytes()))
    }
}

/// True if `name` is the header `ours`, in any case, and with `_`, `.` or another sign in place of `-`, because servers map
/// all these names to the same variable. `ours` is in lower case.
pub fn is_spelling(ours: &str, name: &[u8]) -> bool {
    let same = |ours: u8, theirs: u8| match theirs {
        theirs if theirs.is_ascii_alphanumeric() => theirs.to_ascii_lowercase() == ours,
        _ => ours == b'-',
    };
    let mut pairs = ours.bytes().zip(name);
    ours.len() == name.len() && pairs.all(|(ours, theirs)| same(ours, *theirs))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_of_every_type_have_a_form() {
        for (value, lists, expected) in [
            (json!("alovelace"), ListForm::Comma, Some("alovelace")),
            (json!(""), ListForm::Comma, Some("")),
            (json!(17), ListForm::Comma, Some("17")),
            (json!(-1.5), ListForm::Comma, Some("-1.5")),
            (json!(true), ListForm::Comma, Some("true")),
            (json!(null), ListForm::Comma, None),
            (json!(["a", "b,c", 1]), ListForm::Comma, Some("a,b%2Cc,1")),
            (json!([]), ListForm::Comma, Some("")),
            (
                json!(["a", "b,c d", 1]),
                ListForm::Space,
                Some("a b,c%20d 1"),
            ),
            (json!("a b"), ListForm::Space, Some("a b")),
            (json!({"k": 1}), ListForm::Space, Some("{\"k\":1}")),
            (
                json!(["a", "é"]),
                ListForm::Json,
                Some("[\"a\",\"\\u00e9\"]"),
            ),
            (
                json!({"k": "😀"}),
                ListForm::Comma,
                Some("{\"k\":\"\\ud83d\\ude00\"}"),
            ),
        ] {
            assert_eq!(text(&value, lists).as_deref(), expected, "{value}");
        }
    }

    /// Tokens of two kinds contain the user in different claims, and the resource server expects one header.
    #[test]
    fn the_first_present_claim_is_forwarded() {
        let names = ["user_id".to_owned(), "sub".to_owned()];
        for (claims, expected) in [
            (json!({"sub": "ada", "user_id": "7"}), Some("7")),
            (json!({"sub": "7"}), Some("7")),
            (json!({"sub": "7", "user_id": null}), Some("7")),
            (json!({"sub": "7", "user_id": ""}), Some("")),
            (json!({"iss": "x"}), None),
        ] {
            let object = claims.as_object().unwrap();
            let value = first_present(&names, object).and_then(Value::as_str);
            assert_eq!(value, expected, "{claims}");
        }
    }

    #[test]
    fn nothing_can_be_injected() {
        for (value, expected) in [
            ("a\r\nx-user-id: 1", "a%0D%0Ax-user-id: 1"),
            ("a\0b", "a%00b"),
            ("50% off", "50%25 off"),
            (" a ", "%20a%20"),
            ("   ", "%20%20%20"),
            ("Zoë", "Zo%C3%AB"),
            ("\u{7f}", "%7F"),
        ] {
            assert_eq!(encode(value, None), expected);
        }
    }

    #[test]
    fn rfc9700_s4_13_every_spelling_of_our_headers_is_stripped() {
        let stripped = Stripped(vec!["x-user-id".into(), "x-scope".into()]);
        for name in [
            "x-user-id",
            "X-User-Id",
            "x_user_id",
            "X_USER-ID",
            "x-user_id",
            "x_scope",
        ] {
            assert!(stripped.has(name.as_bytes()), "{name}");
        }
        // Every sign of a header name (RFC 9110 §5.6.2), because some servers make a variable of it.
        for sign in "!#$%&'*+-.^_`|~".chars() {
            let name = format!("X{sign}User{sign}Id");
            assert!(stripped.has(name.as_bytes()), "{name}");
        }
        for name in ["x-user-ids", "x-user", "xuserid", "x-user-1d", ""] {
            assert!(!stripped.has(name.as_bytes()), "{name}");
        }
    }
}
