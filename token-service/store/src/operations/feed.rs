//! What the feed revokes. The stores give the entries their positions.

use std::sync::Arc;

use async_trait::async_trait;

use super::Runs;
use crate::fault::Fault;
use crate::tx::tables::REVOKED;
use crate::tx::{Entry, Read, Tx};
use crate::{RevocationStore, StoreError};
use domain::clock::Timestamp;
use domain::{AuditEvent, Extent, Revoked, TokenReference};

#[async_trait]
impl<R: Runs> RevocationStore for R {
    async fn announce(
        &self,
        revoked: Revoked,
        extent: Extent,
        audit: Arc<[AuditEvent]>,
    ) -> Result<bool, StoreError> {
        let entries = self.entries(audit).await?;
        self.guarded(move |tx| {
            tx.ahead(|| [REVOKED.want(&revoked)]);
            let is_new = announce(tx, &revoked, extent)?;
            if is_new {
                tx.append(Entry::Audit(&entries))?;
            }
            Ok(is_new)
        })
        .await
    }

    async fn revoked_by(
        &self,
        token: TokenReference,
    ) -> Result<Vec<(Revoked, Timestamp)>, StoreError> {
        self.look_up(move |tx| revoked_by(tx, &token)).await
    }
}

/// The entries that revoke the token, each with its [`Extent::at`].
pub(crate) fn revoked_by(
    tx: &mut impl Read,
    token: &TokenReference,
) -> Result<Vec<(Revoked, Timestamp)>, Fault> {
    let candidates: Vec<_> = token.revoked_by().collect();
    tx.ahead(|| candidates.iter().map(|(revoked, _)| REVOKED.want(revoked)));
    let mut revoked_by = Vec::new();
    for (revoked, from) in candidates {
        if let Some(latest) = REVOKED.get(tx, &revoked)?
            && from <= latest.at
        {
            revoked_by.push((revoked, latest.at));
        }
    }
    Ok(revoked_by)
}

/// The earliest `iat` that no entry for this subject covers.
pub(crate) fn tokens_from(tx: &mut impl Read, ended_by: &Revoked) -> Result<Timestamp, Fault> {
    let latest = REVOKED.get(tx, ended_by)?;
    Ok(latest.map_or_else(Timestamp::default, |latest| latest.at.next_second()))
}

/// Appends an entry, which replaces an earlier entry for the same subject. The entry stays until the tokens that it revokes have
/// expired. Returns `false` if the earlier entry already covers it. Replaces an entry that cannot be read, because the operation may
/// have written what ends.
pub(crate) fn announce(tx: &mut impl Tx, revoked: &Revoked, extent: Extent) -> Result<bool, Fault> {
    let existing = REVOKED.readable(tx, revoked)?.map(|latest| Extent {
        at: latest.at,
        expires_at: latest.expires_at,
    });
    let Some(extent) = extent.after(existing, revoked) else {
        return Ok(false);
    };
    tx.append(Entry::Revoked(revoked, extent))?;
    Ok(true)
}

/// Announces each, after their rows were read together.
pub(crate) fn announce_all(
    tx: &mut impl Tx,
    revoked: &[Revoked],
    extent: impl Fn(&Revoked) -> Extent,
) -> Result<(), Fault> {
    tx.ahead(|| revoked.iter().map(|revoked| REVOKED.want(revoked)));
    for revoked in revoked {
        announce(tx, revoked, extent(revoked))?;
    }
    Ok(())
}
