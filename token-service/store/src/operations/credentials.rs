//! What codes, sessions and grants rest on: the credentials of users (D-35).
//!
//! An operation that depends on a user's credentials locks the user. So a change of the credentials either commits before and is
//! seen, or commits afterwards and ends the new code, session or grant.

use crate::fault::Fault;
use crate::tx::tables::{CREDENTIALS_VERSION, META, USERS};
use crate::tx::{Read, Tx, Want};
use domain::{CredentialsVersion, Username};

/// True if the user still has credentials of this version.
pub(crate) fn are_current(
    tx: &mut impl Read,
    username: &Username,
    version: CredentialsVersion,
) -> Result<bool, Fault> {
    let user = USERS.get(tx, username)?;
    Ok(user.is_some_and(|user| user.still_has(version)))
}

/// What [`next_version`] reads.
pub(crate) fn want_version() -> Want {
    META.lock(CREDENTIALS_VERSION)
}

/// The number of a version that was never used before.
pub(crate) fn next_version(tx: &mut impl Tx) -> Result<u64, Fault> {
    let next = META.get(tx, CREDENTIALS_VERSION)?.unwrap_or(0) + 1;
    META.put(tx, CREDENTIALS_VERSION, &next)?;
    Ok(next)
}
