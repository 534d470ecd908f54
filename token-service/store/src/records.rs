//! The rows of a store in the form in which another store takes them: the columns of PostgreSQL's tables. The schema of
//! PostgreSQL is made from the same list.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use claims::Thumbprint;
use tokio::sync::mpsc::{Receiver, Sender};

use crate::StoreError;
use crate::row::RowError;
use domain::Grant;
use domain::clock::Timestamp;
use domain::digest::Digest;

/// All rows of one store, open for nothing but a copy.
#[async_trait]
pub(crate) trait Records: Send {
    /// Sends all rows, in the order of [`Table::ALL`]. The entries of the audit log are sorted by kind, sequence or both.
    async fn read(&mut self, to: Sender<Batch>) -> Result<(), StoreError>;
    /// Writes these rows. They are lost unless [`Self::keep`] follows.
    async fn write(&mut self, from: Receiver<Batch>) -> Result<(), StoreError>;
    async fn keep(self: Box<Self>) -> Result<(), StoreError>;
}

/// Rows of one table.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) table: Table,
    pub(crate) records: Vec<Record>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnType {
    Number,
    Text,
    Bytes,
}

#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: ColumnType,
    pub(crate) is_nullable: bool,
    /// Whether all stores have the value. Otherwise the digest leaves it out.
    is_compared: bool,
}

impl Column {
    /// The type in PostgreSQL.
    pub(crate) const fn sql_type(&self) -> &'static str {
        match self.kind {
            ColumnType::Number => "BIGINT",
            ColumnType::Text => "TEXT",
            ColumnType::Bytes => "BYTEA",
        }
    }

    const fn new(name: &'static str, kind: ColumnType) -> Self {
        Self {
            name,
            kind,
            is_nullable: false,
            is_compared: true,
        }
    }

    const fn nullable(self) -> Self {
        Self {
            is_nullable: true,
            ..self
        }
    }

    const fn uncompared(self) -> Self {
        Self {
            is_compared: false,
            ..self
        }
    }
}

macro_rules! tables {
    ($($(#[$doc:meta])* $table:ident $name:ident[$($key:ident),*]($($column:ident $kind:ident $($mark:ident)*),*);)*) => {
        /// What a copy contains: the tables of PostgreSQL, without those that a copy makes again. Indexes are not among
        /// them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Table {
            $($(#[$doc])* $table,)*
        }

        impl Table {
            pub(crate) const ALL: &[Self] = &[$(Self::$table),*];

            /// The table of PostgreSQL.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$table => stringify!($name),)*
                }
            }

            pub(crate) const fn columns(self) -> &'static [Column] {
                match self {
                    $(Self::$table => const { &[
                        $(Column::new(stringify!($column), ColumnType::$kind)$(.$mark())*),*
                    ] },)*
                }
            }

            /// The columns of the primary key.
            pub(crate) const fn key(self) -> &'static str {
                match self {
                    $(Self::$table => stringify!($($key),*),)*
                }
            }
        }
    };
}

// Not compared: columns that only PostgreSQL has. redb has no user and client of a used code, counts the audit entries of a
// kind without gaps, and computes `access_over_at` with the lifetime of access tokens of today.
tables! {
    Clients clients[client_id](client_id Text, body Bytes);
    Users users[username](username Text, body Bytes);
    LegacyInstances legacy_instances[hostname](hostname Text, body Bytes);
    /// With `RegistryNames`, the index of clients and users.
    RegistryCounts registry_counts[kind, value](kind Number, value Text, count Number);
    RegistryNames registry_names[kind, value, name](kind Number, value Text, name Text);
    /// The newest changes of the registry, without a gap.
    RegistryChanges registry_changes[sequence](sequence Number, object Text);
    /// The registrations file that a start applied last, in the row 0.
    AppliedFile applied_file[part](part Number, body Bytes);
    SigningKeys signing_keys[kid](kid Text, algorithm Text, created_at Number, body Bytes);
    Sealed sealed[name](name Text, body Bytes);
    ClientSecrets client_secrets[client_id, digest](client_id Text, digest Bytes, added_at Number, last_used_at Number nullable);
    /// A used code has the id of its grant.
    Codes codes[code](code Bytes, client_id Text uncompared, username Text uncompared, expires_at Number,
        grant_id Bytes nullable, body Bytes);
    /// `jkt` and `certificate`: the key and the certificate to which the grant is bound.
    Grants grants[grant_id](grant_id Bytes, client_id Text, username Text, refresh_over_at Number,
        access_over_at Number uncompared, jkt Bytes nullable, certificate Bytes nullable, revoked_at Number nullable,
        body Bytes);
    /// `sequence` is null until the entry gets its first position.
    Revocations revocations[revoked](sequence Number nullable, revoked Bytes, at Number, expires_at Number);
    UsedOnce used_once[digest](digest Bytes, expires_at Number);
    TotpSteps totp_steps[username](username Text, step Number);
    LastSignIns last_sign_ins[username](username Text, at Number);
    SecondFactors second_factors[username](username Text, body Bytes);
    UnfinishedSignIns unfinished_sign_ins[username](username Text, body Bytes);
    Failures failures[key](key Bytes, count Number, last_at Number, expires_at Number);
    Sessions sessions[id](id Bytes, username Text, expires_at Number, body Bytes);
    /// `number` counts the entries of a kind, for the bound of the kind.
    AuditLog audit_log[sequence](sequence Number, kind Number, number Number uncompared, expires_at Number, body Bytes);
    Counters counters[name](name Text, value Number);
}

