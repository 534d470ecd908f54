//! Removal of expired rows, in small batches.
//!
//! - Unused legacy codes, sessions, failures and audit entries: when they expire.
//! - Used legacy codes: [`USED_CODE_RETENTION`] after their expiry.
//! - Revocations: [`READERS_CLOCK_SKEW`] after the last token that they revoke has expired.
//! - Assertion ids: some time after they expire. An expired id counts as absent.
//! - Grants: when [`Grant::is_over`], or some time later.
//!
//! [`USED_CODE_RETENTION`]: domain::authorization_code::USED_CODE_RETENTION

use std::ops::Bound;
use std::time::Duration;

use redb::ReadableTable as _;

use super::fault::{Fault, readable};
use super::revocations::forget;
use super::tables::{Expiring, Tables, decode};
use super::{audit, codes, grants};
use crate::Swept;
use domain::clock::Timestamp;
use domain::revocation::READERS_CLOCK_SKEW;
use domain::{Grant, Revocation};

/// Number of rows that one batch reads per row that it may remove, of a table without an index by expiry. Such an index
/// would cost every rotation two more writes, and every assertion id two. Instead, each batch reads the next part of the
/// table. So at most about a quarter of the rows are expired: the service starts the next batch at once after a full one.
const LOOKED_AT_PER_REMOVED: usize = 4;

/// The rows after which the next batch continues.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    revocation: Option<u64>,
    grant: Option<[u8; 16]>,
    assertion_id: Option<[u8; 32]>,
}

/// Removes up to `limit` rows, and advances `cursor`.
pub(super) fn sweep(
    tables: &mut Tables<'_>,
    cursor: &mut Cursor,
    now: Timestamp,
    limit: usize,
    access_token_lifetime: Duration,
) -> Result<Swept, Fault> {
    let mut removed = expired_rows(tables, now, limit)?;
    removed += revocations(tables, &mut cursor.revocation, now, limit - removed)?;
    removed += audit::sweep(tables, now, limit - removed)?;
    let ids = &mut cursor.assertion_id;
    removed += expired_assertion_ids(tables, ids, now, limit - removed)?;
    let more = removed >= limit;
    let grants = &mut cursor.grant;
    removed += expired_grants(tables, grants, now, limit - removed, access_token_lifetime)?;
    Ok(Swept { removed, more })
}

fn expired_rows(tables: &mut Tables<'_>, now: Timestamp, limit: usize) -> Result<usize, Fault> {
    let expired = tables
        .expiry
        .open()?
        .range(..(now.seconds(), 0, &[0; 32]))?
        .take(limit)
        .map(|entry| {
            let entry = entry?.0;
            let (at, kind, key) = entry.value();
            Ok((at, kind, *key))
        })
        .collect::<Result<Vec<(u64, u8, [u8; 32])>, Fault>>()?;
    for (at, number, key) in &expired {
        match Expiring::from_number(*number) {
            Some(Expiring::Code) => codes::expired(tables, key, Timestamp::from_seconds(*at))?,
            Some(Expiring::UsedCode) => drop(tables.codes.open()?.remove(key)?),
            Some(Expiring::Failures) => drop(tables.failures.open()?.remove(key)?),
            Some(Expiring::Session) => super::sessions::end(tables, key)?,
            None => {}
        }
        tables.expiry.open()?.remove((*at, *number, key))?;
    }
    Ok(expired.len())
}

/// Entries are sorted by the time of the revocation. One that lives long must not keep those behind it.
fn revocations(
    tables: &mut Tables<'_>,
    cursor: &mut Option<u64>,
    now: Timestamp,
    limit: usize,
) -> Result<usize, Fault> {
    let expired: Vec<Revocation> = {
        let table = tables.revocations.open()?;
        let rows = table.range::<u64>((behind(*cursor), Bound::Unbounded))?;
        next_part(
            rows,
            cursor,
            limit,
            |position| position,
            |_, row| {
                let entry = readable::<Revocation>("revocation", decode(row))?;
                Ok(entry.filter(|entry| entry.expires_at + READERS_CLOCK_SKEW < now))
            },
        )?
    };
    for entry in &expired {
        forget(tables, entry)?;
    }
    Ok(expired.len())
}

fn expired_assertion_ids(
    tables: &mut Tables<'_>,
    cursor: &mut Option<[u8; 32]>,
    now: Timestamp,
    limit: usize,
) -> Result<usize, Fault> {
    let ids = tables.used_once.open()?;
    let rows = ids.range::<&[u8; 32]>((behind(cursor.as_ref()), Bound::Unbounded))?;
    let expired = next_part(
        rows,
        cursor,
        limit,
        |id| *id,
        |id, expires_at| Ok((expires_at < now.seconds()).then_some(*id)),
    )?;
    for id in &expired {
        ids.remove(id)?;
    }
    Ok(expired.len())
}

fn expired_grants(
    tables: &mut Tables<'_>,
    cursor: &mut Option<[u8; 16]>,
    now: Timestamp,
    limit: usize,
    access_token_lifetime: Duration,
) -> Result<usize, Fault> {
    let expired = {
        let table = tables.grants.open()?;
        let rows = table.range::<&[u8; 16]>((behind(cursor.as_ref()), Bound::Unbounded))?;
        next_part(
            rows,
            cursor,
            limit,
            |id| *id,
            |_, row| {
                let grant = readable::<Grant>("grant", decode(row))?;
                Ok(grant.filter(|grant| grant.is_over(now, access_token_lifetime)))
            },
        )?
    };
    for grant in &expired {
        grants::remove(tables, grant)?;
    }
    Ok(expired.len())
}

/// Where the rows begin that the next batch reads.
fn behind<C>(cursor: Option<C>) -> Bound<C> {
    cursor.map_or(Bound::Unbounded, Bound::Excluded)
}

/// What `expired` returns for `rows`, which are those behind `cursor`, until it has returned `limit` values. Advances
/// `cursor`, which `place` makes of a key.
fn next_part<K: redb::Key + 'static, V: redb::Value + 'static, C, T>(
    mut rows: redb::Range<'_, K, V>,
    cursor: &mut Option<C>,
    limit: usize,
    place: impl Fn(K::SelfType<'_>) -> C,
    expired: impl Fn(&C, V::SelfType<'_>) -> Result<Option<T>, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut found = Vec::new();
    let mut left = limit.saturating_mul(LOOKED_AT_PER_REMOVED);
    while left > 0 && found.len() < limit {
        let Some(row) = rows.next() else {
            *cursor = None;
            break;
        };
        let (key, value) = row?;
        let key = place(key.value());
        found.extend(expired(&key, value.value())?);
        *cursor = Some(key);
        left -= 1;
    }
    Ok(found)
}
