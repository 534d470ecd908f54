//! Runs operations on the database, and retries them.

use std::time::Instant;

use deadpool_postgres::Transaction;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{IsolationLevel, Row};
use tracing::Instrument as _;

use super::connection::{Client, Pool};
use super::fault::Fault;
use super::limits::ANSWER;
use super::value::rows;
use crate::row;
use crate::{StoreError, span};

/// Maximum attempts of an operation that the database rolls back in favour of another transaction.
const ATTEMPTS: u32 = 20;

/// Rows per statement. Reading a million rows at once would exceed the time limit of a statement.
const PAGE: usize = 2000;

/// Names per statement. A statement with all names of a large file would exceed its time limit.
const NAMES: usize = 10_000;

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

    /// The compact row of bytes that a statement selects.
    pub(super) async fn row<T: row::Row>(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<T>, Fault> {
        let found = self.query_opt(sql, parameters).await?;
        found
            .map(|found| Ok(row::decode(found.try_get(0)?)?))
            .transpose()
    }

    /// The JSON that a statement selects.
    pub(super) async fn json<T: DeserializeOwned>(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<T>, Fault> {
        Ok(self.all_json(sql, parameters).await?.pop())
    }

    /// The rows of JSON that a statement selects.
    pub(super) async fn all_json<T: DeserializeOwned>(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<T>, Fault> {
        let found = self.query(sql, parameters).await?;
        let read = |found: &Row| Ok(row::decode_json(found.try_get(0)?)?);
        found.iter().map(read).collect()
    }

    /// Reads at most `limit` rows with names after `after`, and converts them with `read`. Fewer rows mean that no more
    /// follow. The statement selects at most $2 rows with names after $1; the name is its first column.
    pub(super) async fn rows_behind<T>(
        &self,
        sql: &str,
        mut after: String,
        limit: usize,
        read: impl Fn(&Row) -> Result<Option<T>, Fault>,
    ) -> Result<Vec<T>, Fault> {
        let mut found = Vec::new();
        loop {
            let asked = PAGE.min(limit - found.len());
            let page = self.query(sql, &[&after, &rows(asked)]).await?;
            for row in &page {
                found.extend(read(row)?);
            }
            match page.last() {
                Some(last) if page.len() == asked && found.len() < limit => {
                    after = last.try_get(0)?;
                }
                _ => return Ok(found),
            }
        }
    }

    /// Reads the rows of these names, and converts them with `read`. The statement selects the rows whose names are in
    /// the array $1.
    pub(super) async fn rows_named<T>(
        &self,
        sql: &str,
        names: &[String],
        read: impl Fn(&Row) -> Result<Option<T>, Fault>,
    ) -> Result<Vec<T>, Fault> {
        let mut found = Vec::new();
        for part in names.chunks(NAMES) {
            for row in &self.query(sql, &[&part]).await? {
                found.extend(read(row)?);
            }
        }
        Ok(found)
    }
}

/// How the statements of an operation are isolated.
#[derive(Debug, Clone, Copy)]
pub(super) enum Isolation {
    /// A single statement, which is its own transaction.
    Statement,
    Transaction,
    /// Read-only statements on one snapshot.
    Snapshot,
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
                // Closes them without a cancellation: that would make a server confirm a commit whose standby lacks it.
                drop(Client::take(client));
                pool.retain(|_, _| false);
            }
            outcome
        }
        Err(error) => Err(error.into()),
    };
    let (outage, now) = (&pool.manager().outage, Instant::now());
    match &outcome {
        Ok(_) => outage.succeeded(now),
        Err(fault) if fault.is_outage() => {
            outage.failed(fault, matches!(fault, Fault::Unanswered), now);
        }
        Err(_) => {}
    }
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
        Isolation::Snapshot => {
            let snapshot = client
                .build_transaction()
                .isolation_level(IsolationLevel::RepeatableRead)
                .read_only(true);
            in_time(snapshot.start()).await?
        }
    };
    let outcome = operation(&Connection::Transaction(&transaction)).await?;
    in_time(transaction.commit()).await?;
    Ok(outcome)
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
