//! All rows of a file, for a copy to or from another store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redb::{Database, Key, ReadTransaction, ReadableDatabase as _, ReadableTable as _};
use redb::{TableDefinition, Value};
use tempfile::NamedTempFile;
use tokio::sync::mpsc::{Receiver, Sender};

use super::backup::{RestoreError, draft, put_in_place};
use super::fault::Fault;
use super::tables::*;
use super::{attempts, audit, codes, grants, open, revocations, sessions};
use crate::StoreError;
use crate::records::{BATCH, Batch, COUNTERS, Record, Records, Table, record};
use crate::row::{decode_bare, encode_bare};
use crate::stored_code::StoredCode;
use domain::authorization_code::{USED_CODE_RETENTION, UsedCode};
use domain::clock::Timestamp;
use domain::{AuditRecord, CodeRecord, Failures, Revocation, SealedSigningKey, Session};

pub(crate) struct FileRecords {
    database: Arc<Database>,
    /// The new file, and its path.
    target: Option<(NamedTempFile, PathBuf)>,
}

impl FileRecords {
    /// Opens a file that no token service uses, such as a backup, and checks it.
    pub(crate) fn source(path: &Path) -> Result<Self, RestoreError> {
        let mut database = open::existing(path)?;
        match database.check_integrity() {
            Ok(true) => Ok(Self {
                database: Arc::new(database),
                target: None,
            }),
            Ok(false) | Err(_) => Err(RestoreError::Damaged(path.to_owned())),
        }
    }

    /// Makes a file that gets its name, `path`, with [`Records::keep`].
    pub(crate) fn target(path: &Path) -> Result<Self, RestoreError> {
        let draft = draft(path)?;
        Ok(Self {
            database: Arc::new(open::without_journal(draft.path())?),
            target: Some((draft, path.to_owned())),
        })
    }

    async fn blocking(
        &self,
        work: impl FnOnce(&Database) -> Result<(), Fault> + Send + 'static,
    ) -> Result<(), StoreError> {
        let database = Arc::clone(&self.database);
        let done = tokio::task::spawn_blocking(move || work(&database));
        let done = done.await;
        Ok(done.map_err(|error| StoreError::Failed(error.to_string()))??)
    }
}

#[async_trait]
impl Records for FileRecords {
    async fn read(&mut self, to: Sender<Batch>) -> Result<(), StoreError> {
        self.blocking(move |database| {
            let transaction = database.begin_read()?;
            for table in Table::ALL {
                let records = Vec::new();
                let (to, table) = (&to, *table);
                let mut outlet = Outlet { to, table, records };
                read(&transaction, &mut outlet).map_err(|fault| match fault {
                    Fault::Row(reason) => Fault::Row(format!("{}: {reason}", table.name())),
                    other => other,
                })?;
                outlet.send()?;
            }
            Ok(())
        })
        .await
    }

    async fn write(&mut self, mut from: Receiver<Batch>) -> Result<(), StoreError> {
        self.blocking(move |database| {
            let transaction = database.begin_write()?;
            {
                let mut tables = Tables::new(&transaction);
                while let Some(batch) = from.blocking_recv() {
                    write(&mut tables, &batch)?;
                }
            }
            Ok(transaction.commit()?)
        })
        .await
    }

    async fn keep(self: Box<Self>) -> Result<(), StoreError> {
        // Closes the file.
        drop(self.database);
        let kept = self.target.map(|(draft, path)| put_in_place(draft, &path));
        let kept = kept.transpose();
        kept.map_err(|error| StoreError::Failed(error.to_string()))?;
        Ok(())
    }
}

/// Gathers rows of a table, and sends them.
struct Outlet<'a> {
    to: &'a Sender<Batch>,
    table: Table,
    records: Vec<Record>,
}

impl Outlet<'_> {
    fn add(&mut self, record: Record) -> Result<(), Fault> {
        self.records.push(record);
        if self.records.len() < BATCH {
            return Ok(());
        }
        self.send()
    }

    fn send(&mut self) -> Result<(), Fault> {
        let batch = Batch {
            table: self.table,
            records: std::mem::take(&mut self.records),
        };
        let sent = self.to.blocking_send(batch);
        sent.map_err(|_| Fault::Row("nobody takes it".into()))
    }

    /// Adds a record for each row of a table.
    fn each<K: Key + 'static, V: Value + 'static>(
        &mut self,
        transaction: &ReadTransaction,
        definition: TableDefinition<'_, K, V>,
        record: impl Fn(K::SelfType<'_>, V::SelfType<'_>) -> Result<Record, Fault>,
    ) -> Result<(), Fault> {
        for entry in transaction.open_table(definition)?.iter()? {
            let (key, value) = entry?;
            self.add(record(key.value(), value.value())?)?;
        }
        Ok(())
    }
}

