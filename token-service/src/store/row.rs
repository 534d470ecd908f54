//! How rows are written, in every store.
//!
//! Rows that requests write are compact (postcard); registry rows and signing keys are JSON, because their types are
//! tagged and because an operator may have to read them.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A row that is not what this version writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a row of the store cannot be read: {0}")]
pub(super) struct RowError(pub(super) String);

/// A compact row.
pub(super) fn encode(row: &impl Serialize) -> Result<Vec<u8>, RowError> {
    postcard::to_stdvec(row).map_err(|error| RowError(error.to_string()))
}

/// Reads a compact row.
pub(super) fn decode<T: DeserializeOwned>(row: &[u8]) -> Result<T, RowError> {
    postcard::from_bytes(row).map_err(|error| RowError(error.to_string()))
}

/// A readable row.
pub(super) fn encode_json(row: &impl Serialize) -> Result<Vec<u8>, RowError> {
    serde_json::to_vec(row).map_err(|error| RowError(error.to_string()))
}

/// Reads a readable row.
pub(super) fn decode_json<T: DeserializeOwned>(row: &[u8]) -> Result<T, RowError> {
    serde_json::from_slice(row).map_err(|error| RowError(error.to_string()))
}
