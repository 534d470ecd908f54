//! Sign-in sessions.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Runs, feed, grants, registry_index};
use crate::fault::Fault;
use crate::tx::tables::{
    LAST_SIGN_INS, SESSIONS, SESSIONS_BY_USER, UNFINISHED_SIGN_INS, USED_ONCE, USERS, of_user,
    session_of_user,
};
use crate::tx::{Entries, Entry, Note, Read, Tx, Want};
use crate::{OnceId, SessionBegin, SessionStore, StoreError, ended_by_marks, mark_of};
use domain::cap;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{
    AuditEvent, EndedSignIns, EndingSessions, Extent, Owner, ProviderSignIn, ProviderSignOut,
    Session, SessionStage, UnfinishedSignIns, User, Username,
};

#[async_trait]
impl<R: Runs> SessionStore for R {
    async fn start_session(
        &self,
        id: Digest,
        session: Session,
        replaces: Option<Digest>,
    ) -> Result<SessionBegin, StoreError> {
        self.owned(move |tx| start(tx, id, &session, replaces))
            .await
    }

    async fn session(&self, id: Digest, now: Timestamp) -> Result<Option<Session>, StoreError> {
        let session = self.read(move |tx| SESSIONS.get(tx, &id)).await?;
        Ok(session.filter(|session| now < session.expires_at))
    }

    async fn sessions(
        &self,
        username: Username,
        now: Timestamp,
    ) -> Result<Vec<(Digest, Session)>, StoreError> {
        self.snapshot(move |tx| {
            let mut live = Vec::new();
            for id in held_by(tx, &username)? {
                let session = SESSIONS.readable(tx, &id)?;
                let session = session.filter(|session| now < session.expires_at);
                live.extend(session.map(|session| (id, session)));
            }
            Ok(live)
        })
        .await
    }

    async fn extend_session(
        &self,
        id: Digest,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.guarded(move |tx| {
            let before = SESSIONS.get(tx, &id)?;
            let Some(before) = before.filter(|before| now < before.expires_at) else {
                return Ok(());
            };
            let used = Session {
                expires_at,
                used_at: now,
                ..before
            };
            SESSIONS.put(tx, &id, &used)
        })
        .await
    }

    async fn end_session(&self, id: Digest) -> Result<(), StoreError> {
        self.guarded(move |tx| end(tx, &id)).await
    }

    async fn end_sessions(
        &self,
        username: Username,
        which: EndingSessions,
        audit: Arc<[AuditEvent]>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let entries = self.entries(audit).await?;
        self.owned(move |tx| end_own(tx, &username, which, &entries, now))
            .await
    }

    async fn end_provider_sign_ins(
        &self,
        sign_out: ProviderSignOut,
        audit: Arc<[AuditEvent]>,
        now: Timestamp,
    ) -> Result<EndedSignIns, StoreError> {
        let (mark, until) = mark_of(&sign_out);
        // Before the look-up of the user: a session that has not seen the mark is known to the look-up.
        self.guarded(move |tx| {
            let known = USED_ONCE.get(tx, &mark)?.unwrap_or_default();
            USED_ONCE.put(tx, &mark, &until.max(known))
        })
        .await?;
        let entries = self.entries(audit).await?;
        self.owned(move |tx| end_sign_ins(tx, &sign_out, &entries, now))
            .await
    }
}

/// The index also contains the sessions of the other stage.
const LOOKED_AT: usize = cap::SESSIONS.looked_at() * 2;

