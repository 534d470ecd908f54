//! Changes of clients, users and legacy instances, with what they end.

use super::{
    applied_file, change_log, client_secrets, credentials, feed, grants, notices, registry_index,
    second_factors, sessions,
};
use crate::fault::Fault;
use crate::tx::tables::{CLIENTS, LAST_SIGN_INS, LEGACY_INSTANCES, REVOKED, TOTP_STEPS, USERS};
use crate::tx::{Entries, Entry, Read, Tx, Want};
use crate::{extent_of_change, issued_until};
use domain::clock::Timestamp;
use domain::ended_by::{self, Before, Ended, EndedGrants, EndedSessions};
use domain::legacy_instance::{self, issuer};
use domain::object::ObjectKind;
use domain::{
    Client, ClientId, FileChange, Grant, IndexDifference, ObjectName, Owner, Premises,
    RegistryChange, RegistryOutcome, Revoked, User, Username,
};

/// Makes a change with its consequences and the entries of the audit log, if nothing that it rests on has changed.
pub(crate) fn change(
    tx: &mut impl Tx,
    change: &RegistryChange,
    audit: &Entries,
    now: Timestamp,
) -> Result<RegistryOutcome, Fault> {
    tx.ahead(|| wants(change));
    if is_overtaken(tx, change)? {
        return Ok(RegistryOutcome::Overtaken);
    }
    let cut_off = |client: &Client| Revoked::Client(client.client_id.clone());
    let clients_from = change
        .put_clients
        .iter()
        .map(|client| feed::tokens_from(tx, &cut_off(client)));
    let clients_from = clients_from.collect::<Result<Vec<_>, Fault>>()?;
    let mut users_from = Vec::new();
    for user in &change.put_users {
        let from = Revoked::of_user(user).map(|revoked| feed::tokens_from(tx, &revoked));
        users_from.push(from.collect::<Result<Vec<_>, Fault>>()?);
    }
    notices::read(tx, &change.notices)?;
    if !applied_file::change(tx, change.applied_file)? {
        return Ok(RegistryOutcome::Overtaken);
    }
    notices::owe(tx, &change.notices, now)?;
    change_log::note_changes(tx, change.touches())?;
    let mut changing = Changing {
        next_version: credentials::next_version(tx)?,
        now,
        index: IndexDifference::new(),
        ending: Vec::new(),
        revoked: Vec::new(),
    };
    for client_id in &change.remove_clients {
        changing.remove_client(tx, client_id)?;
    }
    for (client, tokens_from) in change.put_clients.iter().zip(clients_from) {
        let revokes = change.revoke_clients.contains(&client.client_id);
        changing.put_client(tx, client, tokens_from, revokes)?;
    }
    for username in &change.remove_users {
        changing.remove_user(tx, username)?;
    }
    for (user, tokens_from) in change.put_users.iter().zip(users_from) {
        changing.put_user(tx, user, tokens_from)?;
    }
    changing.finish(tx)?;
    changing.change_legacy_instances(tx, change)?;
    let lifetime = tx.longest_token();
    let extent = |revoked: &Revoked| extent_of_change(revoked, now, lifetime);
    feed::announce_all(tx, &changing.revoked, extent)?;
    tx.append(Entry::Audit(audit))?;
    Ok(RegistryOutcome::Changed)
}

/// What a change reads before its first write.
fn wants(change: &RegistryChange) -> Vec<Want> {
    let mut wants = vec![change_log::turn(), credentials::want_version()];
    let mut added = IndexDifference::new();
    let planned_on = change.planned_on.into_iter();
    wants.extend(planned_on.flat_map(|at| change_log::wants(at, usize::MAX)));
    wants.extend(change.untaken.iter().map(registry_index::want_untaken));
    if change.applied_file != FileChange::Keep {
        wants.push(applied_file::want());
    }
    wants.extend(change.notices.iter().map(notices::want));
    wants.extend(change.credentials.iter().map(|(name, _)| USERS.lock(name)));
    wants.extend(change.remove_clients.iter().map(|id| CLIENTS.lock(id)));
    for client in &change.put_clients {
        let client_id = &client.client_id;
        added.change_client(None, Some(client));
        wants.push(CLIENTS.lock(client_id));
        wants.push(REVOKED.want(&Revoked::Client(client_id.clone())));
    }
    wants.extend(change.remove_users.iter().map(|name| USERS.lock(name)));
    for user in &change.put_users {
        added.change_user(None, Some(user));
        wants.push(USERS.lock(&user.username));
        wants.extend(Revoked::of_user(user).map(|revoked| REVOKED.want(&revoked)));
    }
    wants.extend(registry_index::want_counts(&added));
    let put = change.put_legacy_instances.iter().map(|one| &one.hostname);
    let hosts = put.chain(&change.remove_legacy_instances);
    wants.extend(hosts.map(|host| LEGACY_INSTANCES.want(host)));
    wants
}

