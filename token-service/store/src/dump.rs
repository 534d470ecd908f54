//! Keys and rows of one table, for operators. Contains no secret.

use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::codec::{Bytes, Keys, Parts, Rest, next};
use crate::copy::Place;
use crate::fault::Fault;
use crate::operations::Runs as _;
use crate::postgres::{self, PostgresStore};
use crate::redb::Reader;
use crate::row::RowError;
use crate::tx::tables::{Kind, Name};
use crate::tx::{Read, Want};
use crate::{StoreError, redb};
use domain::GrantId;
use domain::registry_index::{CountedKind, NamedKind};

/// Rows that are read at a time.
const PAGE: usize = if cfg!(test) { 7 } else { 1000 };

/// In place of a secret.
const LEFT_OUT: &str = "(left out)";

/// Fields whose texts and ids are secrets or hashes of secrets. All bytes that are not the id of a token are left out, too: hashes,
/// sealed values, digests.
const SECRET: [&str; 4] = ["password_hash", "secrets", "refresh_id", "text"];

/// Reads a table page by page.
pub struct Dump {
    source: Source,
    table: Name,
    /// Keys of the rows that follow; `None` at the end.
    keys: Option<Keys>,
}

enum Source {
    File(Reader),
    Database(Box<PostgresStore>),
}

#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    #[error("there is no table {0}; the tables are {tables}", tables = names())]
    Table(String),
    #[error("no key of the table {} begins with {prefix}", .table)]
    Prefix { table: &'static str, prefix: String },
    #[error(
        "a process has the store {0} open, or did not close it: make a copy, by `token-service backup FILE` while the service runs, \
         or else by `token-service copy`, and dump the copy"
    )]
    InUse(String),
    #[error("the store {0} is empty")]
    Empty(String),
    #[error(transparent)]
    Redb(#[from] redb::OpenError),
    #[error(transparent)]
    Postgres(#[from] postgres::OpenError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The tables that both stores have.
fn tables() -> impl Iterator<Item = Name> {
    let all = Name::ALL.iter().copied();
    all.filter(|table| table.kind() != Kind::Log)
}

fn names() -> String {
    tables().map(Name::text).collect::<Vec<_>>().join(", ")
}

impl Dump {
    /// Opens a store, and changes nothing. With a `prefix`: for the keys whose first part is the prefix.
    ///
    /// # Errors
    /// A [`DumpError`].
    pub async fn open(
        from: Place<'_>,
        table: &str,
        prefix: Option<&str>,
    ) -> Result<Self, DumpError> {
        let found = tables().find(|name| name.text() == table);
        let table = found.ok_or_else(|| DumpError::Table(table.to_owned()))?;
        let keys = match prefix {
            None => Keys::all(),
            Some(prefix) => keys_of(table, prefix).ok_or_else(|| DumpError::Prefix {
                table: table.text(),
                prefix: prefix.to_owned(),
            })?,
        };
        let source = match from {
            Place::Redb(path) => {
                let name = || path.display().to_string();
                let reader = Reader::open(path)?.ok_or_else(|| DumpError::InUse(name()))?;
                if reader.is_empty {
                    return Err(DumpError::Empty(name()));
                }
                if reader.lacks_its_journal()? {
                    return Err(DumpError::InUse(name()));
                }
                Source::File(reader)
            }
            Place::Postgres(settings) => {
                let store = postgres::reader(settings).await?;
                let empty = || DumpError::Empty(settings.url.place());
                Source::Database(Box::new(store.ok_or_else(empty)?))
            }
        };
        let keys = Some(keys);
        Ok(Self {
            source,
            table,
            keys,
        })
    }

    /// The next rows, each as an object with `key` and `row`, or `unreadable`. `None` at the end. A database may change between
    /// two pages.
    ///
    /// # Errors
    /// A [`DumpError`].
    pub async fn page(&mut self) -> Result<Option<Vec<Value>>, DumpError> {
        let Some(keys) = self.keys.take() else {
            return Ok(None);
        };
        let table = self.table;
        let page = keys.clone();
        let rows = match &self.source {
            Source::File(reader) => reader.read(|snapshot| rows(snapshot, table, &page))?,
            Source::Database(store) => store.read(move |tx| rows(tx, table, &page)).await?,
        };
        let last = rows.last().filter(|_| rows.len() == PAGE);
        self.keys = last.map(|(key, _)| keys.behind(key));
        Ok(Some(
            rows.iter()
                .map(|(key, row)| shown(table, key, row))
                .collect(),
        ))
    }
}

fn rows(tx: &mut impl Read, table: Name, keys: &Keys) -> Result<Vec<(Bytes, Bytes)>, Fault> {
    let (keys, limit) = (keys.clone(), PAGE);
    tx.ahead(|| {
        [Want::Rows {
            table,
            keys: keys.clone(),
            limit,
        }]
    });
    let mut rows = Vec::new();
    tx.range(table, &keys, limit, |key, row| {
        rows.push((key.to_vec(), row.to_vec()));
        Ok(())
    })?;
    Ok(rows)
}

fn shown(table: Name, key: &[u8], row: &[u8]) -> Value {
    match (key_of(table, key), table.fields(row)) {
        (Ok(key), Ok(_)) if table == Name::sealed => json!({ "key": key, "row": LEFT_OUT }),
        (Ok(key), Ok(mut row)) => {
            leave_out(&mut row);
            json!({ "key": key, "row": row })
        }
        // The reason may quote the row.
        (key, _) => json!({ "key": key.ok(), "unreadable": true }),
    }
}

/// Leaves out secrets, and writes ids as the service prints them.
fn leave_out(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let is_grant = matches!(name.as_str(), "grant_id" | "grant");
                if SECRET.contains(&name.as_str()) && !field.is_null() {
                    *field = LEFT_OUT.into();
                } else if is_grant && let Ok(id) = GrantId::deserialize(&*field) {
                    *field = id.to_string().into();
                } else {
                    leave_out(field);
                }
            }
        }
        Value::Array(items) => {
            let bytes = items.iter().map(|item| u8::try_from(item.as_u64()?).ok());
            match bytes.collect::<Option<Bytes>>() {
                Some(bytes) if bytes.len() == 16 => *value = encoded(&bytes),
                Some(bytes) if !bytes.is_empty() => *value = LEFT_OUT.into(),
                _ => items.iter_mut().for_each(leave_out),
            }
        }
        _ => {}
    }
}