fn start(
    tx: &mut impl Tx,
    id: Digest,
    session: &Session,
    replaces: Option<Digest>,
) -> Result<SessionBegin, Fault> {
    let username = &session.username;
    let marks = session.provider.as_ref().map(ended_by_marks);
    tx.ahead(|| {
        let of_user = [
            USERS.lock(username),
            UNFINISHED_SIGN_INS.want(username),
            SESSIONS_BY_USER.want_ids(&of_user(username), LOOKED_AT),
        ];
        let marks = marks.iter().flat_map(|(marks, _)| marks);
        let marks = marks.map(|mark| USED_ONCE.want(mark));
        let replaced = replaces.iter().map(|id| SESSIONS.want(id));
        of_user.into_iter().chain(marks).chain(replaced)
    });
    let user = USERS.get(tx, username)?;
    if let Some(refused) = SessionBegin::refused(session, user.as_ref()) {
        return Ok(refused);
    }
    if let Some((marks, beyond)) = &marks
        && is_signed_out(tx, marks, *beyond)?
    {
        return Ok(SessionBegin::SignedOut);
    }
    let unfinished = unfinished(tx, id, session, replaces)?;
    if let Some(replaced) = &replaces {
        end(tx, replaced)?;
    }
    make_room(tx, session)?;
    add(tx, &id, session)?;
    Ok(SessionBegin::Begun(unfinished))
}

/// Writes the rows of a session that has none.
pub(crate) fn add(tx: &mut impl Tx, id: &Digest, session: &Session) -> Result<(), Fault> {
    SESSIONS.put(tx, id, session)?;
    SESSIONS_BY_USER.put(tx, &session_of_user(&session.username, id), &())
}

