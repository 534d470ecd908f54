//! The rows that a transaction writes, in the form of the [journal](super::journal).

use std::cell::RefCell;

use serde::{Deserialize, Serialize, Serializer};

use super::journal::CAPACITY;
use crate::fault::Fault;

/// Changed rows, in the order of the changes; `None` if they are more than the journal takes.
#[derive(Debug)]
pub(super) struct Rows(RefCell<Option<Vec<u8>>>);

/// A changed row, as redb stores it.
#[derive(Serialize, Deserialize)]
pub(super) struct Change<'a> {
    pub(super) table: &'a str,
    #[serde(borrow)]
    pub(super) key: Bytes<'a>,
    /// `None` if the row was removed.
    pub(super) value: Option<Bytes<'a>>,
}

/// Written as a whole. serde writes a slice byte by byte.
#[derive(Deserialize)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

impl Rows {
    pub(super) const fn new() -> Self {
        Self(RefCell::new(Some(Vec::new())))
    }

    /// The encoded rows; `None` if they are more than the journal takes.
    pub(super) fn into_bytes(self) -> Option<Vec<u8>> {
        self.0.into_inner()
    }

    /// Adds a row that was written, or removed if `value` is `None`.
    pub(super) fn add(&self, table: &str, key: &[u8], value: Option<&[u8]>) -> Result<(), Fault> {
        let mut rows = self.0.borrow_mut();
        let Some(before) = rows.take() else {
            return Ok(());
        };
        let row = Change {
            table,
            key: Bytes(key),
            value: value.map(Bytes),
        };
        let after = postcard::to_extend(&row, before).map_err(|error| unreadable(&error))?;
        *rows = ((after.len() as u64) < CAPACITY).then_some(after);
        Ok(())
    }
}

/// The changes in `rows`. Ends after an error.
pub(super) fn changes(rows: &[u8]) -> impl Iterator<Item = Result<Change<'_>, Fault>> {
    let mut rest = rows;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let row = postcard::take_from_bytes(std::mem::take(&mut rest));
        Some(
            row.map_err(|error| unreadable(&error))
                .map(|(row, behind)| {
                    rest = behind;
                    row
                }),
        )
    })
}

fn unreadable(error: &postcard::Error) -> Fault {
    Fault::Row(error.to_string())
}
