//! What can go wrong with the database.

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

use crate::StoreError;
use crate::row::{self, RowError};

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// No connection was free, or none could be made: nothing was done.
    #[error("no connection to the database: {}", described_pool(.0))]
    NoConnection(#[from] PoolError),
    /// The database refused, or the connection was lost: whether the operation took effect is unknown.
    #[error("{}", described(.0))]
    Database(#[from] tokio_postgres::Error),
    /// One row is not what this version writes.
    #[error(transparent)]
    Row(#[from] RowError),
    /// The server takes no writes.
    #[error("the database is read-only")]
    ReadOnly,
    /// Others changed the same row every time that this operation looked at it.
    #[error("the row changes too often")]
    Contended,
}

/// A row that is read; `None` for one that cannot be read and is passed over.
pub(super) fn readable<T>(what: &'static str, row: Result<T, Fault>) -> Result<Option<T>, Fault> {
    match row {
        Ok(row) => Ok(Some(row)),
        Err(Fault::Row(RowError(reason))) => {
            row::pass_over(what, &reason);
            Ok(None)
        }
        Err(fault) => Err(fault),
    }
}

impl Fault {
    /// Whether the database undid the transaction because of another one, and asks to run it again.
    pub(super) fn asks_again(&self) -> bool {
        matches!(
            self,
            Self::Database(error) if matches!(
                error.code(),
                Some(&SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED)
            )
        )
    }
}

/// The driver's error with its cause: by itself it says "db error". Neither holds parameters of the statement.
fn described(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(cause) => format!("{} ({})", cause.message(), cause.code().code()),
        None => chain(error),
    }
}

fn described_pool(error: &PoolError) -> String {
    match error {
        PoolError::Backend(error) => described(error),
        other => chain(other),
    }
}

/// An error with all of its causes. A cause that its error's text repeats is not said twice.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        if fault.asks_again() {
            return Self::Overloaded;
        }
        match fault {
            Fault::NoConnection(PoolError::Timeout(_)) | Fault::Contended => Self::Overloaded,
            other => Self::Failed(other.to_string()),
        }
    }
}
