//! Authorization codes: redeeming, and detecting a second use. Only legacy codes have rows.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresStore;
use super::fault::Fault;
use super::grants::{self, UsedUp};
use super::operation::Connection;
use super::revocations::tokens_from;
use super::value::{rows, seconds, timestamp};
use super::{credentials, sessions};
use crate::row::{decode, encode};
use crate::self_contained_code::refusal;
use crate::{Begin, CodeStore, RevocationStore as _, StoreError, room};
use domain::authorization_code::{CodeBasis, USED_CODE_RETENTION, UsedCode};
use domain::cap;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{CodeRecord, FirstStep, GrantId, PresentedCode, Redemption, SelfContainedCode};

#[async_trait]
impl CodeStore for PostgresStore {
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
        let access_token_lifetime = self.longest_token();
        self.transaction(async move |client| {
            let SelfContainedCode {
                grant_id, record, ..
            } = code;
            let proven = presented.proven;
            let (of, user) =
                credentials::client_and_user(client, &record.client_id, &record.username).await?;
            let basis = CodeBasis {
                client: of.as_ref(),
                user: user.as_ref(),
                codes_from: tokens_from(client, [record.ended_by()]).await?,
                has_session: sessions::is_live(client, record.session, now).await?,
            };
            match record.redeem(grant_id, first, proven, basis, now) {
                Ok((grant, step)) => {
                    if grants::insert(client, &grant, None, now, access_token_lifetime).await? {
                        let grant = Box::new(grant);
                        return Ok(Redemption::Redeemed { grant, step });
                    }
                }
                Err(refused) => {
                    if !grants::exists(client, grant_id).await? {
                        return Ok(refused);
                    }
                }
            }
            grants::revoke(client, grant_id, now, access_token_lifetime).await?;
            Ok(Redemption::Replayed(grant_id))
        })
        .await
    }

    async fn issue_legacy_code(
        &self,
        code: Digest,
        record: CodeRecord,
    ) -> Result<Begin, StoreError> {
        self.transaction(async move |client| {
        let (of, user) =
            credentials::client_and_user(client, &record.client_id, &record.username).await?;
        if record.rests_on(of.as_ref(), user.as_ref()).is_err() {
            return Ok(Begin::CredentialsChanged);
        }
        // One statement, because each statement takes a round trip. It reads the codes from before the new one.
        let sql = "WITH new AS (
                INSERT INTO codes (code, client_id, username, expires_at, body) VALUES ($1, $2, $3, $4, $5)
            )
            SELECT expires_at, code FROM codes
            WHERE username = $3 AND client_id = $2 AND grant_id IS NULL ORDER BY expires_at LIMIT $6";
        let code = code.as_bytes().as_slice();
        let expires_at = seconds(record.expires_at);
        let body = encode(&record)?;
        let (of, user) = (
            record.client_id.as_str(),
            record.username.as_str(),
        );
        let most = rows(cap::CODES.looked_at());
        let held = client.query(sql, &[&code, &of, &user, &expires_at, &body, &most]).await?;
        make_room(client, user, &held).await?;
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
        let access_token_lifetime = self.longest_token();
        self.transaction(async move |client| {
            // Locks the row until the commit.
            let code = code.as_bytes().as_slice();
            let sql = "SELECT grant_id IS NOT NULL, body FROM codes WHERE code = $1 FOR UPDATE";
            let Some(row) = client.query_opt(sql, &[&code]).await? else {
                return Ok(Redemption::Unknown);
            };
            if row.try_get(0)? {
                // RFC 6749 §4.1.2: a second use "SHOULD revoke (when possible) all tokens previously issued".
                let used: UsedCode = decode(row.try_get(1)?)?;
                let grant_id = match used.replayed_by(&presented) {
                    Ok(grant_id) => grant_id,
                    Err(refused) => return Ok(refused),
                };
                grants::revoke(client, grant_id, now, access_token_lifetime).await?;
                return Ok(Redemption::Replayed(grant_id));
            }
            let record: CodeRecord = decode(row.try_get(1)?)?;
            let (of, user) =
                credentials::client_and_user(client, &record.client_id, &record.username).await?;
            let basis = CodeBasis {
                client: of.as_ref(),
                user: user.as_ref(),
                codes_from: tokens_from(client, [record.ended_by()]).await?,
                has_session: sessions::is_live(client, record.session, now).await?,
            };
            let ((grant, step), used) =
                match record.redeem_stored(&presented, grant_id, first, basis, now) {
                    Ok(redeemed) => redeemed,
                    Err(refused) => return Ok(refused),
                };
            // The grant now contains the content of the code. The code keeps only what is needed to detect a replay.
            let body = encode(&used)?;
            let used = UsedUp {
                code,
                forgotten_at: seconds(record.expires_at + USED_CODE_RETENTION),
                body: &body,
            };
            grants::insert(client, &grant, Some(used), now, access_token_lifetime).await?;
            let grant = Box::new(grant);
            Ok(Redemption::Redeemed { grant, step })
        })
        .await
    }
}

/// Removes codes of the same user and client to make room for a new code. `held`: expiry and digest of the other codes.
async fn make_room(client: &Connection<'_>, user: &str, held: &[Row]) -> Result<(), Fault> {
    let held = held
        .iter()
        .map(|row| Ok((timestamp(row.try_get(0)?), row.try_get(1)?)));
    let over: Vec<(_, &[u8])> = cap::CODES.to_end(held.collect::<Result<_, Fault>>()?);
    if over.is_empty() {
        return Ok(());
    }
    room::note("code", user, over.len());
    // A redemption locks its code before the user, but this operation locks the user before codes. So that they cannot
    // deadlock, this operation skips locked codes, which are being redeemed.
    let sql = "DELETE FROM codes WHERE code IN
        (SELECT code FROM codes WHERE code = ANY($1) AND grant_id IS NULL FOR UPDATE SKIP LOCKED)";
    let codes: Vec<&[u8]> = over.into_iter().map(|(_, code)| code).collect();
    client.execute(sql, &[&codes]).await?;
    Ok(())
}
