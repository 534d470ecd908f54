//! Sealed signing keys.

use std::sync::Arc;

use async_trait::async_trait;

use super::Runs;
use crate::codec::Keys;
use crate::fault::Fault;
use crate::tx::tables::{META, SIGNING_KEYS, SIGNING_KEYS_TURN};
use crate::tx::{Entries, Entry, Read, Tx, Want};
use crate::{SigningKeyStore, StoreError};
use domain::clock::Timestamp;
use domain::{AuditEvent, SealedSigningKey};

#[async_trait]
impl<R: Runs> SigningKeyStore for R {
    async fn signing_keys(&self) -> Result<Vec<SealedSigningKey>, StoreError> {
        let keys = self.read(|tx| all(tx)).await?;
        Ok(SealedSigningKey::oldest_first(keys))
    }

    async fn add_signing_key(
        &self,
        key: SealedSigningKey,
        unless_after: Option<Timestamp>,
        audit: Arc<[AuditEvent]>,
    ) -> Result<bool, StoreError> {
        let entries = self.entries(audit).await?;
        self.owned(move |tx| add(tx, &key, unless_after, &entries))
            .await
    }

    async fn retire_signing_key(
        &self,
        kid: String,
        retired_at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        self.owned(move |tx| {
            tx.ahead(|| wants(&kid));
            let Some(key) = SIGNING_KEYS.get(tx, &kid)? else {
                return Ok(());
            };
            SIGNING_KEYS.put(tx, &kid, &SealedSigningKey { retired_at, ..key })
        })
        .await
    }

    async fn forget_signing_key(
        &self,
        kid: String,
        audit: Arc<[AuditEvent]>,
    ) -> Result<bool, StoreError> {
        let entries = self.entries(audit).await?;
        self.owned(move |tx| {
            tx.ahead(|| wants(&kid));
            let known = SIGNING_KEYS.has(tx, &kid)?;
            if known {
                SIGNING_KEYS.remove(tx, &kid)?;
                tx.append(Entry::Audit(&entries))?;
            }
            Ok(known)
        })
        .await
    }
}

/// Locks all keys, so that the second of two changes sees the key that the first one added.
fn turn() -> Want {
    META.lock(SIGNING_KEYS_TURN)
}

/// What a change of one key reads.
pub(super) fn wants(kid: &str) -> [Want; 2] {
    [turn(), SIGNING_KEYS.want(kid)]
}

/// All keys: there are few.
fn all(tx: &mut impl Read) -> Result<Vec<SealedSigningKey>, Fault> {
    let keys = SIGNING_KEYS.rows(tx, &Keys::all(), usize::MAX)?;
    Ok(keys.into_iter().map(|(_, key)| key).collect())
}

fn add(
    tx: &mut impl Tx,
    key: &SealedSigningKey,
    unless_after: Option<Timestamp>,
    entries: &Entries,
) -> Result<bool, Fault> {
    tx.ahead(|| [turn(), SIGNING_KEYS.want_rows(Keys::all(), usize::MAX)]);
    let is_agreed_on = |other: &SealedSigningKey| {
        let later = unless_after.is_none_or(|after| after < other.created_at);
        other.algorithm == key.algorithm && later
    };
    if all(tx)?.iter().any(is_agreed_on) {
        return Ok(false);
    }
    SIGNING_KEYS.put(tx, &key.kid, key)?;
    tx.append(Entry::Audit(entries))?;
    Ok(true)
}
