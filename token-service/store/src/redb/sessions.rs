//! Sign-in sessions.

use std::ops::RangeInclusive;
use std::sync::Arc;

use async_trait::async_trait;
use redb::ReadableTable as _;

use super::RedbStore;
use super::fault::{Fault, readable};
use super::revocations::announce;
use super::tables::{Expiring, SESSIONS, SESSIONS_BY_USER, Tables, encode, found};
use super::{audit, credentials, grants, registry_index};
use crate::{SessionBegin, SessionStore, StoreError, room};
use domain::cap;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{
    AuditEvent, EndedSignIns, EndingSessions, Extent, Identity, ProviderSignIn, Session,
    SessionStage, UnfinishedSignIns, Username,
};

#[async_trait]
impl SessionStore for RedbStore {
    async fn start_session(
        &self,
        id: Digest,
        session: Session,
        replaces: Option<Digest>,
    ) -> Result<SessionBegin, StoreError> {
        self.write(move |tables, _| {
            let user = credentials::user(tables, &session.username)?;
            if !user.is_some_and(|user| session.rests_on(&user)) {
                return Ok(SessionBegin::CredentialsChanged);
            }
            let unfinished = unfinished(tables, id, &session, replaces)?;
            if let Some(replaced) = replaces {
                end(tables, replaced.as_bytes())?;
            }
            make_room(tables, &session)?;
            add(tables, id.as_bytes(), &session)?;
            Ok(SessionBegin::Begun(unfinished))
        })
        .await
    }

    async fn session(&self, id: Digest, now: Timestamp) -> Result<Option<Session>, StoreError> {
        let session: Option<Session> =
            self.read(|transaction| found(transaction.open_table(SESSIONS)?.get(id.as_bytes())?))?;
        Ok(session.filter(|session| now < session.expires_at))
    }

    async fn extend_session(
        &self,
        id: Digest,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(move |tables, _| {
            let id = id.as_bytes();
            let before: Option<Session> = found(tables.sessions.open()?.get(id)?)?;
            let Some(before) = before.filter(|before| now < before.expires_at) else {
                return Ok(());
            };
            tables.keep(Expiring::Session, id, before.expires_at)?;
            let row = encode(&Session {
                expires_at,
                used_at: now,
                ..before
            })?;
            tables.sessions.open()?.insert(id, row.as_slice())?;
            tables.expire(Expiring::Session, id, expires_at)
        })
        .await
    }

    async fn sessions(
        &self,
        username: Username,
        now: Timestamp,
    ) -> Result<Vec<(Digest, Session)>, StoreError> {
        self.read(|transaction| {
            let index = transaction.open_table(SESSIONS_BY_USER)?;
            let sessions = transaction.open_table(SESSIONS)?;
            let mut live = Vec::new();
            for entry in index.range(all_of(username.as_str()))? {
                let entry = entry?.0;
                let (_, id) = entry.value();
                let session = readable("session", found(sessions.get(id)?))?.flatten();
                let session = session.filter(|session: &Session| now < session.expires_at);
                live.extend(session.map(|session| (Digest::from_bytes(*id), session)));
            }
            Ok(live)
        })
    }

    async fn end_session(&self, id: Digest) -> Result<(), StoreError> {
        self.write(move |tables, _| end(tables, id.as_bytes()))
            .await
    }

