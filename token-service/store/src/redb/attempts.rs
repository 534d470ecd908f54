//! Attempts to prove something that can be guessed.

use redb::ReadableTable as _;

use super::fault::Fault;
use super::tables::{Expiring, Tables, decode, encode};
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{Admission, Failures, PacedKey, attempt};

/// Decides on an attempt and counts it.
pub(super) fn admit(
    tables: &mut Tables<'_>,
    keys: &[PacedKey],
    now: Timestamp,
) -> Result<Admission, Fault> {
    let failures = keys
        .iter()
        .map(|PacedKey { key, pace }| Ok((*pace, get(tables, key)?)))
        .collect::<Result<Vec<_>, Fault>>()?;
    let (admission, counted) = attempt::admit(&failures, now);
    for ((PacedKey { key, .. }, (_, before)), after) in keys.iter().zip(failures).zip(counted) {
        put(tables, key, before, Some(after))?;
    }
    Ok(admission)
}

/// Forgets all failures of one key, and takes one back of each of the others.
pub(super) fn forgive(
    tables: &mut Tables<'_>,
    forget: Option<&Digest>,
    take_back: &[Digest],
) -> Result<(), Fault> {
    if let Some(forget) = forget {
        let forgotten = get(tables, forget)?;
        put(tables, forget, forgotten, None)?;
    }
    for key in take_back {
        let before = get(tables, key)?;
        put(tables, key, before, before.and_then(Failures::one_less))?;
    }
    Ok(())
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
