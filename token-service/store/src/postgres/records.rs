//! All rows of a database, for a copy to or from another store.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connection::Client;
use super::fault::Fault;
use super::operation::Connection;
use super::pooler::connect;
use super::schema::{self, SchemaError, counter};
use super::settings::PostgresSettings;
use super::value::{number, unsigned};
use super::{OpenError, OsRandom, audit, connection, failed, feed};
use crate::StoreError;
use crate::codec::Bytes;
use crate::records::{
    BATCH, Batch, LAST_AUDIT, LAST_REVOCATION, Records, audit_entry, audit_row, copied, stays,
};
use crate::row::{decode, encode};
use crate::tx::tables::{Announced, Name};
use domain::{AuditRecord, FeedId};

pub(crate) struct DatabaseRecords {
    /// With a transaction, which ends without a commit if the connection is dropped.
    client: Client,
    /// For a source, the connection whose lock keeps services out.
    _lock: Option<Client>,
}

/// A connection of a service that has just stopped may remain for a moment.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const LOOKS: usize = 20;

/// The name of a connection that reads a source. A target looks for the name, because it would wait for its own source.
pub(super) const READS: &str = "token-service copy, source";

/// The counters, which are rows of [`META`](crate::tx::tables::META) in a copy.
const COUNTERS: [&str; 2] = [LAST_AUDIT, LAST_REVOCATION];

#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error("token services use it ({0} connections): stop them first")]
    InUse(i64),
    #[error("its table {0} is not empty: a copy needs an empty database")]
    NotEmpty(&'static str),
    #[error("it is the source of a copy: a copy needs another, empty database")]
    IsSource,
}

impl From<tokio_postgres::Error> for Refusal {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Schema(error.into())
    }
}

impl DatabaseRecords {
    /// Connects to a database that no token service uses.
    pub(crate) async fn source(settings: &PostgresSettings) -> Result<Self, OpenError> {
        let (client, lock) = (connect(settings).await?.1, connect(settings).await?.1);
        let opened = begin_reading(&client, &lock).await;
        opened.map_err(|refusal| failed(settings, refusal))?;
        Ok(Self {
            client,
            _lock: Some(lock),
        })
    }

    /// Connects to an empty database, and creates the tables.
    pub(crate) async fn target(settings: &PostgresSettings) -> Result<Self, OpenError> {
        let (_, mut client) = connect(settings).await?;
        let fresh = FeedId::generate(&OsRandom)?;
        let opened = empty(&mut client, fresh).await;
        opened.map_err(|refusal| failed(settings, refusal))?;
        Ok(Self {
            client,
            _lock: None,
        })
    }

    async fn page(&self, table: Name) -> Result<Vec<(Bytes, Bytes)>, Fault> {
        let sql = format!("FETCH {BATCH} FROM {CURSOR}");
        let rows = self.client.query(&sql, &[]).await?;
        rows.iter().map(|row| read(table, row)).collect()
    }

    async fn counters(&self) -> Result<Vec<(Bytes, Bytes)>, Fault> {
        let mut rows = Vec::new();
        for name in COUNTERS {
            let value = counter(&Connection::Plain(&self.client), name).await?;
            rows.push((name.into(), value.to_be_bytes().to_vec()));
        }
        Ok(rows)
    }

    /// `numbers` counts the entries of the audit log by kind.
    async fn put(&self, batch: &Batch, numbers: &mut BTreeMap<u8, i64>) -> Result<(), Fault> {
        match batch.table {
            Name::audit_log => self.put_entries(&batch.rows, numbers).await,
            Name::revoked => self.put_revoked(&batch.rows).await,
            table => self.put_rows(table, &batch.rows).await,
        }
    }

    async fn put_rows(&self, table: Name, rows: &[(Bytes, Bytes)]) -> Result<(), Fault> {
        let is_counter =
            |key: &[u8]| table == Name::meta && COUNTERS.iter().any(|name| name.as_bytes() == key);
        for (key, row) in rows.iter().filter(|(key, _)| is_counter(key)) {
            let sql = "UPDATE counters SET value = $2 WHERE name = convert_from($1, 'UTF8')";
            let value = <[u8; 8]>::try_from(row.as_slice()).map(u64::from_be_bytes);
            let value = number(value.unwrap_or_default());
            self.client.execute(sql, &[key, &value]).await?;
        }
        let rows = rows.iter().filter(|(key, _)| !is_counter(key));
        let (keys, rows): (Vec<&[u8]>, Vec<&[u8]>) =
            rows.map(|(key, row)| (&**key, &**row)).unzip();
        let sql = format!(
            "INSERT INTO {} (k, v) SELECT * FROM unnest($1::BYTEA[], $2::BYTEA[])",
            table.text()
        );
        let conflict = match table {
            Name::meta => " ON CONFLICT (k) DO UPDATE SET v = excluded.v",
            _ => "",
        };
        let statement = self.client.prepare_cached(&(sql + conflict)).await?;
        self.client.execute(&statement, &[&keys, &rows]).await?;
        Ok(())
    }