/// The key of a counter.
fn key(counter: &str) -> &str {
    match counter {
        "registry_position" => REGISTRY_VERSION_KEY,
        other => other,
    }
}

fn number(transaction: &ReadTransaction, key: &str) -> Result<u64, Fault> {
    counter(&transaction.open_table(META)?, key)
}

/// A number of which 0 says that there is none.
fn known(seconds: u64) -> Option<u64> {
    Some(seconds).filter(|seconds| *seconds > 0)
}

fn read(transaction: &ReadTransaction, to: &mut Outlet<'_>) -> Result<(), Fault> {
    let named = |to: &mut Outlet<'_>, definition: Registrations| {
        to.each(transaction, definition, |name, body| {
            Ok(record![name, body])
        })
    };
    match to.table {
        Table::Clients => named(to, CLIENTS),
        Table::Users => named(to, USERS),
        Table::LegacyInstances => named(to, LEGACY_INSTANCES),
        Table::Sealed => named(to, SEALED),
        Table::SecondFactors => named(to, SECOND_FACTORS),
        Table::UnfinishedSignIns => named(to, UNFINISHED_SIGN_INS),
        Table::RegistryCounts => to.each(transaction, REGISTRY_COUNTS, |(kind, value), count| {
            Ok(record![kind, value, count])
        }),
        Table::RegistryNames => to.each(transaction, REGISTRY_NAMES, |(kind, value, name), ()| {
            Ok(record![kind, value, name])
        }),
        Table::RegistryChanges => to.each(transaction, REGISTRY_CHANGES, |sequence, object| {
            Ok(record![sequence, object])
        }),
        Table::AppliedFile => to.each(transaction, APPLIED_FILE, |part, body| {
            Ok(record![part, body])
        }),
        Table::SigningKeys => to.each(transaction, SIGNING_KEYS, |kid, body| {
            let key: SealedSigningKey = decode_json(body)?;
            Ok(record![kid, key.algorithm.name(), key.created_at, body])
        }),
        Table::ClientSecrets => to.each(
            transaction,
            CLIENT_SECRETS,
            |(client_id, digest), (added_at, used_at)| {
                Ok(record![client_id, digest, added_at, known(used_at)])
            },
        ),
        Table::Codes => read_codes(transaction, to),
        Table::Grants => {
            let lifetime = Duration::from_secs(number(transaction, TOKEN_LIFETIME_KEY)?);
            to.each(transaction, GRANTS, |_, body| {
                Ok(Record::of_grant(&decode(body)?, body, lifetime))
            })
        }
        Table::Revocations => to.each(transaction, REVOCATIONS, |sequence, body| {
            let entry: Revocation = decode(body)?;
            let revoked = encode_bare(&entry.revoked)?;
            Ok(record![sequence, revoked, entry.at, entry.expires_at])
        }),
        Table::UsedOnce => to.each(transaction, USED_ONCE, |digest, expires_at| {
            Ok(record![digest, expires_at])
        }),
        Table::TotpSteps => to.each(transaction, TOTP_STEPS, |username, step| {
            Ok(record![username, step])
        }),
        Table::LastSignIns => to.each(transaction, LAST_SIGN_INS, |username, at| {
            Ok(record![username, at])
        }),
        Table::Failures => to.each(transaction, FAILURES, |key, body| {
            let failures: Failures = decode(body)?;
            let Failures {
                count,
                last_at,
                expires_at,
            } = failures;
            Ok(record![key, count, last_at, expires_at])
        }),
        Table::Sessions => to.each(transaction, SESSIONS, |id, body| {
            let session: Session = decode(body)?;
            let username = session.username.as_str();
            Ok(record![id, username, session.expires_at, body])
        }),
        Table::AuditLog => {
            for entry in transaction.open_table(AUDIT)?.iter()? {
                let (key, row) = entry?;
                let ((kind, first), (number, _, entries)) = (key.value(), row.value());
                for (number, AuditRecord { sequence, event }) in
                    (number..).zip(audit::records(first, entries)?)
                {
                    let body = encode(&event)?;
                    to.add(record![sequence, kind, number, event.expires_at, body])?;
                }
            }
            Ok(())
        }
        Table::Counters => {
            for counter in COUNTERS {
                if let Some(value) = known(number(transaction, key(counter))?) {
                    to.add(record![counter, value])?;
                }
            }
            Ok(())
        }
    }
}

