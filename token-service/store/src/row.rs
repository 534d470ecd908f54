//! How rows are written, in every store.
//!
//! Rows that requests write are compact (postcard), behind the version of their layout; registry rows and signing keys are
//! JSON, because their types are tagged and because an operator may have to read them.

use std::sync::LazyLock;

use domain::authorization_code::UsedCode;
use domain::{AuditEvent, CodeRecord, Failures, Grant, Revocation, SecondFactor, Session};
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

/// What a compact row begins with, before the version of its layout. Rows of before there were versions begin with the
/// length of a text or of bytes, with a count or with a time, none of which is zero.
const VERSIONED: u8 = 0;

/// A kind of compact row.
pub(crate) trait Row: Serialize + DeserializeOwned {
    /// The version of its layout. A layout that changes, other than by a field at the end that rows of before may lack, gets
    /// the next one, and a way to read the one before; with it the schema of each store gets the next version, so that no
    /// program meets rows that it does not know.
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
    CodeRecord: 1,
    Failures: 1,
    Grant: 1,
    Revocation: 1,
    SecondFactor: 1,
    Session: 1,
    UsedCode: 1,
}

/// A compact row.
pub(crate) fn encode<T: Row>(row: &T) -> Result<Vec<u8>, RowError> {
    versioned::<T>(row)
}

/// Several entries in one compact row.
pub(crate) fn encode_all<'a, T: Row + 'a>(
    rows: impl IntoIterator<Item = &'a T>,
) -> Result<Vec<u8>, RowError> {
    versioned::<T>(&rows.into_iter().collect::<Vec<&T>>())
}

fn versioned<T: Row>(row: &impl Serialize) -> Result<Vec<u8>, RowError> {
    postcard::to_extend(row, vec![VERSIONED, T::VERSION])
        .map_err(|error| RowError(error.to_string()))
}

/// Reads a compact row, of this version or of before there were versions.
pub(crate) fn decode<T: Row>(row: &[u8]) -> Result<T, RowError> {
    decode_bare(without_version::<T>(row)?)
}

/// Reads several entries that are in one compact row.
pub(crate) fn decode_all<T: Row>(row: &[u8]) -> Result<Vec<T>, RowError> {
    decode_bare(without_version::<T>(row)?)
}

fn without_version<T: Row>(row: &[u8]) -> Result<&[u8], RowError> {
    match row {
        [VERSIONED, version, bare @ ..] if *version == T::VERSION => Ok(bare),
        [VERSIONED, version, ..] => Err(RowError(format!(
            "its layout has version {version}, and this program knows {}",
            T::VERSION
        ))),
        bare => Ok(bare),
    }
}

/// What is compact and has no version: the key of a row, or a row of before there were versions.
pub(crate) fn encode_bare(value: &impl Serialize) -> Result<Vec<u8>, RowError> {
    postcard::to_stdvec(value).map_err(|error| RowError(error.to_string()))
}

/// Reads what [`encode_bare`] wrote.
pub(crate) fn decode_bare<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, RowError> {
    postcard::from_bytes(bytes).map_err(|error| RowError(error.to_string()))
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

    /// A row of a later layout is not taken for something else, and says what it is.
    #[test]
    fn rows_have_the_version_of_their_layout() {
        use crate::conformance::{at, session};
        let session = session("ada", at(100));
        let mut row = encode(&session).unwrap();
        assert_eq!(row[..2], [VERSIONED, Session::VERSION]);
        assert_eq!(decode::<Session>(&row), Ok(session.clone()));
        assert_eq!(
            decode::<Session>(&encode_bare(&session).unwrap()),
            Ok(session)
        );
        row[1] += 1;
        let error = decode::<Session>(&row).unwrap_err().to_string();
        assert!(
            error.ends_with("version 2, and this program knows 1"),
            "{error}"
        );
        assert!(decode::<Session>(&row[..1]).is_err());
    }

    /// Before credentials had a version, these rows ended one byte earlier.
    #[test]
    fn rows_from_before_credentials_had_a_version_are_read() {
        use crate::conformance::{at, code, session};
        use domain::{GrantId, RefreshStep, TokenId};
        fn earlier<T: Row>(row: &T) -> T {
            let row = encode_bare(row).unwrap();
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