    async fn put_revoked(&self, rows: &[(Bytes, Bytes)]) -> Result<(), Fault> {
        let (mut keys, mut entries, mut positions) = (Vec::new(), Vec::new(), Vec::new());
        for (key, row) in rows {
            let entry: Announced = decode(row)?;
            positions.push(entry.position.map(number));
            let position = None;
            entries.push(encode(&Announced { position, ..entry })?);
            keys.push(key);
        }
        let sql = "INSERT INTO revoked (k, v, sequence)
            SELECT * FROM unnest($1::BYTEA[], $2::BYTEA[], $3::BIGINT[])";
        let statement = self.client.prepare_cached(sql).await?;
        self.client
            .execute(&statement, &[&keys, &entries, &positions])
            .await?;
        Ok(())
    }

    async fn put_entries(
        &self,
        rows: &[(Bytes, Bytes)],
        numbers: &mut BTreeMap<u8, i64>,
    ) -> Result<(), Fault> {
        let (mut sequences, mut kinds, mut counted) = (Vec::new(), Vec::new(), Vec::new());
        let (mut expiries, mut bodies) = (Vec::new(), Vec::new());
        for (key, body) in rows {
            let entry = audit_entry(key, body)?;
            let kind = entry.event.action.kind().number();
            let last = numbers.entry(kind).or_default();
            *last += 1;
            sequences.push(number(entry.sequence));
            kinds.push(i64::from(kind));
            counted.push(*last);
            expiries.push(number(entry.event.expires_at.seconds()));
            bodies.push(body);
        }
        let sql = "INSERT INTO audit_log (sequence, kind, number, expires_at, body)
            SELECT * FROM unnest($1::BIGINT[], $2::BIGINT[], $3::BIGINT[], $4::BIGINT[], $5::BYTEA[])";
        let statement = self.client.prepare_cached(sql).await?;
        let values: [&(dyn ToSql + Sync); 5] = [&sequences, &kinds, &counted, &expiries, &bodies];
        self.client.execute(&statement, &values).await?;
        Ok(())
    }
}

/// Begins a transaction without time limits.
async fn begin(client: &Client, isolation: &str) -> Result<(), Refusal> {
    let sql = format!(
        "BEGIN ISOLATION LEVEL {isolation};
        SET LOCAL statement_timeout = 0;
        SET LOCAL idle_in_transaction_session_timeout = 0"
    );
    Ok(client.batch_execute(&sql).await?)
}

/// Begins a transaction during which no service starts, and waits until no service has a connection.
async fn keep_services_out(client: &Client) -> Result<(), Refusal> {
    begin(client, "READ COMMITTED").await?;
    schema::lock(&Connection::Plain(client)).await?;
    let mut clock = tokio::time::interval(LOOK_EVERY);
    let mut used_by: i64 = 0;
    for _ in 0..LOOKS {
        clock.tick().await;
        client
            .batch_execute("SELECT pg_stat_clear_snapshot()")
            .await?;
        used_by = connections(client, connection::APPLICATION).await?;
        if used_by == 0 {
            return Ok(());
        }
    }
    Err(Refusal::InUse(used_by))
}

/// Gives positions to the entries of the feed that wait for one, and moves the entries that wait to the audit log: no other
/// store has entries that wait.
async fn settle(client: &Client) -> Result<(), SchemaError> {
    let client = Connection::Plain(client);
    while feed::give_positions(&client).await?.is_some() {}
    while audit::settle(&client).await? {}
    Ok(())
}

/// Number of other connections to the database with this name.
async fn connections(client: &Client, name: &str) -> Result<i64, Refusal> {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND application_name = $1 AND pid <> pg_backend_pid()";
    Ok(client.query_one(sql, &[&name]).await?.try_get(0)?)
}