fn encoded(bytes: &[u8]) -> Value {
    BASE64URL_NOPAD.encode(bytes).into()
}

/// A part of a key.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// A text that other parts follow.
    Text,
    /// A text at the end.
    Last,
    Number,
    Flag,
    /// 16 bytes.
    Grant,
    /// 32 bytes: a thumbprint, or the digest of a random value, of an account or an address.
    Digest,
    CountedKind,
    NamedKind,
}

/// The parts of a key. The digest of a client secret is left out, and a key of [`Name::revoked`] is in its row.
const fn parts(table: Name) -> &'static [Part] {
    use Part::{Digest, Flag, Grant, Last, Number, Text};
    match table {
        Name::meta
        | Name::clients
        | Name::users
        | Name::legacy_instances
        | Name::signing_keys
        | Name::sealed
        | Name::totp_steps
        | Name::last_sign_ins
        | Name::second_factors
        | Name::unfinished_sign_ins
        | Name::owed_notices => &[Last],
        Name::applied_file | Name::registry_changes | Name::revocations => &[Number],
        Name::registry_counts => &[Part::CountedKind, Last],
        Name::registry_names => &[Part::NamedKind, Text, Last],
        Name::client_secrets => &[Text],
        Name::codes | Name::used_once | Name::failures | Name::sessions => &[Digest],
        Name::unused_codes => &[Text, Text, Number, Digest],
        Name::grants => &[Grant],
        Name::grants_by_client => &[Text, Grant],
        Name::grants_of_users => &[Text, Text, Flag, Grant],
        Name::grants_by_key => &[Digest, Grant],
        Name::sessions_by_user => &[Text, Digest],
        Name::notices_due => &[Number, Last],
        Name::revoked | Name::audit_log => &[],
    }
}

fn key_of(table: Name, key: &[u8]) -> Result<Vec<Value>, RowError> {
    let mut rest = Rest(key);
    let parts = parts(table).iter().map(|part| {
        Ok(match part {
            Part::Text => rest.text()?.into(),
            Part::Last => rest.last()?.into(),
            Part::Number => rest.number()?.into(),
            Part::Flag => (rest.byte()? != 0).into(),
            Part::Grant => encoded(rest.array::<16>()?),
            Part::Digest => encoded(rest.array::<32>()?),
            Part::CountedKind => counted_kind(rest.byte()?).into(),
            Part::NamedKind => named_kind(rest.byte()?).into(),
        })
    });
    let mut key = parts.collect::<Result<Vec<Value>, RowError>>()?;
    // The digest of a link.
    if let [Value::String(kind), value, _] = &mut *key
        && *kind == <&str>::from(NamedKind::PasswordLink)
    {
        *value = LEFT_OUT.into();
    }
    Ok(key)
}

