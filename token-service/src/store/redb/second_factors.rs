//! Second factors that people set up.

use redb::ReadableTable as _;

use super::fault::Fault;
use super::sessions;
use super::tables::{Tables, decode, encode};
use crate::digest::Digest;
use crate::store::{Claim, SecondFactor};

/// Sets up a second factor, or removes it, and ends the user's sessions.
pub(super) fn set(
    tables: &mut Tables<'_>,
    username: &str,
    second_factor: Option<&SecondFactor>,
) -> Result<(), Fault> {
    sessions::end_all(tables, username)?;
    match second_factor {
        Some(second_factor) => put(tables, username, second_factor),
        None => remove(tables, username),
    }
}

/// Uses a recovery code up.
pub(super) fn claim_recovery_code(
    tables: &mut Tables<'_>,
    username: &str,
    code: &Digest,
) -> Result<Claim, Fault> {
    let mut second_factor: SecondFactor = match tables.second_factors.open()?.get(username)? {
        Some(row) => decode(row.value())?,
        None => return Ok(Claim::AlreadyClaimed),
    };
    if !second_factor.use_up(code) {
        return Ok(Claim::AlreadyClaimed);
    }
    put(tables, username, &second_factor)?;
    Ok(Claim::Claimed)
}

/// Forgets what the user set up.
pub(super) fn remove(tables: &mut Tables<'_>, username: &str) -> Result<(), Fault> {
    tables.second_factors.open()?.remove(username)?;
    Ok(())
}

fn put(tables: &mut Tables<'_>, username: &str, second_factor: &SecondFactor) -> Result<(), Fault> {
    let row = encode(second_factor)?;
    tables
        .second_factors
        .open()?
        .insert(username, row.as_slice())?;
    Ok(())
}
