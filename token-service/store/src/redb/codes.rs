//! Authorization codes: issuing, redeeming, and detecting a second use.

use std::time::Duration;

use async_trait::async_trait;
use redb::ReadableTable as _;

use super::RedbStore;
use super::fault::{Fault, readable};
use super::tables::{Expiring, Tables, decode, encode};
use super::{credentials, grants};
use crate::{Begin, CodeStore, StoreError, room, used_code};
use domain::authorization_code::{USED_CODE_RETENTION, UsedCode};
use domain::cap;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{CodeMismatch, CodeRecord, GrantId, PresentedCode, Redemption, RefreshStep};

#[async_trait]
impl CodeStore for RedbStore {
    async fn issue_code(&self, code: Digest, record: CodeRecord) -> Result<Begin, StoreError> {
        self.write(move |tables, _| {
            let user = credentials::user(tables, &record.username)?;
            if !record.rests_on(user.as_ref()) {
                return Ok(Begin::CredentialsChanged);
            }
            make_room(tables, &record)?;
            let row = encode(&record)?;
            tables
                .codes
                .open()?
                .insert(code.as_bytes(), row.as_slice())?;
            let note = note_of(&record, code.as_bytes());
            tables.unused_codes.open()?.insert(note, ())?;
            tables.expire(Expiring::Code, code.as_bytes(), record.expires_at)?;
            Ok(Begin::Begun)
        })
        .await
    }

    async fn redeem_code(
        &self,
        code: Digest,
        presented: PresentedCode,
        grant_id: GrantId,
        first: RefreshStep,
        now: Timestamp,
    ) -> Result<Redemption, StoreError> {
        self.write(move |tables, access_token_lifetime| {
            let key = code.as_bytes();
            let stored: Option<CodeRecord> = match tables.codes.open()?.get(key)? {
                Some(row) => Some(decode(row.value())?),
                None => None,
            };
            let Some(record) = stored else {
                return replay(tables, key, &presented, now, access_token_lifetime);
            };
            if let Err(mismatch) = record.check(&presented, &first.scope, now) {
                return Ok(Redemption::Mismatch(mismatch));
            }
            let user = credentials::user(tables, &record.username)?;
            if !record.rests_on(user.as_ref()) {
                return Ok(Redemption::Mismatch(CodeMismatch::Outdated));
            }
            let used = encode(&UsedCode::of(&record, grant_id))?;
            let forgotten_at = now + USED_CODE_RETENTION;
            tables.codes.open()?.remove(key)?;
            tables.unused_codes.open()?.remove(note_of(&record, key))?;
            tables.keep(Expiring::Code, key, record.expires_at)?;
            tables.used_codes.open()?.insert(key, used.as_slice())?;
            tables.expire(Expiring::UsedCode, key, forgotten_at)?;
            let grant = record.into_grant(grant_id, first);
            grants::insert(tables, &grant, now, access_token_lifetime)?;
            Ok(Redemption::Redeemed(Box::new(grant)))
        })
        .await
    }
}

/// The key in the table of unused codes.
fn note_of<'a>(
    record: &'a CodeRecord,
    code: &'a [u8; 32],
) -> (&'a str, &'a str, u64, &'a [u8; 32]) {
    let (user, client) = (record.username.as_str(), record.client_id.as_str());
    (user, client, record.expires_at.seconds(), code)
}

/// Removes codes of the same user and client to make room for a new code.
fn make_room(tables: &mut Tables<'_>, record: &CodeRecord) -> Result<(), Fault> {
    let (user, client) = (record.username.as_str(), record.client_id.as_str());
    let held = tables
        .unused_codes
        .open()?
        .range((user, client, 0, &[0; 32])..=(user, client, u64::MAX, &[0xff; 32]))?
        .take(cap::CODES.looked_at())
        .map(|entry| {
            let (note, _) = entry?;
            let (_, _, expires_at, code) = note.value();
            Ok((Timestamp::from_seconds(expires_at), *code))
        })
        .collect::<Result<Vec<(Timestamp, [u8; 32])>, Fault>>()?;
    let over = cap::CODES.to_end(held);
    room::note("code", user, over.len());
    for (expires_at, code) in &over {
        tables.codes.open()?.remove(code)?;
        let note = (user, client, expires_at.seconds(), code);
        tables.unused_codes.open()?.remove(note)?;
        tables.keep(Expiring::Code, code, *expires_at)?;
    }
    Ok(())
}

/// Deletes an expired unused code.
pub(super) fn forget(tables: &mut Tables<'_>, code: &[u8; 32]) -> Result<(), Fault> {
    let record: Option<CodeRecord> = match tables.codes.open()?.remove(code)? {
        Some(row) => readable("code", decode(row.value()))?,
        None => None,
    };
    if let Some(record) = record {
        tables.unused_codes.open()?.remove(note_of(&record, code))?;
    }
    Ok(())
}

/// RFC 6749 §4.1.2: a second use "SHOULD revoke (when possible) all tokens previously issued".
fn replay(
    tables: &mut Tables<'_>,
    key: &[u8; 32],
    presented: &PresentedCode,
    now: Timestamp,
    access_token_lifetime: Duration,
) -> Result<Redemption, Fault> {
    let judged = match tables.used_codes.open()?.get(key)? {
        Some(row) => used_code::judge(row.value(), presented)?,
        None => return Ok(Redemption::Unknown),
    };
    match judged {
        Ok(grant_id) => {
            grants::revoke(tables, grant_id, now, access_token_lifetime)?;
            Ok(Redemption::Replayed(grant_id))
        }
        Err(mismatch) => Ok(Redemption::Mismatch(mismatch)),
    }
}