fn is_overtaken(tx: &mut impl Read, change: &RegistryChange) -> Result<bool, Fault> {
    if let Some(planned_on) = change.planned_on {
        let changes = change_log::changes_behind(tx, planned_on, usize::MAX)?;
        if Premises::of(change).are_overtaken_by(&changes) {
            return Ok(true);
        }
    }
    for (username, version) in &change.credentials {
        if !credentials::are_current(tx, username, *version)? {
            return Ok(true);
        }
    }
    registry_index::is_taken(tx, &change.untaken)
}

struct Changing {
    /// The new version for clients and users that end what rests on them.
    next_version: u64,
    now: Timestamp,
    index: IndexDifference,
    ending: Vec<Ending>,
    revoked: Vec<Revoked>,
}

/// What ends of a client or user, once the rows of all clients and users are written.
struct Ending {
    ended: Ended,
    /// The name of the user, and the user who remains.
    user: Option<(Username, Option<User>)>,
}

impl Ending {
    /// The user whose sessions end.
    fn sessions_of(&self) -> Option<&Username> {
        match (&self.ended.sessions, &self.user) {
            (EndedSessions::All | EndedSessions::Outdated, Some((username, _))) => Some(username),
            (EndedSessions::None, _) | (_, None) => None,
        }
    }

    /// The owner of the grants that end.
    fn owner(&self) -> Option<Owner> {
        match (&self.ended.grants, &self.user) {
            (EndedGrants::Of(owner), _) => Some(owner.clone()),
            (EndedGrants::Outdated, Some((username, _))) => Some(Owner::User(username.clone())),
            (EndedGrants::None, _) | (EndedGrants::Outdated, None) => None,
        }
    }

    /// What is read first of what ends.
    fn wants(&self) -> Vec<Want> {
        let mut wants: Vec<Want> = Vec::new();
        wants.extend(self.sessions_of().map(sessions::want_held));
        wants.extend(self.owner().as_ref().map(grants::want_held));
        if let EndedGrants::Of(owner) = &self.ended.grants {
            wants.push(REVOKED.want(&owner.revoked()));
        }
        let accounts = self.ended.accounts.iter();
        wants.extend(accounts.map(|revoked| REVOKED.want(revoked)));
        wants
    }
}

impl Changing {
    fn put_client(
        &mut self,
        tx: &mut impl Tx,
        client: &Client,
        tokens_from: Timestamp,
        revokes: bool,
    ) -> Result<(), Fault> {
        let id = &client.client_id;
        let before = CLIENTS.before(tx, id)?;
        let times = (tokens_from, issued_until(self.now));
        let next = self.next_version;
        let (versioned, ended) = ended_by::put_client(client, &before, next, times, revokes);
        registry_index::put_client(tx, &mut self.index, before.known(), &versioned)?;
        client_secrets::change(tx, id, &before, client.secrets(), self.now)?;
        self.ending.push(Ending { ended, user: None });
        Ok(())
    }

    fn remove_client(&mut self, tx: &mut impl Tx, client_id: &ClientId) -> Result<(), Fault> {
        let removed = registry_index::remove_client(tx, &mut self.index, client_id)?;
        client_secrets::change(tx, client_id, &removed, &[], self.now)?;
        let ended = ended_by::client(client_id, &removed, None, false);
        self.ending.push(Ending { ended, user: None });
        Ok(())
    }

    fn put_user(
        &mut self,
        tx: &mut impl Tx,
        user: &User,
        tokens_from: Vec<Timestamp>,
    ) -> Result<(), Fault> {
        let before = USERS.before(tx, &user.username)?;
        let times = (tokens_from, issued_until(self.now), self.now);
        let next = self.next_version;
        let (versioned, ended) = ended_by::put_user(user, &before, next, times);
        registry_index::put_user(tx, &mut self.index, before.known(), &versioned)?;
        self.end_user(tx, ended, &user.username, Some(versioned))
    }