fn counted_kind(number: u8) -> Option<&'static str> {
    CountedKind::from_repr(number).map(Into::into)
}

fn named_kind(number: u8) -> Option<&'static str> {
    NamedKind::from_repr(number).map(Into::into)
}

/// The keys whose first part is shown as `first`; `None` if no part is shown in this form.
fn keys_of(table: Name, first: &str) -> Option<Keys> {
    let kind = |name: fn(u8) -> Option<&'static str>| {
        let kind = (0..=u8::MAX).find(|kind| name(*kind) == Some(first));
        kind.map(|kind| vec![kind])
    };
    let prefix = match parts(table).first()? {
        Part::Text => Parts::new().text(first).end(),
        Part::Last => first.into(),
        Part::Number => Parts::new().number(first.parse().ok()?).end(),
        Part::Flag => return None,
        Part::Grant | Part::Digest => BASE64URL_NOPAD.decode(first.as_bytes()).ok()?,
        Part::CountedKind => kind(counted_kind)?,
        Part::NamedKind => kind(named_kind)?,
    };
    let keys = Keys::with(&prefix);
    Some(match parts(table) {
        [Part::Last] => keys.before(&next(&prefix)),
        _ => keys,
    })
}

#[cfg(test)]
impl Dump {
    /// All rows, by page.
    pub(crate) async fn all(from: Place<'_>, table: Name, prefix: Option<&str>) -> Vec<Value> {
        let mut dump = Self::open(from, table.text(), prefix).await.unwrap();
        let mut all = Vec::new();
        while let Some(page) = dump.page().await.unwrap() {
            assert!(page.len() <= PAGE);
            all.extend(page);
        }
        all
    }