/// The rows of [`Table::Counters`], if they are not 0. The others belong to the store itself.
pub(crate) const COUNTERS: [&str; 7] = [
    "credentials",
    "last_audit",
    "last_revocation",
    "registry_position",
    "swept_at",
    "token_lifetime",
    "token_lifetime_until",
];

/// Rows of a batch.
pub(crate) const BATCH: usize = 1000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

macro_rules! cells {
    ($($from:ty: $value:ident => $cell:expr;)*) => {
        $(impl From<$from> for Cell {
            fn from($value: $from) -> Self {
                $cell
            }
        })*
    };
}

cells! {
    i64: number => Self::Number(number);
    u8: number => Self::Number(number.into());
    u32: number => Self::Number(number.into());
    // PostgreSQL has no greater number. No store writes one.
    u64: number => Self::Number(i64::try_from(number).unwrap_or(i64::MAX));
    Timestamp: at => at.seconds().into();
    &str: text => Self::Text(text.to_owned());
    String: text => Self::Text(text);
    &[u8]: bytes => Self::Bytes(bytes.to_owned());
    Vec<u8>: bytes => Self::Bytes(bytes);
}

impl<const N: usize> From<&[u8; N]> for Cell {
    fn from(bytes: &[u8; N]) -> Self {
        bytes.as_slice().into()
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// The values of a row, in the order of [`Table::columns`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record(pub(crate) Vec<Cell>);

macro_rules! record {
    ($($cell:expr),*) => {
        $crate::records::Record(vec![$($cell.into()),*])
    };
}
pub(crate) use record;

impl Record {
    /// The row of a grant, with the row of bytes `body`.
    pub(crate) fn of_grant(
        grant: &Grant,
        body: impl Into<Cell>,
        access_token_lifetime: Duration,
    ) -> Self {
        let bytes = |key: Thumbprint| key.as_bytes().to_vec();
        record![
            grant.grant_id.as_bytes(),
            grant.client_id.as_str(),
            grant.username.as_str(),
            grant.current.refresh_expires_at,
            grant.access_over_at(access_token_lifetime),
            grant.bound.jkt.map(bytes),
            grant.bound.certificate.map(bytes),
            grant.revoked_at,
            body
        ]
    }

    /// `None` for a null.
    pub(crate) fn number<T: TryFrom<i64>>(&self, column: usize) -> Result<Option<T>, RowError> {
        match self.0.get(column) {
            Some(Cell::Null) => Ok(None),
            Some(Cell::Number(number)) => T::try_from(*number).map(Some).map_err(|_| unexpected()),
            _ => Err(unexpected()),
        }
    }

    /// A number that is never null.
    pub(crate) fn some_number<T: TryFrom<i64>>(&self, column: usize) -> Result<T, RowError> {
        self.number(column)?.ok_or_else(unexpected)
    }

    pub(crate) fn is_null(&self, column: usize) -> bool {
        self.0.get(column) == Some(&Cell::Null)
    }

    pub(crate) fn time(&self, column: usize) -> Result<Timestamp, RowError> {
        self.some_number(column).map(Timestamp::from_seconds)
    }

    pub(crate) fn text(&self, column: usize) -> Result<&str, RowError> {
        match self.0.get(column) {
            Some(Cell::Text(text)) => Ok(text),
            _ => Err(unexpected()),
        }
    }

    pub(crate) fn bytes(&self, column: usize) -> Result<&[u8], RowError> {
        match self.0.get(column) {
            Some(Cell::Bytes(bytes)) => Ok(bytes),
            _ => Err(unexpected()),
        }
    }

    pub(crate) fn array<const N: usize>(&self, column: usize) -> Result<&[u8; N], RowError> {
        self.bytes(column)?.try_into().map_err(|_| unexpected())
    }

    /// 128 bits of a digest of the compared values.
    pub(crate) fn digest(&self, table: Table) -> u128 {
        let mut text = Vec::new();
        for (cell, column) in self.0.iter().zip(table.columns()) {
            if column.is_compared {
                let (kind, bytes) = match cell {
                    Cell::Null => (b'-', &[][..]),
                    Cell::Number(number) => (b'n', &number.to_be_bytes()[..]),
                    Cell::Text(text) => (b't', text.as_bytes()),
                    Cell::Bytes(bytes) => (b'b', bytes.as_slice()),
                };
                text.push(kind);
                text.extend_from_slice(&bytes.len().to_be_bytes());
                text.extend_from_slice(bytes);
            }
        }
        let digest = Digest::of(&text);
        let (first, _) = digest.as_bytes().split_at(16);
        first
            .iter()
            .fold(0, |sum, byte| sum << 8 | u128::from(*byte))
    }
}

fn unexpected() -> RowError {
    RowError("a value of another type than its column".into())
}