/// Begins to read a source. The snapshot begins after the last service has gone, because a service writes until its last
/// connection ends. So the lock needs its own connection: a transaction takes its snapshot before its locks.
async fn begin_reading(client: &Client, lock: &Client) -> Result<(), Refusal> {
    let sql = "SELECT set_config('application_name', $1, false)";
    for client in [client, lock] {
        client.execute(sql, &[&READS]).await?;
    }
    keep_services_out(lock).await?;
    begin(client, "REPEATABLE READ").await?;
    Ok(settle(client).await?)
}

/// Begins to fill a target. Creates the tables. No existing table may have rows.
async fn empty(client: &mut Client, feed: FeedId) -> Result<(), Refusal> {
    if connections(client, READS).await? > 0 {
        return Err(Refusal::IsSource);
    }
    schema::open(client, None).await?;
    keep_services_out(client).await?;
    settle(client).await?;
    for table in copied().filter(|table| *table != Name::meta) {
        let name = table.text();
        let sql = format!("SELECT 1 FROM {name} LIMIT 1");
        if client.query_opt(&sql, &[]).await?.is_some() {
            return Err(Refusal::NotEmpty(name));
        }
    }
    // The rows stay, because operations lock them.
    let sql = "UPDATE meta SET v = decode('0000000000000000', 'hex')";
    client.execute(sql, &[]).await?;
    let sql = "UPDATE counters SET value = 0 WHERE name = ANY($1)";
    client.execute(sql, &[&COUNTERS.as_slice()]).await?;
    let sql = "INSERT INTO feed (name, identity) VALUES ('revocations', $1)
        ON CONFLICT (name) DO UPDATE SET identity = excluded.identity";
    client.execute(sql, &[&feed.as_bytes().as_slice()]).await?;
    Ok(())
}

#[async_trait]
impl Records for DatabaseRecords {
    async fn read(&mut self, to: Sender<Batch>) -> Result<(), StoreError> {
        for table in copied() {
            let declared = self.client.batch_execute(&declare(table)).await;
            declared.map_err(Fault::from)?;
            loop {
                let mut rows = self.page(table).await?;
                let is_last = rows.len() < BATCH;
                if is_last && table == Name::meta {
                    rows.extend(self.counters().await?);
                }
                rows.retain(|(key, row)| !stays(table, key, row));
                if to.send(Batch { table, rows }).await.is_err() {
                    return Err(StoreError::Failed("nobody takes the rows".into()));
                }
                if is_last {
                    break;
                }
            }
            let closed = self.client.batch_execute(CLOSE).await;
            closed.map_err(Fault::from)?;
        }
        Ok(())
    }

    async fn write(&mut self, mut from: Receiver<Batch>) -> Result<(), StoreError> {
        let mut numbers = BTreeMap::new();
        while let Some(batch) = from.recv().await {
            self.put(&batch, &mut numbers).await?;
        }
        Ok(())
    }

    async fn keep(self: Box<Self>) -> Result<(), StoreError> {
        let commit = self.client.batch_execute("COMMIT");
        Ok(commit.await.map_err(Fault::from)?)
    }
}

const CURSOR: &str = "copied";
const CLOSE: &str = "CLOSE copied";

/// Sorted, because redb writes sorted rows faster and needs the audit log sorted.
fn declare(table: Name) -> String {
    let name = table.text();
    let (columns, by) = match table {
        Name::revoked => ("k, v, sequence", "k"),
        Name::audit_log => ("sequence, body", "kind, sequence"),
        _ => ("k, v", "k"),
    };
    format!("DECLARE {CURSOR} NO SCROLL CURSOR FOR SELECT {columns} FROM {name} ORDER BY {by}")
}

fn read(table: Name, row: &Row) -> Result<(Bytes, Bytes), Fault> {
    match table {
        Name::audit_log => {
            let sequence = unsigned(row.try_get(0)?);
            let event = decode(row.try_get(1)?)?;
            Ok(audit_row(&AuditRecord { sequence, event })?)
        }
        Name::revoked => {
            let entry: Announced = decode(row.try_get(1)?)?;
            let position = row.try_get::<_, Option<i64>>(2)?.map(unsigned);
            let row_of_copy = encode(&Announced { position, ..entry })?;
            Ok((row.try_get(0)?, row_of_copy))
        }
        _ => Ok((row.try_get(0)?, row.try_get(1)?)),
    }
}
