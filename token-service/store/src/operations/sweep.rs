//! Removal of expired rows, in small batches.
//!
//! - Unused legacy codes, sessions, failures and ids that were used once: some time after they expire. Until then, they count as
//!   absent.
//! - Used legacy codes: [`USED_CODE_RETENTION`] after their expiry, or some time later.
//! - Grants: when [`Grant::is_over`], or some time later.
//!
//! A row that cannot be read stays, and each pass reports the row: a later version, which may have written it, removes it.
//!
//! Each store removes what has expired of its feed and of its audit log.
//!
//! [`USED_CODE_RETENTION`]: domain::authorization_code::USED_CODE_RETENTION

use super::{codes, grants, sessions};
use crate::Swept;
use crate::codec::{Bytes, Key, Keys, Rest};
use crate::fault::Fault;
use crate::stored_code::StoredCode;
use crate::tx::tables::{CODES, FAILURES, GRANTS, SESSIONS, USED_ONCE};
use crate::tx::{Form, Note, Table, Tx};
use domain::Grant;
use domain::clock::Timestamp;
use domain::digest::Digest;

/// Number of rows that one batch reads per row that it may remove. An index by expiry would cost every rotation and every use of
/// a session two more writes. Instead, each batch reads the next part of a table. So at most about a quarter of the rows are
/// expired: the service starts the next batch at once after a full one.
const LOOKED_AT_PER_REMOVED: usize = 4;

/// The keys behind which the next batch continues; `None` for the start of the table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cursor {
    code: Option<Bytes>,
    session: Option<Bytes>,
    failures: Option<Bytes>,
    used_once: Option<Bytes>,
    grant: Option<Bytes>,
}

/// Removes up to `limit` rows that expired before `due`, and advances `cursor`.
pub(crate) fn walk(
    tx: &mut impl Tx,
    cursor: &mut Cursor,
    due: Timestamp,
    limit: usize,
) -> Result<Swept, Fault> {
    let looked_at = limit.saturating_mul(LOOKED_AT_PER_REMOVED);
    tx.ahead(|| {
        [
            CODES.want_rows(behind(cursor.code.as_ref()), looked_at),
            SESSIONS.want_rows(behind(cursor.session.as_ref()), looked_at),
            FAILURES.want_rows(behind(cursor.failures.as_ref()), looked_at),
            USED_ONCE.want_rows(behind(cursor.used_once.as_ref()), looked_at),
            GRANTS.want_rows(behind(cursor.grant.as_ref()), looked_at),
        ]
    });
    let longest_token = tx.longest_token();
    let is_over = |code: &StoredCode<'_>| match code {
        StoredCode::Unused(record) => record.expires_at < due,
        StoredCode::Used { until, .. } => *until < due,
    };
    let mut removed = 0;
    for (key, code) in expired(tx, &CODES, &mut cursor.code, limit, is_over)? {
        codes::remove(tx, &digest(&key)?, &code)?;
        removed += 1;
    }
    let is_over = |session: &domain::Session| session.expires_at < due;
    for (key, _) in expired(tx, &SESSIONS, &mut cursor.session, limit - removed, is_over)? {
        sessions::end(tx, &digest(&key)?)?;
        removed += 1;
    }
    let is_over = |failures: &domain::Failures| failures.expires_at < due;
    let left = limit - removed;
    for (key, _) in expired(tx, &FAILURES, &mut cursor.failures, left, is_over)? {
        FAILURES.remove(tx, &digest(&key)?)?;
        removed += 1;
    }
    let is_over = |until: &Timestamp| *until < due;
    let left = limit - removed;
    for (key, _) in expired(tx, &USED_ONCE, &mut cursor.used_once, left, is_over)? {
        tx.remove(USED_ONCE.name(), &key)?;
        removed += 1;
    }
    let more = removed >= limit;
    let is_over = |grant: &Grant| grant.is_over(due, longest_token);
    for (_, grant) in expired(tx, &GRANTS, &mut cursor.grant, limit - removed, is_over)? {
        grants::remove(tx, &grant)?;
        removed += 1;
    }
    Ok(Swept { removed, more })
}

fn behind(cursor: Option<&Bytes>) -> Keys {
    cursor.map_or_else(Keys::all, |key| Keys::all().behind(key))
}

/// At most `limit` expired rows of the next part of a table. Advances `cursor`.
pub(crate) fn expired<K: Key + ?Sized, V: Form>(
    tx: &mut impl Tx,
    table: &Table<K, V>,
    cursor: &mut Option<Bytes>,
    limit: usize,
    is_over: impl Fn(&V) -> bool,
) -> Result<Vec<(Bytes, V)>, Fault> {
    let most = limit.saturating_mul(LOOKED_AT_PER_REMOVED);
    if most == 0 {
        return Ok(Vec::new());
    }
    let keys = behind(cursor.as_ref());
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    let (mut looked_at, mut last) = (0, Bytes::new());
    tx.range(table.name(), &keys, most, |key, row| {
        if found.len() == limit {
            return Ok(());
        }
        looked_at += 1;
        last.clear();
        last.extend_from_slice(key);
        match V::decode(row) {
            Ok(row) if is_over(&row) => found.push((key.to_vec(), row)),
            Ok(_) => {}
            Err(Fault::Row(reason)) => unreadable.push(reason),
            Err(fault) => return Err(fault),
        }
        Ok(())
    })?;
    for reason in unreadable {
        let table = table.name();
        tx.note(Note::PassedOver { table, reason });
    }
    let is_end = looked_at < most && found.len() < limit;
    *cursor = (!is_end).then_some(last);
    Ok(found)
}

fn digest(key: &[u8]) -> Result<Digest, Fault> {
    Ok(Digest::from_bytes(*Rest(key).array()?))
}
