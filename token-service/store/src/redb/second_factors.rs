//! Second factors that people set up.

use std::time::Duration;

use redb::ReadableTable as _;

use super::fault::Fault;
use super::tables::{Tables, decode, encode, encode_json};
use super::{credentials, grants, sessions};
use crate::Claim;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{CredentialsVersion, SecondFactor, User, Username};

/// Sets up a second factor, or removes it, and ends what rests on the credentials before.
pub(super) fn set(
    tables: &mut Tables<'_>,
    username: &Username,
    second_factor: Option<&SecondFactor>,
    rests_on: Option<CredentialsVersion>,
    now: Timestamp,
    access_token_lifetime: Duration,
) -> Result<Option<CredentialsVersion>, Fault> {
    let Some(user) = credentials::user(tables, username)?
        .filter(|user| rests_on.is_none_or(|version| user.still_has(version)))
    else {
        return Ok(None);
    };
    let version = renew(tables, user, now, access_token_lifetime)?;
    match second_factor {
        Some(second_factor) => put(tables, username.as_str(), second_factor)?,
        None => remove(tables, username.as_str())?,
    }
    Ok(Some(version))
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

/// Gives `user` other credentials than before, and ends what rests on those: sessions and grants.
fn renew(
    tables: &mut Tables<'_>,
    user: User,
    now: Timestamp,
    access_token_lifetime: Duration,
) -> Result<CredentialsVersion, Fault> {
    let key = user.username.as_str();
    let grants = grants::of_user(tables, key)?;
    sessions::end_all(tables, key)?;
    for grant_id in grants {
        grants::revoke(tables, grant_id, now, access_token_lifetime)?;
    }
    let version = credentials::next_version(tables)?;
    let row = encode_json(&User {
        credentials_version: version,
        ..user.clone()
    })?;
    tables.users.open()?.insert(key, row.as_slice())?;
    Ok(version)
}
