//! The tables, their creation and additions, and the layout of their rows.
//!
//! Uses only features that PostgreSQL, CockroachDB and YugabyteDB share. Times are seconds since 1970. Every statement
//! can be repeated, because some of these databases do not roll back the definition of a table.

use tokio_postgres::error::SqlState;

use super::connection::Client;
use super::creation;
use super::fault::Fault;
use super::operation::Connection;
use super::replicas::Replica;
use super::value::{rows, unsigned};
use domain::Layout;

/// Statements that add tables, indexes or nullable columns to the first ones. A start makes the additions that the
/// database lacks. Services of earlier versions that use the same database must not notice an addition.
const ADDITIONS: &[&str] = &[];

/// The table of the counters, which every version has. `layout` is the layout in use, and `additions` the number of additions.
/// Unreleased versions before 0.3.0 wrote `schema_version` or `registry_position`.
const FOUNDATION: &str =
    "CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value BIGINT NOT NULL);
    INSERT INTO counters (name, value) VALUES ('layout', 0) ON CONFLICT (name) DO NOTHING;";

/// Maximum attempts of a replica that starts at the same time as other replicas.
const ATTEMPTS: u32 = 20;

#[derive(Debug, thiserror::Error)]
pub(super) enum SchemaError {
    #[error(
        "layout {found} is in use, and this version knows {} at most: run the version that finished the upgrade, or a \
         later one; a step back needs the backup from before",
        Layout::NEWEST
    )]
    Newer { found: i64 },
    #[error(
        "an unreleased version before 0.3.0 made the tables, and no other version reads them: use an empty database"
    )]
    Older,
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl From<tokio_postgres::Error> for SchemaError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Fault(error.into())
    }
}

/// Creates the tables or adds what they lack, and records that `replica` runs. Returns the layout in use: the newest in
/// new tables.
pub(super) async fn open(
    client: &mut Client,
    replica: Option<&Replica>,
) -> Result<Layout, SchemaError> {
    open_with(client, replica, ADDITIONS).await
}

pub(super) async fn open_with(
    client: &mut Client,
    replica: Option<&Replica>,
    additions: &[&str],
) -> Result<Layout, SchemaError> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        match try_open(client, replica, additions).await {
            Err(SchemaError::Fault(Fault::Database(error)))
                if attempt < ATTEMPTS && is_collision(&error) => {}
            outcome => return outcome,
        }
    }
}

async fn try_open(
    client: &mut Client,
    replica: Option<&Replica>,
    additions: &[&str],
) -> Result<Layout, SchemaError> {
    // Users without the right to create tables can use an up-to-date database.
    if !exists(&Connection::Plain(client)).await? {
        client.batch_execute(FOUNDATION).await?;
    }
    let transaction = client.transaction().await?;
    let connection = Connection::Transaction(&transaction);
    let layout = match locked(&connection).await? {
        0 => {
            transaction.batch_execute(&creation::all()).await?;
            set_layout(&connection, Layout::NEWEST).await?;
            Layout::NEWEST
        }
        found => known(found)?,
    };
    // A later version may have made more than this version knows.
    let made = counter(&connection, "additions").await?;
    let made = usize::try_from(made).unwrap_or(usize::MAX);
    for addition in additions.iter().skip(made) {
        transaction.batch_execute(addition).await?;
    }
    if made < additions.len() {
        set_counter(&connection, "additions", rows(additions.len())).await?;
    }
    if let Some(replica) = replica {
        replica.start(&connection).await?;
    }
    transaction.commit().await?;
    Ok(layout)
}

async fn exists(client: &Connection<'_>) -> Result<bool, Fault> {
    let sql = "SELECT 1 FROM information_schema.tables \
        WHERE table_schema = current_schema() AND table_name = 'counters'";
    Ok(client.query_opt(sql, &[]).await?.is_some())
}

/// The layout in use; `None` before the first start.
pub(super) async fn existing(client: &Connection<'_>) -> Result<Option<Layout>, SchemaError> {
    if !exists(client).await? {
        return Ok(None);
    }
    match number(client, "").await? {
        0 => Ok(None),
        found => known(found).map(Some),
    }
}

/// The number of the layout in use; 0 before the first start. Locks its row until the transaction ends.
async fn locked(client: &Connection<'_>) -> Result<i64, SchemaError> {
    number(client, " FOR UPDATE").await
}

/// The number of the layout in use, read with `lock`; 0 before the first start.
async fn number(client: &Connection<'_>, lock: &str) -> Result<i64, SchemaError> {
    let sql = format!(
        "SELECT value, EXISTS (SELECT 1 FROM counters WHERE name = 'registry_position')
        FROM counters WHERE name = 'layout'{lock}"
    );
    match client.query_opt(&sql, &[]).await? {
        Some(row) if !row.try_get::<_, bool>(1)? => Ok(row.try_get(0)?),
        _ => Err(SchemaError::Older),
    }
}

/// The layout with this number.
pub(super) fn known(found: i64) -> Result<Layout, SchemaError> {
    Layout::known(found).ok_or(SchemaError::Newer { found })
}

/// The layout in use, for a command in a transaction: no service starts before the transaction ends, because each start
/// locks the same row.
pub(super) async fn lock(client: &Connection<'_>) -> Result<Layout, SchemaError> {
    known(locked(client).await?)
}

pub(super) async fn counter(client: &Connection<'_>, name: &str) -> Result<u64, Fault> {
    let sql = "SELECT value FROM counters WHERE name = $1";
    match client.query_opt(sql, &[&name]).await? {
        Some(row) => Ok(unsigned(row.try_get(0)?)),
        None => Ok(0),
    }
}

async fn set_counter(client: &Connection<'_>, name: &str, value: i64) -> Result<(), Fault> {
    let update = "INSERT INTO counters (name, value) VALUES ($1, $2)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    client.execute(update, &[&name, &value]).await?;
    Ok(())
}

pub(super) async fn set_layout(client: &Connection<'_>, layout: Layout) -> Result<(), Fault> {
    let update = "UPDATE counters SET value = $1 WHERE name = 'layout'";
    let number = i64::from(layout.number());
    client.execute(update, &[&number]).await?;
    Ok(())
}

/// True if another replica created the same tables at the same time.
fn is_collision(error: &tokio_postgres::Error) -> bool {
    matches!(
        error.code(),
        Some(
            &SqlState::UNIQUE_VIOLATION
                | &SqlState::DUPLICATE_TABLE
                | &SqlState::DUPLICATE_OBJECT
                | &SqlState::T_R_SERIALIZATION_FAILURE
                | &SqlState::T_R_DEADLOCK_DETECTED
        )
    )
}
