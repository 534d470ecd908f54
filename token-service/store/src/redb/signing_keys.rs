//! Signing keys, sealed.

use redb::ReadableTable as _;

use super::fault::Fault;
use super::tables::{Tables, decode_json, encode_json};
use domain::SealedSigningKey;
use domain::clock::Timestamp;

/// Adds a key, unless one of its algorithm was made after `unless_after`.
pub(super) fn add(
    tables: &mut Tables<'_>,
    key: &SealedSigningKey,
    unless_after: Option<Timestamp>,
) -> Result<bool, Fault> {
    let row = encode_json(key)?;
    let table = tables.signing_keys.open()?;
    for entry in table.iter()? {
        let other: SealedSigningKey = decode_json(entry?.1.value())?;
        let later = unless_after.is_none_or(|after| after < other.created_at);
        if other.algorithm == key.algorithm && later {
            return Ok(false);
        }
    }
    table.insert(key.kid.as_str(), row.as_slice())?;
    Ok(true)
}

/// Sets when a key stopped to sign.
pub(super) fn retire(
    tables: &mut Tables<'_>,
    kid: &str,
    retired_at: Option<Timestamp>,
) -> Result<(), Fault> {
    let table = tables.signing_keys.open()?;
    let Some(mut key) = table
        .get(kid)?
        .map(|row| decode_json::<SealedSigningKey>(row.value()))
        .transpose()?
    else {
        return Ok(());
    };
    key.retired_at = retired_at;
    table.insert(kid, encode_json(&key)?.as_slice())?;
    Ok(())
}

/// Removes a key.
pub(super) fn forget(tables: &mut Tables<'_>, kid: &str) -> Result<bool, Fault> {
    Ok(tables.signing_keys.open()?.remove(kid)?.is_some())
}