    fn remove_user(&mut self, tx: &mut impl Tx, username: &Username) -> Result<(), Fault> {
        let removed = registry_index::remove_user(tx, &mut self.index, username)?;
        if !matches!(removed, Before::Absent) {
            TOTP_STEPS.remove(tx, username)?;
            LAST_SIGN_INS.remove(tx, username)?;
        }
        self.end_user(tx, ended_by::user(username, &removed, None), username, None)
    }

    fn end_user(
        &mut self,
        tx: &mut impl Tx,
        ended: Ended,
        username: &Username,
        after: Option<User>,
    ) -> Result<(), Fault> {
        if ended.second_factor {
            second_factors::remove(tx, username)?;
        }
        let user = Some((username.clone(), after));
        self.ending.push(Ending { ended, user });
        Ok(())
    }

    /// Writes the index, and ends sessions and grants. Announces all of them before it reads the first.
    fn finish(&mut self, tx: &mut impl Tx) -> Result<(), Fault> {
        let ending = std::mem::take(&mut self.ending);
        tx.ahead(|| ending.iter().flat_map(Ending::wants));
        registry_index::write(tx, &self.index)?;
        let mut held = Vec::new();
        for ending in ending {
            let sessions = match ending.sessions_of() {
                Some(username) => sessions::held_by(tx, username)?,
                None => Vec::new(),
            };
            let grants = match ending.owner() {
                Some(owner) => grants::held_by(tx, &owner)?,
                None => Vec::new(),
            };
            if ending.ended.grants == EndedGrants::Outdated {
                tx.ahead(|| grants.iter().map(|id| REVOKED.want(&Revoked::Grant(*id))));
            }
            held.push((ending, sessions, grants));
        }
        for (Ending { ended, user }, sessions, grants) in held {
            match (ended.sessions, &user) {
                (EndedSessions::All, Some((username, _))) => {
                    sessions::end_all(tx, username, &sessions)?;
                }
                (EndedSessions::Outdated, Some((_, Some(user)))) => {
                    sessions::end_where(tx, &sessions, |session| !session.rests_on(user))?;
                }
                (_, None) | (EndedSessions::Outdated | EndedSessions::None, _) => {}
            }
            match (ended.grants, &user) {
                (EndedGrants::Of(owner), _) => {
                    let (_, revoked) = grants::end_all(tx, &owner, &grants, self.now)?;
                    self.revoked.extend(revoked);
                }
                (EndedGrants::Outdated, Some((_, Some(user)))) => {
                    let is_over = |grant: &Grant| !grant.rests_on(user);
                    let revoked = grants::end_where(tx, &grants, self.now, is_over)?;
                    self.revoked.extend(revoked);
                }
                (EndedGrants::Outdated | EndedGrants::None, _) => {}
            }
            self.revoked.extend(ended.accounts);
        }
        Ok(())
    }

    fn change_legacy_instances(
        &mut self,
        tx: &mut impl Tx,
        change: &RegistryChange,
    ) -> Result<(), Fault> {
        for hostname in &change.remove_legacy_instances {
            if LEGACY_INSTANCES.has(tx, hostname)? {
                LEGACY_INSTANCES.remove(tx, hostname)?;
                self.revoked.push(Revoked::Issuer(issuer(hostname)));
            }
        }
        for instance in &change.put_legacy_instances {
            let before = LEGACY_INSTANCES.before(tx, &instance.hostname)?;
            LEGACY_INSTANCES.put(tx, &instance.hostname, instance)?;
            self.revoked
                .extend(legacy_instance::ended_by(&before, instance));
        }
        Ok(())
    }
}

/// Replaces the password hash `hash` by `stronger`, a hash of the same password.
pub(crate) fn rehash_password(
    tx: &mut impl Tx,
    username: &Username,
    hash: &str,
    stronger: &str,
) -> Result<(), Fault> {
    tx.ahead(|| [change_log::turn(), USERS.lock(username)]);
    let Some(before) = USERS.get(tx, username)? else {
        return Ok(());
    };
    let mut user = before.clone();
    if user.rehash(hash, stronger.to_owned()) {
        registry_index::replace_user(tx, &before, &user)?;
        let user = ObjectName::new(ObjectKind::User, username.as_str());
        change_log::note_changes(tx, [user])?;
    }
    Ok(())
}
