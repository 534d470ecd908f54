//! Attempts to prove something that can be guessed.

use redb::ReadableTable as _;

use super::fault::Fault;
use super::tables::{Expiring, Tables, decode, encode};
use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::store::{Admission, Failures, PacedKey};

/// Counts an attempt for all keys, unless one of them has to wait.
pub(super) fn admit(
    tables: &mut Tables<'_>,
    keys: &[PacedKey],
    now: Timestamp,
) -> Result<Admission, Fault> {
    let mut counted = Vec::with_capacity(keys.len());
    let mut wait = std::time::Duration::ZERO;
    for PacedKey { key, pace } in keys {
        let before = get(tables, key)?;
        wait = wait.max(pace.wait(before, now));
        counted.push((key, before, pace.count(before, now)));
    }
    if !wait.is_zero() {
        return Ok(Admission::Wait(wait));
    }
    for (key, before, after) in counted {
        put(tables, key, before, Some(after))?;
    }
    Ok(Admission::Admitted)
}

/// Forgets all failures of one key, and takes one back of the other.
pub(super) fn forgive(
    tables: &mut Tables<'_>,
    forget: &Digest,
    take_back: &Digest,
) -> Result<(), Fault> {
    let forgotten = get(tables, forget)?;
    put(tables, forget, forgotten, None)?;
    let before = get(tables, take_back)?;
    put(
        tables,
        take_back,
        before,
        before.and_then(Failures::one_less),
    )
}

fn get(tables: &mut Tables<'_>, key: &Digest) -> Result<Option<Failures>, Fault> {
    match tables.failures.open()?.get(key.as_bytes())? {
        Some(row) => decode(row.value()).map(Some),
        None => Ok(None),
    }
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
        Some(after) => {
            let row = encode(&after)?;
            tables.failures.open()?.insert(key, row.as_slice())?;
            tables.expire(Expiring::Failures, key, after.expires_at)
        }
        None => {
            tables.failures.open()?.remove(key)?;
            Ok(())
        }
    }
}
