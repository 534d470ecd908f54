//! Rows of codes that were redeemed.

use domain::authorization_code::UsedCode;
use domain::{ClientId, CodeMismatch, GrantId, PresentedCode};
use serde::Deserialize;

use crate::row::{RowError, decode, decode_bare};

/// The row of a [`UsedCode`] in earlier versions.
#[derive(Debug, Deserialize)]
struct ShortUsedCode {
    client_id: ClientId,
    grant_id: GrantId,
}

/// Reads a row, and decides like [`UsedCode::replayed_by`].
///
/// # Errors
/// [`RowError`] if the row has neither of the two layouts.
pub(crate) fn judge(
    row: &[u8],
    presented: &PresentedCode,
) -> Result<Result<GrantId, CodeMismatch>, RowError> {
    if let Ok(used) = decode::<UsedCode>(row) {
        return Ok(used.replayed_by(presented));
    }
    let used: ShortUsedCode = decode_bare(row)?;
    Ok(UsedCode::judge_short(
        &used.client_id,
        used.grant_id,
        presented,
    ))
}
