//! Sign-in sessions.

use async_trait::async_trait;

use super::PostgresStore;
use super::credentials;
use super::fault::{Fault, readable};
use super::operation::Connection;
use super::value::{rows, seconds};
use crate::row::{decode, encode};
use crate::{Begin, SessionStore, StoreError, room};
use domain::cap;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{Session, SessionStage};

#[async_trait]
impl SessionStore for PostgresStore {
    async fn start_session(
        &self,
        id: Digest,
        session: Session,
        replaces: Option<Digest>,
    ) -> Result<Begin, StoreError> {
        self.transaction(async move |client| {
        let Session {
            username,
            credentials_version,
            ..
        } = &session;
        if !credentials::are_current(client, username, *credentials_version).await? {
            return Ok(Begin::CredentialsChanged);
        }
        if let Some(replaced) = replaces {
            end(client, &replaced).await?;
        }
        make_room(client, username.as_str(), session.stage).await?;
        let sql = "INSERT INTO sessions (id, username, expires_at, body) VALUES ($1, $2, $3, $4)
            ON CONFLICT (id) DO UPDATE SET
                username = excluded.username, expires_at = excluded.expires_at, body = excluded.body";
        let id = id.as_bytes().as_slice();
        let username = session.username.as_str();
        let expires_at = seconds(session.expires_at);
        let body = encode(&session)?;
        client.execute(sql, &[&id, &username, &expires_at, &body]).await?;
        Ok(Begin::Begun)
        })
        .await
    }

    async fn session(&self, id: Digest, now: Timestamp) -> Result<Option<Session>, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT body FROM sessions WHERE id = $1 AND expires_at > $2";
            let id = id.as_bytes().as_slice();
            match client.query_opt(sql, &[&id, &seconds(now)]).await? {
                Some(row) => Ok(Some(decode(row.try_get(0)?)?)),
                None => Ok(None),
            }
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
            let Some(row) = client.query_opt(sql, &[&id, &seconds(now)]).await? else {
                return Ok(());
            };
            let session = Session {
                expires_at,
                ..decode(row.try_get(0)?)?
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

    async fn end_session(&self, id: Digest) -> Result<(), StoreError> {
        self.statement(async move |client| end(client, &id).await)
            .await
    }
}

/// Ends sessions of the user and stage to make room for a new session.
async fn make_room(
    client: &Connection<'_>,
    username: &str,
    stage: SessionStage,
) -> Result<(), Fault> {
    let sql = "SELECT id, body FROM sessions WHERE username = $1 LIMIT $2";
    // The rows also contain the sessions of the other stage.
    let limit = rows(cap::SESSIONS.looked_at() * 2);
    let found = client.query(sql, &[&username, &limit]).await?;
    let mut held: Vec<(Timestamp, &[u8])> = Vec::new();
    for row in &found {
        let session = decode::<Session>(row.try_get(1)?).map_err(Fault::from);
        let of_stage = readable("session", session)?.filter(|session| session.stage == stage);
        if let Some(session) = of_stage {
            held.push((session.expires_at, row.try_get(0)?));
        }
    }
    let over = cap::SESSIONS.to_end(held);
    if over.is_empty() {
        return Ok(());
    }
    room::note("session", username, over.len());
    let ids: Vec<&[u8]> = over.into_iter().map(|(_, id)| id).collect();
    client
        .execute("DELETE FROM sessions WHERE id = ANY($1)", &[&ids])
        .await?;
    Ok(())
}

async fn end(client: &Connection<'_>, id: &Digest) -> Result<(), Fault> {
    let sql = "DELETE FROM sessions WHERE id = $1";
    client.execute(sql, &[&id.as_bytes().as_slice()]).await?;
    Ok(())
}

pub(super) async fn end_all(client: &Connection<'_>, username: &str) -> Result<(), Fault> {
    client
        .execute("DELETE FROM sessions WHERE username = $1", &[&username])
        .await?;
    Ok(())
}
