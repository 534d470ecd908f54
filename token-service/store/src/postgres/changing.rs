//! Changes of clients, users and legacy instances, with what they end.

use std::time::Duration;

use super::change_log::{changes_behind, note_changes, turn};
use super::fault::Fault;
use super::operation::Connection;
use super::revocations::{announce, tokens_from};
use super::{
    applied_file, audit, client_secrets, credentials, grants, registry_index, second_factors,
    sessions,
};
use crate::row::encode_json;
use crate::{extent_of_change, issued_until};
use domain::clock::Timestamp;
use domain::ended_by::{self, Before, Ended, EndedGrants, EndedSessions};
use domain::legacy_instance::{self, issuer};
use domain::{
    Client, ClientId, Grant, IndexDifference, Premises, RegistryChange, RegistryOutcome, Revoked,
    Session, User, Username,
};

/// Makes a change with its consequences and the entries of the audit log, if nothing that it rests on has changed.
pub(super) async fn change(
    client: &Connection<'_>,
    change: &RegistryChange,
    now: Timestamp,
    access_token_lifetime: Duration,
) -> Result<RegistryOutcome, Fault> {
    let last = turn(client).await?;
    if let Some(planned_on) = change.planned_on {
        let changes = changes_behind(client, planned_on, usize::MAX, last).await?;
        if Premises::of(change).are_overtaken_by(&changes) {
            return Ok(RegistryOutcome::Overtaken);
        }
    }
    if registry_index::is_taken(client, &change.untaken).await?
        || !applied_file::change(client, change.applied_file).await?
    {
        return Ok(RegistryOutcome::Overtaken);
    }
    let next_version = credentials::next_version(client).await?;
    for (username, version) in &change.credentials {
        if !credentials::are_current(client, username, *version).await? {
            return Ok(RegistryOutcome::Overtaken);
        }
    }
    note_changes(client, last, change.touches()).await?;
    let mut changing = Changing {
        client,
        next_version,
        now,
        revoked: Vec::new(),
        index: IndexDifference::new(),
    };
    for client_id in &change.remove_clients {
        changing.remove_client(client_id).await?;
    }
    for client in &change.put_clients {
        changing
            .put_client(client, change.revoke_clients.contains(&client.client_id))
            .await?;
    }
    for username in &change.remove_users {
        changing.remove_user(username).await?;
    }
    for user in &change.put_users {
        changing.put_user(user).await?;
    }
    for hostname in &change.remove_legacy_instances {
        let sql = "DELETE FROM legacy_instances WHERE hostname = $1";
        if client.execute(sql, &[hostname]).await? > 0 {
            changing.revoked.push(Revoked::Issuer(issuer(hostname)));
        }
    }
    for instance in &change.put_legacy_instances {
        let sql = "SELECT body FROM legacy_instances WHERE hostname = $1";
        let row = client.query_opt(sql, &[&instance.hostname]).await?;
        let found = registry_index::before("legacy instance", row.as_ref())?;
        let ended = legacy_instance::ended_by(&found, instance);
        changing.revoked.extend(ended);
        let sql = "INSERT INTO legacy_instances (hostname, body) VALUES ($1, $2)
            ON CONFLICT (hostname) DO UPDATE SET body = excluded.body";
        let body = encode_json(instance)?;
        client.execute(sql, &[&instance.hostname, &body]).await?;
    }
    registry_index::write(client, &changing.index).await?;
    for revoked in changing.revoked {
        let extent = extent_of_change(&revoked, now, access_token_lifetime);
        announce(client, &revoked, extent).await?;
    }
    audit::append(client, &change.audit).await?;
    Ok(RegistryOutcome::Changed)
}

struct Changing<'a> {
    client: &'a Connection<'a>,
    /// The new version for clients and users that end what rests on them.
    next_version: u64,
    now: Timestamp,
    revoked: Vec<Revoked>,
    /// What the change makes different in the index of clients and users.
    index: IndexDifference,
}

impl Changing<'_> {
    async fn put_client(&mut self, client: &Client, revokes: bool) -> Result<(), Fault> {
        let id = &client.client_id;
        let (before, tokens_from) = tokio::try_join!(
            registry_index::client_before(self.client, id),
            tokens_from(self.client, [Revoked::Client(id.clone())])
        )?;
        let next = self.next_version;
        let times = (tokens_from, issued_until(self.now));
        let (versioned, ended) = ended_by::put_client(client, &before, next, times, revokes);
        let index = &mut self.index;
        registry_index::put_client(self.client, index, before.known(), &versioned).await?;
        let secrets = before.known().map(Client::secrets).unwrap_or_default();
        client_secrets::change(self.client, id, secrets, client.secrets(), self.now).await?;
        self.end_grants(ended.grants, None).await
    }

    async fn remove_client(&mut self, client_id: &ClientId) -> Result<(), Fault> {
        let index = &mut self.index;
        let removed = registry_index::remove_client(self.client, index, client_id).await?;
        let sql = "DELETE FROM client_secrets WHERE client_id = $1";
        self.client.execute(sql, &[&client_id.as_str()]).await?;
        let ended = ended_by::client(client_id, &removed, None, false);
        self.end_grants(ended.grants, None).await
    }

    async fn put_user(&mut self, user: &User) -> Result<(), Fault> {
        let (before, tokens_from) = tokio::try_join!(
            registry_index::user_before(self.client, &user.username),
            tokens_from(self.client, Revoked::of_user(user))
        )?;
        let next = self.next_version;
        let (versioned, ended) = ended_by::put_user(user, &before, next, tokens_from);
        let index = &mut self.index;
        registry_index::put_user(self.client, index, before.known(), &versioned).await?;
        self.end_user(ended, &user.username, Some(&versioned)).await
    }

    async fn remove_user(&mut self, username: &Username) -> Result<(), Fault> {
        let removed = registry_index::remove_user(self.client, &mut self.index, username).await?;
        if !matches!(removed, Before::Absent) {
            for sql in [
                "DELETE FROM totp_steps WHERE username = $1",
                "DELETE FROM last_sign_ins WHERE username = $1",
            ] {
                self.client.execute(sql, &[&username.as_str()]).await?;
            }
        }
        let ended = ended_by::user(username, &removed, None);
        self.end_user(ended, username, None).await
    }

    async fn end_user(
        &mut self,
        ended: Ended,
        username: &Username,
        after: Option<&User>,
    ) -> Result<(), Fault> {
        if ended.second_factor {
            second_factors::remove(self.client, username.as_str()).await?;
        }
        match (ended.sessions, after) {
            (EndedSessions::All, _) => sessions::end_all(self.client, username.as_str()).await?,
            (EndedSessions::Outdated, Some(user)) => {
                let is_over = |session: &Session| !session.rests_on(user);
                sessions::end_where(self.client, username.as_str(), is_over).await?;
            }
            (EndedSessions::Outdated | EndedSessions::None, _) => {}
        }
        self.end_grants(ended.grants, after).await?;
        self.revoked.extend(ended.accounts);
        Ok(())
    }

    async fn end_grants(&mut self, ended: EndedGrants, after: Option<&User>) -> Result<(), Fault> {
        let revoked = match (ended, after) {
            (EndedGrants::Of(owner), _) => grants::end_all(self.client, &owner, self.now).await?.1,
            (EndedGrants::Outdated, Some(user)) => {
                let is_over = |grant: &Grant| !grant.rests_on(user);
                grants::end_where(self.client, user.username.as_str(), self.now, is_over).await?
            }
            (EndedGrants::Outdated | EndedGrants::None, _) => return Ok(()),
        };
        self.revoked.extend(revoked);
        Ok(())
    }
}
