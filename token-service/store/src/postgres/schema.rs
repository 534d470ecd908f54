//! The tables, and their creation and upgrades.
//!
//! Uses only features that PostgreSQL, CockroachDB and YugabyteDB share. Times are seconds since 1970. Every statement
//! can be repeated, because some of these databases do not roll back the definition of a table.

use deadpool_postgres::{Client, Transaction};
use tokio_postgres::error::SqlState;

use super::fault::{Fault, readable};
use super::operation::Connection;
use super::{names, registry_index};
use crate::row::{decode_json, encode_json};
use domain::remembered::{ObjectKind, ObjectName};
use domain::{User, Username};

/// The statements that upgrade a database from version `n` to `n + 1`.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE IF NOT EXISTS clients (
        client_id TEXT PRIMARY KEY,
        body BYTEA NOT NULL
    );
    CREATE TABLE IF NOT EXISTS users (
        username TEXT PRIMARY KEY,
        body BYTEA NOT NULL
    );
    CREATE TABLE IF NOT EXISTS legacy_instances (
        hostname TEXT PRIMARY KEY,
        body BYTEA NOT NULL
    );
    CREATE TABLE IF NOT EXISTS signing_keys (
        kid TEXT PRIMARY KEY,
        algorithm TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        body BYTEA NOT NULL
    );
    CREATE TABLE IF NOT EXISTS codes (
        code BYTEA PRIMARY KEY,
        client_id TEXT NOT NULL,
        expires_at BIGINT NOT NULL,
        grant_id BYTEA,
        body BYTEA NOT NULL
    );
    CREATE INDEX IF NOT EXISTS codes_by_expiry ON codes (expires_at);
    CREATE TABLE IF NOT EXISTS grants (
        grant_id BYTEA PRIMARY KEY,
        client_id TEXT NOT NULL,
        username TEXT NOT NULL,
        refresh_over_at BIGINT NOT NULL,
        access_over_at BIGINT NOT NULL,
        revoked_at BIGINT,
        body BYTEA NOT NULL
    );
    CREATE INDEX IF NOT EXISTS grants_by_client ON grants (client_id, grant_id);
    CREATE INDEX IF NOT EXISTS grants_by_user ON grants (username, grant_id);
    CREATE TABLE IF NOT EXISTS revocations (
        sequence BIGINT PRIMARY KEY,
        revoked BYTEA NOT NULL,
        at BIGINT NOT NULL,
        expires_at BIGINT NOT NULL
    );
    CREATE INDEX IF NOT EXISTS revocations_by_subject ON revocations (revoked);
    CREATE INDEX IF NOT EXISTS revocations_by_expiry ON revocations (expires_at);
    CREATE TABLE IF NOT EXISTS assertion_ids (
        digest BYTEA PRIMARY KEY,
        expires_at BIGINT NOT NULL
    );
    CREATE INDEX IF NOT EXISTS assertion_ids_by_expiry ON assertion_ids (expires_at);
    CREATE TABLE IF NOT EXISTS totp_steps (
        username TEXT PRIMARY KEY,
        step BIGINT NOT NULL
    );
    CREATE TABLE IF NOT EXISTS second_factors (
        username TEXT PRIMARY KEY,
        body BYTEA NOT NULL
    );
    CREATE TABLE IF NOT EXISTS failures (
        key BYTEA PRIMARY KEY,
        count BIGINT NOT NULL,
        last_at BIGINT NOT NULL,
        expires_at BIGINT NOT NULL
    );
    CREATE INDEX IF NOT EXISTS failures_by_expiry ON failures (expires_at);
    CREATE TABLE IF NOT EXISTS sessions (
        id BYTEA PRIMARY KEY,
        username TEXT NOT NULL,
        expires_at BIGINT NOT NULL,
        body BYTEA NOT NULL
    );
    CREATE INDEX IF NOT EXISTS sessions_by_user ON sessions (username);
    CREATE INDEX IF NOT EXISTS sessions_by_expiry ON sessions (expires_at);
    CREATE TABLE IF NOT EXISTS audit_log (
        sequence BIGINT PRIMARY KEY,
        expires_at BIGINT NOT NULL,
        body BYTEA NOT NULL
    );
    CREATE INDEX IF NOT EXISTS audit_log_by_expiry ON audit_log (expires_at);
    INSERT INTO counters (name, value)
        VALUES ('last_revocation', 0), ('last_audit', 0), ('registry_version', 0), ('signing_keys', 0)
        ON CONFLICT (name) DO NOTHING;
