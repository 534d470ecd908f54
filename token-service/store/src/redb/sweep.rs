//! Removal of expired rows, in small batches.
//!
//! - Unused legacy codes, assertion ids, sessions, failures and audit entries: when they expire.
//! - Used legacy codes: [`USED_CODE_RETENTION`] after their expiry.
//! - Revocations: when the last token that they revoke has expired.
//! - Grants: when [`Grant::is_over`].
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
use domain::{Grant, GrantId, Revocation};

/// Number of grants that one batch reads per row that it may remove. Grants have no index by expiry, because it would
/// cost every rotation two more writes. Instead, each batch reads the next part of the grants.
const LOOKED_AT_PER_REMOVED: usize = 4;

/// The grant after which the next batch continues.
pub(super) type Cursor = Option<GrantId>;

/// Removes up to `limit` rows, and advances `cursor`.
pub(super) fn sweep(
    tables: &mut Tables<'_>,
    cursor: &mut Cursor,
    now: Timestamp,
    limit: usize,
    access_token_lifetime: Duration,
) -> Result<Swept, Fault> {
    let mut removed = expired_rows(tables, now, limit)?;
    removed += revocations(tables, now, limit - removed)?;
    removed += audit::sweep(tables, now, limit - removed)?;
    let more = removed >= limit;
    removed += expired_grants(tables, cursor, now, limit - removed, access_token_lifetime)?;
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
            Some(Expiring::AssertionId) => drop(tables.assertion_ids.open()?.remove(key)?),
            Some(Expiring::Failures) => drop(tables.failures.open()?.remove(key)?),
            Some(Expiring::Session) => super::sessions::end(tables, key)?,
            None => {}
        }
        tables.expiry.open()?.remove((*at, *number, key))?;
    }
    Ok(expired.len())
}

/// Entries are sorted by time and have similar lifetimes, so the expired entries come first. An entry for a single
/// token may expire before earlier entries, and is removed after them.
fn revocations(tables: &mut Tables<'_>, now: Timestamp, limit: usize) -> Result<usize, Fault> {
    let mut expired: Vec<Revocation> = Vec::new();
    for entry in tables.revocations.open()?.range::<u64>(..)?.take(limit) {
        let Some(entry) = readable::<Revocation>("revocation", decode(entry?.1.value()))? else {
            continue;
        };
        if entry.expires_at >= now {
            break;
        }
        expired.push(entry);
    }
    for entry in &expired {
        forget(tables, entry)?;
    }
    Ok(expired.len())
}

fn expired_grants(
    tables: &mut Tables<'_>,
    cursor: &mut Cursor,
    now: Timestamp,
    limit: usize,
    access_token_lifetime: Duration,
) -> Result<usize, Fault> {
    let first = cursor.map(|id| *id.as_bytes()).unwrap_or_default();
    let lower = if cursor.is_some() {
        Bound::Excluded(&first)
    } else {
        Bound::Included(&first)
    };
    let mut expired = Vec::new();
    let mut reached = None;
    let mut looked_at = 0;
    for entry in tables
        .grants
        .open()?
        .range::<&[u8; 16]>((lower, Bound::Unbounded))?
        .take(limit.saturating_mul(LOOKED_AT_PER_REMOVED))
    {
        looked_at += 1;
        let (id, row) = entry?;
        let Some(grant) = readable::<Grant>("grant", decode(row.value()))? else {
            reached = Some(GrantId::from_bytes(*id.value()));
            continue;
        };
        if grant.is_over(now, access_token_lifetime) {
            expired.push(grant);
            if expired.len() >= limit {
                break;
            }
        } else {
            reached = Some(grant.grant_id);
        }
    }
    let at_the_end =
        looked_at < limit.saturating_mul(LOOKED_AT_PER_REMOVED) && expired.len() < limit;
    *cursor = if at_the_end {
        None
    } else {
        reached.or(*cursor)
    };
    for grant in &expired {
        grants::remove(tables, grant)?;
    }
    Ok(expired.len())
}