    /// Checks that every table can be read, whole and by the first part of a key.
    pub(crate) async fn check(from: Place<'_>) {
        for table in tables() {
            let all = Self::all(from, table, None).await;
            for line in all.iter().take(1).chain(all.last()) {
                assert!(line.get("row").is_some(), "{}: {line}", table.text());
                let first = &line["key"][0];
                let text = first
                    .as_str()
                    .map_or_else(|| first.to_string(), str::to_owned);
                let Some(_) = keys_of(table, &text) else {
                    assert_eq!(table, Name::revoked);
                    continue;
                };
                let some = Self::all(from, table, Some(&text)).await;
                let expected = all.iter().filter(|line| line["key"][0] == *first);
                assert!(expected.eq(&some), "{} {text}: {some:?}", table.text());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::collections::BTreeSet;

    use super::*;
    use crate::Store as _;
    use crate::conformance::{ACCESS, at, client_id, code, fill, notice, signing_key, user};
    use crate::redb::RedbStore;
    use crate::stored_code::StoredCode;
    use crate::tx::Form;
    use crate::tx::tables::{OwedNotices, client_secret, named};
    use claims::Algorithm;
    use domain::client::ClientSecret;
    use domain::digest::Digest;
    use domain::testing::{grant, web_server};
    use domain::user::PasswordLink;
    use domain::{CodeRecord, Managed, Notice, SealedSigningKey, SecondFactor, TokenId, User};
    use tempfile::TempDir;

    #[tokio::test]
    async fn a_file_is_dumped_when_no_service_has_it_open() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("store.redb");
        let place = Place::Redb(&path);
        let store = RedbStore::open(&path, ACCESS).unwrap();
        fill(&store, 5).await;
        let refused = async |table| Dump::open(place, table, Some("x")).await.err().unwrap();
        let is_in_use = |error: &DumpError| matches!(error, DumpError::InUse(_));
        assert!(is_in_use(&refused("users").await));
        // The copy is a file that nobody has closed.
        let [unclosed, journal] =
            ["unclosed", "unclosed-journal"].map(|name| folder.path().join(name));
        std::fs::copy(&path, &unclosed).unwrap();
        std::fs::copy(folder.path().join("store.redb-journal"), journal).unwrap();
        let error = Dump::open(Place::Redb(&unclosed), "users", None)
            .await
            .err()
            .unwrap();
        assert!(is_in_use(&error));
        store.close().await;
        drop(store);

        let before = std::fs::read(&path).unwrap();
        Dump::check(place).await;
        let reader = Reader::open(&path).unwrap().unwrap();
        for table in tables() {
            let all = Dump::all(place, table, None).await;
            let every = reader.read(|snapshot| {
                let mut keys = BTreeSet::new();
                snapshot.range(table, &Keys::all(), usize::MAX, |key, _| {
                    keys.insert(key.to_vec());
                    Ok(())
                })?;
                Ok(keys.len())
            });
            let every = every.unwrap();
            assert!(
                all.len() == every && every > 0,
                "{}: {}",
                table.text(),
                all.len()
            );
        }
        assert_eq!(std::fs::read(&path).unwrap(), before);
        for (table, expected) in [
            (
                "audit_log",
                "there is no table audit_log; the tables are meta, clients, ",
            ),
            ("grants", "no key of the table grants begins with x"),
        ] {
            let error = refused(table).await.to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        let unreadable = shown(Name::users, b"ada", br#"{"username":"SECRET"}"#);
        assert_eq!(unreadable, json!({ "key": ["ada"], "unreadable": true }));
    }

    /// Each secret has the bytes or the text of the marker.
    #[test]
    fn no_secret_is_dumped() {
        const BYTE: u8 = 167;
        let text = || "MARKER".to_owned();
        let (bytes, digest) = (vec![BYTE; 40], Digest::from_bytes([BYTE; 32]));
        let managed = Managed {
            file: "registrations.toml".to_owned(),
            line: None,
            disables: false,
            suspended: false,
            secrets: [("password".to_owned(), text())].into(),
        };
        let mut client = web_server("shop", &["one"], &[]);
        client.managed = Some(managed.clone());
        *client.secrets_mut().unwrap() = vec![ClientSecret::from_digest(digest)];
        let user = User {
            password_hash: Some(text()),
            registered_password_digest: Some(digest),
            totp_secret_sealed: Some(bytes.clone()),
            password_link: Some(PasswordLink {
                digest,
                expires_at: at(1),
                rests_on: user("ada").credentials_version,
            }),
            managed: Some(managed),
            ..user("ada")
        };
        let key = SealedSigningKey {
            sealed_pkcs8: bytes.clone(),
            ..signing_key("kid", Algorithm::EdDsa, at(1))
        };
        let second_factor = SecondFactor {
            totp_secret_sealed: bytes.clone(),
            recovery_codes: vec![digest],
        };
        let mut grant = grant("projects", at(0), at(100));
        grant.current.refresh_id = TokenId::from_bytes([BYTE; 16]);
        let access_id = grant.current.access_id;
        let code = CodeRecord {
            code_challenge: Some(digest),
            session: Some(digest),
            ..code()
        };
        let owed = OwedNotices {
            due_at: at(1),
            attempts: 0,
            notices: vec![Notice {
                text: text(),
                ..notice("ada", 1)
            }],
        };
        let secret = client_secret(&client_id("shop"), &digest);
        let link = named(NamedKind::PasswordLink as u8, "MARKER", "ada");
        let (name, id) = (b"ada".as_slice(), [7; 32].as_slice());
        fn row(form: &impl Form) -> Bytes {
            form.encode().unwrap()
        }
        let lines = [
            shown(Name::clients, b"shop", &row(&client)),
            shown(Name::users, name, &row(&user)),
            shown(Name::signing_keys, b"kid", &row(&key)),
            shown(Name::second_factors, name, &row(&second_factor)),
            shown(Name::grants, &[7; 16], &row(&grant)),
            shown(
                Name::codes,
                id,
                &row(&StoredCode::Unused(Cow::Borrowed(&code))),
            ),
            shown(Name::owed_notices, name, &row(&owed)),
            shown(Name::applied_file, &[0; 8], &row(&digest)),
            shown(Name::sealed, b"root", b"MARKER"),
            shown(Name::client_secrets, &secret, &[1, 1, 0]),
            shown(Name::registry_names, &link, b""),
        ];
        let mut names = BTreeSet::<&str>::new();
        for line in &lines {
            assert!(line.get("row").is_some(), "{line}");
            let line = line.to_string();
            for secret in ["MARKER", "167,167", "p6en", "a7a7", "A7A7", "\\xa7"] {
                assert!(!line.contains(secret), "{secret} in {line}");
            }
            let is_there = |name: &&str| line.contains(&format!("\"{name}\""));
            names.extend(SECRET.into_iter().filter(is_there));
        }
        assert_eq!(names.len(), SECRET.len());
        // Which of them are set, and what is no secret, stays.
        assert_eq!(lines[1]["row"]["totp_secret_sealed"], LEFT_OUT);
        assert_eq!(lines[3]["row"]["recovery_codes"], json!([LEFT_OUT]));
        let grant = &lines[4];
        assert_eq!(grant["key"], json!([grant["row"]["grant_id"]]));
        assert_eq!(grant["row"]["current"]["access_id"], access_id.to_string());
    }
}