    async fn end_sessions(
        &self,
        username: Username,
        which: EndingSessions,
        audit: Arc<[AuditEvent]>,
    ) -> Result<u64, StoreError> {
        let entries = audit::encoded(audit).await?;
        self.write(move |tables, _| {
            let mut ids = of_user(tables, username.as_str(), usize::MAX)?;
            ids.retain(|id| match which {
                EndingSessions::One(one) => id == one.as_bytes(),
                EndingSessions::Others(own) => id != own.as_bytes(),
            });
            ids.iter().try_for_each(|id| end(tables, id))?;
            audit::append_if(tables, !ids.is_empty(), &entries)?;
            Ok(ids.len() as u64)
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
        let entries = audit::encoded(audit).await?;
        self.write(move |tables, access_token_lifetime| {
            let ends = |provider: Option<&ProviderSignIn>| {
                provider.is_some_and(|provider| provider.ends_with(&identity, sid.as_deref()))
            };
            let mut ended = EndedSignIns::default();
            for username in registry_index::users_of_identity(tables, &identity)? {
                ended.sessions +=
                    end_where(tables, &username, |session| ends(session.provider.as_ref()))?;
                let grants =
                    grants::end_where(tables, &username, now, |one| ends(one.provider.as_ref()))?;
                ended.grants += grants.len() as u64;
                for revoked in grants {
                    let extent = Extent::of(now, access_token_lifetime);
                    announce(tables, revoked, extent)?;
                }
            }
            audit::append_if(tables, ended != EndedSignIns::default(), &entries)?;
            Ok(ended)
        })
        .await
    }
}

/// Writes the rows of a session that has none.
pub(super) fn add(tables: &mut Tables<'_>, id: &[u8; 32], session: &Session) -> Result<(), Fault> {
    let row = encode(session)?;
    tables.sessions.open()?.insert(id, row.as_slice())?;
    let key = (session.username.as_str(), id);
    tables.sessions_by_user.open()?.insert(key, ())?;
    tables.expire(Expiring::Session, id, session.expires_at)
}

/// Counts the start of `session` among the unfinished sign-ins of its user; a complete sign-in takes and returns them, and is the
/// user's last one.
fn unfinished(
    tables: &mut Tables<'_>,
    id: Digest,
    session: &Session,
    replaces: Option<Digest>,
) -> Result<UnfinishedSignIns, Fault> {
    let username = session.username.as_str();
    let table = tables.unfinished_sign_ins.open()?;
    let before = readable("unfinished sign-ins", found(table.get(username)?))?;
    let before: UnfinishedSignIns = before.flatten().unwrap_or_default();
    let after = before.with(id, session, replaces);
    match session.stage {
        SessionStage::SecondFactorOwed => {
            table.insert(username, encode(&after)?.as_slice())?;
            Ok(UnfinishedSignIns::default())
        }
        SessionStage::SignedIn => {
            table.remove(username)?;
            let at = session.used_at.seconds();
            tables.last_sign_ins.open()?.insert(username, at)?;
            Ok(after)
        }
    }
}

/// Ends sessions of the user and stage to make room for `new`.
fn make_room(tables: &mut Tables<'_>, new: &Session) -> Result<(), Fault> {
    let username = new.username.as_str();
    // The index also contains the sessions of the other stage.
    let ids = of_user(tables, username, cap::SESSIONS.looked_at() * 2)?;
    if ids.len() < cap::SESSIONS.most() {
        return Ok(());
    }
    let mut held = Vec::new();
    for id in ids {
        let session = readable("session", found(tables.sessions.open()?.get(&id)?))?;
        let of_stage = session
            .flatten()
            .filter(|session: &Session| session.stage == new.stage);
        held.extend(of_stage.map(|held| (!held.shares_origin_with(new), held.expires_at, id)));
    }
    let over = cap::SESSIONS.to_end(held);
    room::note("session", username, over.len());
    over.iter().try_for_each(|(_, _, id)| end(tables, id))
}

pub(super) fn end(tables: &mut Tables<'_>, id: &[u8; 32]) -> Result<(), Fault> {
    let session = readable("session", found(tables.sessions.open()?.get(id)?))?;
    tables.sessions.open()?.remove(id)?;
    let Some::<Session>(session) = session.flatten() else {
        return Ok(());
    };
    let by_user = tables.sessions_by_user.open()?;
    by_user.remove((session.username.as_str(), id))?;
    tables.keep(Expiring::Session, id, session.expires_at)
}

/// Ends the sessions of a user whose credentials change, and forgets the unfinished sign-ins with those credentials.
pub(super) fn end_all(tables: &mut Tables<'_>, username: &str) -> Result<(), Fault> {
    tables.unfinished_sign_ins.open()?.remove(username)?;
    let ids = of_user(tables, username, usize::MAX)?;
    ids.iter().try_for_each(|id| end(tables, id))
}

/// Ends the sessions of a user for which `ends` is true, and returns their number.
pub(super) fn end_where(
    tables: &mut Tables<'_>,
    username: &str,
    ends: impl Fn(&Session) -> bool,
) -> Result<u64, Fault> {
    let mut ended = 0;
    for id in of_user(tables, username, usize::MAX)? {
        let session = readable("session", found(tables.sessions.open()?.get(&id)?))?;
        if session.flatten().is_some_and(|session| ends(&session)) {
            end(tables, &id)?;
            ended += 1;
        }
    }
    Ok(ended)
}

/// True if the code that rests on this session may be redeemed: the session is live, or the code needs no session.
pub(super) fn is_live(
    tables: &mut Tables<'_>,
    id: Option<Digest>,
    now: Timestamp,
) -> Result<bool, Fault> {
    let Some(id) = id else { return Ok(true) };
    let session: Option<Session> = found(tables.sessions.open()?.get(id.as_bytes())?)?;
    Ok(session.is_some_and(|session| now < session.expires_at))
}

fn of_user(tables: &mut Tables<'_>, username: &str, limit: usize) -> Result<Vec<[u8; 32]>, Fault> {
    tables
        .sessions_by_user
        .open()?
        .range(all_of(username))?
        .take(limit)
        .map(|entry| Ok(*entry?.0.value().1))
        .collect()
}

fn all_of(username: &str) -> RangeInclusive<(&str, &'static [u8; 32])> {
    (username, &[0; 32])..=(username, &[0xff; 32])
}
