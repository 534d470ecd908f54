//! Attempts to guess a secret.

use async_trait::async_trait;
use redb::ReadableTable as _;

use super::RedbStore;
use super::fault::Fault;
use super::tables::{Expiring, Tables, encode, found};
use crate::{AttemptStore, StoreError};
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{Admission, Counted, Failures, PacedKey, attempt};

#[async_trait]
impl AttemptStore for RedbStore {
    async fn admit_attempt(
        &self,
        keys: Vec<PacedKey>,
        now: Timestamp,
    ) -> Result<Admission, StoreError> {
        self.write(move |tables, _| {
            let failures = keys
                .iter()
                .map(|paced| Ok((*paced, get(tables, &paced.key)?)))
                .collect::<Result<Vec<_>, Fault>>()?;
            let (admission, counted) = attempt::admit(&failures, now);
            for ((paced, before), after) in failures.into_iter().zip(counted) {
                put(tables, &paced.key, before, Some(after))?;
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
        self.write(move |tables, _| {
            if let Some(forget) = &forget {
                let forgotten = get(tables, forget)?;
                put(tables, forget, forgotten, None)?;
            }
            for counted in &take_back {
                let key = &counted.paced.key;
                let before = get(tables, key)?;
                let after = before.and_then(|failures| counted.take_back(failures));
                put(tables, key, before, after)?;
            }
            Ok(())
        })
        .await
    }
}

fn get(tables: &mut Tables<'_>, key: &Digest) -> Result<Option<Failures>, Fault> {
    found(tables.failures.open()?.get(key.as_bytes())?)
}

fn put(
    tables: &mut Tables<'_>,
    key: &Digest,
    before: Option<Failures>,
    after: Option<Failures>,
) -> Result<(), Fault> {
    let key = key.as_bytes();
    if let Some(before) = before {
        tables.keep(Expiring::Failures, key, before.expires_at)?;
    }
    match after {
        Some(after) => add(tables, key, after),
        None => {
            tables.failures.open()?.remove(key)?;
            Ok(())
        }
    }
}

/// Writes the rows of failures.
pub(super) fn add(
    tables: &mut Tables<'_>,
    key: &[u8; 32],
    failures: Failures,
) -> Result<(), Fault> {
    let row = encode(&failures)?;
    tables.failures.open()?.insert(key, row.as_slice())?;
    tables.expire(Expiring::Failures, key, failures.expires_at)
}
