//! Attempts to guess a secret.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresStore;
use super::fault::Fault;
use super::operation::Connection;
use super::value::{seconds, timestamp};
use crate::{AttemptStore, StoreError};
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{Admission, Counted, Failures, PacedKey, attempt};

#[async_trait]
impl AttemptStore for PostgresStore {
    async fn admit_attempt(
        &self,
        keys: Vec<PacedKey>,
        now: Timestamp,
    ) -> Result<Admission, StoreError> {
        self.transaction(async move |client| {
            // All transactions lock rows in the same order, so that they cannot deadlock.
            let mut in_order: Vec<usize> = (0..keys.len()).collect();
            in_order.sort_by_key(|index| keys.get(*index).map(|paced| *paced.key.as_bytes()));
            let mut failures: Vec<_> = keys.into_iter().map(|paced| (paced, None)).collect();
            for index in in_order {
                if let Some((paced, before)) = failures.get_mut(index) {
                    *before = claimed(client, &paced.key, now).await?;
                }
            }
            let (admission, counted) = attempt::admit(&failures, now);
            for ((paced, _), after) in failures.iter().zip(counted) {
                put(client, &paced.key, Some(after)).await?;
            }
            Ok(admission)
        })
        .await
    }

    async fn forgive_attempt(
        &self,
        forget: Option<Digest>,
        take_back: Vec<Counted>,
    ) -> Result<(), StoreError> {
        self.transaction(async move |client| {
            let forgotten = forget.iter().map(|key| (key, None));
            let taken_back = take_back.iter();
            let taken_back = taken_back.map(|counted| (&counted.paced.key, Some(counted)));
            let mut keys: Vec<_> = forgotten.chain(taken_back).collect();
            keys.sort_by_key(|(key, _)| *key.as_bytes());
            for (key, counted) in keys {
                let before = locked(client, key).await?;
                let after = before
                    .zip(counted)
                    .and_then(|(failures, counted)| counted.take_back(failures));
                put(client, key, after).await?;
            }
            Ok(())
        })
        .await
    }
}

/// The failures of a key. Locks the row until this transaction ends. Uses an update without a change, because another
/// transaction could delete a row that was only read.
async fn claimed(
    client: &Connection<'_>,
    key: &Digest,
    now: Timestamp,
) -> Result<Option<Failures>, Fault> {
    let sql = "INSERT INTO failures (key, count, last_at, expires_at) VALUES ($1, 0, $2, $2)
        ON CONFLICT (key) DO UPDATE SET count = failures.count
        RETURNING count, last_at, expires_at";
    let key = key.as_bytes().as_slice();
    read(client.query_opt(sql, &[&key, &seconds(now)]).await?)
}

/// Like `claimed`, but does not create a row.
async fn locked(client: &Connection<'_>, key: &Digest) -> Result<Option<Failures>, Fault> {
    let sql = "SELECT count, last_at, expires_at FROM failures WHERE key = $1 FOR UPDATE";
    read(client.query_opt(sql, &[&key.as_bytes().as_slice()]).await?)
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
    client: &Connection<'_>,
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
            client.execute(sql, &parameters).await?;
        }
        None => {
            client
                .execute("DELETE FROM failures WHERE key = $1", &[&key])
                .await?;
        }
    }
    Ok(())
}
