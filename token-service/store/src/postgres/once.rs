//! Things that may be used once: assertions' ids and TOTP time steps. One guarded statement each.

use deadpool_postgres::GenericClient;

use super::fault::Fault;
use super::operation::{Operation, execute, query_opt};
use super::value::{number, seconds};
use crate::Claim;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{ClientId, Username};

/// A row that was written is a claim that was won.
const fn claim(rows: u64) -> Claim {
    if rows > 0 {
        Claim::Claimed
    } else {
        Claim::AlreadyClaimed
    }
}

/// Claims an assertion's id. An entry past its expiry that no sweep has reached yet counts as absent.
pub(super) struct ClaimJti {
    pub(super) client_id: ClientId,
    pub(super) jti: String,
    pub(super) expires_at: Timestamp,
    pub(super) now: Timestamp,
}

impl Operation for ClaimJti {
    type Outcome = Claim;

    async fn run(&self, client: &impl GenericClient) -> Result<Claim, Fault> {
        let digest = jti_digest(&self.client_id, &self.jti);
        let sql = "INSERT INTO assertion_ids (digest, expires_at) VALUES ($1, $2)
            ON CONFLICT (digest) DO UPDATE SET expires_at = excluded.expires_at
            WHERE assertion_ids.expires_at <= $3";
        let digest = digest.as_bytes().as_slice();
        let (expires_at, now) = (seconds(self.expires_at), seconds(self.now));
        let rows = execute(client, sql, &[&digest, &expires_at, &now]).await?;
        Ok(claim(rows))
    }
}

/// Whether an assertion's id is claimed.
pub(super) struct IsJtiClaimed {
    pub(super) client_id: ClientId,
    pub(super) jti: String,
    pub(super) now: Timestamp,
}

impl Operation for IsJtiClaimed {
    type Outcome = bool;

    async fn run(&self, client: &impl GenericClient) -> Result<bool, Fault> {
        let digest = jti_digest(&self.client_id, &self.jti);
        let sql = "SELECT 1 FROM assertion_ids WHERE digest = $1 AND expires_at > $2";
        let digest = digest.as_bytes().as_slice();
        let found = query_opt(client, sql, &[&digest, &seconds(self.now)]).await?;
        Ok(found.is_some())
    }
}

/// No client id contains the separator, so no two pairs share a digest.
fn jti_digest(client_id: &ClientId, jti: &str) -> Digest {
    Digest::of(format!("{client_id}\0{jti}").as_bytes())
}

/// Claims a time step: it and all before it are used then.
pub(super) struct ClaimTotpStep {
    pub(super) username: Username,
    pub(super) step: u64,
}

impl Operation for ClaimTotpStep {
    type Outcome = Claim;

    async fn run(&self, client: &impl GenericClient) -> Result<Claim, Fault> {
        let sql = "INSERT INTO totp_steps (username, step) VALUES ($1, $2)
            ON CONFLICT (username) DO UPDATE SET step = excluded.step
            WHERE totp_steps.step < excluded.step";
        let rows = execute(client, sql, &[&self.username.as_str(), &number(self.step)]).await?;
        Ok(claim(rows))
    }
}
