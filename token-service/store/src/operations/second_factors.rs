//! Second factors that users set up.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Runs, credentials, feed, grants, names, notices, registry_index, sessions};
use crate::fault::Fault;
use crate::tx::tables::{LAST_SIGN_INS, SECOND_FACTORS, USERS};
use crate::tx::{Entries, Entry, Read, Tx};
use crate::{CredentialStore, StoreError, Use};
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{
    AuditEvent, Credentials, CredentialsVersion, Extent, Notice, Owner, SecondFactor, SignIns,
    User, Username,
};

#[async_trait]
impl<R: Runs> CredentialStore for R {
    async fn credentials(&self, username: Username) -> Result<Option<Credentials>, StoreError> {
        self.read(move |tx| {
            tx.ahead(|| {
                let own = SECOND_FACTORS.want(&username);
                names::wants(&username).chain([own])
            });
            let Some(name) = names::registered(tx, &username)? else {
                return Ok(None);
            };
            let (user, own) = (USERS.get(tx, &name)?, SECOND_FACTORS.get(tx, &name)?);
            Ok(user.map(|user| Credentials::of(user, own)))
        })
        .await
    }

    async fn second_factor(&self, username: Username) -> Result<Option<SecondFactor>, StoreError> {
        self.read(move |tx| SECOND_FACTORS.get(tx, &username)).await
    }

    async fn sign_ins(&self, usernames: Vec<Username>) -> Result<Vec<SignIns>, StoreError> {
        self.read(move |tx| {
            tx.ahead(|| {
                let names = usernames.iter();
                names.flat_map(|name| [SECOND_FACTORS.want(name), LAST_SIGN_INS.want(name)])
            });
            let of = |username: &Username| {
                Ok(SignIns {
                    has_own_second_factor: SECOND_FACTORS.has(tx, username)?,
                    last_at: LAST_SIGN_INS.get(tx, username)?,
                    username: username.clone(),
                })
            };
            usernames.iter().map(of).collect()
        })
        .await
    }

    async fn set_second_factor(
        &self,
        username: Username,
        second_factor: Option<SecondFactor>,
        rests_on: Option<CredentialsVersion>,
        notice: Option<Notice>,
        audit: Arc<[AuditEvent]>,
        now: Timestamp,
    ) -> Result<Option<CredentialsVersion>, StoreError> {
        let entries = self.entries(audit).await?;
        self.owned(move |tx| {
            let told = (notice.as_slice(), &entries);
            set(tx, &username, second_factor.as_ref(), rests_on, told, now)
        })
        .await
    }

    async fn replace_recovery_codes(
        &self,
        username: Username,
        codes: Vec<Digest>,
        rests_on: CredentialsVersion,
        notice: Option<Notice>,
        audit: Arc<[AuditEvent]>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let entries = self.entries(audit).await?;
        self.owned(move |tx| {
            let told = (notice.as_slice(), &entries);
            replace_codes(tx, &username, &codes, rests_on, told, now)
        })
        .await
    }

    async fn use_recovery_code(&self, username: Username, code: Digest) -> Result<Use, StoreError> {
        self.guarded(move |tx| {
            let found = SECOND_FACTORS.get(tx, &username)?;
            let Some(mut second_factor) = found else {
                return Ok(Use::Again);
            };
            if !second_factor.use_up(&code) {
                return Ok(Use::Again);
            }
            SECOND_FACTORS.put(tx, &username, &second_factor)?;
            Ok(Use::First)
        })
        .await
    }
}

/// What people and operators are told of a change.
type Told<'a> = (&'a [Notice], &'a Entries);

fn set(
    tx: &mut impl Tx,
    username: &Username,
    second_factor: Option<&SecondFactor>,
    rests_on: Option<CredentialsVersion>,
    (owed, entries): Told<'_>,
    now: Timestamp,
) -> Result<Option<CredentialsVersion>, Fault> {
    let owner = Owner::User(username.clone());
    tx.ahead(|| {
        let of_user = [
            credentials::want_version(),
            USERS.lock(username),
            sessions::want_held(username),
            grants::want_held(&owner),
        ];
        of_user.into_iter().chain(owed.iter().map(notices::want))
    });
    let user = USERS.get(tx, username)?;
    let is_current = |user: &User| rests_on.is_none_or(|version| user.still_has(version));
    let Some(user) = user.filter(is_current) else {
        return Ok(None);
    };
    let held = (
        sessions::held_by(tx, username)?,
        grants::held_by(tx, &owner)?,
    );
    notices::owe(tx, owed, now)?;
    let version = CredentialsVersion::new(credentials::next_version(tx)?);
    let renewed = User {
        credentials_version: version,
        sign_ins_from: now,
        ..user.clone()
    };
    registry_index::replace_user(tx, &user, &renewed)?;
    sessions::end_all(tx, username, &held.0)?;
    let ended = grants::end_where(tx, &held.1, now, |grant| !grant.rests_on(&renewed))?;
    let extent = Extent::of(now, tx.longest_token());
    feed::announce_all(tx, &ended, |_| extent)?;
    match second_factor {
        Some(second_factor) => SECOND_FACTORS.put(tx, username, second_factor)?,
        None => remove(tx, username)?,
    }
    tx.append(Entry::Audit(entries))?;
    Ok(Some(version))
}

fn replace_codes(
    tx: &mut impl Tx,
    username: &Username,
    codes: &[Digest],
    rests_on: CredentialsVersion,
    (owed, entries): Told<'_>,
    now: Timestamp,
) -> Result<bool, Fault> {
    tx.ahead(|| {
        let of_user = [USERS.lock(username), SECOND_FACTORS.want(username)];
        of_user.into_iter().chain(owed.iter().map(notices::want))
    });
    let is_current = credentials::are_current(tx, username, rests_on)?;
    let found = SECOND_FACTORS.get(tx, username)?;
    let Some(before) = found.filter(|_| is_current) else {
        return Ok(false);
    };
    notices::owe(tx, owed, now)?;
    let after = SecondFactor {
        recovery_codes: codes.to_vec(),
        ..before
    };
    SECOND_FACTORS.put(tx, username, &after)?;
    tx.append(Entry::Audit(entries))?;
    Ok(true)
}

pub(crate) fn remove(tx: &mut impl Tx, username: &Username) -> Result<(), Fault> {
    SECOND_FACTORS.remove(tx, username)
}
