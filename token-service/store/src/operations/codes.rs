//! Authorization codes: redeeming, and detecting a second use. Only legacy codes have rows.

use std::borrow::Cow;

use async_trait::async_trait;

use super::{Runs, feed, grants, sessions};
use crate::fault::Fault;
use crate::stored_code::StoredCode;
use crate::tx::tables::{
    CLIENTS, CODES, GRANTS, REVOKED, SESSIONS, UNUSED_CODES, USERS, of_user_at, unused_code,
};
use crate::tx::{Note, Read, Tx, Want};
use crate::{Begin, CodeStore, GrantStore, StoreError};
use domain::authorization_code::{CodeBasis, USED_CODE_RETENTION};
use domain::cap;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{
    Client, CodeMismatch, CodeRecord, FirstStep, GrantId, PresentedCode, Redemption,
    SelfContainedCode, User,
};

#[async_trait]
impl<R: Runs> CodeStore for R {
    async fn redeem_code(
        &self,
        code: SelfContainedCode,
        presented: PresentedCode,
        first: FirstStep,
        now: Timestamp,
    ) -> Result<Redemption, StoreError> {
        if let Some(mismatch) = refusal(self, &code, &presented, now).await? {
            return Ok(Redemption::Mismatch(mismatch));
        }
        self.owned(move |tx| redeem(tx, &code, &presented, &first, now))
            .await
    }

    async fn issue_legacy_code(
        &self,
        code: Digest,
        record: CodeRecord,
    ) -> Result<Begin, StoreError> {
        self.owned(move |tx| issue_legacy(tx, &code, &record)).await
    }

    async fn redeem_legacy_code(
        &self,
        code: Digest,
        presented: PresentedCode,
        grant_id: GrantId,
        first: FirstStep,
        now: Timestamp,
    ) -> Result<Redemption, StoreError> {
        self.owned(move |tx| redeem_legacy(tx, &code, &presented, grant_id, &first, now))
            .await
    }
}

fn redeem(
    tx: &mut impl Tx,
    code: &SelfContainedCode,
    presented: &PresentedCode,
    first: &FirstStep,
    now: Timestamp,
) -> Result<Redemption, Fault> {
    let (grant_id, record) = (code.grant_id, &code.record);
    tx.ahead(|| Basis::wants(record).chain([GRANTS.want(&grant_id)]));
    if GRANTS.has(tx, &grant_id)? {
        return replayed(tx, grant_id, now);
    }
    let basis = Basis::read(tx, record, now)?;
    let record = record.clone();
    match record.redeem(grant_id, first.clone(), presented.proven, basis.lent(), now) {
        Ok((grant, step)) => {
            grants::insert(tx, &grant, now)?;
            let grant = Box::new(grant);
            Ok(Redemption::Redeemed { grant, step })
        }
        Err(refused) => Ok(refused),
    }
}

fn issue_legacy(tx: &mut impl Tx, code: &Digest, record: &CodeRecord) -> Result<Begin, Fault> {
    let held = of_user_at(&record.username, &record.client_id);
    tx.ahead(|| {
        [
            CLIENTS.share(&record.client_id),
            USERS.lock(&record.username),
            UNUSED_CODES.want_ids(&held, cap::CODES.looked_at()),
        ]
    });
    let client = CLIENTS.get(tx, &record.client_id)?;
    let user = USERS.get(tx, &record.username)?;
    if record.rests_on(client.as_ref(), user.as_ref()).is_err() {
        return Ok(Begin::CredentialsChanged);
    }
    make_room(tx, record, &held)?;
    add(tx, code, record)?;
    Ok(Begin::Begun)
}

/// Writes the rows of an unused code.
pub(crate) fn add(tx: &mut impl Tx, code: &Digest, record: &CodeRecord) -> Result<(), Fault> {
    CODES.put(tx, code, &StoredCode::Unused(Cow::Owned(record.clone())))?;
    UNUSED_CODES.put(tx, &unused_code(record, code), &())
}

