//! The tables of the file.

use redb::{
    Key, ReadTransaction, ReadableTable as _, Table, TableDefinition, Value, WriteTransaction,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::fault::Fault;
use crate::row::{self, Row};
use domain::clock::Timestamp;

/// The version of this layout. A file with a higher one is refused.
pub(super) const SCHEMA_VERSION: u64 = 5;
/// The oldest layout that is brought to this one. Version 2 added the feed's identity, and kinds of revocations; version 3
/// took weak hashes out of the rows of users, and gave versions to the layouts of rows; version 4 added [`LIVE_GRANTS`] and
/// [`UNUSED_CODES`]; version 5 added [`REGISTRY_CHANGES`].
pub(super) const OLDEST_SCHEMA_VERSION: u64 = 1;

/// Numbers about the file itself: [`SCHEMA_VERSION_KEY`], [`LAST_REVOCATION_KEY`].
pub(super) const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
/// The layout's version.
pub(super) const SCHEMA_VERSION_KEY: &str = "schema_version";
/// The highest sequence that the revocation feed ever used.
pub(super) const LAST_REVOCATION_KEY: &str = "last_revocation";

/// Bits 64 to 127 of the identity of the revocation feed.
pub(super) const FEED_HIGH_KEY: &str = "feed_high";
/// Bits 0 to 63 of the identity of the revocation feed.
pub(super) const FEED_LOW_KEY: &str = "feed_low";

/// Lifetime of the longest-lived access tokens that may exist, in seconds.
pub(super) const TOKEN_LIFETIME_KEY: &str = "token_lifetime";
/// When the last of those has expired, seconds since 1970; 0 while they are issued.
pub(super) const TOKEN_LIFETIME_UNTIL_KEY: &str = "token_lifetime_until";

/// The highest sequence that the audit log ever used.
pub(super) const LAST_AUDIT_KEY: &str = "last_audit";

/// The highest version that credentials of a user ever had.
pub(super) const CREDENTIALS_KEY: &str = "credentials";

/// The position in the sequence of changes of the registry.
pub(super) const REGISTRY_VERSION_KEY: &str = "registry_version";

/// Client id to client, JSON.
pub(super) const CLIENTS: TableDefinition<&str, &[u8]> = TableDefinition::new("clients");
/// Username to user, JSON.
pub(super) const USERS: TableDefinition<&str, &[u8]> = TableDefinition::new("users");
/// Hostname to legacy instance, JSON.
pub(super) const LEGACY_INSTANCES: TableDefinition<&str, &[u8]> =
    TableDefinition::new("legacy_instances");
/// Key of an object to what is remembered of the files that were applied to it, JSON.
pub(super) const REMEMBERED: TableDefinition<&str, &[u8]> = TableDefinition::new("remembered");
/// Position in the sequence of changes to the key of the object that changed, and whether the object is of the legacy flow
/// now. The newest ones, without a gap.
pub(super) const REGISTRY_CHANGES: TableDefinition<u64, (&str, bool)> =
    TableDefinition::new("registry_changes");
/// Kid to sealed signing key, JSON.
pub(super) const SIGNING_KEYS: TableDefinition<&str, &[u8]> = TableDefinition::new("signing_keys");

/// Client id and digest of a client secret to the seconds at which it was added and last used; 0 for unknown and never.
pub(super) const CLIENT_SECRETS: TableDefinition<(&str, &[u8; 32]), (u64, u64)> =
    TableDefinition::new("client_secrets");
/// Name to a sealed value of its own: [`ROOT_KEY`].
pub(super) const SEALED: TableDefinition<&str, &[u8]> = TableDefinition::new("sealed");
/// The root of the tags.
pub(super) const ROOT_KEY: &str = "root";

/// Digest of an unused code to what it stands for.
pub(super) const CODES: TableDefinition<&[u8; 32], &[u8]> = TableDefinition::new("codes");
/// Which unused codes a user has for a client: username, client id, second of expiry and digest.
pub(super) const UNUSED_CODES: TableDefinition<(&str, &str, u64, &[u8; 32]), ()> =
    TableDefinition::new("unused_codes");
/// Digest of a used code to the client and grant of its use.
pub(super) const USED_CODES: TableDefinition<&[u8; 32], &[u8]> = TableDefinition::new("used_codes");

/// Grant id to grant. The ids rise with time and the row is updated in place, so that a rotation touches one
/// leaf of one tree.
pub(super) const GRANTS: TableDefinition<&[u8; 16], &[u8]> = TableDefinition::new("grants");
/// Which grants a client has; written once per grant.
pub(super) const GRANTS_BY_CLIENT: TableDefinition<(&str, &[u8; 16]), ()> =
    TableDefinition::new("grants_by_client");
/// Which grants a user gave; written once per grant.
pub(super) const GRANTS_BY_USER: TableDefinition<(&str, &[u8; 16]), ()> =
    TableDefinition::new("grants_by_user");
/// Which grants that are not revoked a user gave a client: username, client id and grant id.
pub(super) const LIVE_GRANTS: TableDefinition<(&str, &str, &[u8; 16]), ()> =
    TableDefinition::new("live_grants");

/// Sequence to revocation.
pub(super) const REVOCATIONS: TableDefinition<u64, &[u8]> = TableDefinition::new("revocations");

/// What is revoked, by its kind and id, to when and by which entry of [`REVOCATIONS`].
pub(super) const REVOKED: TableDefinition<&[u8], (u64, u64)> = TableDefinition::new("revoked");

/// Digest of client id and `jti` to the second of expiry.
pub(super) const ASSERTION_IDS: TableDefinition<&[u8; 32], u64> =
    TableDefinition::new("assertion_ids");
/// Username to the last claimed time step.
pub(super) const TOTP_STEPS: TableDefinition<&str, u64> = TableDefinition::new("totp_steps");

/// Username to the second factor that the user set up.
pub(super) const SECOND_FACTORS: TableDefinition<&str, &[u8]> =
    TableDefinition::new("second_factors");

/// What failures are counted for to the failures.
pub(super) const FAILURES: TableDefinition<&[u8; 32], &[u8]> = TableDefinition::new("failures");

/// Sequence to that entry of the audit log and the next ones.
pub(super) const AUDIT: TableDefinition<u64, &[u8]> = TableDefinition::new("audit");

/// Digest of a session's id to the session.
pub(super) const SESSIONS: TableDefinition<&[u8; 32], &[u8]> = TableDefinition::new("sessions");
/// Which sessions a user has.
pub(super) const SESSIONS_BY_USER: TableDefinition<(&str, &[u8; 32]), ()> =
    TableDefinition::new("sessions_by_user");

/// Second of expiry, kind of row and its key: what the sweep walks.
pub(super) const EXPIRY: TableDefinition<(u64, u8, &[u8; 32]), ()> = TableDefinition::new("expiry");

/// What kind of row an entry of [`EXPIRY`] points at. The numbers are in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Expiring {
    /// A row of [`CODES`].
    Code = 1,
    /// A row of [`USED_CODES`].
    UsedCode = 2,
    /// A row of [`ASSERTION_IDS`].
    AssertionId = 3,
    /// A row of [`SESSIONS`].
    Session = 4,
    /// A row of [`FAILURES`].
    Failures = 5,
}

