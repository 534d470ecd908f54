//! Sealed values, and how they are sealed anew.

use deadpool_postgres::GenericClient;

use super::credentials;
use super::fault::{Fault, readable};
use super::operation::{Operation, execute, query, query_opt};
use super::registry::next_version;
use crate::row::{decode, decode_json, encode, encode_json};
use domain::remembered::{ObjectKind, ObjectName};
use domain::{Remembered, SealedSigningKey, SealedValue, SecondFactor, User, Username};

/// The name of the root of the tags.
const ROOT: &str = "root";

/// The root of the tags.
pub(super) struct Root;

impl Operation for Root {
    type Outcome = Option<Vec<u8>>;

    async fn run(&self, client: &impl GenericClient) -> Result<Self::Outcome, Fault> {
        let sql = "SELECT body FROM sealed WHERE name = $1";
        match query_opt(client, sql, &[&ROOT]).await? {
            Some(row) => Ok(Some(row.try_get(0)?)),
            None => Ok(None),
        }
    }
}

/// The TOTP secrets that users have set up.
pub(super) struct OwnTotpSecrets;

impl Operation for OwnTotpSecrets {
    type Outcome = Vec<(Username, Vec<u8>)>;

    async fn run(&self, client: &impl GenericClient) -> Result<Self::Outcome, Fault> {
        let sql = "SELECT username, body FROM second_factors";
        let mut secrets = Vec::new();
        for row in query(client, sql, &[]).await? {
            let username = Username::parse(row.try_get(0)?);
            let body = decode::<SecondFactor>(row.try_get(1)?).map_err(Fault::from);
            let second_factor = readable("second factor", body)?;
            if let (Some(username), Some(second_factor)) = (username, second_factor) {
                secrets.push((username, second_factor.totp_secret_sealed));
            }
        }
        Ok(secrets)
    }
}

/// Puts `after` in the place of `before`; `false`, and nothing is changed, if something else is there.
pub(super) struct Reseal {
    pub(super) value: SealedValue,
    pub(super) before: Option<Vec<u8>>,
    pub(super) after: Vec<u8>,
}

impl Operation for Reseal {
    type Outcome = bool;

    async fn run(&self, client: &impl GenericClient) -> Result<bool, Fault> {
        match &self.value {
            SealedValue::Root => self.root(client).await,
            SealedValue::SigningKey(kid) => self.signing_key(client, kid).await,
            SealedValue::RegisteredTotpSecret(username) => self.registered(client, username).await,
            SealedValue::OwnTotpSecret(username) => self.own(client, username).await,
        }
    }
}

impl Reseal {
    async fn root(&self, client: &impl GenericClient) -> Result<bool, Fault> {
        let rows = match &self.before {
            None => {
                let sql = "INSERT INTO sealed (name, body) VALUES ($1, $2)
                    ON CONFLICT (name) DO NOTHING";
                execute(client, sql, &[&ROOT, &self.after]).await?
            }
            Some(before) => {
                let sql = "UPDATE sealed SET body = $2 WHERE name = $1 AND body = $3";
                execute(client, sql, &[&ROOT, &self.after, before]).await?
            }
        };
        Ok(rows > 0)
    }

    async fn signing_key(&self, client: &impl GenericClient, kid: &str) -> Result<bool, Fault> {
        let sql = "SELECT body FROM signing_keys WHERE kid = $1 FOR UPDATE";
        let Some(row) = query_opt(client, sql, &[&kid]).await? else {
            return Ok(false);
        };
        let mut key: SealedSigningKey = decode_json(row.try_get(0)?)?;
        if Some(&key.sealed_pkcs8) != self.before.as_ref() {
            return Ok(false);
        }
        key.sealed_pkcs8.clone_from(&self.after);
        let sql = "UPDATE signing_keys SET body = $2 WHERE kid = $1";
        execute(client, sql, &[&kid, &encode_json(&key)?]).await?;
        Ok(true)
    }

    async fn registered(
        &self,
        client: &impl GenericClient,
        username: &Username,
    ) -> Result<bool, Fault> {
        // What was planned on the registry before must not bring the old one back.
        next_version(client, None).await?;
        let found = credentials::user(client, username).await?;
        let Some(user) = found.filter(|user| {
            user.totp_secret_sealed.is_some() && user.totp_secret_sealed == self.before
        }) else {
            return Ok(false);
        };
        let changed = User {
            totp_secret_sealed: Some(self.after.clone()),
            ..user
        };
        credentials::put(client, &changed).await?;
        let object = ObjectName::new(ObjectKind::User, username.as_str()).key();
        let sql = "SELECT body FROM remembered WHERE object = $1 FOR UPDATE";
        if let (Some(row), Some(before)) = (query_opt(client, sql, &[&object]).await?, &self.before)
        {
            let mut remembered: Remembered = decode_json(row.try_get(0)?)?;
            if remembered.reseal(before, &self.after) {
                let sql = "UPDATE remembered SET body = $2 WHERE object = $1";
                execute(client, sql, &[&object, &encode_json(&remembered)?]).await?;
            }
        }
        Ok(true)
    }

    async fn own(&self, client: &impl GenericClient, username: &Username) -> Result<bool, Fault> {
        let username = username.as_str();
        let sql = "SELECT body FROM second_factors WHERE username = $1 FOR UPDATE";
        let Some(row) = query_opt(client, sql, &[&username]).await? else {
            return Ok(false);
        };
        let mut second_factor: SecondFactor = decode(row.try_get(0)?)?;
        if Some(&second_factor.totp_secret_sealed) != self.before.as_ref() {
            return Ok(false);
        }
        second_factor.totp_secret_sealed.clone_from(&self.after);
        let sql = "UPDATE second_factors SET body = $2 WHERE username = $1";
        execute(client, sql, &[&username, &encode(&second_factor)?]).await?;
        Ok(true)
    }
}
