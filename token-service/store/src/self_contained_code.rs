//! What every store decides about a self-contained code before its transaction.

use crate::{GrantStore, StoreError};
use domain::clock::Timestamp;
use domain::{CodeMismatch, PresentedCode, SelfContainedCode};

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