", "
    CREATE TABLE IF NOT EXISTS feed (
        name TEXT PRIMARY KEY,
        identity BYTEA NOT NULL
    );
    INSERT INTO counters (name, value) VALUES ('token_lifetime', 0), ('token_lifetime_until', 0)
        ON CONFLICT (name) DO NOTHING;
", "
    CREATE TABLE IF NOT EXISTS remembered (
        object TEXT PRIMARY KEY,
        body BYTEA NOT NULL
    );
", "
    -- Usernames get their normal form: see normalize_usernames.
", "
    -- Weak hashes leave the rows of users: see forget_registered_hashes. Rows of bytes begin with the version of their
    -- layout.
    CREATE TABLE IF NOT EXISTS client_secrets (
        client_id TEXT NOT NULL,
        digest BYTEA NOT NULL,
        added_at BIGINT,
        last_used_at BIGINT,
        PRIMARY KEY (client_id, digest)
    );
", "
    CREATE TABLE IF NOT EXISTS sealed (
        name TEXT PRIMARY KEY,
        body BYTEA NOT NULL
    );
", "
    -- What one person holds is counted. Codes of before this version have no username: they expire within a minute.
    ALTER TABLE codes ADD COLUMN IF NOT EXISTS username TEXT;
    CREATE INDEX IF NOT EXISTS codes_unused ON codes (username, client_id, expires_at) WHERE grant_id IS NULL;
    CREATE INDEX IF NOT EXISTS grants_live ON grants (username, client_id, grant_id) WHERE revoked_at IS NULL;
", "
    -- The newest changes of the registry, without a gap.
    CREATE TABLE IF NOT EXISTS registry_changes (
        sequence BIGINT PRIMARY KEY,
        object TEXT NOT NULL,
        is_legacy BOOLEAN NOT NULL
    );
", "
    -- The index of clients and users: see registry_index::build. A program of an earlier version, which would change
    -- clients and users without the index, does not find the counter that every change locks.
    UPDATE counters SET name = 'registry_position' WHERE name = 'registry_version';
    CREATE TABLE IF NOT EXISTS registry_counts (
        kind SMALLINT NOT NULL,
        number BIGINT NOT NULL,
        value TEXT NOT NULL,
        count BIGINT NOT NULL,
        PRIMARY KEY (kind, number, value)
    );
    CREATE TABLE IF NOT EXISTS registry_names (
        kind SMALLINT NOT NULL,
        value TEXT NOT NULL,
        name TEXT NOT NULL,
        PRIMARY KEY (kind, value, name)
    );
    CREATE TABLE IF NOT EXISTS remembered_at_start (
        object TEXT PRIMARY KEY
    );
", "
    -- Bound users by client, so that one statement reads a client with its bound user. 1 is NamedKind::BoundUser.
    CREATE INDEX IF NOT EXISTS registry_names_bound_users ON registry_names (name, value) WHERE kind = 1;
", "
    -- The registrations file that a start applied last, in parts.
    CREATE TABLE IF NOT EXISTS applied_file (
        part INTEGER PRIMARY KEY,
        body BYTEA NOT NULL
    );
", "
    CREATE TABLE IF NOT EXISTS unfinished_sign_ins (
        username TEXT PRIMARY KEY,
        body BYTEA NOT NULL
    );
", "
    -- The number of an entry among those of its kind, for the bound of the kind. Entries of before this version have
    -- neither, and expire.
    ALTER TABLE audit_log ADD COLUMN IF NOT EXISTS kind SMALLINT;
    ALTER TABLE audit_log ADD COLUMN IF NOT EXISTS number BIGINT;
    CREATE INDEX IF NOT EXISTS audit_log_by_kind ON audit_log (kind, number) WHERE kind IS NOT NULL;
", "
    -- The index of clients and users gets folded usernames: see registry_index::build.
"];

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

/// The schema version that this program writes.
pub(super) const VERSION: i64 = MIGRATIONS.len() as i64;

#[derive(Debug, thiserror::Error)]
pub(super) enum SchemaError {
    /// A later version of the program has changed the tables.
    #[error("written by a later version (schema {found}; this one knows {VERSION})")]
    Newer {
        /// The schema version of the database.
        found: i64,
    },
    /// A statement failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Upgrades the database to [`VERSION`].
pub(super) async fn migrate(client: &mut Client) -> Result<(), SchemaError> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        match try_migrate(client).await {
            Err(SchemaError::Fault(Fault::Database(error)))
                if attempt < ATTEMPTS && is_collision(&error) => {}
            outcome => return outcome,
        }
    }
}

