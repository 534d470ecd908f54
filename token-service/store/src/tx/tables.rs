//! The only list of tables, the keys of indexes, and the rows that only the store has.

use serde::{Deserialize, Serialize};

use super::{Form, Table};
use crate::OnceId;
use crate::codec::{Bytes, Parts};
#[cfg(test)]
use crate::codec::{Key as _, Rest};
use crate::fault::Fault;
use crate::row::{self, Row};
use crate::stored_code::StoredCode;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{
    Client, ClientId, CodeRecord, Extent, Failures, Grant, GrantId, LegacyInstance, Notice,
    ObjectName, Revocation, Revoked, SealedSigningKey, SecondFactor, Session, UnfinishedSignIns,
    User, Username,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What operations write. A copy, a backup and a dump contain the rows.
    Data,
    /// Follows from the rows of other tables, and changes with them.
    Index,
    /// A part of the feed or the audit log, which only a file has in this form.
    Log,
}

macro_rules! tables {
    ($($(#[$doc:meta])* $table:ident $name:ident<$key:ty, $row:ty> $kind:ident,)*) => {
        /// A table, by number.
        #[expect(non_camel_case_types, reason = "the names of the tables")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub(crate) enum Name {
            $($name,)*
        }

        impl Name {
            pub(crate) const ALL: &[Self] = &[$(Self::$name),*];

            pub(crate) const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            pub(crate) const fn kind(self) -> Kind {
                match self {
                    $(Self::$name => Kind::$kind,)*
                }
            }

            /// The fields of a row.
            pub(crate) fn fields(self, row: &[u8]) -> Result<serde_json::Value, Fault> {
                let fields = match self {
                    $(Self::$name => serde_json::to_value(<$row as Form>::decode(row)?),)*
                };
                fields.map_err(|error| Fault::Row(error.to_string()))
            }
        }

        $($(#[$doc])*
        pub(crate) const $table: Table<$key, $row> = Table::new(Name::$name);)*
    };
}

tables! {
    /// Numbers about the store, such as [`REGISTRY_VERSION`].
    META meta<str, u64> Data,
    CLIENTS clients<ClientId, Client> Data,
    USERS users<Username, User> Data,
    /// By host name.
    LEGACY_INSTANCES legacy_instances<str, LegacyInstance> Data,
    /// 0 to the file that a start applied last.
    APPLIED_FILE applied_file<u64, Digest> Data,
    /// [`counted`] to the count, which is never 0.
    REGISTRY_COUNTS registry_counts<[u8], u64> Index,
    /// [`named`].
    REGISTRY_NAMES registry_names<[u8], ()> Index,
    /// Position in the sequence of changes to the changed object. Contains the newest changes without gaps.
    REGISTRY_CHANGES registry_changes<u64, ObjectName> Data,
    /// By kid.
    SIGNING_KEYS signing_keys<str, SealedSigningKey> Data,
    /// [`client_secret`] to its times.
    CLIENT_SECRETS client_secrets<[u8], SecretRow> Data,
    /// Name to sealed value; the only name is [`ROOT`].
    SEALED sealed<str, Bytes> Data,
    /// By the digest of the code. A redemption changes the row in place, so that a file changes one leaf of one tree.
    CODES codes<Digest, StoredCode<'static>> Data,
    /// [`unused_code`].
    UNUSED_CODES unused_codes<[u8], ()> Index,
    /// The ids rise with time and rows are updated in place, so that a rotation changes one leaf of one tree.
    GRANTS grants<GrantId, Grant> Data,
    /// [`grant_of_client`]. One write per grant.
    GRANTS_BY_CLIENT grants_by_client<[u8], ()> Index,
    /// [`grant_of_user`]. One write per grant, and two per revocation.
    GRANTS_OF_USERS grants_of_users<[u8], ()> Index,
    /// Grants that are bound to a key: [`grant_of_key`].
    GRANTS_BY_KEY grants_by_key<[u8], ()> Index,
    /// By position in the feed.
    REVOCATIONS revocations<u64, Revocation> Log,
    /// The latest entry of the feed for each subject.
    REVOKED revoked<Revoked, Announced> Data,
    /// To the time from which the id counts as unused.
    USED_ONCE used_once<OnceId, Timestamp> Data,
    /// To the last used TOTP time step.
    TOTP_STEPS totp_steps<Username, u64> Data,
    /// To the time of the last complete sign-in.
    LAST_SIGN_INS last_sign_ins<Username, Timestamp> Data,
    /// The second factor that the user set up.
    SECOND_FACTORS second_factors<Username, SecondFactor> Data,
    /// By the digest of an account or address.
    FAILURES failures<Digest, Failures> Data,
    /// Kind and sequence of the first entry to some entries of the audit log.
    #[cfg_attr(not(test), expect(dead_code, reason = "each store has its own form"))]
    AUDIT_LOG audit_log<[u8], Bytes> Log,
    /// By the digest of the session id.
    SESSIONS sessions<Digest, Session> Data,
    /// [`session_of_user`].
    SESSIONS_BY_USER sessions_by_user<[u8], ()> Index,
    /// The sign-ins that the person should know of.
    UNFINISHED_SIGN_INS unfinished_sign_ins<Username, UnfinishedSignIns> Data,
    /// The notices that the service owes to the person.
    OWED_NOTICES owed_notices<Username, OwedNotices> Data,
    /// [`notice_due`] to the time of the oldest notice.
    NOTICES_DUE notices_due<[u8], Timestamp> Index,
}

/// The position in the sequence of changes of the registry. A change of the registry locks this row of [`META`] first.
pub(crate) const REGISTRY_VERSION: &str = "registry_version";
/// Locked by a change of the signing keys.
pub(crate) const SIGNING_KEYS_TURN: &str = "signing_keys";
/// The highest version of credentials that was ever used.
pub(crate) const CREDENTIALS_VERSION: &str = "credentials";
/// Longest lifetime of access tokens that may still be valid, in seconds.
pub(crate) const TOKEN_LIFETIME: &str = "token_lifetime";
/// When the last of these tokens has expired, in seconds since 1970; 0 while they are issued.
pub(crate) const TOKEN_LIFETIME_UNTIL: &str = "token_lifetime_until";
/// Time of the last sweep, or of the creation of the store, in seconds since 1970.
pub(crate) const SWEPT_AT: &str = "swept_at";
/// The name of the sealed root of the tags.
pub(crate) const ROOT: &str = "root";

/// Key of [`REGISTRY_COUNTS`]: kind and value of a [`Counted`](domain::registry_index::Counted). With an empty value, the prefix
/// of all values of the kind.
pub(crate) fn counted(kind: u8, value: &str) -> Bytes {
    Parts::new().byte(kind).last(value)
}

/// Key of [`REGISTRY_NAMES`]: kind, value and name of a [`Named`](domain::registry_index::Named). With an empty name, the prefix
/// of all names that have the value.
pub(crate) fn named(kind: u8, value: &str, name: &str) -> Bytes {
    Parts::new().byte(kind).text(value).last(name)
}

/// Key of [`CLIENT_SECRETS`].
pub(crate) fn client_secret(client: &ClientId, secret: &Digest) -> Bytes {
    let key = Parts::new().text(client.as_str());
    key.array(secret.as_bytes()).end()
}

/// What keys of [`CLIENT_SECRETS`] and of [`GRANTS_BY_CLIENT`] begin with.
pub(crate) fn of_client(client: &ClientId) -> Bytes {
    Parts::new().text(client.as_str()).end()
}

/// Key of [`UNUSED_CODES`]: user, client, second of expiry, and digest of the code.
pub(crate) fn unused_code(record: &CodeRecord, code: &Digest) -> Bytes {
    let key = user_at(&record.username, &record.client_id);
    let key = key.number(record.expires_at.seconds());
    key.array(code.as_bytes()).end()
}

/// What keys of [`UNUSED_CODES`] begin with.
pub(crate) fn of_user_at(user: &Username, client: &ClientId) -> Bytes {
    user_at(user, client).end()
}

fn user_at(user: &Username, client: &ClientId) -> Parts {
    Parts::new().text(user.as_str()).text(client.as_str())
}

/// Key of [`GRANTS_BY_CLIENT`].
pub(crate) fn grant_of_client(grant: &Grant) -> Bytes {
    let key = Parts::new().text(grant.client_id.as_str());
    key.array(grant.grant_id.as_bytes()).end()
}

/// Key of [`GRANTS_OF_USERS`]: user, client, whether the grant is revoked, and grant.
pub(crate) fn grant_of_user(grant: &Grant, is_revoked: bool) -> Bytes {
    let key = user_at(&grant.username, &grant.client_id);
    key.flag(is_revoked).array(grant.grant_id.as_bytes()).end()
}

/// What keys of [`GRANTS_OF_USERS`] begin with, for live or revoked grants.
pub(crate) fn grants_of_user_at(user: &Username, client: &ClientId, is_revoked: bool) -> Bytes {
    user_at(user, client).flag(is_revoked).end()
}

/// What keys of [`GRANTS_OF_USERS`] and of [`SESSIONS_BY_USER`] begin with.
pub(crate) fn of_user(user: &Username) -> Bytes {
    Parts::new().text(user.as_str()).end()
}

/// Key of [`GRANTS_BY_KEY`]. The thumbprint is the prefix.
pub(crate) fn grant_of_key(thumbprint: &[u8; 32], grant: GrantId) -> Bytes {
    let key = Parts::new().array(thumbprint);
    key.array(grant.as_bytes()).end()
}

/// Key of [`SESSIONS_BY_USER`].
pub(crate) fn session_of_user(user: &Username, session: &Digest) -> Bytes {
    let key = Parts::new().text(user.as_str());
    key.array(session.as_bytes()).end()
}

/// Key of [`NOTICES_DUE`].
pub(crate) fn notice_due(at: Timestamp, user: &Username) -> Bytes {
    Parts::new().number(at.seconds()).last(user.as_str())
}

/// The rows that own a row: an operation locks one of them before it decides about the row, or replaces the row as it read it.
#[cfg(test)]
pub(crate) fn owners(table: Name, key: &[u8], row: &[u8]) -> Result<Vec<(Name, Bytes)>, Fault> {
    let itself = (table, key.to_vec());
    let of = |table: Name, key: &[u8]| (table, key.to_vec());
    let first_text = || Ok::<_, Fault>(Rest(key).text()?.into_owned());
    let registry = of(Name::meta, REGISTRY_VERSION.as_bytes());
    Ok(match table {
        Name::clients | Name::users => vec![itself, registry],
        Name::legacy_instances
        | Name::applied_file
        | Name::registry_counts
        | Name::registry_names
        | Name::registry_changes => vec![registry],
        Name::signing_keys => vec![of(Name::meta, SIGNING_KEYS_TURN.as_bytes())],
        Name::client_secrets => vec![itself, registry],
        Name::codes => match StoredCode::decode(row)? {
            StoredCode::Unused(record) => vec![itself, of(Name::users, &record.username.bytes())],
            StoredCode::Used { .. } => vec![itself],
        },
        Name::grants => {
            let grant = Grant::decode(row)?;
            vec![itself, of(Name::users, &grant.username.bytes())]
        }
        Name::sessions => {
            let session = Session::decode(row)?;
            vec![itself, of(Name::users, &session.username.bytes())]
        }
        Name::grants_by_client | Name::grants_by_key => {
            let grant = key.last_chunk::<16>();
            grant
                .map(|grant| of(Name::grants, grant))
                .into_iter()
                .collect()
        }
        Name::grants_of_users => {
            let grant = key.last_chunk::<16>();
            let grant = grant.map(|grant| of(Name::grants, grant));
            let user = of(Name::users, first_text()?.as_bytes());
            grant.into_iter().chain([user]).collect()
        }
        Name::unused_codes | Name::sessions_by_user => {
            vec![of(Name::users, first_text()?.as_bytes())]
        }
        Name::last_sign_ins | Name::second_factors | Name::unfinished_sign_ins => {
            vec![itself, of(Name::users, key), registry]
        }
        Name::totp_steps => vec![itself, registry],
        Name::notices_due => {
            let mut rest = Rest(key);
            rest.number()?;
            vec![of(Name::owed_notices, rest.last()?.as_bytes())]
        }
        Name::meta
        | Name::sealed
        | Name::revocations
        | Name::revoked
        | Name::used_once
        | Name::failures
        | Name::audit_log
        | Name::owed_notices => vec![itself],
    })
}

/// When a client secret was added and last used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SecretRow {
    pub(crate) added_at: Timestamp,
    pub(crate) last_used_at: Option<Timestamp>,
}

impl Row for SecretRow {
    const VERSION: u8 = 1;
}

/// The latest entry of the feed for a subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Announced {
    pub(crate) revoked: Revoked,
    pub(crate) at: Timestamp,
    pub(crate) expires_at: Timestamp,
    /// The key in [`REVOCATIONS`]; `None` in PostgreSQL, where a column has the position.
    pub(crate) position: Option<u64>,
}