impl Expiring {
    /// The kind with this number.
    pub(super) const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Code),
            2 => Some(Self::UsedCode),
            3 => Some(Self::AssertionId),
            4 => Some(Self::Session),
            5 => Some(Self::Failures),
            _ => None,
        }
    }
}

/// A table that is opened when an operation of the transaction first needs it: opening costs a search.
pub(super) struct Lazy<'txn, K: Key + 'static, V: Value + 'static> {
    transaction: &'txn WriteTransaction,
    definition: TableDefinition<'static, K, V>,
    table: Option<Table<'txn, K, V>>,
}

impl<'txn, K: Key + 'static, V: Value + 'static> Lazy<'txn, K, V> {
    const fn new(
        transaction: &'txn WriteTransaction,
        definition: TableDefinition<'static, K, V>,
    ) -> Self {
        Self {
            transaction,
            definition,
            table: None,
        }
    }

    /// Whether an operation of the transaction needed the table.
    pub(super) const fn is_open(&self) -> bool {
        self.table.is_some()
    }

    /// The table.
    pub(super) fn open(&mut self) -> Result<&mut Table<'txn, K, V>, Fault> {
        let table = match self.table.take() {
            Some(table) => table,
            None => self.transaction.open_table(self.definition)?,
        };
        Ok(self.table.insert(table))
    }
}

