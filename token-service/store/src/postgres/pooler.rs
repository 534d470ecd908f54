//! Poolers between the service and the server, such as PgBouncer.
//!
//! A connection must stay with one session of the server: the session has the time limits, `synchronous_commit` and the prepared
//! statements of the service. In transaction mode, a pooler gives each transaction the session that is free, so the settings get lost
//! or reach other programs, and statements are missing.

use tokio_postgres::SimpleQueryMessage;

use super::OpenError;
use super::connection::{self, Client, Pool};
use super::fault::{Fault, in_time};
use super::settings::PostgresSettings;
use domain::random;
use system::OsRandom;

/// Opens a pool, and its first connection.
///
/// # Errors
/// No connection, or a pooler that does not keep sessions apart.
pub(super) async fn connect(settings: &PostgresSettings) -> Result<(Pool, Client), OpenError> {
    let pool = connection::pool(settings)?;
    let place = || settings.url.place();
    match probe(&pool).await {
        Ok(Some(client)) => Ok((pool, client)),
        Ok(None) => Err(OpenError::Pooler { place: place() }),
        Err(fault) => Err(OpenError::Database {
            place: place(),
            reason: fault.to_string(),
        }),
    }
}

/// A connection; `None` if the sessions of two connections get mixed up. Poolers give out the session that became free last, or
/// one after the other: so the first connection asks while no other does, and while the second one keeps a session busy.
async fn probe(pool: &Pool) -> Result<Option<Client>, Fault> {
    let (one, other) = (Marked::new(pool).await?, Marked::new(pool).await?);
    let is_kept = one.keeps("").await?
        && one.keeps("").await?
        && other.keeps("BEGIN;").await?
        && one.keeps("").await?
        && other.keeps("COMMIT;").await?;
    drop(Client::take(other.client));
    Ok(is_kept.then_some(one.client))
}

/// A connection whose session has a mark.
struct Marked {
    client: Client,
    mark: String,
}

impl Marked {
    async fn new(pool: &Pool) -> Result<Self, Fault> {
        let (client, mark) = (pool.get().await?, random::text::<16>(&OsRandom)?);
        let sql = format!("SELECT set_config('gatepass.connection', '{mark}', false)");
        in_time(client.batch_execute(&sql)).await?;
        Ok(Self { client, mark })
    }

    /// True if a statement after `before` finds the mark.
    async fn keeps(&self, before: &str) -> Result<bool, Fault> {
        let sql = format!("{before} SELECT current_setting('gatepass.connection', true)");
        let found = in_time(self.client.simple_query(&sql)).await?;
        Ok(found.iter().any(|message| {
            matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some(&self.mark))
        }))
    }
}
