//! Runs statements of the store itself on the database, and retries them. The [engine](super::engine) runs operations.

use deadpool_postgres::Transaction;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use tracing::Instrument as _;

use super::connection::{Client, Pool};
use super::fault::{Fault, in_time};
use super::lease;
use crate::{StoreError, span};

/// Maximum attempts of an operation that the database rolls back in favour of another transaction.
const ATTEMPTS: u32 = 20;

/// The connection or transaction on which an operation runs its statements.
pub(super) enum Connection<'a> {
    /// Each statement is its own transaction.
    Plain(&'a Client),
    /// All statements are one transaction.
    Transaction(&'a Transaction<'a>),
}

impl Connection<'_> {
    /// Runs a prepared statement. Returns the number of affected rows.
    pub(super) async fn execute(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, Fault> {
        in_time(async {
            match self {
                Self::Plain(client) => {
                    let statement = client.prepare_cached(sql).await?;
                    client.execute(&statement, parameters).await
                }
                Self::Transaction(transaction) => {
                    let statement = transaction.prepare_cached(sql).await?;
                    transaction.execute(&statement, parameters).await
                }
            }
        })
        .await
    }

    /// Runs a prepared statement. Returns its rows.
    pub(super) async fn query(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Fault> {
        in_time(async {
            match self {
                Self::Plain(client) => {
                    let statement = client.prepare_cached(sql).await?;
                    client.query(&statement, parameters).await
                }
                Self::Transaction(transaction) => {
                    let statement = transaction.prepare_cached(sql).await?;
                    transaction.query(&statement, parameters).await
                }
            }
        })
        .await
    }

    /// Runs a prepared statement. Returns its first row.
    pub(super) async fn query_opt(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Fault> {
        Ok(self.query(sql, parameters).await?.into_iter().next())
    }
}

/// How the statements of an operation are isolated.
#[derive(Debug, Clone, Copy)]
pub(super) enum Isolation {
    /// A single statement, which is its own transaction.
    Statement,
    Transaction,
}

/// Runs an operation, and retries it a limited number of times if the database rolls it back. Returns after the commit.
pub(super) async fn run<T>(
    pool: &Pool,
    isolation: Isolation,
    operation: impl Clone + AsyncFnOnce(&Connection<'_>) -> Result<T, Fault>,
) -> Result<T, StoreError> {
    for _ in 1..ATTEMPTS {
        match once(pool, isolation, operation.clone()).await {
            Err(fault) if fault.asks_again() => {}
            outcome => return outcome.map_err(StoreError::from),
        }
    }
    once(pool, isolation, operation)
        .await
        .map_err(StoreError::from)
}

/// Like [`run`], with a span for traces.
pub(super) async fn traced<T>(
    pool: Pool,
    isolation: Isolation,
    operation: impl Clone + AsyncFnOnce(&Connection<'_>) -> Result<T, Fault>,
) -> Result<T, StoreError> {
    let span = span::of_operation("postgresql", &operation);
    run(&pool, isolation, operation).instrument(span).await
}

/// Runs an operation once, on a connection of the pool.
async fn once<T>(
    pool: &Pool,
    isolation: Isolation,
    operation: impl AsyncFnOnce(&Connection<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let outcome = match pool.get().await {
        Ok(mut client) => {
            let outcome = on(&mut client, isolation, operation).await;
            if outcome.as_ref().is_err_and(Fault::ends_connections) {
                lease::close(Some(client), pool);
            }
            outcome
        }
        Err(error) => Err(error.into()),
    };
    lease::note(pool, outcome.as_ref().err());
    outcome
}

async fn on<T>(
    client: &mut Client,
    isolation: Isolation,
    operation: impl AsyncFnOnce(&Connection<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let transaction = match isolation {
        Isolation::Statement => return operation(&Connection::Plain(client)).await,
        Isolation::Transaction => in_time(client.transaction()).await?,
    };
    let outcome = operation(&Connection::Transaction(&transaction)).await?;
    in_time(transaction.commit()).await?;
    Ok(outcome)
}
