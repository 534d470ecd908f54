//! The layout of a store's rows, on which services that share the store agree.

use std::fmt;

/// The layout in use decides what a service may write. A service reads every layout from [`Self::FIRST`] to
/// [`Self::NEWEST`].
///
/// Services of an earlier and of a later version may share a PostgreSQL store. The store has the layout of the earlier
/// version until an operator finishes the upgrade with `token-service migrate --finish`. Until then the later version
/// writes nothing that the earlier version cannot read. Afterwards the earlier version refuses the store.
///
/// A version that adds a field to a row, a code or a registration:
///
/// 1. adds a constant here, and makes it [`Self::NEWEST`].
/// 2. adds the field as an `Option`. In a compact row (`store/src/row.rs`), the field is the last one of the type, the
///    `VERSION` of the row rises by 1, and `version` returns the new number only if the field is `Some`. In a
///    registration (JSON), the field has `#[serde(default, skip_serializing_if = "Option::is_none")]`. An earlier
///    version would ignore the field, and lose the field at its next change of the registration.
/// 3. sets the field only if `Store::layout` has reached the constant. If a person asks for the field before, as in a
///    registration, the answer says that the upgrade has to be finished first.
/// 4. adds a migration to redb (`store/src/redb/tables.rs`), which may be empty. One service uses a file, so the start
///    finishes the upgrade.
///
/// A new variant of an enum in a row counts as a field. The actions of the audit log are an exception: an earlier version
/// logs that it passes over such an entry, and the entry stays.
///
/// A new table, index or nullable column of PostgreSQL needs no layout, because earlier versions do not notice it: add the
/// statement to the `ADDITIONS` of `store/src/postgres/schema.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Layout(u32);

impl Layout {
    pub const FIRST: Self = Self(16);
    /// Grants and codes may be bound to a key of the client (RFC 9449).
    pub const KEY_BINDINGS: Self = Self(17);
    pub const NEWEST: Self = Self::KEY_BINDINGS;

    pub const fn number(self) -> u32 {
        self.0
    }

    /// The layout with this number; `None` if this version does not know the layout.
    pub fn known(number: i64) -> Option<Self> {
        let known = i64::from(Self::FIRST.0)..=i64::from(Self::NEWEST.0);
        let number = u32::try_from(number).ok()?;
        known.contains(&number.into()).then_some(Self(number))
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
