//! Sign-in sessions.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_postgres::types::ToSql;

use super::PostgresStore;
use super::fault::{Fault, readable};
use super::operation::Connection;
use super::revocations::announce;
use super::value::{rows, seconds};
use super::{audit, credentials, grants, registry_index};
use crate::row::{RowError, decode, encode};
use crate::{RevocationStore as _, SessionBegin, SessionStore, StoreError, room};
use domain::cap;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::registry_index::{NamedKind, identity_value};
use domain::{
    AuditEvent, EndedSignIns, EndingSessions, Extent, Identity, ProviderSignIn, Session,
    SessionStage, UnfinishedSignIns, Username,
};

#[async_trait]
impl SessionStore for PostgresStore {
    async fn start_session(
        &self,
        id: Digest,
        session: Session,
        replaces: Option<Digest>,
    ) -> Result<SessionBegin, StoreError> {
        self.transaction(async move |client| {
        let user = credentials::user(client, &session.username).await?;
        if !user.is_some_and(|user| session.rests_on(&user)) {
            return Ok(SessionBegin::CredentialsChanged);
        }
        if let Some(replaced) = replaces {
            end(client, &replaced).await?;
        }
        let (unfinished, ()) = tokio::try_join!(
            unfinished(client, id, &session, replaces),
            make_room(client, &session)
        )?;
        let sql = "INSERT INTO sessions (id, username, expires_at, body) VALUES ($1, $2, $3, $4)
            ON CONFLICT (id) DO UPDATE SET
                username = excluded.username, expires_at = excluded.expires_at, body = excluded.body";
        let id = id.as_bytes().as_slice();
        let username = session.username.as_str();
        let expires_at = seconds(session.expires_at);
        let body = encode(&session)?;
        client.execute(sql, &[&id, &username, &expires_at, &body]).await?;
        Ok(SessionBegin::Begun(unfinished))
        })
        .await
    }

    async fn session(&self, id: Digest, now: Timestamp) -> Result<Option<Session>, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT body FROM sessions WHERE id = $1 AND expires_at > $2";
            let id = id.as_bytes().as_slice();
            client.row(sql, &[&id, &seconds(now)]).await
        })
        .await
    }

    async fn extend_session(
        &self,
        id: Digest,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.transaction(async move |client| {
            let sql = "SELECT body FROM sessions WHERE id = $1 AND expires_at > $2 FOR UPDATE";
            let id = id.as_bytes().as_slice();
            let Some(before) = client.row(sql, &[&id, &seconds(now)]).await? else {
                return Ok(());
            };
            let session = Session {
                expires_at,
                used_at: now,
                ..before
            };
            let sql = "UPDATE sessions SET expires_at = $2, body = $3 WHERE id = $1";
            let body = encode(&session)?;
            client
                .execute(sql, &[&id, &seconds(expires_at), &body])
                .await?;
            Ok(())
        })
        .await
    }

    async fn sessions(
        &self,
        username: Username,
        now: Timestamp,
    ) -> Result<Vec<(Digest, Session)>, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT id, body FROM sessions WHERE username = $1 AND expires_at > $2";
            let found = client
                .query(sql, &[&username.as_str(), &seconds(now)])
                .await?;
            let mut live = Vec::new();
            for row in &found {
                let id = <[u8; 32]>::try_from(row.try_get::<_, &[u8]>(0)?)
                    .map_err(|_| RowError("the id of a session has 32 bytes".into()))?;
                let session = decode::<Session>(row.try_get(1)?).map_err(Fault::from);
                let session = readable("session", session)?;
                live.extend(session.map(|session| (Digest::from_bytes(id), session)));
            }
            Ok(live)
        })
        .await
    }

    async fn end_session(&self, id: Digest) -> Result<(), StoreError> {
        self.statement(async move |client| end(client, &id).await)
            .await
    }

    async fn end_sessions(
        &self,
        username: Username,
        which: EndingSessions,
        audit: Arc<[AuditEvent]>,
    ) -> Result<u64, StoreError> {
        self.transaction(async move |client| {
            let (sql, id) = match which {
                EndingSessions::One(one) => {
                    ("DELETE FROM sessions WHERE username = $1 AND id = $2", one)
                }
                EndingSessions::Others(own) => {
                    ("DELETE FROM sessions WHERE username = $1 AND id <> $2", own)
                }
            };
            let values: [&(dyn ToSql + Sync); 2] = [&username.as_str(), &id.as_bytes().as_slice()];
            let ended = client.execute(sql, &values).await?;
            audit::append_if(client, ended > 0, &audit).await?;
            Ok(ended)
        })
        .await
    }

    async fn end_provider_sign_ins(
        &self,
        identity: Identity,
        sid: Option<String>,
        audit: Arc<[AuditEvent]>,
        now: Timestamp,
    ) -> Result<EndedSignIns, StoreError> {
        let extent = Extent::of(now, self.longest_token());
        self.transaction(async move |client| {
            let ends = |provider: Option<&ProviderSignIn>| {
                provider.is_some_and(|provider| provider.ends_with(&identity, sid.as_deref()))
            };
            let Some(value) = identity_value(&identity) else {
                return Ok(EndedSignIns::default());
            };
            let mut ended = EndedSignIns::default();
            // None or one.
            for name in registry_index::named(client, NamedKind::Identity, &value, 1).await? {
                // A session that starts at the same time, or a code that is redeemed, is over already or sees the end.
                let username = Username::parse(&name);
                let Some(username) = username else { continue };
                credentials::user(client, &username).await?;
                ended.sessions +=
                    end_where(client, &name, |session| ends(session.provider.as_ref())).await?;
                let revoked =
                    grants::end_where(client, &name, now, |grant| ends(grant.provider.as_ref()));
                let revoked = revoked.await?;
                ended.grants += revoked.len() as u64;
                for revoked in revoked {
                    announce(client, &revoked, extent).await?;
                }
            }
            audit::append_if(client, ended != EndedSignIns::default(), &audit).await?;
            Ok(ended)
        })
        .await
    }
}

