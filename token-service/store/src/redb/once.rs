//! Things that may be used once: assertions' ids and TOTP time steps.

use redb::{ReadTransaction, ReadableTable as _};

use super::fault::Fault;
use super::tables::{ASSERTION_IDS, Expiring, Tables};
use crate::Claim;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{ClientId, Username};

/// Claims `jti` for the client. An entry past its expiry that no sweep has reached yet counts as absent.
pub(super) fn claim_jti(
    tables: &mut Tables<'_>,
    client_id: &ClientId,
    jti: &str,
    expires_at: Timestamp,
    now: Timestamp,
) -> Result<Claim, Fault> {
    let digest = jti_digest(client_id, jti);
    let key = digest.as_bytes();
    let ids = tables.assertion_ids.open()?;
    let known = ids.get(key)?.map(|expiry| expiry.value());
    if let Some(expiry) = known {
        if expiry > now.seconds() {
            return Ok(Claim::AlreadyClaimed);
        }
        tables.keep(Expiring::AssertionId, key, Timestamp::from_seconds(expiry))?;
    }
    tables
        .assertion_ids
        .open()?
        .insert(key, expires_at.seconds())?;
    tables.expire(Expiring::AssertionId, key, expires_at)?;
    Ok(Claim::Claimed)
}

/// Whether `jti` is claimed for the client.
pub(super) fn is_jti_claimed(
    transaction: &ReadTransaction,
    client_id: &ClientId,
    jti: &str,
    now: Timestamp,
) -> Result<bool, Fault> {
    let ids = transaction.open_table(ASSERTION_IDS)?;
    let expiry = ids.get(jti_digest(client_id, jti).as_bytes())?;
    Ok(expiry.is_some_and(|expiry| expiry.value() > now.seconds()))
}

/// No client id contains the separator, so no two pairs share a digest.
fn jti_digest(client_id: &ClientId, jti: &str) -> Digest {
    Digest::of(format!("{client_id}\0{jti}").as_bytes())
}

/// Claims a time step: it and all before it are used then.
pub(super) fn claim_totp_step(
    tables: &mut Tables<'_>,
    username: &Username,
    step: u64,
) -> Result<Claim, Fault> {
    let steps = tables.totp_steps.open()?;
    let last = steps.get(username.as_str())?.map(|last| last.value());
    if last.is_some_and(|last| step <= last) {
        return Ok(Claim::AlreadyClaimed);
    }
    steps.insert(username.as_str(), step)?;
    Ok(Claim::Claimed)
}
