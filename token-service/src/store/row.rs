//! How rows are written, in every store.
//!
//! Rows that requests write are compact (postcard); registry rows and signing keys are JSON, because their types are
//! tagged and because an operator may have to read them.

use std::sync::LazyLock;

use prometheus_client::metrics::counter::Counter;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

/// A row that is not what this version writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a row of the store cannot be read: {0}")]
pub(super) struct RowError(pub(super) String);

static UNREADABLE: LazyLock<Counter> = LazyLock::new(Counter::default);

/// Times that a row was passed over because it cannot be read.
pub(super) fn unreadable_rows() -> Counter {
    UNREADABLE.clone()
}

/// Notes that a row was passed over: one that cannot be read stops nothing else.
pub(super) fn pass_over(what: &'static str, reason: &str) {
    UNREADABLE.inc();
    tracing::error!(
        what,
        reason,
        "a row of the store cannot be read and is passed over"
    );
}

/// A compact row.
pub(super) fn encode(row: &impl Serialize) -> Result<Vec<u8>, RowError> {
    postcard::to_stdvec(row).map_err(|error| RowError(error.to_string()))
}

/// Reads a compact row.
pub(super) fn decode<T: DeserializeOwned>(row: &[u8]) -> Result<T, RowError> {
    postcard::from_bytes(row).map_err(|error| RowError(error.to_string()))
}

/// Reads a field that was added at the end of a compact row: rows from before end where it begins, and have its default.
/// Earlier versions of the program read the row without it.
///
/// # Errors
/// None.
pub(super) fn added<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    Ok(T::deserialize(deserializer).unwrap_or_default())
}

/// A readable row.
pub(super) fn encode_json(row: &impl Serialize) -> Result<Vec<u8>, RowError> {
    serde_json::to_vec(row).map_err(|error| RowError(error.to_string()))
}

/// Reads a readable row.
pub(super) fn decode_json<T: DeserializeOwned>(row: &[u8]) -> Result<T, RowError> {
    serde_json::from_slice(row).map_err(|error| RowError(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Before {
        name: String,
        at: u64,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Now {
        name: String,
        at: u64,
        #[serde(deserialize_with = "added")]
        version: u64,
        #[serde(deserialize_with = "added")]
        names: Vec<String>,
    }

    #[test]
    fn rows_from_before_a_field_was_added_are_read_and_earlier_programs_read_later_rows() {
        let before = Before {
            name: "ada".into(),
            at: 300,
        };
        let read: Now = decode(&encode(&before).unwrap()).unwrap();
        let mut now = Now {
            name: "ada".into(),
            at: 300,
            version: 0,
            names: vec![],
        };
        assert_eq!(read, now);
        now.version = 70_000;
        now.names = vec!["a".into(), "b".into()];
        let row = encode(&now).unwrap();
        assert_eq!(decode::<Now>(&row).unwrap(), now);
        assert_eq!(decode::<Before>(&row).unwrap(), before);
        assert!(decode::<Now>(&row[..3]).is_err(), "a torn row");
    }

    /// Before credentials had a version, these rows ended one byte earlier.
    #[test]
    fn rows_from_before_credentials_had_a_version_are_read() {
        use crate::store::conformance::{at, code, session};
        use crate::store::{CodeRecord, Grant, GrantId, RefreshStep, Session, TokenId};
        fn earlier<T: Serialize + DeserializeOwned>(row: &T) -> T {
            let row = encode(row).unwrap();
            decode(row.strip_suffix(&[0]).unwrap()).unwrap()
        }
        assert_eq!(earlier::<CodeRecord>(&code()), code());
        let session = session("ada", at(100));
        assert_eq!(earlier::<Session>(&session), session);
        let first = RefreshStep {
            refresh_id: TokenId::from_bytes([1; 16]),
            access_id: TokenId::from_bytes([2; 16]),
            scope: crate::registry::Scope::default(),
            issued_at: at(0),
            refresh_expires_at: at(1),
        };
        let grant = Grant::from_code(code(), GrantId::from_bytes([3; 16]), first);
        assert_eq!(earlier::<Grant>(&grant), grant);
    }
}
