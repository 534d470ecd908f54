//! The format of rows, in every store.
//!
//! Rows that requests write are compact (postcard) and start with the version of their layout. Registry rows and
//! signing keys are JSON, because their types are tagged and operators may have to read them.

use std::sync::LazyLock;

use domain::authorization_code::UsedCode;
use domain::ended_by::Before;
use domain::{
    AuditEvent, AuditRecord, CodeRecord, Failures, Grant, Revocation, SecondFactor, Session,
    UnfinishedSignIns,
};
use prometheus_client::metrics::counter::Counter;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A row that this version does not write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a row of the store cannot be read: {0}")]
pub(crate) struct RowError(pub(crate) String);

static UNREADABLE: LazyLock<Counter> = LazyLock::new(Counter::default);

/// Counts how often a row was skipped because it cannot be read.
pub(crate) fn unreadable_rows() -> Counter {
    UNREADABLE.clone()
}

/// Logs and counts that a row was skipped. An unreadable row does not affect other rows.
pub(crate) fn pass_over(what: &'static str, reason: &str) {
    UNREADABLE.inc();
    tracing::error!(
        what,
        reason,
        "a row of the store cannot be read and is passed over"
    );
}

pub(crate) trait Row: Serialize + DeserializeOwned {
    /// The version of the layout: the first byte of the row. Raise it when the layout changes, add a reader for the
    /// previous layout, and raise the schema version of each store, so that no program meets rows with an unknown layout.
    const VERSION: u8;
}

macro_rules! rows {
    ($($row:ty: $version:literal,)*) => {
        $(impl Row for $row {
            const VERSION: u8 = $version;
        })*
    };
}

rows! {
    AuditEvent: 1,
    AuditRecord: 1,
    CodeRecord: 1,
    Failures: 1,
    Grant: 1,
    Revocation: 1,
    SecondFactor: 1,
    Session: 1,
    UnfinishedSignIns: 1,
    UsedCode: 1,
}

pub(crate) fn encode<T: Row>(row: &T) -> Result<Vec<u8>, RowError> {
    versioned::<T>(row)
}

/// Encodes several entries, in the form of `T`, in one compact row.
pub(crate) fn encode_all<T: Row>(rows: &[impl Serialize]) -> Result<Vec<u8>, RowError> {
    versioned::<T>(&rows)
}

fn versioned<T: Row>(row: &impl Serialize) -> Result<Vec<u8>, RowError> {
    postcard::to_extend(row, vec![T::VERSION]).map_err(|error| RowError(error.to_string()))
}

pub(crate) fn decode<T: Row>(row: &[u8]) -> Result<T, RowError> {
    decode_bare(without_version::<T>(row)?)
}

pub(crate) fn decode_all<T: Row>(row: &[u8]) -> Result<Vec<T>, RowError> {
    decode_bare(without_version::<T>(row)?)
}

fn without_version<T: Row>(row: &[u8]) -> Result<&[u8], RowError> {
    match row {
        [version, bare @ ..] if *version == T::VERSION => Ok(bare),
        _ => Err(RowError(format!(
            "its layout has version {}, and this program knows {}",
            row.first().copied().unwrap_or_default(),
            T::VERSION
        ))),
    }
}

/// Encodes a value without a version: the key of a row.
pub(crate) fn encode_bare(value: &impl Serialize) -> Result<Vec<u8>, RowError> {
    postcard::to_stdvec(value).map_err(|error| RowError(error.to_string()))
}

pub(crate) fn decode_bare<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, RowError> {
    postcard::from_bytes(bytes).map_err(|error| RowError(error.to_string()))
}

pub(crate) fn encode_json(row: &impl Serialize) -> Result<Vec<u8>, RowError> {
    serde_json::to_vec(row).map_err(|error| RowError(error.to_string()))
}

pub(crate) fn decode_json<T: DeserializeOwned>(row: &[u8]) -> Result<T, RowError> {
    serde_json::from_slice(row).map_err(|error| RowError(error.to_string()))
}

/// Reads the JSON row of a client or user before a change; `None` if the store has no such row.
pub(crate) fn before<T: DeserializeOwned>(what: &'static str, row: Option<&[u8]>) -> Before<T> {
    match row.map(decode_json) {
        None => Before::Absent,
        Some(Ok(row)) => Before::Read(row),
        Some(Err(RowError(reason))) => {
            pass_over(what, &reason);
            Before::Unreadable
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row with a later layout is refused, with its version in the message.
    #[test]
    fn rows_have_the_version_of_their_layout() {
        use crate::conformance::{at, session};
        let session = session("ada", at(100));
        let mut row = encode(&session).unwrap();
        assert_eq!(row[0], Session::VERSION);
        assert_eq!(decode::<Session>(&row), Ok(session));
        row[0] += 1;
        let error = decode::<Session>(&row).unwrap_err().to_string();
        assert!(
            error.ends_with("version 2, and this program knows 1"),
            "{error}"
        );
        assert!(decode::<Session>(&[]).is_err());
    }
}
