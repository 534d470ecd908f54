//! What users sign in with (D-35).
//!
//! Whoever begins something that rests on a user's credentials locks the user's row from the comparison to the commit, so
//! that a change of them either comes before and is seen, or comes after and ends what was begun. What one user begins is
//! begun one after the other by that, so that it can be counted.

use deadpool_postgres::GenericClient;

use super::fault::Fault;
use super::operation::{Operation, execute, query_opt};
use super::value::unsigned;
use crate::row::{RowError, decode, decode_json, encode_json};
use domain::{Credentials, CredentialsVersion, User, Username};

/// What this user signs in with.
pub(super) struct Get(pub(super) Username);

impl Operation for Get {
    type Outcome = Option<Credentials>;

    async fn run(&self, client: &impl GenericClient) -> Result<Option<Credentials>, Fault> {
        let sql = "SELECT users.body, second_factors.body FROM users
            LEFT JOIN second_factors ON second_factors.username = users.username
            WHERE users.username = $1";
        let Some(row) = query_opt(client, sql, &[&self.0.as_str()]).await? else {
            return Ok(None);
        };
        let own = match row.try_get::<_, Option<&[u8]>>(1)? {
            Some(body) => Some(decode(body)?),
            None => None,
        };
        Ok(Credentials::of(decode_json(row.try_get(0)?)?, own))
    }
}

/// The user with this name. Nobody else compares with the row or changes it before this transaction ends.
pub(super) async fn user(
    client: &impl GenericClient,
    username: &Username,
) -> Result<Option<User>, Fault> {
    let sql = "SELECT body FROM users WHERE username = $1 FOR UPDATE";
    match query_opt(client, sql, &[&username.as_str()]).await? {
        Some(row) => Ok(Some(decode_json(row.try_get(0)?)?)),
        None => Ok(None),
    }
}

/// Whether the user still has credentials of this version; none others before this transaction ends.
pub(super) async fn are_current(
    client: &impl GenericClient,
    username: &Username,
    version: CredentialsVersion,
) -> Result<bool, Fault> {
    let user = user(client, username).await?;
    Ok(user.is_some_and(|user| user.still_has(version)))
}

/// A version that no credentials have had. To be taken before rows of users are locked, in one order for everybody.
pub(super) async fn next_version(client: &impl GenericClient) -> Result<CredentialsVersion, Fault> {
    let sql = "INSERT INTO counters (name, value) VALUES ('credentials', 1)
        ON CONFLICT (name) DO UPDATE SET value = counters.value + 1 RETURNING value";
    let row = query_opt(client, sql, &[]).await?;
    let row = row.ok_or_else(|| RowError("the counter of credentials is missing".into()))?;
    Ok(CredentialsVersion::new(unsigned(row.try_get(0)?)))
}

/// Writes a user's row.
pub(super) async fn put(client: &impl GenericClient, user: &User) -> Result<(), Fault> {
    let sql = "INSERT INTO users (username, body) VALUES ($1, $2)
        ON CONFLICT (username) DO UPDATE SET body = excluded.body";
    execute(client, sql, &[&user.username.as_str(), &encode_json(user)?]).await?;
    Ok(())
}
