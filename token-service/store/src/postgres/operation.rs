//! How operations reach the database, and how often they are tried.

use deadpool_postgres::{Client, Pool, Transaction};
use tokio_postgres::types::ToSql;
use tokio_postgres::{IsolationLevel, Row};

use super::fault::Fault;
use super::value::rows;
use crate::StoreError;

/// How often an operation is run that the database undoes in favour of another one.
const ATTEMPTS: u32 = 20;

/// What an operation runs its statements on.
pub(super) enum Connection<'a> {
    /// Each statement is a transaction by itself.
    Plain(&'a Client),
    /// All statements are one transaction.
    Transaction(&'a Transaction<'a>),
}

impl Connection<'_> {
    /// Runs a prepared statement; the answer is how many rows it touched.
    pub(super) async fn execute(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, Fault> {
        Ok(match self {
            Self::Plain(client) => {
                let statement = client.prepare_cached(sql).await?;
                client.execute(&statement, parameters).await?
            }
            Self::Transaction(transaction) => {
                let statement = transaction.prepare_cached(sql).await?;
                transaction.execute(&statement, parameters).await?
            }
        })
    }

    /// The rows of a prepared statement.
    pub(super) async fn query(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Fault> {
        Ok(match self {
            Self::Plain(client) => {
                let statement = client.prepare_cached(sql).await?;
                client.query(&statement, parameters).await?
            }
            Self::Transaction(transaction) => {
                let statement = transaction.prepare_cached(sql).await?;
                transaction.query(&statement, parameters).await?
            }
        })
    }

    /// The first row of a prepared statement.
    pub(super) async fn query_opt(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Fault> {
        Ok(self.query(sql, parameters).await?.into_iter().next())
    }
}

/// Rows read by one statement: a million at once would take longer than a statement may.
const PAGE: usize = 2000;

impl Connection<'_> {
    /// What `read` makes of the rows behind the name `after`, at most `limit`, and fewer only at the end. The statement
    /// reads rows that begin with their names behind the name $1, at most $2 of them.
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
}

/// What holds the statements of an operation together.
#[derive(Debug, Clone, Copy)]
pub(super) enum Isolation {
    /// There is one, which is a transaction by itself.
    Statement,
    /// One transaction.
    Transaction,
    /// They only read, all of them what was there at one moment.
    Snapshot,
}

/// Runs an operation until the database lets it stand, a bounded number of times; the answer is given after the commit.
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

async fn once<T>(
    pool: &Pool,
    isolation: Isolation,
    operation: impl AsyncFnOnce(&Connection<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let mut client = pool.get().await?;
    let transaction = match isolation {
        Isolation::Statement => return operation(&Connection::Plain(&client)).await,
        Isolation::Transaction => client.transaction().await?,
        Isolation::Snapshot => {
            let snapshot = client
                .build_transaction()
                .isolation_level(IsolationLevel::RepeatableRead)
                .read_only(true);
            snapshot.start().await?
        }
    };
    let outcome = operation(&Connection::Transaction(&transaction)).await?;
    transaction.commit().await?;
    Ok(outcome)
}
