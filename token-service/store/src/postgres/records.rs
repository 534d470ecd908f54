//! All rows of a database, for a copy to or from another store.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connection::Client;
use super::fault::Fault;
use super::operation::Connection;
use super::schema::{self, SchemaError};
use super::settings::PostgresSettings;
use super::value::timestamp;
use super::{OpenError, OsRandom, audit, connection, positions};
use crate::StoreError;
use crate::records::{BATCH, Batch, COUNTERS, Cell, Column, ColumnType, Record, Records, Table};
use crate::row::{decode, encode};
use domain::{FeedId, Grant};

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
        let (client, lock) = (connect(settings).await?, connect(settings).await?);
        let opened = begin_reading(&client, &lock).await;
        opened.map_err(|refusal| failed(settings, &refusal))?;
        Ok(Self {
            client,
            _lock: Some(lock),
        })
    }

    /// Connects to an empty database, and creates the tables.
    pub(crate) async fn target(settings: &PostgresSettings) -> Result<Self, OpenError> {
        let mut client = connect(settings).await?;
        let feed = FeedId::generate(&OsRandom)?;
        let opened = empty(&mut client, feed).await;
        opened.map_err(|refusal| failed(settings, &refusal))?;
        Ok(Self {
            client,
            _lock: None,
        })
    }

    async fn page(&self, table: Table) -> Result<Batch, Fault> {
        let sql = format!("FETCH {} FROM {CURSOR}", BATCH);
        let rows = self.client.query(&sql, &[]).await?;
        let records = rows.iter().map(|row| read(table, row));
        let records = records.collect::<Result<_, Fault>>()?;
        Ok(Batch { table, records })
    }

    async fn put(&self, batch: &Batch) -> Result<(), Fault> {
        let columns = batch.table.columns();
        let values: Vec<_> = (0..)
            .zip(columns)
            .map(|(index, column)| array(&batch.records, index, column))
            .collect::<Result<_, Fault>>()?;
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| &**value as _).collect();
        let sql = insert(batch.table);
        let statement = self.client.prepare_cached(&sql).await?;
        self.client.execute(&statement, &values).await?;
        Ok(())
    }
}

async fn connect(settings: &PostgresSettings) -> Result<Client, OpenError> {
    let client = connection::pool(settings)?.get().await;
    client.map_err(|error| failed(settings, &SchemaError::Fault(error.into()).into()))
}