fn redeem_legacy(
    tx: &mut impl Tx,
    code: &Digest,
    presented: &PresentedCode,
    grant_id: GrantId,
    first: &FirstStep,
    now: Timestamp,
) -> Result<Redemption, Fault> {
    tx.ahead(|| [CODES.want(code)]);
    let record = match CODES.get(tx, code)? {
        Some(StoredCode::Unused(record)) => record,
        // RFC 6749 §4.1.2: a second use "SHOULD revoke (when possible) all tokens previously issued".
        Some(StoredCode::Used { code, .. }) => match code.replayed_by(presented) {
            Ok(grant_id) => return replayed(tx, grant_id, now),
            Err(refused) => return Ok(refused),
        },
        None => return Ok(Redemption::Unknown),
    };
    tx.ahead(|| Basis::wants(&record));
    let basis = Basis::read(tx, &record, now)?;
    let redeemed = record.redeem_stored(presented, grant_id, first.clone(), basis.lent(), now);
    let ((grant, step), used) = match redeemed {
        Ok(redeemed) => redeemed,
        Err(refused) => return Ok(refused),
    };
    let used = StoredCode::Used {
        code: used,
        until: record.expires_at + USED_CODE_RETENTION,
    };
    CODES.put(tx, code, &used)?;
    UNUSED_CODES.remove(tx, &unused_code(&record, code))?;
    grants::insert(tx, &grant, now)?;
    let grant = Box::new(grant);
    Ok(Redemption::Redeemed { grant, step })
}

/// What a code rests on, as of now.
struct Basis {
    client: Option<Client>,
    user: Option<User>,
    codes_from: Timestamp,
    has_session: bool,
}

impl Basis {
    /// What a redemption reads.
    fn wants(record: &CodeRecord) -> impl Iterator<Item = Want> {
        let rows = [
            CLIENTS.share(&record.client_id),
            USERS.lock(&record.username),
            REVOKED.want(&record.ended_by()),
            grants::want_room(&record.username, &record.client_id),
        ];
        let session = record.session.iter().map(|id| SESSIONS.want(id));
        rows.into_iter().chain(session)
    }

    fn read(tx: &mut impl Read, record: &CodeRecord, now: Timestamp) -> Result<Self, Fault> {
        Ok(Self {
            client: CLIENTS.get(tx, &record.client_id)?,
            user: USERS.get(tx, &record.username)?,
            codes_from: feed::tokens_from(tx, &record.ended_by())?,
            has_session: sessions::is_live(tx, record.session, now)?,
        })
    }

    const fn lent(&self) -> CodeBasis<'_> {
        CodeBasis {
            client: self.client.as_ref(),
            user: self.user.as_ref(),
            codes_from: self.codes_from,
            has_session: self.has_session,
        }
    }
}

/// Revokes the grant of a code that is used again.
fn replayed(tx: &mut impl Tx, grant_id: GrantId, now: Timestamp) -> Result<Redemption, Fault> {
    tx.ahead(|| grants::want_live(&grant_id));
    grants::revoke(tx, grant_id, now)?;
    Ok(Redemption::Replayed(grant_id))
}

/// Removes codes of the same user and client, whose keys begin with `held`, to make room for a new code.
fn make_room(tx: &mut impl Tx, record: &CodeRecord, held: &[u8]) -> Result<(), Fault> {
    let ends = UNUSED_CODES.ids::<40>(tx, held, cap::CODES.looked_at())?;
    // Second of expiry and digest, in the order of time.
    let over = cap::CODES.to_end(ends);
    if over.is_empty() {
        return Ok(());
    }
    tx.note(Note::EndedForRoom {
        kind: "code",
        user: record.username.to_string(),
        ended: over.len(),
    });
    for end in over {
        UNUSED_CODES.remove(tx, &[held, &end].concat())?;
        if let Some(code) = end.last_chunk() {
            CODES.remove(tx, &Digest::from_bytes(*code))?;
        }
    }
    Ok(())
}

/// Removes the rows of a code.
pub(crate) fn remove(tx: &mut impl Tx, code: &Digest, row: &StoredCode<'_>) -> Result<(), Fault> {
    if let StoredCode::Unused(record) = row {
        UNUSED_CODES.remove(tx, &unused_code(record, code))?;
    }
    CODES.remove(tx, code)
}

/// Why the code is refused without a write and without a lock. Somebody may send an expired code again and again.
///
/// # Errors
/// [`StoreError`] if the grant of an expired code cannot be read.
pub(crate) async fn refusal(
    grants: &impl GrantStore,
    code: &SelfContainedCode,
    presented: &PresentedCode,
    now: Timestamp,
) -> Result<Option<CodeMismatch>, StoreError> {
    if let Err(mismatch) = code.concerns(presented, now) {
        return Ok(Some(mismatch));
    }
    let is_expired = now >= code.record.expires_at;
    let is_unused = is_expired && grants.grant(code.grant_id).await?.is_none();
    Ok(is_unused.then_some(CodeMismatch::Expired))
}
