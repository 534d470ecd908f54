//! Faults of the database.

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

use crate::StoreError;
use crate::row::{self, RowError};
use domain::random::RandomError;

#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// No connection was free or could be opened. Nothing was changed.
    #[error("no connection to the database: {}", described_pool(.0))]
    NoConnection(#[from] PoolError),
    /// The database refused, or the connection was lost. The operation may or may not have taken effect.
    #[error("{}", described(.0))]
    Database(#[from] tokio_postgres::Error),
    #[error(transparent)]
    Row(#[from] RowError),
    #[error("the database is read-only")]
    ReadOnly,
    /// Other transactions changed the same row at every attempt of this operation.
    #[error("the row changes too often")]
    Contended,
    #[error("revocations wait for their positions, which another replica does not finish to give")]
    PositionsMissing,
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// The row, or `None` (logged and counted) if it cannot be read.
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
    /// True if the database rolled back the transaction because of another transaction, so that it should be retried.
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

/// The driver's error with its cause, because the error itself is only "db error". Neither contains parameters of the
/// statement.
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

/// An error with all of its causes, without causes whose text the error already contains.
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