fn failed(settings: &PostgresSettings, refusal: &Refusal) -> OpenError {
    OpenError::Database {
        place: settings.url.place(),
        reason: refusal.to_string(),
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
    while positions::give(&client).await?.is_some() {}
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

/// Begins to fill a target. Creates the tables, of which none may have rows.
async fn empty(client: &mut Client, feed: FeedId) -> Result<(), Refusal> {
    if connections(client, READS).await? > 0 {
        return Err(Refusal::IsSource);
    }
    schema::open(client, None).await?;
    keep_services_out(client).await?;
    settle(client).await?;
    for table in Table::ALL {
        let name = table.name();
        let sql = format!("SELECT 1 FROM {name} LIMIT 1");
        if *table != Table::Counters && client.query_opt(&sql, &[]).await?.is_some() {
            return Err(Refusal::NotEmpty(name));
        }
    }
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
        for table in Table::ALL {
            let sql = declare(*table);
            let declared = self.client.batch_execute(&sql).await;
            declared.map_err(Fault::from)?;
            loop {
                let batch = self.page(*table).await?;
                let is_last = batch.records.len() < BATCH;
                if to.send(batch).await.is_err() {
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
        while let Some(batch) = from.recv().await {
            self.put(&batch).await?;
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
fn declare(table: Table) -> String {
    let columns = table.columns().iter();
    let columns: Vec<String> = columns
        .map(|column| format!("{}::{}", column.name, column.sql_type()))
        .collect();
    let rows = match table {
        // An attempt that had to wait may leave a row without failures.
        Table::Failures => "WHERE count > 0".to_owned(),
        Table::Counters => format!("WHERE value <> 0 AND name IN ('{}')", COUNTERS.join("', '")),
        _ => String::new(),
    };
    format!(
        "DECLARE {CURSOR} NO SCROLL CURSOR FOR SELECT {} FROM {} {rows} ORDER BY 1",
        columns.join(", "),
        table.name()
    )
}

/// The names of the columns of a table, and a parameter for each.
pub(super) fn names_and_values(table: Table) -> (String, String) {
    parameters(table, |number, _| format!("${number}"))
}

fn parameters(table: Table, parameter: impl Fn(usize, &Column) -> String) -> (String, String) {
    let columns = (1..).zip(table.columns());
    let (names, parameters): (Vec<&str>, Vec<String>) = columns
        .map(|(number, column)| (column.name, parameter(number, column)))
        .unzip();
    (names.join(", "), parameters.join(", "))
}

/// The values for [`names_and_values`].
pub(super) fn values<'a>(table: Table, row: &'a Record) -> Vec<&'a (dyn ToSql + Sync)> {
    let cells = row.0.iter().zip(table.columns());
    let value = |(cell, column): (&'a Cell, &Column)| -> &'a (dyn ToSql + Sync) {
        match (cell, column.kind) {
            (Cell::Number(number), _) => number,
            (Cell::Text(text), _) => text,
            (Cell::Bytes(bytes), _) => bytes,
            (Cell::Null, ColumnType::Number) => &None::<i64>,
            (Cell::Null, ColumnType::Text) => &None::<&str>,
            (Cell::Null, ColumnType::Bytes) => &None::<&[u8]>,
        }
    };
    cells.map(value).collect()
}

fn insert(table: Table) -> String {
    let (names, arrays) = parameters(table, |number, column| {
        format!("${number}::{}[]", column.sql_type())
    });
    let conflict = match table {
        Table::Counters => "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        _ => "",
    };
    let name = table.name();
    format!("INSERT INTO {name} ({names}) SELECT * FROM unnest({arrays}) {conflict}")
}

fn read(table: Table, row: &Row) -> Result<Record, Fault> {
    let mut cells = Vec::new();
    for (index, column) in table.columns().iter().enumerate() {
        cells.push(match column.kind {
            ColumnType::Number => row.try_get::<_, Option<i64>>(index)?.into(),
            ColumnType::Text => row.try_get::<_, Option<String>>(index)?.into(),
            ColumnType::Bytes => row.try_get::<_, Option<Vec<u8>>>(index)?.into(),
        });
    }
    // The body of a revoked grant is of the time before.
    if table == Table::Grants
        && let [.., Cell::Number(revoked_at), Cell::Bytes(body)] = cells.as_mut_slice()
    {
        let mut grant: Grant = decode(body)?;
        if grant.revoke(timestamp(*revoked_at)) {
            *body = encode(&grant)?;
        }
    }
    Ok(Record(cells))
}

type Array<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// The values of a column.
fn array<'a>(records: &'a [Record], index: usize, column: &Column) -> Result<Array<'a>, Fault> {
    fn all<'a, T: ToSql + Sync + Send + 'a>(
        records: &'a [Record],
        index: usize,
        value: impl Fn(&'a Record) -> Result<T, crate::row::RowError>,
    ) -> Result<Array<'a>, Fault> {
        let some = |record: &'a Record| match record.is_null(index) {
            true => Ok(None),
            false => value(record).map(Some),
        };
        let values: Result<Vec<Option<T>>, _> = records.iter().map(some).collect();
        Ok(Box::new(values?))
    }
    match column.kind {
        ColumnType::Number => all(records, index, |record| record.some_number::<i64>(index)),
        ColumnType::Text => all(records, index, |record| record.text(index)),
        ColumnType::Bytes => all(records, index, |record| record.bytes(index)),
    }
}
