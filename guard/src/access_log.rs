//! The data for the gateway's access log: one small JSON object, in one property.

use serde_json::{Map, Value};

use crate::forward::ascii_json;
use crate::verify::TokenReference;

/// Name of the property. Envoy stores it as the filter state `wasm.token_filter`.
pub const PROPERTY: &str = "token_filter";

/// Outcome of a request that passed with its token.
pub const ALLOWED: &str = "allowed";
/// Outcome of a request to a path that needs no token.
pub const ANONYMOUS: &str = "anonymous";
/// Outcome of a request for the metadata, which the filter answers itself.
pub const METADATA: &str = "metadata";

/// The object, in printable ASCII: `outcome` (one of the above, or the name of a denial), and `client_id`,
/// `sub`, `jti` and `grant_id` of a verified token, as far as the token has them.
pub fn entry(outcome: &str, token: Option<&TokenReference>) -> String {
    let mut entry = Map::new();
    let mut put = |name: &str, value: &str| {
        entry.insert(name.to_owned(), Value::String(value.to_owned()));
    };
    put("outcome", outcome);
    if let Some(token) = token {
        for (name, value) in [
            ("client_id", &token.client_id),
            ("sub", &token.sub),
            ("jti", &token.jti),
            ("grant_id", &token.grant_id),
        ] {
            if let Some(value) = value {
                put(name, value);
            }
        }
    }
    ascii_json(&Value::Object(entry))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_cannot_start_a_line_of_its_own() {
        let token = TokenReference {
            jti: Some("1".to_owned()),
            client_id: Some("web\r\n\"x\u{2028}".to_owned()),
            sub: Some("Zo\u{eb}".to_owned()),
            ..TokenReference::default()
        };
        let entry = entry("scope", Some(&token));
        assert!(entry.bytes().all(|byte| matches!(byte, b' '..=b'~')));
        let read: Value = serde_json::from_str(&entry).unwrap();
        let expected =
            json!({"outcome": "scope", "client_id": token.client_id, "sub": token.sub, "jti": "1"});
        assert_eq!(read, expected);
    }

    #[test]
    fn without_a_verified_token_only_the_outcome_is_told() {
        assert_eq!(entry(ANONYMOUS, None), r#"{"outcome":"anonymous"}"#);
    }
}