macro_rules! tables {
    ($($field:ident: $definition:ident <$key:ty, $value:ty>,)*) => {
        /// The tables within one write transaction.
        pub(super) struct Tables<'txn> {
            $(pub(super) $field: Lazy<'txn, $key, $value>,)*
        }

        impl<'txn> Tables<'txn> {
            /// The tables of `transaction`, none opened yet.
            pub(super) const fn new(transaction: &'txn WriteTransaction) -> Self {
                Self { $($field: Lazy::new(transaction, $definition),)* }
            }

            /// Opens every table, so that readers find it.
            pub(super) fn create_all(&mut self) -> Result<(), Fault> {
                $(self.$field.open()?;)*
                Ok(())
            }
        }

        /// Copies every row that `from` sees.
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
    };
}

tables! {
    meta: META<&'static str, u64>,
    clients: CLIENTS<&'static str, &'static [u8]>,
    users: USERS<&'static str, &'static [u8]>,
    legacy_instances: LEGACY_INSTANCES<&'static str, &'static [u8]>,
    remembered: REMEMBERED<&'static str, &'static [u8]>,
    registry_changes: REGISTRY_CHANGES<u64, (&'static str, bool)>,
    signing_keys: SIGNING_KEYS<&'static str, &'static [u8]>,
    client_secrets: CLIENT_SECRETS<(&'static str, &'static [u8; 32]), (u64, u64)>,
    sealed: SEALED<&'static str, &'static [u8]>,
    codes: CODES<&'static [u8; 32], &'static [u8]>,
    unused_codes: UNUSED_CODES<(&'static str, &'static str, u64, &'static [u8; 32]), ()>,
    used_codes: USED_CODES<&'static [u8; 32], &'static [u8]>,
    grants: GRANTS<&'static [u8; 16], &'static [u8]>,
    grants_by_client: GRANTS_BY_CLIENT<(&'static str, &'static [u8; 16]), ()>,
    grants_by_user: GRANTS_BY_USER<(&'static str, &'static [u8; 16]), ()>,
    live_grants: LIVE_GRANTS<(&'static str, &'static str, &'static [u8; 16]), ()>,
    revocations: REVOCATIONS<u64, &'static [u8]>,
    revoked: REVOKED<&'static [u8], (u64, u64)>,
    assertion_ids: ASSERTION_IDS<&'static [u8; 32], u64>,
    totp_steps: TOTP_STEPS<&'static str, u64>,
    second_factors: SECOND_FACTORS<&'static str, &'static [u8]>,
    failures: FAILURES<&'static [u8; 32], &'static [u8]>,
    audit: AUDIT<u64, &'static [u8]>,
    sessions: SESSIONS<&'static [u8; 32], &'static [u8]>,
    sessions_by_user: SESSIONS_BY_USER<(&'static str, &'static [u8; 32]), ()>,
    expiry: EXPIRY<(u64, u8, &'static [u8; 32]), ()>,
}

impl Tables<'_> {
    /// Notes that the row `key` of `kind` expires.
    pub(super) fn expire(
        &mut self,
        kind: Expiring,
        key: &[u8; 32],
        at: Timestamp,
    ) -> Result<(), Fault> {
        self.expiry
            .open()?
            .insert((at.seconds(), kind as u8, key), ())?;
        Ok(())
    }

    /// Takes the note of [`Tables::expire`] back.
    pub(super) fn keep(
        &mut self,
        kind: Expiring,
        key: &[u8; 32],
        at: Timestamp,
    ) -> Result<(), Fault> {
        self.expiry
            .open()?
            .remove((at.seconds(), kind as u8, key))?;
        Ok(())
    }
}

/// All rows of a table, in the order of their keys.
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

/// A compact row.
pub(super) fn encode<T: Row>(row: &T) -> Result<Vec<u8>, Fault> {
    Ok(row::encode(row)?)
}

/// Reads a compact row.
pub(super) fn decode<T: Row>(row: &[u8]) -> Result<T, Fault> {
    Ok(row::decode(row)?)
}

/// A readable row.
pub(super) fn encode_json(row: &impl Serialize) -> Result<Vec<u8>, Fault> {
    Ok(row::encode_json(row)?)
}

/// Reads a readable row.
pub(super) fn decode_json<T: DeserializeOwned>(row: &[u8]) -> Result<T, Fault> {
    Ok(row::decode_json(row)?)
}
