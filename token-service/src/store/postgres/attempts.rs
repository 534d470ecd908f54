//! Attempts to prove something that can be guessed.

use std::time::Duration;

use deadpool_postgres::GenericClient;
use tokio_postgres::Row;

use super::fault::Fault;
use super::operation::{Operation, execute, query_opt};
use super::value::{seconds, timestamp};
use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::store::{Admission, Failures, PacedKey};

/// Counts an attempt for all keys, unless one of them has to wait.
pub(super) struct Admit {
    /// In one order for everybody, so that no two attempts wait for each other.
    keys: Vec<PacedKey>,
    now: Timestamp,
}

impl Admit {
    pub(super) fn new(mut keys: Vec<PacedKey>, now: Timestamp) -> Self {
        keys.sort_by_key(|paced| *paced.key.as_bytes());
        Self { keys, now }
    }
}

impl Operation for Admit {
    type Outcome = Admission;

    async fn run(&self, client: &impl GenericClient) -> Result<Admission, Fault> {
        let mut counted = Vec::with_capacity(self.keys.len());
        let mut wait = Duration::ZERO;
        for PacedKey { key, pace } in &self.keys {
            let before = claimed(client, key, self.now).await?;
            wait = wait.max(pace.wait(before, self.now));
            counted.push((key, pace.count(before, self.now)));
        }
        if !wait.is_zero() {
            return Ok(Admission::Wait(wait));
        }
        for (key, after) in counted {
            put(client, key, Some(after)).await?;
        }
        Ok(Admission::Admitted)
    }
}

/// Forgets all failures of one key, and takes one back of the other.
pub(super) struct Forgive {
    pub(super) forget: Digest,
    pub(super) take_back: Digest,
}

impl Operation for Forgive {
    type Outcome = ();

    async fn run(&self, client: &impl GenericClient) -> Result<(), Fault> {
        let mut keys = [self.forget, self.take_back];
        keys.sort_by_key(|key| *key.as_bytes());
        for key in keys {
            let before = locked(client, &key).await?;
            let after = before
                .filter(|_| key != self.forget)
                .and_then(Failures::one_less);
            put(client, &key, after).await?;
        }
        Ok(())
    }
}

/// What is remembered of a key, in a row that nobody else changes before this transaction ends. An update without a
/// change, because a row that is only read could be removed by others before it is written.
async fn claimed(
    client: &impl GenericClient,
    key: &Digest,
    now: Timestamp,
) -> Result<Option<Failures>, Fault> {
    let sql = "INSERT INTO failures (key, count, last_at, expires_at) VALUES ($1, 0, $2, $2)
        ON CONFLICT (key) DO UPDATE SET count = failures.count
        RETURNING count, last_at, expires_at";
    let key = key.as_bytes().as_slice();
    read(query_opt(client, sql, &[&key, &seconds(now)]).await?)
}

/// The same where there is a row already.
async fn locked(client: &impl GenericClient, key: &Digest) -> Result<Option<Failures>, Fault> {
    let sql = "SELECT count, last_at, expires_at FROM failures WHERE key = $1 FOR UPDATE";
    read(query_opt(client, sql, &[&key.as_bytes().as_slice()]).await?)
}

fn read(row: Option<Row>) -> Result<Option<Failures>, Fault> {
    let Some(row) = row else { return Ok(None) };
    let count: i64 = row.try_get(0)?;
    let failures = Failures {
        count: u32::try_from(count).unwrap_or(u32::MAX),
        last_at: timestamp(row.try_get(1)?),
        expires_at: timestamp(row.try_get(2)?),
    };
    Ok(Some(failures).filter(|failures| failures.count > 0))
}

async fn put(
    client: &impl GenericClient,
    key: &Digest,
    failures: Option<Failures>,
) -> Result<(), Fault> {
    let key = key.as_bytes().as_slice();
    match failures {
        Some(failures) => {
            let sql =
                "UPDATE failures SET count = $2, last_at = $3, expires_at = $4 WHERE key = $1";
            let (last_at, expires_at) = (seconds(failures.last_at), seconds(failures.expires_at));
            let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
                [&key, &i64::from(failures.count), &last_at, &expires_at];
            execute(client, sql, &parameters).await?;
        }
        None => {
            execute(client, "DELETE FROM failures WHERE key = $1", &[&key]).await?;
        }
    }
    Ok(())
}
