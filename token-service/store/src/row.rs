//! How rows are written, in every store.
//!
//! Rows that requests write are compact (postcard); registry rows and signing keys are JSON, because their types are
//! tagged and because an operator may have to read them.

use std::sync::LazyLock;

use prometheus_client::metrics::counter::Counter;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A row that is not what this version writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a row of the store cannot be read: {0}")]
pub(crate) struct RowError(pub(crate) String);

static UNREADABLE: LazyLock<Counter> = LazyLock::new(Counter::default);

/// Times that a row was passed over because it cannot be read.
pub(crate) fn unreadable_rows() -> Counter {
    UNREADABLE.clone()
}

/// Notes that a row was passed over: one that cannot be read stops nothing else.
pub(crate) fn pass_over(what: &'static str, reason: &str) {
    UNREADABLE.inc();
    tracing::error!(
        what,
        reason,
        "a row of the store cannot be read and is passed over"
    );
}

/// A compact row.
pub(crate) fn encode(row: &impl Serialize) -> Result<Vec<u8>, RowError> {
    postcard::to_stdvec(row).map_err(|error| RowError(error.to_string()))
}

/// Reads a compact row.
pub(crate) fn decode<T: DeserializeOwned>(row: &[u8]) -> Result<T, RowError> {
    postcard::from_bytes(row).map_err(|error| RowError(error.to_string()))
}

/// A readable row.
pub(crate) fn encode_json(row: &impl Serialize) -> Result<Vec<u8>, RowError> {
    serde_json::to_vec(row).map_err(|error| RowError(error.to_string()))
}

/// Reads a readable row.
pub(crate) fn decode_json<T: DeserializeOwned>(row: &[u8]) -> Result<T, RowError> {
    serde_json::from_slice(row).map_err(|error| RowError(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before credentials had a version, these rows ended one byte earlier.
    #[test]
    fn rows_from_before_credentials_had_a_version_are_read() {
        use crate::conformance::{at, code, session};
        use domain::{CodeRecord, Grant, GrantId, RefreshStep, Session, TokenId};
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
            scope: domain::Scope::default(),
            issued_at: at(0),
            refresh_expires_at: at(1),
        };
        let grant = code().into_grant(GrantId::from_bytes([3; 16]), first);
        assert_eq!(earlier::<Grant>(&grant), grant);
    }
}
