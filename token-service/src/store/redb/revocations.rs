//! The feed of revocations to the edge, and the same by what is revoked.

use redb::{ReadTransaction, ReadableTable as _};

use super::fault::Fault;
use super::tables::{LAST_REVOCATION_KEY, META, REVOKED, Tables, encode};
use crate::clock::Timestamp;
use crate::store::{Revocation, Revoked, TokenReference};

/// Adds an entry behind the last one. It lives as long as the tokens that it concerns.
pub(super) fn announce(
    tables: &mut Tables<'_>,
    revoked: Revoked,
    at: Timestamp,
    expires_at: Timestamp,
) -> Result<(), Fault> {
    let meta = tables.meta.open()?;
    let last = meta
        .get(LAST_REVOCATION_KEY)?
        .map_or(0, |sequence| sequence.value());
    let sequence = last + 1;
    let key = key(&revoked);
    let row = encode(&Revocation {
        sequence,
        revoked,
        at,
        expires_at,
    })?;
    meta.insert(LAST_REVOCATION_KEY, sequence)?;
    tables
        .revocations
        .open()?
        .insert(sequence, row.as_slice())?;
    tables
        .revoked
        .open()?
        .insert(key.as_slice(), (at.seconds(), sequence))?;
    Ok(())
}

/// Removes an entry that concerns no living token any more.
pub(super) fn forget(tables: &mut Tables<'_>, entry: &Revocation) -> Result<(), Fault> {
    let key = key(&entry.revoked);
    let revoked = tables.revoked.open()?;
    let latest = revoked.get(key.as_slice())?.map(|row| row.value().1);
    if latest == Some(entry.sequence) {
        revoked.remove(key.as_slice())?;
    }
    tables.revocations.open()?.remove(entry.sequence)?;
    Ok(())
}

/// Whether anything that `token` depends on is revoked.
pub(super) fn is_revoked(
    transaction: &ReadTransaction,
    token: TokenReference,
) -> Result<bool, Fault> {
    let table = transaction.open_table(REVOKED)?;
    let revoked_at = |revoked: &Revoked| -> Result<Option<u64>, Fault> {
        Ok(table.get(key(revoked).as_slice())?.map(|row| row.value().0))
    };
    for revoked in [
        Revoked::Grant(token.grant_id),
        Revoked::Token(token.token_id),
    ] {
        if revoked_at(&revoked)?.is_some() {
            return Ok(true);
        }
    }
    for revoked in [
        Revoked::Client(token.client_id),
        Revoked::User(token.username),
    ] {
        if revoked_at(&revoked)?.is_some_and(|at| token.issued_at.seconds() <= at) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The highest sequence that was ever used.
pub(super) fn last(transaction: &ReadTransaction) -> Result<u64, Fault> {
    let last = transaction.open_table(META)?.get(LAST_REVOCATION_KEY)?;
    Ok(last.map_or(0, |sequence| sequence.value()))
}

/// One letter for the kind, then the id.
fn key(revoked: &Revoked) -> Vec<u8> {
    let (kind, id) = match revoked {
        Revoked::Grant(id) => (b'g', id.as_bytes().as_slice()),
        Revoked::Token(id) => (b't', id.as_bytes().as_slice()),
        Revoked::Client(id) => (b'c', id.as_str().as_bytes()),
        Revoked::User(name) => (b'u', name.as_str().as_bytes()),
    };
    [&[kind], id].concat()
}
