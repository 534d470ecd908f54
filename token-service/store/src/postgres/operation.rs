//! Operations on the database, and how often they are tried.

use deadpool_postgres::{GenericClient, Pool};
use tokio_postgres::types::ToSql;
use tokio_postgres::{IsolationLevel, Row};

use super::fault::Fault;
use crate::StoreError;

/// How often an operation is run that the database undoes in favour of another one.
const ATTEMPTS: u32 = 20;

/// What a domain operation does. It may be run several times, of which one takes effect.
pub(super) trait Operation: Sync {
    /// Outcome of the operation.
    type Outcome: Send;

    /// Runs it once.
    fn run(
        &self,
        client: &impl GenericClient,
    ) -> impl Future<Output = Result<Self::Outcome, Fault>> + Send;
}

/// What holds an operation together.
#[derive(Debug, Clone, Copy)]
enum Extent {
    /// It has one statement, which is a transaction by itself.
    Statement,
    /// It has several, which may write.
    Transaction,
    /// It has several, which only read.
    Snapshot,
}

/// Runs an operation of one statement.
pub(super) async fn statement<O: Operation>(
    pool: &Pool,
    operation: &O,
) -> Result<O::Outcome, StoreError> {
    retried(pool, operation, Extent::Statement).await
}

/// Runs an operation of several statements in one transaction; its answer is given after the commit.
pub(super) async fn transaction<O: Operation>(
    pool: &Pool,
    operation: &O,
) -> Result<O::Outcome, StoreError> {
    retried(pool, operation, Extent::Transaction).await
}

/// Runs an operation of several statements that only read, all of them what was there at one moment.
pub(super) async fn snapshot<O: Operation>(
    pool: &Pool,
    operation: &O,
) -> Result<O::Outcome, StoreError> {
    retried(pool, operation, Extent::Snapshot).await
}

async fn retried<O: Operation>(
    pool: &Pool,
    operation: &O,
    extent: Extent,
) -> Result<O::Outcome, StoreError> {
    let mut attempt = 1;
    loop {
        match once(pool, operation, extent).await {
            Err(fault) if fault.asks_again() && attempt < ATTEMPTS => attempt += 1,
            outcome => return outcome.map_err(StoreError::from),
        }
    }
}

async fn once<O: Operation>(
    pool: &Pool,
    operation: &O,
    extent: Extent,
) -> Result<O::Outcome, Fault> {
    let mut client = pool.get().await?;
    let transaction = match extent {
        Extent::Statement => return operation.run(&client).await,
        Extent::Transaction => client.transaction().await?,
        Extent::Snapshot => {
            let snapshot = client
                .build_transaction()
                .isolation_level(IsolationLevel::RepeatableRead)
                .read_only(true);
            snapshot.start().await?
        }
    };
    let outcome = operation.run(&transaction).await?;
    transaction.commit().await?;
    Ok(outcome)
}

/// Runs a prepared statement; the answer is how many rows it touched.
pub(super) async fn execute(
    client: &impl GenericClient,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<u64, Fault> {
    let statement = client.prepare_cached(sql).await?;
    Ok(client.execute(&statement, parameters).await?)
}

/// The rows of a prepared statement.
pub(super) async fn query(
    client: &impl GenericClient,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, Fault> {
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query(&statement, parameters).await?)
}

/// The row of a prepared statement that has one at most.
pub(super) async fn query_opt(
    client: &impl GenericClient,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Option<Row>, Fault> {
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query_opt(&statement, parameters).await?)
}
