//! Rows of codes.

use std::borrow::Cow;

use domain::CodeRecord;
use domain::authorization_code::UsedCode;
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
    Used(UsedCode),
}

impl Row for StoredCode<'_> {
    const VERSION: u8 = 1;
}