/// The rows of used codes have no expiry, but [`EXPIRY`] has an entry for each code.
fn read_codes(transaction: &ReadTransaction, to: &mut Outlet<'_>) -> Result<(), Fault> {
    let rows = transaction.open_table(CODES)?;
    for entry in transaction.open_table(EXPIRY)?.iter()? {
        let entry = entry?.0;
        let (at, kind, code) = entry.value();
        let kind = Expiring::from_number(kind);
        if !matches!(kind, Some(Expiring::Code | Expiring::UsedCode)) {
            continue;
        }
        let Some(row) = rows.get(code)? else { continue };
        to.add(match decode(row.value())? {
            StoredCode::Unused(record) => {
                let (of, user) = (record.client_id.as_str(), record.username.as_str());
                let unused: Option<&[u8]> = None;
                record![code, of, user, at, unused, encode(&*record)?]
            }
            StoredCode::Used(used) => {
                let mut at = Timestamp::from_seconds(at);
                if kind == Some(Expiring::Code) {
                    at = at + USED_CODE_RETENTION;
                }
                record![code, "", "", at, used.grant_id.as_bytes(), encode(&used)?]
            }
        })?;
    }
    Ok(())
}

fn write(tables: &mut Tables<'_>, batch: &Batch) -> Result<(), Fault> {
    if batch.table == Table::AuditLog {
        let entry = |entry: &Record| {
            Ok(AuditRecord {
                sequence: entry.some_number(0)?,
                event: decode(entry.bytes(4)?)?,
            })
        };
        let entries: Result<Vec<_>, Fault> = batch.records.iter().map(entry).collect();
        return audit::put(tables, &entries?);
    }
    for row in &batch.records {
        write_row(tables, batch.table, row)?;
    }
    Ok(())
}

type Named<'txn> = Lazy<'txn, &'static str, &'static [u8]>;