/// True if a sign-out at the provider has overtaken a sign-in.
fn is_signed_out(tx: &mut impl Read, marks: &[OnceId], beyond: Timestamp) -> Result<bool, Fault> {
    for mark in marks {
        let until = USED_ONCE.get(tx, mark)?;
        if until.is_some_and(|until| until > beyond) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Counts the start of `session` among the unfinished sign-ins of its user; a complete sign-in takes and returns them, and is the
/// user's last one.
fn unfinished(
    tx: &mut impl Tx,
    id: Digest,
    session: &Session,
    replaces: Option<Digest>,
) -> Result<UnfinishedSignIns, Fault> {
    let username = &session.username;
    let before = UNFINISHED_SIGN_INS.readable(tx, username)?;
    let after = before.unwrap_or_default().with(id, session, replaces);
    match session.stage {
        SessionStage::SecondFactorOwed => {
            UNFINISHED_SIGN_INS.put(tx, username, &after)?;
            Ok(UnfinishedSignIns::default())
        }
        SessionStage::SignedIn => {
            UNFINISHED_SIGN_INS.remove(tx, username)?;
            LAST_SIGN_INS.put(tx, username, &session.used_at)?;
            Ok(after)
        }
    }
}

/// Ends sessions of the user and stage to make room for `new`.
fn make_room(tx: &mut impl Tx, new: &Session) -> Result<(), Fault> {
    let ids = ids_of(tx, &new.username, LOOKED_AT)?;
    if ids.len() < cap::SESSIONS.most() {
        return Ok(());
    }
    want_rows(tx, &ids);
    let mut held = Vec::new();
    for id in ids {
        let session = SESSIONS.readable(tx, &id)?;
        let of_stage = session.filter(|session| session.stage == new.stage);
        held.extend(of_stage.map(|held| {
            let elsewhere = !held.shares_origin_with(new);
            (elsewhere, held.expires_at, *id.as_bytes())
        }));
    }
    let over = cap::SESSIONS.to_end(held);
    tx.note(Note::EndedForRoom {
        kind: "session",
        user: new.username.to_string(),
        ended: over.len(),
    });
    let mut over = over.into_iter();
    over.try_for_each(|(_, _, id)| end(tx, &Digest::from_bytes(id)))
}

/// Ends a session. An unknown session is not an error.
pub(crate) fn end(tx: &mut impl Tx, id: &Digest) -> Result<(), Fault> {
    let session = SESSIONS.readable(tx, id)?;
    SESSIONS.remove(tx, id)?;
    match session {
        Some(session) => SESSIONS_BY_USER.remove(tx, &session_of_user(&session.username, id)),
        None => Ok(()),
    }
}

fn end_own(
    tx: &mut impl Tx,
    username: &Username,
    which: EndingSessions,
    entries: &Entries,
    now: Timestamp,
) -> Result<u64, Fault> {
    tx.ahead(|| [USERS.lock(username), want_held(username)]);
    let Some(user) = USERS.get(tx, username)? else {
        return Ok(0);
    };
    let mut held = held_by(tx, username)?;
    held.retain(|id| match which {
        EndingSessions::One(one) => *id == one,
        EndingSessions::Others(own) => *id != own,
    });
    let signed_out = User {
        sign_ins_from: now,
        ..user.clone()
    };
    registry_index::replace_user(tx, &user, &signed_out)?;
    held.iter().try_for_each(|id| end(tx, id))?;
    tx.append(Entry::Audit(entries))?;
    Ok(held.len() as u64)
}

fn end_sign_ins(
    tx: &mut impl Tx,
    sign_out: &ProviderSignOut,
    entries: &Entries,
    now: Timestamp,
) -> Result<EndedSignIns, Fault> {
    let ends = |provider: Option<&ProviderSignIn>| {
        provider.is_some_and(|provider| provider.ends_with(sign_out))
    };
    let mut ended = EndedSignIns::default();
    // None or one.
    for username in registry_index::users_of_identity(tx, &sign_out.identity)? {
        let owner = Owner::User(username.clone());
        tx.ahead(|| {
            [
                USERS.lock(&username),
                want_held(&username),
                grants::want_held(&owner),
            ]
        });
        // A session that starts meanwhile, or a code that is redeemed, is there already or sees the mark.
        if !USERS.has(tx, &username)? {
            continue;
        }
        let sessions = held_by(tx, &username)?;
        let grants = grants::held_by(tx, &owner)?;
        ended.sessions += end_where(tx, &sessions, |one| ends(one.provider.as_ref()))?;
        let grants = grants::end_where(tx, &grants, now, |one| ends(one.provider.as_ref()))?;
        ended.grants += grants.len() as u64;
        let extent = Extent::of(now, tx.longest_token());
        feed::announce_all(tx, &grants, |_| extent)?;
    }
    if ended != EndedSignIns::default() {
        tx.append(Entry::Audit(entries))?;
    }
    Ok(ended)
}

/// What [`held_by`] reads first.
pub(crate) fn want_held(username: &Username) -> Want {
    SESSIONS_BY_USER.want_ids(&of_user(username), usize::MAX)
}

/// All sessions of a user; a cap bounds their number. Announces their rows.
pub(crate) fn held_by(tx: &mut impl Read, username: &Username) -> Result<Vec<Digest>, Fault> {
    let ids = ids_of(tx, username, usize::MAX)?;
    want_rows(tx, &ids);
    Ok(ids)
}

fn ids_of(tx: &mut impl Read, username: &Username, limit: usize) -> Result<Vec<Digest>, Fault> {
    let ids = SESSIONS_BY_USER.ids(tx, &of_user(username), limit)?;
    Ok(ids.into_iter().map(Digest::from_bytes).collect())
}

fn want_rows(tx: &mut impl Read, ids: &[Digest]) {
    tx.ahead(|| ids.iter().map(|id| SESSIONS.want(id)));
}

/// Ends the sessions of a user whose credentials change, and forgets the unfinished sign-ins with those credentials.
pub(crate) fn end_all(tx: &mut impl Tx, username: &Username, held: &[Digest]) -> Result<(), Fault> {
    UNFINISHED_SIGN_INS.remove(tx, username)?;
    held.iter().try_for_each(|id| end(tx, id))
}

/// Ends the sessions for which `ends` is true, and returns their number.
pub(crate) fn end_where(
    tx: &mut impl Tx,
    held: &[Digest],
    ends: impl Fn(&Session) -> bool,
) -> Result<u64, Fault> {
    let mut ended = 0;
    for id in held {
        let session = SESSIONS.readable(tx, id)?;
        if session.is_some_and(|session| ends(&session)) {
            end(tx, id)?;
            ended += 1;
        }
    }
    Ok(ended)
}

/// True if the code that rests on this session may be redeemed: the session is live, or the code needs no session.
pub(crate) fn is_live(
    tx: &mut impl Read,
    id: Option<Digest>,
    now: Timestamp,
) -> Result<bool, Fault> {
    let Some(id) = id else { return Ok(true) };
    let session = SESSIONS.get(tx, &id)?;
    Ok(session.is_some_and(|session| now < session.expires_at))
}
