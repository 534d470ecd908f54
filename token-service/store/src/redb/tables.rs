//! The tables of the file.

use redb::{
    AccessGuard, Key, ReadTransaction, ReadableTable, TableDefinition, TableHandle as _, Value,
    WriteTransaction,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::fault::{Fault, readable};
use super::recorded::Recorded;
use super::rows::{Change, Rows};
use crate::row::{self, Row};
use domain::clock::Timestamp;
use domain::{IndexDifference, Layout};

/// Changes a file from one layout to the next.
pub(super) type Migration = fn(&mut Tables<'_>) -> Result<(), Fault>;

/// The first migration changes [`Layout::FIRST`] to the layout after it. A new table needs no migration.
pub(super) const MIGRATIONS: &[Migration] = &[];

// A version that does not know a layout must not open the file.
const _: () = assert!(
    MIGRATIONS.len() == (Layout::NEWEST.number() - Layout::FIRST.number()) as usize,
    "each layout needs a migration"
);

/// The number of the [`Layout`]. Unreleased versions before 0.3.0 wrote `schema_version`.
pub(super) const LAYOUT_KEY: &str = "layout";
/// The highest sequence that the revocation feed ever used.
pub(super) const LAST_REVOCATION_KEY: &str = "last_revocation";

/// Bits 64 to 127 of the identity of the revocation feed.
pub(super) const FEED_HIGH_KEY: &str = "feed_high";
/// Bits 0 to 63 of the identity of the revocation feed.
pub(super) const FEED_LOW_KEY: &str = "feed_low";

/// Longest lifetime of access tokens that may still be valid, in seconds.
pub(super) const TOKEN_LIFETIME_KEY: &str = "token_lifetime";
/// When the last of these tokens has expired, in seconds since 1970; 0 while they are issued.
pub(super) const TOKEN_LIFETIME_UNTIL_KEY: &str = "token_lifetime_until";

/// Identity of the [journal](super::journal) that the file needs; absent after a clean stop.
pub(super) const JOURNAL_KEY: &str = "journal";
/// Number of the last checkpoint of this journal.
pub(super) const CHECKPOINT_KEY: &str = "checkpoint";

/// Time of the last sweep, or of the creation of the file, in seconds since 1970.
pub(super) const SWEPT_AT_KEY: &str = "swept_at";

/// The highest sequence that the audit log ever used.
pub(super) const LAST_AUDIT_KEY: &str = "last_audit";

/// The highest version of credentials that was ever used.
pub(super) const CREDENTIALS_KEY: &str = "credentials";

/// The position in the sequence of changes of the registry.
pub(super) const REGISTRY_VERSION_KEY: &str = "registry_version";

pub(super) const ROOT_KEY: &str = "root";

/// The kind of row that an entry of [`EXPIRY`] points at. The file contains the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Expiring {
    /// A row of [`CODES`] that was unused when this entry was written.
    Code = 1,
    /// A row of [`CODES`] whose code was used.
    UsedCode = 2,
    Session = 3,
    Failures = 4,
}

impl Expiring {
    pub(super) const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Code),
            2 => Some(Self::UsedCode),
            3 => Some(Self::Session),
            4 => Some(Self::Failures),
            _ => None,
        }
    }
}

/// A table that is opened when an operation of the transaction first needs it, because opening requires a search.
pub(super) struct Lazy<'txn, K: Key + 'static, V: Value + 'static> {
    transaction: &'txn WriteTransaction,
    definition: TableDefinition<'static, K, V>,
    rows: Option<&'txn Rows>,
    table: Option<Recorded<'txn, K, V>>,
}

impl<'txn, K: Key + 'static, V: Value + 'static> Lazy<'txn, K, V> {
    const fn new(
        transaction: &'txn WriteTransaction,
        rows: Option<&'txn Rows>,
        definition: TableDefinition<'static, K, V>,
    ) -> Self {
        Self {
            transaction,
            definition,
            rows,
            table: None,
        }
    }

    /// True if an operation of the transaction needed the table.
    pub(super) const fn is_open(&self) -> bool {
        self.table.is_some()
    }

    pub(super) fn open(&mut self) -> Result<&mut Recorded<'txn, K, V>, Fault> {
        let table = match self.table.take() {
            Some(table) => table,
            None => {
                let table = self.transaction.open_table(self.definition)?;
                Recorded::new(table, self.definition, self.rows)
            }
        };
        Ok(self.table.insert(table))
    }
}

