//! The format of rows, in every store.
//!
//! Rows that requests write are compact (postcard) and start with the version of their layout. Registry rows and
//! signing keys are JSON, because their types are tagged and operators may have to read them.
//!
//! A later version of a compact row has one more field, at its end, which is an `Option`. A row is written in the earliest
//! version that can contain it, so that earlier releases read every row without the new fields. [`domain::Layout`] says
//! when new fields may be used.

use std::sync::LazyLock;

use domain::authorization_code::UsedCode;
use domain::{
    AuditEvent, AuditRecord, CodeRecord, Failures, Grant, Notice, Revocation, SecondFactor,
    SelfContainedCode, Session, UnfinishedSignIns,
};
use prometheus_client::metrics::counter::Counter;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A row that this version does not write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a row of the store cannot be read: {0}")]
pub struct RowError(pub(crate) String);

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
        "a row of the store cannot be read and is skipped"
    );
}

pub trait Row: Serialize + DeserializeOwned {
    /// The latest version of the row. Each version after the first has one more field than the version before.
    const VERSION: u8;

    /// The earliest version that can contain this row: the first byte of the row.
    fn version(&self) -> u8 {
        Self::VERSION
    }
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
    Notice: 1,
    Revocation: 1,
    SecondFactor: 1,
    // Not a row, but the content of a code, which has the same form.
    SelfContainedCode: 1,
    Session: 1,
    UnfinishedSignIns: 1,
    UsedCode: 1,
}

/// A field that is `None`, as postcard writes it.
const ABSENT: u8 = 0;

/// # Errors
/// [`RowError`] if [`Row::version`] is too low for this row.
pub fn encode<T: Row>(row: &T) -> Result<Vec<u8>, RowError> {
    let mut bytes = versioned(row.version(), row)?;
    for _ in row.version()..T::VERSION {
        if bytes.pop() != Some(ABSENT) {
            let version = row.version();
            return Err(RowError(format!("version {version} cannot contain it")));
        }
    }
    Ok(bytes)
}

/// Encodes several entries, in the form of `T`, in one compact row.
pub(crate) fn encode_all<T: Row>(rows: &[impl Serialize]) -> Result<Vec<u8>, RowError> {
    versioned(T::VERSION, &rows)
}

fn versioned(version: u8, row: &impl Serialize) -> Result<Vec<u8>, RowError> {
    postcard::to_extend(row, vec![version]).map_err(|error| RowError(error.to_string()))
}

/// # Errors
/// [`RowError`] if the row has a later version than [`Row::VERSION`], or is damaged.
pub fn decode<T: Row>(row: &[u8]) -> Result<T, RowError> {
    match row {
        [version, bare @ ..] if *version == T::VERSION => decode_bare(bare),
        [version, bare @ ..] if (1..T::VERSION).contains(version) => {
            let absent = usize::from(T::VERSION - version);
            decode_bare(&[bare, &vec![ABSENT; absent]].concat())
        }
        _ => Err(unknown::<T>(row)),
    }
}

/// Reads what [`encode_all`] wrote. Such rows have only the latest version.
pub(crate) fn decode_all<T: Row>(row: &[u8]) -> Result<Vec<T>, RowError> {
    match row {
        [version, bare @ ..] if *version == T::VERSION => decode_bare(bare),
        _ => Err(unknown::<T>(row)),
    }
}

fn unknown<T: Row>(row: &[u8]) -> RowError {
    RowError(format!(
        "its layout has version {}, and this program knows {}",
        row.first().copied().unwrap_or_default(),
        T::VERSION
    ))
}

fn decode_bare<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, RowError> {
    postcard::from_bytes(bytes).map_err(|error| RowError(error.to_string()))
}

pub(crate) fn encode_json(row: &impl Serialize) -> Result<Vec<u8>, RowError> {
    serde_json::to_vec(row).map_err(|error| RowError(error.to_string()))
}

