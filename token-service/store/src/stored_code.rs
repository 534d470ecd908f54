//! Rows of codes.

use std::borrow::Cow;

use domain::authorization_code::UsedCode;
use domain::{ClientId, CodeMismatch, CodeRecord, GrantId, PresentedCode};
use serde::{Deserialize, Serialize};

use crate::row::{Row, RowError, decode, decode_bare};

/// The row of a code in a table of used and unused codes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum StoredCode<'a> {
    Unused(Cow<'a, CodeRecord>),
    Used(UsedRow),
}

impl Row for StoredCode<'_> {
    // A row of version 1 contained only a `CodeRecord`.
    const VERSION: u8 = 2;
}

/// What is remembered of a used code.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum UsedRow {
    Whole(UsedCode),
    /// Written by an earlier version.
    Short {
        client_id: ClientId,
        grant_id: GrantId,
    },
}

impl UsedRow {
    /// Reads a row that contains only this.
    ///
    /// # Errors
    /// [`RowError`] if the row has neither of the two layouts.
    pub(crate) fn read(row: &[u8]) -> Result<Self, RowError> {
        if let Ok(used) = decode(row) {
            return Ok(Self::Whole(used));
        }
        let (client_id, grant_id) = decode_bare(row)?;
        Ok(Self::Short {
            client_id,
            grant_id,
        })
    }

    /// Decides like [`UsedCode::replayed_by`].
    pub(crate) fn replayed_by(&self, presented: &PresentedCode) -> Result<GrantId, CodeMismatch> {
        match self {
            Self::Whole(used) => used.replayed_by(presented),
            Self::Short {
                client_id,
                grant_id,
            } => UsedCode::judge_short(client_id, *grant_id, presented),
        }
    }
}