macro_rules! tables {
    ($($(#[$doc:meta])* $definition:ident $field:ident<$key:ty, $value:ty>,)*) => {
        $($(#[$doc])*
        pub(super) const $definition: TableDefinition<'static, $key, $value> =
            TableDefinition::new(stringify!($field));)*

        /// The tables in a write transaction.
        pub(super) struct Tables<'txn> {
            $(pub(super) $field: Lazy<'txn, $key, $value>,)*
            /// What the transaction changes in the index of clients and users. Written once for all operations of the
            /// transaction, because they share nearly all counts.
            pub(super) index: IndexDifference,
        }

        impl<'txn> Tables<'txn> {
            pub(super) const fn new(transaction: &'txn WriteTransaction) -> Self {
                Self::with(transaction, None)
            }

            /// Adds every row that an operation changes to `rows`.
            pub(super) const fn recorded(
                transaction: &'txn WriteTransaction,
                rows: &'txn Rows,
            ) -> Self {
                Self::with(transaction, Some(rows))
            }

            const fn with(transaction: &'txn WriteTransaction, rows: Option<&'txn Rows>) -> Self {
                Self {
                    $($field: Lazy::new(transaction, rows, $definition),)*
                    index: IndexDifference::new(),
                }
            }

            /// Repeats a change of the journal. Runs before the migrations: a table whose type changes keeps its
            /// name and type here as long as a migration reads it.
            pub(super) fn replay(&mut self, row: &Change<'_>) -> Result<(), Fault> {
                $(if row.table == $definition.name() {
                    return self.$field.open()?.replay(row);
                })*
                Err(Fault::Row(format!("the journal names the table {}", row.table)))
            }

            /// Opens every table, which creates it for readers.
            pub(super) fn create_all(&mut self) -> Result<(), Fault> {
                $(self.$field.open()?;)*
                Ok(())
            }
        }

        /// Copies every row that `from` contains.
        pub(super) fn copy_all(from: &ReadTransaction, to: &WriteTransaction) -> Result<(), Fault> {
            $({
                let source = from.open_table($definition)?;
                let mut target = to.open_table($definition)?;
                for entry in source.iter()? {
                    let (key, value) = entry?;
                    target.insert(key.value(), value.value())?;
                }
            })*
            Ok(())
        }

        /// Every row, as text that starts with the name of its table.
        #[cfg(test)]
        pub(super) fn all_rows(from: &ReadTransaction) -> Result<Vec<String>, Fault> {
            let mut rows = Vec::new();
            $({
                let name = redb::TableHandle::name(&$definition);
                for entry in from.open_table($definition)?.iter()? {
                    let (key, value) = entry?;
                    rows.push(format!("{name} {:?} {:?}", key.value(), value.value()));
                }
            })*
            Ok(rows)
        }
    };
}

tables! {
    /// Numbers about the file, such as [`LAYOUT_KEY`] and [`LAST_REVOCATION_KEY`].
    META meta<&'static str, u64>,
    /// Client ID to client, JSON.
    CLIENTS clients<&'static str, &'static [u8]>,
    /// Username to user, JSON.
    USERS users<&'static str, &'static [u8]>,
    /// Hostname to legacy instance, JSON.
    LEGACY_INSTANCES legacy_instances<&'static str, &'static [u8]>,
    /// 0 to the file that a start applied last.
    APPLIED_FILE applied_file<u32, &'static [u8]>,
    /// Kind and value of [`Counted`](domain::registry_index::Counted) to the count, which is never 0.
    REGISTRY_COUNTS registry_counts<(u8, &'static str), u64>,
    /// Kind, value and name of [`Named`](domain::registry_index::Named).
    REGISTRY_NAMES registry_names<(u8, &'static str, &'static str), ()>,
    /// Position in the sequence of changes to the key of the changed object. Contains the newest changes without gaps.
    REGISTRY_CHANGES registry_changes<u64, &'static str>,
    /// Kid to sealed signing key, JSON.
    SIGNING_KEYS signing_keys<&'static str, &'static [u8]>,
    /// Client ID and digest of a client secret to the times at which the secret was added and last used, in seconds since
    /// 1970; the second is 0 if the secret was never used.
    CLIENT_SECRETS client_secrets<(&'static str, &'static [u8; 32]), (u64, u64)>,
    /// Name to sealed value; the only name is [`ROOT_KEY`].
    SEALED sealed<&'static str, &'static [u8]>,
    /// Digest of a code to a [`StoredCode`](crate::stored_code::StoredCode). A redemption changes the row in place, so that
    /// it changes one leaf of one tree.
    CODES codes<&'static [u8; 32], &'static [u8]>,
    /// Unused codes by user and client: username, Client ID, second of expiry and digest.
    UNUSED_CODES unused_codes<(&'static str, &'static str, u64, &'static [u8; 32]), ()>,
    /// Grant id to grant. The ids rise with time and rows are updated in place, so that a rotation changes one leaf of one
    /// tree.
    GRANTS grants<&'static [u8; 16], &'static [u8]>,
    /// Grants by client; one write per grant.
    GRANTS_BY_CLIENT grants_by_client<(&'static str, &'static [u8; 16]), ()>,
    /// Grants by user and client: username, Client ID, whether the grant is revoked, and grant id. One write per grant, and
    /// two per revocation.
    GRANTS_OF_USERS grants_of_users<(&'static str, &'static str, bool, &'static [u8; 16]), ()>,
    /// Grants that are bound to a key: thumbprint and grant id.
    GRANTS_BY_KEY grants_by_key<(&'static [u8; 32], &'static [u8; 16]), ()>,
    /// Sequence to revocation.
    REVOCATIONS revocations<u64, &'static [u8]>,
    /// Kind and id of a revocation to its time and its sequence in [`REVOCATIONS`].
    REVOKED revoked<&'static [u8], (u64, u64)>,
    /// Digest of Client ID and `jti` to the second of expiry.
    USED_ONCE used_once<&'static [u8; 32], u64>,
    /// Username to the last used TOTP time step.
    TOTP_STEPS totp_steps<&'static str, u64>,
    /// Username to the time of the last complete sign-in.
    LAST_SIGN_INS last_sign_ins<&'static str, u64>,
    /// Username to the second factor that the user set up.
    SECOND_FACTORS second_factors<&'static str, &'static [u8]>,
    /// Digest of an account or address to its failures.
    FAILURES failures<&'static [u8; 32], &'static [u8]>,
    /// Number of an [`AuditKind`](domain::AuditKind) and sequence of a row's first entry to the number of this entry among all of
    /// its kind, the number of entries in the row, and the entries.
    AUDIT audit_log<(u8, u64), (u64, u64, &'static [u8])>,
    /// Digest of a session id to the session.
    SESSIONS sessions<&'static [u8; 32], &'static [u8]>,
    SESSIONS_BY_USER sessions_by_user<(&'static str, &'static [u8; 32]), ()>,
    /// Username to the sign-ins that the person should know of.
    UNFINISHED_SIGN_INS unfinished_sign_ins<&'static str, &'static [u8]>,
    /// Second of expiry, kind of row, and key of the row. The sweep reads this table.
    EXPIRY expiry<(u64, u8, &'static [u8; 32]), ()>,
}

impl Tables<'_> {
    /// Adds the expiry of the row `key` of `kind`.
    pub(super) fn expire(
        &mut self,
        kind: Expiring,
        key: &[u8; 32],
        at: Timestamp,
    ) -> Result<(), Fault> {
        let expiry = self.expiry.open()?;
        expiry.insert((at.seconds(), kind as u8, key), ())?;
        Ok(())
    }

    /// Removes the entry of [`Tables::expire`].
    pub(super) fn keep(
        &mut self,
        kind: Expiring,
        key: &[u8; 32],
        at: Timestamp,
    ) -> Result<(), Fault> {
        let expiry = self.expiry.open()?;
        expiry.remove((at.seconds(), kind as u8, key))?;
        Ok(())
    }
}

pub(super) type Registrations = TableDefinition<'static, &'static str, &'static [u8]>;

pub(super) fn registration<T: DeserializeOwned>(
    transaction: &ReadTransaction,
    table: Registrations,
    name: &str,
) -> Result<Option<T>, Fault> {
    row(&transaction.open_table(table)?, "registration", name)
}

/// The JSON row of a name; `None` if the row is missing or cannot be read.
pub(super) fn row<T: DeserializeOwned>(
    table: &impl ReadableTable<&'static str, &'static [u8]>,
    what: &'static str,
    name: &str,
) -> Result<Option<T>, Fault> {
    Ok(readable(what, found_json(table.get(name)?))?.flatten())
}

/// A number of [`META`]; 0 if there is none.
pub(super) fn counter(
    meta: &impl ReadableTable<&'static str, u64>,
    key: &str,
) -> Result<u64, Fault> {
    Ok(meta.get(key)?.map_or(0, |number| number.value()))
}

/// All rows of a table, sorted by key.
pub(super) fn all_json<T: serde::de::DeserializeOwned>(
    transaction: &ReadTransaction,
    definition: TableDefinition<'_, &'static str, &'static [u8]>,
) -> Result<Vec<T>, Fault> {
    transaction
        .open_table(definition)?
        .iter()?
        .map(|entry| decode_json(entry?.1.value()))
        .collect()
}

pub(super) fn encode<T: Row>(row: &T) -> Result<Vec<u8>, Fault> {
    Ok(row::encode(row)?)
}

pub(super) fn decode<T: Row>(row: &[u8]) -> Result<T, Fault> {
    Ok(row::decode(row)?)
}

/// The content of a compact row, if the table has the row.
pub(super) fn found<T: Row>(
    row: Option<AccessGuard<'_, &'static [u8]>>,
) -> Result<Option<T>, Fault> {
    row.map(|row| decode(row.value())).transpose()
}

/// The content of a JSON row, if the table has the row.
pub(super) fn found_json<T: DeserializeOwned>(
    row: Option<AccessGuard<'_, &'static [u8]>>,
) -> Result<Option<T>, Fault> {
    row.map(|row| decode_json(row.value())).transpose()
}

pub(super) fn encode_json(row: &impl Serialize) -> Result<Vec<u8>, Fault> {
    Ok(row::encode_json(row)?)
}

pub(super) fn decode_json<T: DeserializeOwned>(row: &[u8]) -> Result<T, Fault> {
    Ok(row::decode_json(row)?)
}
