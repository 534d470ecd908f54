//! The tables, and their creation and changes.
//!
//! Uses only features that PostgreSQL, CockroachDB and YugabyteDB share. Times are seconds since 1970. Every statement
//! can be repeated, because some of these databases do not roll back the definition of a table.

use deadpool_postgres::Client;
use tokio_postgres::error::SqlState;

use super::fault::Fault;

const FIRST: &str = include_str!("schema.sql");

/// The tables of 0.3.0. Unreleased versions before it made tables with lower numbers.
pub(super) const FIRST_VERSION: i64 = 16;

/// The statements that change the tables of one version to those of the next, from [`FIRST_VERSION`] on.
const MIGRATIONS: &[&str] = &[];

/// The tables of every version. The schema version is one of the counters.
const FOUNDATION: &str = "
    CREATE TABLE IF NOT EXISTS counters (
        name TEXT PRIMARY KEY,
        value BIGINT NOT NULL
    );
    INSERT INTO counters (name, value) VALUES ('schema_version', 0) ON CONFLICT (name) DO NOTHING;
";

/// Maximum attempts of a replica that starts at the same time as other replicas.
const ATTEMPTS: u32 = 20;

pub(super) const VERSION: i64 = FIRST_VERSION + MIGRATIONS.len() as i64;

#[derive(Debug, thiserror::Error)]
pub(super) enum SchemaError {
    #[error("written by a later version (schema {found}; this one knows {VERSION})")]
    Newer { found: i64 },
    #[error(
        "an unreleased version before 0.3.0 made the tables (schema {found}), and no other version reads them: use an \
         empty database"
    )]
    Older { found: i64 },
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl From<tokio_postgres::Error> for SchemaError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Fault(error.into())
    }
}

/// Creates the tables, or changes them to those of [`VERSION`].
pub(super) async fn migrate(client: &mut Client) -> Result<(), SchemaError> {
    migrate_by(client, MIGRATIONS).await
}

pub(super) async fn migrate_by(
    client: &mut Client,
    migrations: &[&str],
) -> Result<(), SchemaError> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        match try_migrate(client, migrations).await {
            Err(SchemaError::Fault(Fault::Database(error)))
                if attempt < ATTEMPTS && is_collision(&error) => {}
            outcome => return outcome,
        }
    }
}

async fn try_migrate(client: &mut Client, migrations: &[&str]) -> Result<(), SchemaError> {
    // Users without the right to create tables can use an up-to-date database.
    let exists = "SELECT 1 FROM information_schema.tables \
        WHERE table_schema = current_schema() AND table_name = 'counters'";
    if client.query_opt(exists, &[]).await?.is_none() {
        client.batch_execute(FOUNDATION).await?;
    }
    let transaction = client.transaction().await?;
    let query = "SELECT value FROM counters WHERE name = 'schema_version' FOR UPDATE";
    let row = transaction.query_opt(query, &[]).await?;
    let mut found: i64 = row.map_or(Ok(0), |row| row.try_get(0))?;
    let newest = FIRST_VERSION + migrations.len() as i64;
    if found > newest {
        return Err(SchemaError::Newer { found });
    }
    if found == 0 {
        transaction.batch_execute(FIRST).await?;
        found = FIRST_VERSION;
    } else if found < FIRST_VERSION {
        return Err(SchemaError::Older { found });
    }
    for (_, migration) in (FIRST_VERSION..)
        .zip(migrations)
        .filter(|(from, _)| *from >= found)
    {
        transaction.batch_execute(migration).await?;
    }
    let update = "UPDATE counters SET value = $1 WHERE name = 'schema_version' AND value <> $1";
    transaction.execute(update, &[&newest]).await?;
    Ok(transaction.commit().await?)
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
