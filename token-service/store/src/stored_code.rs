//! Rows of codes.

use std::borrow::Cow;

use domain::CodeRecord;
use domain::authorization_code::UsedCode;
use domain::clock::Timestamp;
use serde::{Deserialize, Serialize};

use crate::row::Row;

/// The row of a code in a table of used and unused codes.
#[expect(
    clippy::large_enum_variant,
    reason = "a row lives for one read or write"
)]
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum StoredCode<'a> {
    Unused(Cow<'a, CodeRecord>),
    Used {
        code: UsedCode,
        /// The end of [`USED_CODE_RETENTION`](domain::authorization_code::USED_CODE_RETENTION).
        until: Timestamp,
    },
}

impl Row for StoredCode<'_> {
    const VERSION: u8 = 1;
}