/// Counts the start of `session` among the unfinished sign-ins of its user; a complete sign-in takes and returns them, and
/// is the user's last one. The transaction holds the user's row.
async fn unfinished(
    client: &Connection<'_>,
    id: Digest,
    session: &Session,
    replaces: Option<Digest>,
) -> Result<UnfinishedSignIns, Fault> {
    let username = session.username.as_str();
    let sql = "DELETE FROM unfinished_sign_ins WHERE username = $1 RETURNING body";
    let before = readable("unfinished sign-ins", client.row(sql, &[&username]).await)?;
    let before: UnfinishedSignIns = before.flatten().unwrap_or_default();
    let after = before.with(id, session, replaces);
    if session.stage == SessionStage::SignedIn {
        let sql = "INSERT INTO last_sign_ins (username, at) VALUES ($1, $2)
            ON CONFLICT (username) DO UPDATE SET at = excluded.at";
        let at = seconds(session.used_at);
        client.execute(sql, &[&username, &at]).await?;
        return Ok(after);
    }
    let sql = "INSERT INTO unfinished_sign_ins (username, body) VALUES ($1, $2)";
    client.execute(sql, &[&username, &encode(&after)?]).await?;
    Ok(UnfinishedSignIns::default())
}

/// Ends sessions of the user and stage to make room for `new`.
async fn make_room(client: &Connection<'_>, new: &Session) -> Result<(), Fault> {
    let username = new.username.as_str();
    let sql = "SELECT id, body FROM sessions WHERE username = $1 LIMIT $2";
    // The rows also contain the sessions of the other stage.
    let limit = rows(cap::SESSIONS.looked_at() * 2);
    let found = client.query(sql, &[&username, &limit]).await?;
    let mut held: Vec<(bool, Timestamp, &[u8])> = Vec::new();
    for row in &found {
        let session = decode::<Session>(row.try_get(1)?).map_err(Fault::from);
        let of_stage = readable("session", session)?.filter(|session| session.stage == new.stage);
        if let Some(session) = of_stage {
            let elsewhere = !session.shares_origin_with(new);
            held.push((elsewhere, session.expires_at, row.try_get(0)?));
        }
    }
    let over = cap::SESSIONS.to_end(held);
    if over.is_empty() {
        return Ok(());
    }
    room::note("session", username, over.len());
    let ids: Vec<&[u8]> = over.into_iter().map(|(_, _, id)| id).collect();
    client
        .execute("DELETE FROM sessions WHERE id = ANY($1)", &[&ids])
        .await?;
    Ok(())
}

/// Ends the sessions of a user for which `ends` is true, and returns their number. The transaction holds the user's row.
pub(super) async fn end_where(
    client: &Connection<'_>,
    username: &str,
    ends: impl Fn(&Session) -> bool,
) -> Result<u64, Fault> {
    let sql = "SELECT id, body FROM sessions WHERE username = $1";
    let found = client.query(sql, &[&username]).await?;
    let mut ids: Vec<&[u8]> = Vec::new();
    for row in &found {
        let session = decode::<Session>(row.try_get(1)?).map_err(Fault::from);
        if readable("session", session)?.is_some_and(|session| ends(&session)) {
            ids.push(row.try_get(0)?);
        }
    }
    let sql = "DELETE FROM sessions WHERE id = ANY($1)";
    client.execute(sql, &[&ids]).await
}

/// True if the code that rests on this session may be redeemed: the session is live, or the code needs no session.
pub(super) async fn is_live(
    client: &Connection<'_>,
    id: Option<Digest>,
    now: Timestamp,
) -> Result<bool, Fault> {
    let Some(id) = id else { return Ok(true) };
    let sql = "SELECT 1 FROM sessions WHERE id = $1 AND expires_at > $2";
    let id = id.as_bytes().as_slice();
    let found = client.query_opt(sql, &[&id, &seconds(now)]).await?;
    Ok(found.is_some())
}

async fn end(client: &Connection<'_>, id: &Digest) -> Result<(), Fault> {
    let sql = "DELETE FROM sessions WHERE id = $1";
    client.execute(sql, &[&id.as_bytes().as_slice()]).await?;
    Ok(())
}

/// Ends the sessions of a user whose credentials change, and forgets the unfinished sign-ins with those credentials.
pub(super) async fn end_all(client: &Connection<'_>, username: &str) -> Result<(), Fault> {
    client
        .execute(
            "DELETE FROM unfinished_sign_ins WHERE username = $1",
            &[&username],
        )
        .await?;
    client
        .execute("DELETE FROM sessions WHERE username = $1", &[&username])
        .await?;
    Ok(())
}