pub(crate) fn decode_json<T: DeserializeOwned>(row: &[u8]) -> Result<T, RowError> {
    serde_json::from_slice(row).map_err(|error| RowError(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{at, audit_event, code, notice, of_key, owed, second_factor, session};
    use claims::Thumbprint;
    use domain::Revoked;
    use domain::digest::Digest;

    /// A row with a later layout is refused, with its version in the message.
    #[test]
    fn rows_have_the_version_of_their_layout() {
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

    /// An example: a version adds a field, and the version before reads every row without the field.
    #[test]
    fn a_later_version_has_one_more_field() {
        #[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
        struct Earlier {
            name: String,
        }
        impl Row for Earlier {
            const VERSION: u8 = 1;
        }
        #[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
        struct Later {
            name: String,
            added: Option<u8>,
        }
        impl Row for Later {
            const VERSION: u8 = 2;

            fn version(&self) -> u8 {
                if self.added.is_some() { 2 } else { 1 }
            }
        }
        let name = || "ada".to_owned();
        let earlier = encode(&Earlier { name: name() }).unwrap();
        let later = |added| Later {
            name: name(),
            added,
        };
        assert_eq!(encode(&later(None)), Ok(earlier.clone()));
        assert_eq!(decode(&earlier), Ok(later(None)));
        let row = encode(&later(Some(7))).unwrap();
        assert_eq!(decode(&row), Ok(later(Some(7))));
        // The earlier version refuses the row, instead of losing the field.
        let error = decode::<Earlier>(&row).unwrap_err().to_string();
        assert!(
            error.ends_with("version 2, and this program knows 1"),
            "{error}"
        );
    }

    /// Every version from 0.3.0 on reads these rows, and writes them as long as nothing newer is in use.
    #[test]
    fn the_rows_of_the_first_layout_are_known() {
        fn known<T: Row + PartialEq + std::fmt::Debug>(name: &str, row: &T) -> String {
            let bytes = encode(row).unwrap();
            assert_eq!(decode::<T>(&bytes).as_ref(), Ok(row));
            format!("{name} {}\n", data_encoding::HEXLOWER.encode(&bytes))
        }
        let grant = Grant {
            code_expires_at: at(60),
            bound: of_key(Some(Thumbprint::from_bytes([9; 32]))),
            ..domain::testing::grant("projects", at(0), at(100))
        };
        let grant_id = grant.grant_id;
        let event = audit_event(1);
        let owed = owed("192.0.2.0/24", at(1));
        let sign_ins = UnfinishedSignIns::default().with(Digest::of(b"session"), &owed, None);
        let rows = [
            known("AuditEvent", &event),
            known("AuditRecord", &AuditRecord { sequence: 1, event }),
            known("CodeRecord", &code()),
            known(
                "Failures",
                &Failures {
                    count: 3,
                    last_at: at(1),
                    expires_at: at(2),
                },
            ),
            known("Grant", &grant),
            known("Notice", &notice("ada", 1)),
            known(
                "Revocation",
                &Revocation {
                    sequence: 7,
                    revoked: Revoked::Grant(grant_id),
                    at: at(1),
                    expires_at: at(2),
                },
            ),
            known("SecondFactor", &second_factor(&["a"])),
            known(
                "SelfContainedCode",
                &SelfContainedCode {
                    grant_id,
                    record: code(),
                    dpop_jkt: grant.bound.jkt,
                },
            ),
            known("Session", &owed),
            known("UnfinishedSignIns", &sign_ins),
            known("UsedCode", &UsedCode::of(&code(), grant_id)),
        ];
        assert_eq!(rows.concat(), include_str!("layout-1.txt"));
    }

    /// An example of the mistake that `encode` finds: `version` ignores a field.
    #[test]
    fn no_field_is_cut_off() {
        #[derive(Debug, Serialize, serde::Deserialize)]
        struct Careless {
            added: Option<u8>,
        }
        impl Row for Careless {
            const VERSION: u8 = 2;

            fn version(&self) -> u8 {
                1
            }
        }
        assert_eq!(encode(&Careless { added: None }), Ok(vec![1]));
        assert!(encode(&Careless { added: Some(3) }).is_err());
    }
}
