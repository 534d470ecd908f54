//! Sign-in sessions.

use deadpool_postgres::GenericClient;

use super::credentials;
use super::fault::{Fault, readable};
use super::operation::{Operation, execute, query, query_opt};
use super::value::{rows, seconds};
use crate::row::{decode, encode};
use crate::{Begin, room};
use domain::cap;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{Session, SessionStage};

/// Starts a session in the place of another.
pub(super) struct Start {
    pub(super) id: Digest,
    pub(super) session: Session,
    pub(super) replaces: Option<Digest>,
}

impl Operation for Start {
    type Outcome = Begin;

    async fn run(&self, client: &impl GenericClient) -> Result<Begin, Fault> {
        let Session {
            username,
            credentials_version,
            ..
        } = &self.session;
        if !credentials::are_current(client, username, *credentials_version).await? {
            return Ok(Begin::CredentialsChanged);
        }
        if let Some(replaced) = self.replaces {
            End(replaced).run(client).await?;
        }
        make_room(client, username.as_str(), self.session.stage).await?;
        let sql = "INSERT INTO sessions (id, username, expires_at, body) VALUES ($1, $2, $3, $4)
            ON CONFLICT (id) DO UPDATE SET
                username = excluded.username, expires_at = excluded.expires_at, body = excluded.body";
        let id = self.id.as_bytes().as_slice();
        let username = self.session.username.as_str();
        let expires_at = seconds(self.session.expires_at);
        let body = encode(&self.session)?;
        execute(client, sql, &[&id, &username, &expires_at, &body]).await?;
        Ok(Begin::Begun)
    }
}

/// Ends sessions of the user and stage so that there is room for one more.
async fn make_room(
    client: &impl GenericClient,
    username: &str,
    stage: SessionStage,
) -> Result<(), Fault> {
    let sql = "SELECT id, body FROM sessions WHERE username = $1 LIMIT $2";
    // Those of the other stage lie among them.
    let limit = rows(cap::SESSIONS.looked_at() * 2);
    let found = query(client, sql, &[&username, &limit]).await?;
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
    execute(client, "DELETE FROM sessions WHERE id = ANY($1)", &[&ids]).await?;
    Ok(())
}

/// The live session with this id.
pub(super) struct Get {
    pub(super) id: Digest,
    pub(super) now: Timestamp,
}

impl Operation for Get {
    type Outcome = Option<Session>;

    async fn run(&self, client: &impl GenericClient) -> Result<Option<Session>, Fault> {
        let sql = "SELECT body FROM sessions WHERE id = $1 AND expires_at > $2";
        let id = self.id.as_bytes().as_slice();
        match query_opt(client, sql, &[&id, &seconds(self.now)]).await? {
            Some(row) => Ok(Some(decode(row.try_get(0)?)?)),
            None => Ok(None),
        }
    }
}

/// Lets a session live longer.
pub(super) struct Extend {
    pub(super) id: Digest,
    pub(super) expires_at: Timestamp,
    pub(super) now: Timestamp,
}

impl Operation for Extend {
    type Outcome = ();

    async fn run(&self, client: &impl GenericClient) -> Result<(), Fault> {
        let sql = "SELECT body FROM sessions WHERE id = $1 AND expires_at > $2 FOR UPDATE";
        let id = self.id.as_bytes().as_slice();
        let Some(row) = query_opt(client, sql, &[&id, &seconds(self.now)]).await? else {
            return Ok(());
        };
        let session = Session {
            expires_at: self.expires_at,
            ..decode(row.try_get(0)?)?
        };
        let sql = "UPDATE sessions SET expires_at = $2, body = $3 WHERE id = $1";
        let body = encode(&session)?;
        execute(client, sql, &[&id, &seconds(self.expires_at), &body]).await?;
        Ok(())
    }
}

/// Ends a session.
pub(super) struct End(pub(super) Digest);

impl Operation for End {
    type Outcome = ();

    async fn run(&self, client: &impl GenericClient) -> Result<(), Fault> {
        let sql = "DELETE FROM sessions WHERE id = $1";
        execute(client, sql, &[&self.0.as_bytes().as_slice()]).await?;
        Ok(())
    }
}

/// Ends all sessions of a user.
pub(super) async fn end_all(client: &impl GenericClient, username: &str) -> Result<(), Fault> {
    execute(
        client,
        "DELETE FROM sessions WHERE username = $1",
        &[&username],
    )
    .await?;
    Ok(())
}