fn write_row(tables: &mut Tables<'_>, table: Table, row: &Record) -> Result<(), Fault> {
    let put = |table: &mut Named<'_>, body| -> Result<(), Fault> {
        table.open()?.insert(row.text(0)?, row.bytes(body)?)?;
        Ok(())
    };
    match table {
        Table::Clients => put(&mut tables.clients, 1)?,
        Table::Users => put(&mut tables.users, 1)?,
        Table::LegacyInstances => put(&mut tables.legacy_instances, 1)?,
        Table::Sealed => put(&mut tables.sealed, 1)?,
        Table::SecondFactors => put(&mut tables.second_factors, 1)?,
        Table::UnfinishedSignIns => put(&mut tables.unfinished_sign_ins, 1)?,
        Table::SigningKeys => put(&mut tables.signing_keys, 3)?,
        Table::RegistryCounts => {
            let key = (row.some_number(0)?, row.text(1)?);
            let table = tables.registry_counts.open()?;
            table.insert(key, row.some_number::<u64>(2)?)?;
        }
        Table::RegistryNames => {
            let key = (row.some_number(0)?, row.text(1)?, row.text(2)?);
            tables.registry_names.open()?.insert(key, ())?;
        }
        Table::RegistryChanges => {
            let sequence = row.some_number::<u64>(0)?;
            let table = tables.registry_changes.open()?;
            table.insert(sequence, row.text(1)?)?;
        }
        Table::AppliedFile => {
            let part = row.some_number::<u32>(0)?;
            tables.applied_file.open()?.insert(part, row.bytes(1)?)?;
        }
        Table::ClientSecrets => {
            let times = [row.number(2)?, row.number(3)?].map(Option::unwrap_or_default);
            let key = (row.text(0)?, row.array(1)?);
            let table = tables.client_secrets.open()?;
            table.insert(key, (times[0], times[1]))?;
        }
        Table::Codes => {
            let code = row.array(0)?;
            if row.is_null(4) {
                let record: CodeRecord = decode(row.bytes(5)?)?;
                codes::add(tables, code, &record)?;
            } else {
                let used: UsedCode = decode(row.bytes(5)?)?;
                let used = encode(&StoredCode::Used(used))?;
                tables.codes.open()?.insert(code, used.as_slice())?;
                tables.expire(Expiring::UsedCode, code, row.time(3)?)?;
            }
        }
        Table::Grants => grants::add(tables, &decode(row.bytes(8)?)?)?,
        Table::Revocations => {
            let entry = Revocation {
                sequence: row.some_number(0)?,
                revoked: decode_bare(row.bytes(1)?)?,
                at: row.time(2)?,
                expires_at: row.time(3)?,
            };
            revocations::add(tables, &entry)?;
        }
        Table::UsedOnce => {
            let table = tables.used_once.open()?;
            table.insert(row.array(0)?, row.some_number::<u64>(1)?)?;
        }
        Table::TotpSteps => {
            let table = tables.totp_steps.open()?;
            table.insert(row.text(0)?, row.some_number::<u64>(1)?)?;
        }
        Table::LastSignIns => {
            let table = tables.last_sign_ins.open()?;
            table.insert(row.text(0)?, row.some_number::<u64>(1)?)?;
        }
        Table::Failures => {
            let failures = Failures {
                count: row.some_number(1)?,
                last_at: row.time(2)?,
                expires_at: row.time(3)?,
            };
            attempts::add(tables, row.array(0)?, failures)?;
        }
        Table::Sessions => sessions::add(tables, row.array(0)?, &decode(row.bytes(3)?)?)?,
        Table::Counters => {
            let value = row.some_number::<u64>(1)?;
            tables.meta.open()?.insert(key(row.text(0)?), value)?;
        }
        Table::AuditLog => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use redb::TableHandle as _;
    use tempfile::TempDir;

    use super::super::RedbStore;
    use super::*;
    use crate::conformance::{ACCESS, fill};
    use crate::{Place, Store as _, copy};

    /// All tables, with the indexes, but without what a copy writes in another way: the audit log (other rows), expiries
    /// of used codes, the feed's identity, and numbers that are 0.
    fn dump(path: &Path) -> Vec<String> {
        let database = open::existing(path).unwrap();
        let rows = all_rows(&database.begin_read().unwrap()).unwrap();
        let other = ["audit_log", "expiry (", "meta \"feed_"];
        let is_other = |row: &String| {
            let is_zero = row.starts_with("meta ") && row.ends_with(" 0");
            is_zero || other.iter().any(|other| row.starts_with(other))
        };
        rows.into_iter().filter(|row| !is_other(row)).collect()
    }

    #[tokio::test]
    async fn a_copy_has_the_same_rows_and_indexes() {
        let folder = TempDir::new().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        let store = RedbStore::open(&from, ACCESS).unwrap();
        fill(&store, 5).await;
        store.close().await;
        let copied = copy(Place::Redb(&from), Place::Redb(&to), |_, _, _| {});
        copied.await.unwrap();
        let (before, after) = (dump(&from), dump(&to));
        assert!(before.len() > 100);
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before, after);
        }
        assert_eq!(before.len(), after.len());
    }

    /// A new table is copied, or named here: an index that a copy makes again.
    #[tokio::test]
    async fn nothing_is_forgotten() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("store");
        let store = RedbStore::open(&path, ACCESS).unwrap();
        fill(&store, 7).await;
        store.close().await;
        let database = open::existing(&path).unwrap();
        let transaction = database.begin_read().unwrap();
        let found = transaction.list_tables().unwrap();
        let found: BTreeSet<String> = found.map(|table| table.name().to_owned()).collect();
        let copied = Table::ALL.iter().map(|table| match table {
            Table::Counters => "meta",
            other => other.name(),
        });
        let indexes = [
            "unused_codes",
            "grants_by_client",
            "grants_of_users",
            "grants_by_key",
            "revoked",
            "sessions_by_user",
            "expiry",
        ];
        let expected = copied.chain(indexes).map(str::to_owned).collect();
        assert_eq!(found, expected);
        let own = [LAYOUT_KEY, FEED_HIGH_KEY, FEED_LOW_KEY];
        for entry in transaction.open_table(META).unwrap().iter().unwrap() {
            let name = entry.unwrap().0.value().to_owned();
            let is_copied = COUNTERS.map(key).contains(&name.as_str());
            assert!(is_copied || own.contains(&name.as_str()), "{name}");
        }
    }
}
