//! Removal of expired rows, with the parts of the feed and the audit log that only a file has.
//!
//! - Audit entries: when they expire.
//! - Revocations: [`READERS_CLOCK_SKEW`] after the last token that they revoke has expired.

use super::tables::Tables;
use super::{audit, revocations};
use crate::Swept;
use crate::fault::Fault;
use crate::operations::sweep::{self, expired};
use crate::tx::tables::REVOCATIONS;
use domain::Revocation;
use domain::clock::Timestamp;
use domain::revocation::READERS_CLOCK_SKEW;

use crate::codec::Bytes;

/// The keys behind which the next batch continues.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    revocation: Option<Bytes>,
    others: sweep::Cursor,
}

/// Removes up to `limit` rows, and advances `cursor`.
pub(super) fn sweep(
    tables: &mut Tables<'_>,
    cursor: &mut Cursor,
    due: Timestamp,
    limit: usize,
) -> Result<Swept, Fault> {
    // Entries are sorted by the time of the revocation. One that lives long must not keep those behind it.
    let is_over = |entry: &Revocation| entry.expires_at + READERS_CLOCK_SKEW < due;
    let gone = expired(tables, &REVOCATIONS, &mut cursor.revocation, limit, is_over)?;
    for (_, entry) in &gone {
        revocations::forget(tables, entry)?;
    }
    let mut removed = gone.len();
    removed += audit::sweep(tables, due, limit - removed)?;
    let others = sweep::walk(tables, &mut cursor.others, due, limit - removed)?;
    Ok(Swept {
        removed: removed + others.removed,
        more: others.more,
    })
}
