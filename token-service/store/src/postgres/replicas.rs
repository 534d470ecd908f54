//! The services that use the database. An operator finishes an upgrade when no service of the earlier version runs.
//!
//! All times are the clock of the database, so that the clocks of the machines do not matter. A service that is missing
//! here although it runs, because it was frozen or could not write, stops at its first statement after the finish at the
//! latest, within a second: [`PostgresStore::knows_layout`](super::PostgresStore).

use std::time::Duration;

use data_encoding::HEXLOWER;

use super::fault::Fault;
use super::operation::Connection;
use super::value::{number, unsigned};
use domain::Layout;
use domain::random::{self, RandomError};
use system::OsRandom;

/// Time after which a silent replica counts as stopped. A replica says at each sweep that it runs.
pub(super) const SILENCE: Duration = Duration::from_secs(120);

/// Time after which the row of a crashed replica is removed.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// This process.
#[derive(Debug)]
pub(super) struct Replica {
    id: String,
    host: String,
}

/// A service that uses the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningReplica {
    pub host: String,
    pub version: String,
    /// The number of the newest layout that the service knows.
    pub layout: u64,
    /// Time since the service said last that it runs.
    pub silent_for: Duration,
}

impl Replica {
    pub(super) fn new() -> Result<Self, RandomError> {
        let id: [u8; 16] = random::bytes(&OsRandom)?;
        Ok(Self {
            id: HEXLOWER.encode(&id),
            host: system::host_name(),
        })
    }

    /// Notes that the replica starts, and forgets replicas that crashed long ago.
    pub(super) async fn start(&self, client: &Connection<'_>) -> Result<(), Fault> {
        let sql = "DELETE FROM replicas WHERE seen_at < extract(epoch FROM now())::BIGINT - $1";
        client.execute(sql, &[&number(KEPT.as_secs())]).await?;
        self.note(client).await
    }

    /// Notes that the replica runs.
    pub(super) async fn note(&self, client: &Connection<'_>) -> Result<(), Fault> {
        let sql = "INSERT INTO replicas (id, host, version, layout, seen_at)
            VALUES ($1, $2, $3, $4, extract(epoch FROM now())::BIGINT)
            ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at";
        let version = env!("CARGO_PKG_VERSION");
        let layout = i64::from(Layout::NEWEST.number());
        client
            .execute(sql, &[&self.id, &self.host, &version, &layout])
            .await?;
        Ok(())
    }

    /// Notes that the replica stops.
    pub(super) async fn stop(&self, client: &Connection<'_>) -> Result<(), Fault> {
        let sql = "DELETE FROM replicas WHERE id = $1";
        client.execute(sql, &[&self.id]).await?;
        Ok(())
    }
}

/// The replicas that run, sorted by host.
pub(super) async fn running(client: &Connection<'_>) -> Result<Vec<RunningReplica>, Fault> {
    let sql = "SELECT host, version, layout, silent_for FROM (
            SELECT host, version, layout, extract(epoch FROM now())::BIGINT - seen_at AS silent_for FROM replicas
        ) AS found
        WHERE silent_for <= $1 ORDER BY host, silent_for";
    let found = client.query(sql, &[&number(SILENCE.as_secs())]).await?;
    let replica = |row: &tokio_postgres::Row| {
        Ok(RunningReplica {
            host: row.try_get(0)?,
            version: row.try_get(1)?,
            layout: unsigned(row.try_get(2)?),
            silent_for: Duration::from_secs(unsigned(row.try_get(3)?)),
        })
    };
    found.iter().map(replica).collect()
}