impl Row for Announced {
    const VERSION: u8 = 1;
}

impl Announced {
    pub(crate) fn new(revoked: &Revoked, extent: Extent, position: Option<u64>) -> Self {
        Self {
            revoked: revoked.clone(),
            at: extent.at,
            expires_at: extent.expires_at,
            position,
        }
    }

    /// The entry of the feed at this position.
    pub(crate) fn placed(self, sequence: u64) -> Revocation {
        Revocation {
            sequence,
            revoked: self.revoked,
            at: self.at,
            expires_at: self.expires_at,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwedNotices {
    /// The end of the claim, of the pause after an attempt, or the time of the change.
    pub(crate) due_at: Timestamp,
    /// Attempts to send the oldest notice.
    pub(crate) attempts: u64,
    /// In the order in which they are sent.
    pub(crate) notices: Vec<Notice>,
}

impl Row for OwedNotices {
    const VERSION: u8 = 1;
}

impl<T: Row> Form for T {
    fn encode(&self) -> Result<Bytes, Fault> {
        Ok(row::encode(self)?)
    }

    fn decode(row: &[u8]) -> Result<Self, Fault> {
        Ok(row::decode(row)?)
    }
}

macro_rules! json {
    ($($type:ty),*) => {$(
        impl Form for $type {
            fn encode(&self) -> Result<Bytes, Fault> {
                Ok(row::encode_json(self)?)
            }

            fn decode(row: &[u8]) -> Result<Self, Fault> {
                Ok(row::decode_json(row)?)
            }
        }
    )*};
}

json!(Client, User, LegacyInstance, SealedSigningKey);

impl Form for () {
    fn encode(&self) -> Result<Bytes, Fault> {
        Ok(Vec::new())
    }

    fn decode(_: &[u8]) -> Result<Self, Fault> {
        Ok(())
    }
}

impl Form for Bytes {
    fn encode(&self) -> Result<Bytes, Fault> {
        Ok(self.clone())
    }

    fn decode(row: &[u8]) -> Result<Self, Fault> {
        Ok(row.to_vec())
    }
}

/// 8 bytes, big endian, as in keys.
impl Form for u64 {
    fn encode(&self) -> Result<Bytes, Fault> {
        Ok(self.to_be_bytes().to_vec())
    }

    fn decode(row: &[u8]) -> Result<Self, Fault> {
        let bytes = row.try_into();
        let other = |_| Fault::Row(format!("a number of {} bytes, and not of 8", row.len()));
        bytes.map(Self::from_be_bytes).map_err(other)
    }
}

impl Form for Timestamp {
    fn encode(&self) -> Result<Bytes, Fault> {
        self.seconds().encode()
    }

    fn decode(row: &[u8]) -> Result<Self, Fault> {
        u64::decode(row).map(Self::from_seconds)
    }
}

impl Form for ObjectName {
    fn encode(&self) -> Result<Bytes, Fault> {
        Ok(self.key().into_bytes())
    }

    fn decode(row: &[u8]) -> Result<Self, Fault> {
        let name = std::str::from_utf8(row).ok().and_then(Self::from_key);
        name.ok_or_else(|| Fault::Row("the name of an object that changed".into()))
    }
}

impl Form for Digest {
    fn encode(&self) -> Result<Bytes, Fault> {
        Ok(self.as_bytes().to_vec())
    }

    fn decode(row: &[u8]) -> Result<Self, Fault> {
        let other = |_| Fault::Row(format!("a digest of {} bytes, and not of 32", row.len()));
        row.try_into().map(Self::from_bytes).map_err(other)
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::collections::BTreeSet;

    use super::*;
    use crate::codec::{Key, Keys};
    use crate::conformance::{
        ACCESS, at, client, code, legacy_instance, notice, of_key, owed, second_factor, session,
        signing_key, user,
    };
    use crate::memory::MemoryStore;
    use crate::tx::{Read as _, Tx};
    use claims::{Algorithm, Thumbprint};
    use domain::authorization_code::UsedCode;
    use domain::object::ObjectKind;
    use domain::registry_index::{CountedKind, NamedKind};
    use domain::testing::grant;

    /// A key and a row of each table. Every version from 0.3.0 on finds the rows under these keys, and reads them.
    #[test]
    fn keys_and_rows_of_the_first_layout_are_known() {
        let store = MemoryStore::new(ACCESS, at(0));
        let lines = store.run(|tx| {
            write_all(tx)?;
            let mut lines = String::new();
            for table in Name::ALL {
                tx.range(*table, &Keys::all(), usize::MAX, |key, row| {
                    let line = format!("{} {} = {}", table.text(), shown(key), shown(row));
                    lines += line.trim_end();
                    lines.push('\n');
                    Ok(())
                })?;
            }
            Ok(lines)
        });
        let lines = lines.unwrap();
        let named = lines.lines().filter_map(|line| line.split(' ').next());
        let all = Name::ALL.iter().map(|table| table.text());
        assert_eq!(named.collect::<BTreeSet<_>>(), all.collect());
        assert_eq!(lines, include_str!("layout-1-tables.txt"));
    }

    fn shown(bytes: &[u8]) -> String {
        let shown = bytes.iter().map(|byte| match byte {
            b' '..=b'~' if *byte != b'\\' => char::from(*byte).to_string(),
            _ => format!("\\{byte:02x}"),
        });
        shown.collect()
    }

    /// Writes a row that is read as it was written.
    fn put<K: Key + ?Sized, V: Form>(
        tx: &mut impl Tx,
        table: &Table<K, V>,
        key: &K,
        row: &V,
    ) -> Result<(), Fault> {
        table.put(tx, key, row)?;
        let read = table.get(tx, key)?.map(|row| row.encode()).transpose()?;
        assert_eq!(read, Some(row.encode()?));
        Ok(())
    }

    fn write_all(tx: &mut impl Tx) -> Result<(), Fault> {
        let (ada, app) = (user("ada"), client("app"));
        let (name, id) = (&ada.username, &app.client_id);
        let object = ObjectName::new(ObjectKind::User, name.as_str());
        put(tx, &META, REGISTRY_VERSION, &7)?;
        put(tx, &CLIENTS, id, &app)?;
        put(tx, &USERS, name, &ada)?;
        let host = legacy_instance("us1.example");
        put(tx, &LEGACY_INSTANCES, &*host.hostname, &host)?;
        put(tx, &APPLIED_FILE, &0, &Digest::of(b"rules"))?;
        let scope = counted(CountedKind::Scope as u8, "projects");
        put(tx, &REGISTRY_COUNTS, &scope, &1)?;
        let email = named(NamedKind::Email as u8, "ada@example.com", name.as_str());
        put(tx, &REGISTRY_NAMES, &email, &())?;
        put(tx, &REGISTRY_CHANGES, &7, &object)?;
        let key = signing_key("kid", Algorithm::EdDsa, at(1));
        put(tx, &SIGNING_KEYS, "kid", &key)?;
        let secret = SecretRow {
            added_at: at(1),
            last_used_at: Some(at(2)),
        };
        let secret_key = client_secret(id, &Digest::of(b"secret"));
        put(tx, &CLIENT_SECRETS, &secret_key, &secret)?;
        put(tx, &SEALED, ROOT, &b"sealed".to_vec())?;

        let (record, digest) = (code(), Digest::of(b"code"));
        let unused = StoredCode::Unused(Cow::Owned(code()));
        put(tx, &CODES, &digest, &unused)?;
        put(tx, &UNUSED_CODES, &unused_code(&record, &digest), &())?;
        let grant = Grant {
            bound: of_key(Some(Thumbprint::from_bytes([9; 32]))),
            ..grant("projects", at(0), at(100))
        };
        let used = StoredCode::Used {
            code: UsedCode::of(&record, grant.grant_id),
            until: at(9),
        };
        put(tx, &CODES, &Digest::of(b"used"), &used)?;
        put(tx, &GRANTS, &grant.grant_id, &grant)?;
        put(tx, &GRANTS_BY_CLIENT, &grant_of_client(&grant), &())?;
        put(tx, &GRANTS_OF_USERS, &grant_of_user(&grant, false), &())?;
        let bound = grant_of_key(&[9; 32], grant.grant_id);
        put(tx, &GRANTS_BY_KEY, &bound, &())?;
        let revoked = Revoked::Grant(grant.grant_id);
        let announced = Announced {
            revoked: revoked.clone(),
            at: at(1),
            expires_at: at(2),
            position: Some(7),
        };
        put(tx, &REVOKED, &revoked, &announced)?;
        let entry = Revocation {
            sequence: 7,
            revoked,
            at: at(1),
            expires_at: at(2),
        };
        put(tx, &REVOCATIONS, &7, &entry)?;

        let once = OnceId::of_user_assertion(id, "jti");
        put(tx, &USED_ONCE, &once, &at(1))?;
        put(tx, &TOTP_STEPS, name, &7)?;
        put(tx, &LAST_SIGN_INS, name, &at(1))?;
        put(tx, &SECOND_FACTORS, name, &second_factor(&["a"]))?;
        let failures = Failures {
            count: 3,
            last_at: at(1),
            expires_at: at(2),
        };
        put(tx, &FAILURES, &Digest::of(b"ada"), &failures)?;
        put(
            tx,
            &AUDIT_LOG,
            b"\x01\0\0\0\0\0\0\0\x07".as_slice(),
            &b"row".to_vec(),
        )?;
        let session_id = Digest::of(b"session");
        put(tx, &SESSIONS, &session_id, &session("ada", at(100)))?;
        put(
            tx,
            &SESSIONS_BY_USER,
            &session_of_user(name, &session_id),
            &(),
        )?;
        let owed = owed("192.0.2.0/24", at(1));
        let sign_ins = UnfinishedSignIns::default().with(session_id, &owed, None);
        put(tx, &UNFINISHED_SIGN_INS, name, &sign_ins)?;
        let notices = OwedNotices {
            due_at: at(3),
            attempts: 2,
            notices: vec![notice("ada", 1)],
        };
        put(tx, &OWED_NOTICES, name, &notices)?;
        put(tx, &NOTICES_DUE, &notice_due(at(3), name), &at(1))
    }
}
