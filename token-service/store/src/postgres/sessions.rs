//! Sign-in sessions.

use deadpool_postgres::GenericClient;

use super::credentials;
use super::fault::Fault;
use super::operation::{Operation, execute, query_opt};
use super::value::seconds;
use crate::Begin;
use crate::row::{decode, encode};
use domain::Session;
use domain::clock::Timestamp;
use domain::digest::Digest;

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
