//! Changes of clients, users and legacy instances, with what they end.

use std::time::Duration;

use super::change_log::{changes_behind, last_change, note_changes};
use super::fault::Fault;
use super::revocations::{announce, tokens_from};
use super::tables::{Tables, encode_json};
use super::{
    applied_file, audit, client_secrets, credentials, grants, registry_index, second_factors,
    sessions,
};
use crate::row::before;
use crate::{extent_of_change, issued_until};
use domain::clock::Timestamp;
use domain::ended_by::{self, Before, Ended, EndedGrants, EndedSessions};
use domain::legacy_instance::{self, issuer};
use domain::{
    Client, ClientId, Premises, RegistryChange, RegistryOutcome, Revoked, User, Username,
};

/// Makes a change with its consequences and the entries of the audit log, if nothing that it rests on has changed.
pub(super) fn change(
    tables: &mut Tables<'_>,
    change: &RegistryChange,
    entries: &[audit::Row],
    now: Timestamp,
    access_token_lifetime: Duration,
) -> Result<RegistryOutcome, Fault> {
    if let Some(planned_on) = change.planned_on {
        let last = last_change(tables)?;
        let log = tables.registry_changes.open()?;
        let changes = changes_behind(&**log, planned_on, usize::MAX, last)?;
        if Premises::of(change).are_overtaken_by(&changes) {
            return Ok(RegistryOutcome::Overtaken);
        }
    }
    if registry_index::is_taken(tables, &change.untaken)?
        || !applied_file::change(tables, change.applied_file)?
    {
        return Ok(RegistryOutcome::Overtaken);
    }
    for (username, version) in &change.credentials {
        if !credentials::are_current(tables, username, *version)? {
            return Ok(RegistryOutcome::Overtaken);
        }
    }
    note_changes(tables, change.touches())?;
    let mut changing = Changing {
        next_version: credentials::next_version(tables)?,
        tables,
        now,
        revoked: Vec::new(),
    };
    for client_id in &change.remove_clients {
        changing.remove_client(client_id)?;
    }
    for client in &change.put_clients {
        changing.put_client(client, change.revoke_clients.contains(&client.client_id))?;
    }
    for username in &change.remove_users {
        changing.remove_user(username)?;
    }
    for user in &change.put_users {
        changing.put_user(user)?;
    }
    let mut all_revoked = changing.revoked;
    let instances = tables.legacy_instances.open()?;
    for hostname in &change.remove_legacy_instances {
        if instances.remove(hostname.as_str())?.is_some() {
            all_revoked.push(Revoked::Issuer(issuer(hostname)));
        }
    }
    for instance in &change.put_legacy_instances {
        let row = encode_json(instance)?;
        let found = instances.insert(instance.hostname.as_str(), row.as_slice())?;
        let found = before("legacy instance", found.as_ref().map(|row| row.value()));
        all_revoked.extend(legacy_instance::ended_by(&found, instance));
    }
    for revoked in all_revoked {
        let extent = extent_of_change(&revoked, now, access_token_lifetime);
        announce(tables, revoked, extent)?;
    }
    audit::append(tables, entries)?;
    Ok(RegistryOutcome::Changed)
}

struct Changing<'a, 'txn> {
    tables: &'a mut Tables<'txn>,
    /// The new version for clients and users that end what rests on them.
    next_version: u64,
    now: Timestamp,
    revoked: Vec<Revoked>,
}

impl Changing<'_, '_> {
    fn put_client(&mut self, client: &Client, revokes: bool) -> Result<(), Fault> {
        let id = &client.client_id;
        let before = registry_index::client_before(self.tables, id)?;
        let tokens_from = tokens_from(self.tables, [Revoked::Client(id.clone())])?;
        let next = self.next_version;
        let times = (tokens_from, issued_until(self.now));
        let (versioned, ended) = ended_by::put_client(client, &before, next, times, revokes);
        registry_index::put_client(self.tables, before.known(), &versioned)?;
        let secrets = before.known().map(Client::secrets).unwrap_or_default();
        client_secrets::change(self.tables, id, secrets, client.secrets(), self.now)?;
        self.end_grants(ended.grants, None)
    }

    fn remove_client(&mut self, client_id: &ClientId) -> Result<(), Fault> {
        let removed = registry_index::remove_client(self.tables, client_id)?;
        let secrets = removed.known().map(Client::secrets).unwrap_or_default();
        client_secrets::change(self.tables, client_id, secrets, &[], self.now)?;
        let ended = ended_by::client(client_id, &removed, None, false);
        self.end_grants(ended.grants, None)
    }

    fn put_user(&mut self, user: &User) -> Result<(), Fault> {
        let before = registry_index::user_before(self.tables, &user.username)?;
        let tokens_from = tokens_from(self.tables, Revoked::of_user(user))?;
        let next = self.next_version;
        let (versioned, ended) = ended_by::put_user(user, &before, next, tokens_from);
        registry_index::put_user(self.tables, before.known(), &versioned)?;
        self.end_user(ended, &user.username, Some(&versioned))
    }

    fn remove_user(&mut self, username: &Username) -> Result<(), Fault> {
        let removed = registry_index::remove_user(self.tables, username)?;
        if !matches!(removed, Before::Absent) {
            let username = username.as_str();
            self.tables.totp_steps.open()?.remove(username)?;
            self.tables.last_sign_ins.open()?.remove(username)?;
        }
        self.end_user(ended_by::user(username, &removed, None), username, None)
    }

    fn end_user(
        &mut self,
        ended: Ended,
        username: &Username,
        after: Option<&User>,
    ) -> Result<(), Fault> {
        if ended.second_factor {
            second_factors::remove(self.tables, username.as_str())?;
        }
        match (ended.sessions, after) {
            (EndedSessions::All, _) => sessions::end_all(self.tables, username.as_str())?,
            (EndedSessions::Outdated, Some(user)) => {
                sessions::end_where(self.tables, username.as_str(), |session| {
                    !session.rests_on(user)
                })?;
            }
            (EndedSessions::Outdated | EndedSessions::None, _) => {}
        }
        self.end_grants(ended.grants, after)?;
        self.revoked.extend(ended.accounts);
        Ok(())
    }

    fn end_grants(&mut self, ended: EndedGrants, after: Option<&User>) -> Result<(), Fault> {
        let revoked = match (ended, after) {
            (EndedGrants::Of(owner), _) => grants::end_all(self.tables, &owner, self.now)?.1,
            (EndedGrants::Outdated, Some(user)) => {
                let username = user.username.as_str();
                grants::end_where(self.tables, username, self.now, |one| !one.rests_on(user))?
            }
            (EndedGrants::Outdated | EndedGrants::None, _) => return Ok(()),
        };
        self.revoked.extend(revoked);
        Ok(())
    }
}
