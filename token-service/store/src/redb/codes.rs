//! Authorization codes: redeeming, and detecting a second use. Only legacy codes have rows.

use std::borrow::Cow;

use async_trait::async_trait;
use redb::ReadableTable as _;

use super::RedbStore;
use super::fault::{Fault, readable};
use super::revocations::tokens_from;
use super::tables::{Expiring, Tables, encode, found};
use super::{credentials, grants, sessions};
use crate::self_contained_code::refusal;
use crate::stored_code::StoredCode;
use crate::{Begin, CodeStore, StoreError, room};
use domain::authorization_code::{CodeBasis, USED_CODE_RETENTION};
use domain::cap;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{CodeRecord, FirstStep, GrantId, PresentedCode, Redemption, SelfContainedCode};

#[async_trait]
impl CodeStore for RedbStore {
    async fn redeem_code(
        &self,
        code: SelfContainedCode,
        presented: PresentedCode,
        first: FirstStep,
        now: Timestamp,
    ) -> Result<Redemption, StoreError> {
        if let Some(mismatch) = refusal(self, &code, &presented, now).await? {
            return Ok(Redemption::Mismatch(mismatch));
        }
        let SelfContainedCode {
            grant_id, record, ..
        } = code;
        let proven = presented.proven;
        self.write(move |tables, access_token_lifetime| {
            if grants::exists(tables, grant_id)? {
                grants::revoke(tables, grant_id, now, access_token_lifetime)?;
                return Ok(Redemption::Replayed(grant_id));
            }
            let client = credentials::client(tables, &record.client_id)?;
            let user = credentials::user(tables, &record.username)?;
            let basis = CodeBasis {
                client: client.as_ref(),
                user: user.as_ref(),
                codes_from: tokens_from(tables, [record.ended_by()])?,
                has_session: sessions::is_live(tables, record.session, now)?,
            };
            match record.redeem(grant_id, first, proven, basis, now) {
                Ok((grant, step)) => {
                    grants::insert(tables, &grant, now, access_token_lifetime)?;
                    let grant = Box::new(grant);
                    Ok(Redemption::Redeemed { grant, step })
                }
                Err(refused) => Ok(refused),
            }
        })
        .await
    }

    async fn issue_legacy_code(
        &self,
        code: Digest,
        record: CodeRecord,
    ) -> Result<Begin, StoreError> {
        self.write(move |tables, _| {
            let client = credentials::client(tables, &record.client_id)?;
            let user = credentials::user(tables, &record.username)?;
            if record.rests_on(client.as_ref(), user.as_ref()).is_err() {
                return Ok(Begin::CredentialsChanged);
            }
            make_room(tables, &record)?;
            add(tables, code.as_bytes(), &record)?;
            Ok(Begin::Begun)
        })
        .await
    }

    async fn redeem_legacy_code(
        &self,
        code: Digest,
        presented: PresentedCode,
        grant_id: GrantId,
        first: FirstStep,
        now: Timestamp,
    ) -> Result<Redemption, StoreError> {
        self.write(move |tables, access_token_lifetime| {
            let key = code.as_bytes();
            let record = match get(tables, key)? {
                Some(StoredCode::Unused(record)) => record,
                // RFC 6749 §4.1.2: a second use "SHOULD revoke (when possible) all tokens previously issued".
                Some(StoredCode::Used(used)) => match used.replayed_by(&presented) {
                    Ok(grant_id) => {
                        grants::revoke(tables, grant_id, now, access_token_lifetime)?;
                        return Ok(Redemption::Replayed(grant_id));
                    }
                    Err(refused) => return Ok(refused),
                },
                None => return Ok(Redemption::Unknown),
            };
            let client = credentials::client(tables, &record.client_id)?;
            let user = credentials::user(tables, &record.username)?;
            let basis = CodeBasis {
                client: client.as_ref(),
                user: user.as_ref(),
                codes_from: tokens_from(tables, [record.ended_by()])?,
                has_session: sessions::is_live(tables, record.session, now)?,
            };
            let redeemed = record.redeem_stored(&presented, grant_id, first, basis, now);
            let ((grant, step), used) = match redeemed {
                Ok(redeemed) => redeemed,
                Err(refused) => return Ok(refused),
            };
            let row = encode(&StoredCode::Used(used))?;
            // The entry of the code's expiry stays, and `expired` replaces it.
            tables.codes.open()?.insert(key, row.as_slice())?;
            tables.unused_codes.open()?.remove(note_of(&record, key))?;
            grants::insert(tables, &grant, now, access_token_lifetime)?;
            let grant = Box::new(grant);
            Ok(Redemption::Redeemed { grant, step })
        })
        .await
    }
}

/// Writes the rows of an unused code.
pub(super) fn add(
    tables: &mut Tables<'_>,
    code: &[u8; 32],
    record: &CodeRecord,
) -> Result<(), Fault> {
    let row = encode(&StoredCode::Unused(Cow::Borrowed(record)))?;
    tables.codes.open()?.insert(code, row.as_slice())?;
    let note = note_of(record, code);
    tables.unused_codes.open()?.insert(note, ())?;
    tables.expire(Expiring::Code, code, record.expires_at)
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

fn get(tables: &mut Tables<'_>, code: &[u8; 32]) -> Result<Option<StoredCode<'static>>, Fault> {
    found(tables.codes.open()?.get(code)?)
}

/// Deletes a code that nobody redeemed before its expiry at `at`. A used code gets an entry for the end of its retention:
/// here and not at its redemption, because the sweep writes many entries in one transaction.
pub(super) fn expired(
    tables: &mut Tables<'_>,
    code: &[u8; 32],
    at: Timestamp,
) -> Result<(), Fault> {
    match readable("code", get(tables, code))?.flatten() {
        Some(StoredCode::Used(_)) => {
            return tables.expire(Expiring::UsedCode, code, at + USED_CODE_RETENTION);
        }
        Some(StoredCode::Unused(record)) => {
            tables.unused_codes.open()?.remove(note_of(&record, code))?;
        }
        None => {}
    }
    tables.codes.open()?.remove(code)?;
    Ok(())
}
