//! Faults of the database.

use deadpool::managed::{PoolError, TimeoutType};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;

use super::cause::described;
use super::limits::ANSWER;
use super::servers::NoServer;
use crate::StoreError;
use crate::row::{self, RowError};
use domain::random::RandomError;

#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// No connection was free or could be opened. Nothing was changed.
    #[error("no connection to the database: {}", unopened(.0))]
    NoConnection(#[from] PoolError<NoServer>),
    /// The database refused, or the connection was lost. The operation may or may not have taken effect.
    #[error("{}", described(.0))]
    Database(#[from] tokio_postgres::Error),
    /// The database did not answer in time, so the service closed the connection. The operation may or may not have
    /// taken effect.
    #[error("the database did not answer within {} s", ANSWER.as_secs())]
    Unanswered,
    #[error(transparent)]
    Row(#[from] RowError),
    #[error("the database is read-only")]
    ReadOnly,
    #[error(
        "revocations wait for their positions, because another replica has not finished assigning them"
    )]
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

    /// True if the database rolled back the statement because of its values, its size or its time, so that parts of the statement
    /// may succeed.
    pub(super) fn is_of_statement(&self) -> bool {
        let Self::Database(error) = self else {
            return false;
        };
        error.code().is_some_and(|code| {
            *code == SqlState::QUERY_CANCELED
                || ["22", "23", "40", "54"]
                    .iter()
                    .any(|class| code.code().starts_with(class))
                    // Nobody knows what became of it.
                    && *code != SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN
        })
    }

    /// True if the server is the cause, and not the operation: the server cannot be reached, does not answer, stops, is
    /// a standby, or lacks disk, memory or connections.
    pub(super) fn is_outage(&self) -> bool {
        match self {
            Self::NoConnection(error) => !matches!(error, PoolError::Timeout(TimeoutType::Wait)),
            Self::Database(error) => error.code().is_none_or(|code| {
                *code == SqlState::READ_ONLY_SQL_TRANSACTION
                    || ["08", "53", "57P", "58"]
                        .iter()
                        .any(|class| code.code().starts_with(class))
            }),
            Self::Unanswered | Self::ReadOnly => true,
            _ => false,
        }
    }

    /// True if no operation may use this connection or the idle ones any more: their server hangs, or has become a standby.
    pub(super) fn ends_connections(&self) -> bool {
        match self {
            Self::Unanswered | Self::ReadOnly => true,
            Self::Database(error) => error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION),
            _ => false,
        }
    }
}

fn unopened(error: &PoolError<NoServer>) -> String {
    match error {
        PoolError::Backend(error) => error.to_string(),
        other => other.to_string(),
    }
}

impl From<&Fault> for StoreError {
    fn from(fault: &Fault) -> Self {
        match fault {
            Fault::NoConnection(PoolError::Timeout(TimeoutType::Wait)) => Self::Overloaded,
            fault if fault.asks_again() => Self::Overloaded,
            fault => Self::Failed(fault.to_string()),
        }
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        Self::from(&fault)
    }
}

/// The server's answer, or a fault after [`ANSWER`].
pub(super) async fn in_time<T>(
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Fault> {
    match timeout(ANSWER, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Fault::Unanswered),
    }
}
