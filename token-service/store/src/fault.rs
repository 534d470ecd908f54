//! Why an operation has no result.

use crate::StoreError;
use crate::row::RowError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The file could not be read or written. The transaction is lost, and the file must be reopened.
    #[error(transparent)]
    Storage(#[from] Box<redb::Error>),
    /// A row is not in a format that this version writes. Only operations on this row fail.
    #[error("a row of the store cannot be read: {0}")]
    Row(String),
    /// The view lacks a row. The operation runs again when the row has been read.
    #[error("an operation asked for a row that was not read")]
    Unread,
}

impl From<RowError> for Fault {
    fn from(error: RowError) -> Self {
        Self::Row(error.0)
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault.to_string())
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        redb::Error::Io(error).into()
    }
}

macro_rules! from_redb {
    ($($error:ty),*) => {
        $(impl From<$error> for Fault {
            fn from(error: $error) -> Self {
                Self::Storage(Box::new(error.into()))
            }
        })*
    };
}

from_redb!(
    redb::Error,
    redb::StorageError,
    redb::TableError,
    redb::TransactionError,
    redb::CommitError
);
