//! Authorization codes: kept, exchanged once, remembered.

use std::time::Duration;

use deadpool_postgres::GenericClient;

use super::credentials;
use super::fault::Fault;
use super::grants::{self, Revoke};
use super::operation::{Operation, execute, query, query_opt};
use super::value::{rows, seconds, timestamp};
use crate::row::{RowError, decode, encode};
use crate::{Begin, room, used_code};
use domain::authorization_code::{USED_CODE_RETENTION, UsedCode};
use domain::cap;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{ClientId, CodeMismatch, CodeRecord, GrantId, PresentedCode, Redemption, RefreshStep};

/// Keeps a fresh code.
pub(super) struct Issue {
    pub(super) code: Digest,
    pub(super) record: CodeRecord,
}

impl Operation for Issue {
    type Outcome = Begin;

    async fn run(&self, client: &impl GenericClient) -> Result<Begin, Fault> {
        let user = credentials::user(client, &self.record.username).await?;
        if !self.record.rests_on(user.as_ref()) {
            return Ok(Begin::CredentialsChanged);
        }
        make_room(client, &self.record).await?;
        let sql = "INSERT INTO codes (code, client_id, username, expires_at, body) VALUES ($1, $2, $3, $4, $5)";
        let code = self.code.as_bytes().as_slice();
        let expires_at = seconds(self.record.expires_at);
        let body = encode(&self.record)?;
        let (of, user) = (
            self.record.client_id.as_str(),
            self.record.username.as_str(),
        );
        execute(client, sql, &[&code, &of, &user, &expires_at, &body]).await?;
        Ok(Begin::Begun)
    }
}

/// Ends codes of the same user and client so that there is room for one more.
async fn make_room(client: &impl GenericClient, record: &CodeRecord) -> Result<(), Fault> {
    let sql = "SELECT expires_at, code FROM codes
        WHERE username = $1 AND client_id = $2 AND grant_id IS NULL ORDER BY expires_at LIMIT $3";
    let (user, of) = (record.username.as_str(), record.client_id.as_str());
    let found = query(client, sql, &[&user, &of, &rows(cap::CODES.looked_at())]).await?;
    let held = found
        .iter()
        .map(|row| Ok((timestamp(row.try_get(0)?), row.try_get(1)?)));
    let over: Vec<(_, &[u8])> = cap::CODES.to_end(held.collect::<Result<_, Fault>>()?);
    if over.is_empty() {
        return Ok(());
    }
    room::note("code", user, over.len());
    // A redemption locks its code before the user, and this operation the user before codes: neither may wait for the
    // other. A code that is locked is being redeemed.
    let sql = "DELETE FROM codes WHERE code IN
        (SELECT code FROM codes WHERE code = ANY($1) AND grant_id IS NULL FOR UPDATE SKIP LOCKED)";
    let codes: Vec<&[u8]> = over.into_iter().map(|(_, code)| code).collect();
    execute(client, sql, &[&codes]).await?;
    Ok(())
}

/// Exchanges a code for a grant (D-2). The row of the code is locked from the first look to the commit.
pub(super) struct Redeem {
    pub(super) code: Digest,
    pub(super) presented: PresentedCode,
    pub(super) grant_id: GrantId,
    pub(super) first: RefreshStep,
    pub(super) now: Timestamp,
    pub(super) access_token_lifetime: Duration,
}

impl Operation for Redeem {
    type Outcome = Redemption;

    async fn run(&self, client: &impl GenericClient) -> Result<Redemption, Fault> {
        let code = self.code.as_bytes().as_slice();
        let sql = "SELECT client_id, grant_id, body FROM codes WHERE code = $1 FOR UPDATE";
        let Some(row) = query_opt(client, sql, &[&code]).await? else {
            return Ok(Redemption::Unknown);
        };
        if let Some(used_for) = row.try_get::<_, Option<&[u8]>>(1)? {
            let grant_id = <[u8; 16]>::try_from(used_for)
                .map(GrantId::from_bytes)
                .map_err(|_| RowError("a grant id has 16 bytes".into()))?;
            return self
                .replay(client, row.try_get(0)?, grant_id, row.try_get(2)?)
                .await;
        }
        let record: CodeRecord = decode(row.try_get(2)?)?;
        if let Err(mismatch) = record.check(&self.presented, &self.first.scope, self.now) {
            return Ok(Redemption::Mismatch(mismatch));
        }
        let user = credentials::user(client, &record.username).await?;
        if !record.rests_on(user.as_ref()) {
            return Ok(Redemption::Mismatch(CodeMismatch::Outdated));
        }
        // What the code stood for is in the grant from now on; of the code only what tells a replay is kept.
        let sql = "UPDATE codes SET grant_id = $2, expires_at = $3, body = $4 WHERE code = $1";
        let used = encode(&UsedCode::of(&record, self.grant_id))?;
        let grant_id = self.grant_id.as_bytes().as_slice();
        let forgotten_at = seconds(self.now + USED_CODE_RETENTION);
        execute(client, sql, &[&code, &grant_id, &forgotten_at, &used]).await?;
        let grant = record.into_grant(self.grant_id, self.first.clone());
        grants::insert(client, &grant, self.now, self.access_token_lifetime).await?;
        Ok(Redemption::Redeemed(Box::new(grant)))
    }
}

impl Redeem {
    /// RFC 6749 §4.1.2: a second use "SHOULD revoke (when possible) all tokens previously issued".
    async fn replay(
        &self,
        client: &impl GenericClient,
        issued_to: &str,
        grant_id: GrantId,
        used: &[u8],
    ) -> Result<Redemption, Fault> {
        let judged = if used.is_empty() {
            // Written by an earlier version.
            let client_id = ClientId::parse(issued_to)
                .ok_or_else(|| RowError("a client id has 1 to 128 characters".into()))?;
            UsedCode::judge_short(&client_id, grant_id, &self.presented)
        } else {
            used_code::judge(used, &self.presented)?
        };
        if let Err(mismatch) = judged {
            return Ok(Redemption::Mismatch(mismatch));
        }
        let revoke = Revoke {
            grant_id,
            now: self.now,
            access_token_lifetime: self.access_token_lifetime,
        };
        revoke.run(client).await?;
        Ok(Redemption::Replayed(grant_id))
    }
}
