//! The feed of revocations to the edge.

use std::time::Duration;

use redb::ReadableTable as _;

use super::fault::Fault;
use super::tables::{LAST_REVOCATION_KEY, Tables, encode};
use crate::clock::Timestamp;
use crate::store::{Revocation, Revoked};

/// Adds an entry behind the last one. It lives as long as the tokens that it concerns.
pub(super) fn announce(
    tables: &mut Tables<'_>,
    revoked: Revoked,
    at: Timestamp,
    access_token_lifetime: Duration,
) -> Result<(), Fault> {
    let meta = tables.meta.open()?;
    let last = meta
        .get(LAST_REVOCATION_KEY)?
        .map_or(0, |sequence| sequence.value());
    let sequence = last + 1;
    let row = encode(&Revocation {
        sequence,
        revoked,
        at,
        expires_at: at + access_token_lifetime,
    })?;
    meta.insert(LAST_REVOCATION_KEY, sequence)?;
    tables
        .revocations
        .open()?
        .insert(sequence, row.as_slice())?;
    Ok(())
}