async fn try_migrate(client: &mut Client) -> Result<(), SchemaError> {
    let query = "SELECT value FROM counters WHERE name = 'schema_version' FOR UPDATE";
    // Users without the right to create tables can use an up-to-date database.
    let exists = "SELECT 1 FROM information_schema.tables \
        WHERE table_schema = current_schema() AND table_name = 'counters'";
    if client
        .query_opt(exists, &[])
        .await
        .map_err(Fault::from)?
        .is_none()
    {
        client
            .batch_execute(FOUNDATION)
            .await
            .map_err(Fault::from)?;
    }
    let transaction = client.transaction().await.map_err(Fault::from)?;
    let found: i64 = transaction
        .query_opt(query, &[])
        .await
        .and_then(|row| row.map_or(Ok(0), |row| row.try_get(0)))
        .map_err(Fault::from)?;
    if found > VERSION {
        return Err(SchemaError::Newer { found });
    }
    let done = usize::try_from(found).unwrap_or_default();
    for migration in MIGRATIONS.iter().skip(done) {
        transaction
            .batch_execute(migration)
            .await
            .map_err(Fault::from)?;
    }
    if found < 4 {
        normalize_usernames(&transaction).await?;
    }
    if found < 5 {
        forget_registered_hashes(&transaction).await?;
    }
    if found < 14 {
        let connection = Connection::Transaction(&transaction);
        registry_index::build(&connection).await?;
        names::warn_of_namesakes(&connection).await?;
    }
    if found < VERSION {
        let upsert = "INSERT INTO counters (name, value) VALUES ('schema_version', $1) \
            ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        transaction
            .execute(upsert, &[&VERSION])
            .await
            .map_err(Fault::from)?;
    }
    transaction.commit().await.map_err(Fault::from)?;
    Ok(())
}

/// Converts usernames of earlier versions, which were stored as typed, to normal form (D-33). Done here because not all
/// servers have a function for it. If another user has the normalized name, the row stays, and nobody can sign in as
/// this user.
async fn normalize_usernames(transaction: &Transaction<'_>) -> Result<(), Fault> {
    let stored = transaction.query("SELECT username FROM users", &[]).await?;
    for row in stored {
        let old: &str = row.try_get(0)?;
        let Some(new) = Username::parse(old).filter(|new| new.as_str() != old) else {
            continue;
        };
        let new = new.as_str();
        let taken = "SELECT 1 FROM users WHERE username = $1";
        if transaction.query_opt(taken, &[&new]).await?.is_some() {
            tracing::warn!(
                user = new,
                "two users have this name in different Unicode forms; one is unused"
            );
            continue;
        }
        for table in [
            "users",
            "grants",
            "totp_steps",
            "second_factors",
            "sessions",
        ] {
            let rename = format!("UPDATE {table} SET username = $2 WHERE username = $1");
            transaction.execute(&rename, &[&old, &new]).await?;
        }
        let [before, after] = [old, new].map(|name| ObjectName::new(ObjectKind::User, name).key());
        let rename = "UPDATE remembered SET object = $2 WHERE object = $1";
        transaction.execute(rename, &[&before, &after]).await?;
    }
    Ok(())
}

/// Up to version 4, the row of a user kept the registered hash of a password next to a stronger hash. This replaces the
/// registered hash by its digest.
async fn forget_registered_hashes(transaction: &Transaction<'_>) -> Result<(), Fault> {
    let page = "SELECT username, body FROM users WHERE username > $1 ORDER BY username LIMIT 2000";
    let mut after = String::new();
    loop {
        let stored = transaction.query(page, &[&after]).await?;
        let Some(last) = stored.last() else {
            return Ok(());
        };
        after = last.try_get(0)?;
        for row in &stored {
            let user = decode_json::<User>(row.try_get(1)?).map_err(Fault::from);
            let user = readable("user", user)?;
            let Some(user) = user.filter(|user| user.registered_password_digest.is_some()) else {
                continue;
            };
            let (key, body): (&str, _) = (row.try_get(0)?, encode_json(&user)?);
            let update = "UPDATE users SET body = $2 WHERE username = $1";
            transaction.execute(update, &[&key, &body]).await?;
        }
    }
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
