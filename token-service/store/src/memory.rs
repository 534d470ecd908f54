//! Ordered maps in place of a database: the model for the other stores, and a store for tests that need no durability.
//!
//! Each operation runs twice, and must write the same both times: another store may have to run it again. An operation that fails
//! must have written nothing.

mod store;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::StoreError;
use crate::codec::{Bytes, Keys};
use crate::fault::Fault;
use crate::operations::Runs;
use crate::token_lifetime::note_opened;
use crate::tx::tables::{Announced, Name, REVOKED};
use crate::tx::{Entries, Entry, Note, Read, Tx, Want};
use domain::clock::Timestamp;
use domain::{AuditEvent, AuditRecord, FeedId, Revocation};

#[derive(Debug)]
pub(crate) struct MemoryStore {
    state: Mutex<State>,
    longest_token: Duration,
}

#[derive(Debug)]
struct State {
    tables: BTreeMap<Name, BTreeMap<Bytes, Bytes>>,
    feed_id: FeedId,
    feed: BTreeMap<u64, Revocation>,
    last_revocation: u64,
    audit: Vec<AuditRecord>,
    last_audit: u64,
}

impl MemoryStore {
    /// `now` counts as the time of the last sweep.
    pub(crate) fn new(longest_token: Duration, now: Timestamp) -> Self {
        let state = State {
            tables: BTreeMap::new(),
            feed_id: FeedId::from_bytes([0; 16]),
            feed: BTreeMap::new(),
            last_revocation: 0,
            audit: Vec::new(),
            last_audit: 0,
        };
        let store = Self {
            state: Mutex::new(state),
            longest_token,
        };
        let opened = store.run(|tx| note_opened(tx, longest_token.as_secs(), now));
        assert_eq!(opened.map(|lifetime| lifetime.until), Ok(0));
        store
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn run<T>(
        &self,
        operation: impl Fn(&mut Attempt<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let mut state = self.state();
        let attempt = || {
            let mut attempt = Attempt {
                state: &state,
                longest_token: self.longest_token,
                written: Written::default(),
                notes: Vec::new(),
            };
            let outcome = operation(&mut attempt);
            (outcome, attempt.written, attempt.notes)
        };
        let (_, first, _) = attempt();
        let (outcome, written, notes) = attempt();
        assert_eq!(
            first, written,
            "an operation that runs again must write the same"
        );
        match outcome {
            Ok(outcome) => {
                state.apply(written);
                notes.iter().for_each(Note::report);
                Ok(outcome)
            }
            Err(fault) => {
                assert_eq!(written, Written::default(), "{fault} after a write");
                Err(fault.into())
            }
        }
    }
}

impl State {
    fn rows(&mut self, table: Name) -> &mut BTreeMap<Bytes, Bytes> {
        self.tables.entry(table).or_default()
    }

    fn apply(&mut self, written: Written) {
        for ((table, key), row) in written.rows {
            let rows = self.rows(table);
            match row {
                Some(row) => rows.insert(key, row),
                None => rows.remove(&key),
            };
        }
        for entry in written.feed {
            self.last_revocation = entry.sequence;
            self.feed
                .retain(|_, earlier| earlier.revoked != entry.revoked);
            self.feed.insert(entry.sequence, entry);
        }
        for event in written.audit {
            self.last_audit += 1;
            let sequence = self.last_audit;
            self.audit.push(AuditRecord { sequence, event });
        }
    }
}

impl Runs for MemoryStore {
    type Snapshot<'t> = Attempt<'t>;
    type Transaction<'t> = Attempt<'t>;

    async fn read<T, F>(&self, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&mut Attempt<'_>) -> Result<T, Fault> + Send + Sync + 'static,
    {
        self.run(operation)
    }

    async fn snapshot<T, F>(&self, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&mut Attempt<'_>) -> Result<T, Fault> + Send + Sync + 'static,
    {
        self.run(operation)
    }

    async fn guarded<T, F>(&self, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&mut Attempt<'_>) -> Result<T, Fault> + Send + Sync + 'static,
    {
        self.run(operation)
    }

    async fn owned<T, F>(&self, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&mut Attempt<'_>) -> Result<T, Fault> + Send + Sync + 'static,
    {
        self.run(operation)
    }

    async fn entries(&self, events: Arc<[AuditEvent]>) -> Result<Entries, StoreError> {
        Ok(Entries::new(events))
    }
}

/// One attempt to run an operation.
#[derive(Debug)]
pub(crate) struct Attempt<'t> {
    state: &'t State,
    longest_token: Duration,
    written: Written,
    notes: Vec<Note>,
}

#[derive(Debug, Default, PartialEq)]
struct Written {
    rows: BTreeMap<(Name, Bytes), Option<Bytes>>,
    feed: Vec<Revocation>,
    audit: Vec<AuditEvent>,
}

impl Read for Attempt<'_> {
    fn get<T>(
        &mut self,
        table: Name,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        let row = match self.written.rows.get(&(table, key.to_vec())) {
            Some(written) => written.as_ref(),
            None => self.state.tables.get(&table).and_then(|rows| rows.get(key)),
        };
        row.map(|row| read(row)).transpose()
    }

    fn range(
        &mut self,
        table: Name,
        keys: &Keys,
        limit: usize,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        if keys.is_empty() {
            return Ok(());
        }
        let to = keys.to.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let bounds = (Bound::Included(&keys.from), to);
        let stored = self.state.tables.get(&table).into_iter();
        let mut rows: BTreeMap<&Bytes, &Bytes> = stored
            .flat_map(|rows| rows.range::<Bytes, _>(bounds))
            .collect();
        for ((of, key), row) in &self.written.rows {
            let is_in =
                *of == table && *key >= keys.from && keys.to.as_ref().is_none_or(|to| key < to);
            match row {
                Some(row) if is_in => drop(rows.insert(key, row)),
                None if is_in => drop(rows.remove(key)),
                _ => {}
            }
        }
        let mut rows = rows.into_iter().take(limit);
        rows.try_for_each(|(key, row)| each(key, row))
    }

    fn ahead<I: IntoIterator<Item = Want>>(&mut self, _: impl FnOnce() -> I) {}

    fn note(&mut self, note: Note) {
        self.notes.push(note);
    }

    fn longest_token(&self) -> Duration {
        self.longest_token
    }
}

impl Tx for Attempt<'_> {
    fn put(&mut self, table: Name, key: &[u8], row: Bytes) -> Result<(), Fault> {
        self.written.rows.insert((table, key.to_vec()), Some(row));
        Ok(())
    }

    fn remove(&mut self, table: Name, key: &[u8]) -> Result<(), Fault> {
        self.written.rows.insert((table, key.to_vec()), None);
        Ok(())
    }

    fn append(&mut self, entry: Entry<'_>) -> Result<(), Fault> {
        match entry {
            Entry::Revoked(revoked, extent) => {
                let before = self.state.last_revocation + self.written.feed.len() as u64;
                let sequence = before + 1;
                let announced = Announced::new(revoked, extent, Some(sequence));
                REVOKED.put(self, revoked, &announced)?;
                self.written.feed.push(announced.placed(sequence));
            }
            Entry::Audit(entries) => self.written.audit.extend_from_slice(&entries.events),
        }
        Ok(())
    }
}

mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::conformance::{
        ACCESS, WEEK, apply, at, client_id, code, grant_of, notice, put, remove, user,
    };
    use crate::operations::*;
    use crate::tx::tables::META;
    use crate::unreadable_rows;
    use domain::testing::web_server;
    use domain::{Owner, RegistryChange, Revoked};

    #[test]
    #[should_panic(expected = "an operation that runs again must write the same")]
    fn an_operation_with_a_memory_of_its_own_is_found() {
        let runs = AtomicU64::new(0);
        let count =
            |tx: &mut Attempt<'_>| META.put(tx, "runs", &runs.fetch_add(1, Ordering::Relaxed));
        drop(MemoryStore::new(ACCESS, at(0)).run(count));
    }

    #[test]
    #[should_panic(expected = "cannot be read: late after a write")]
    fn an_operation_that_fails_after_a_write_is_found() {
        let fail = |tx: &mut Attempt<'_>| {
            META.put(tx, "number", &1)?;
            Err::<(), _>(Fault::Row("late".into()))
        };
        drop(MemoryStore::new(ACCESS, at(0)).run(fail));
    }

    /// A row that no version reads.
    fn spoil(store: &MemoryStore, table: Name, key: &[u8]) {
        let spoilt = store.run(|tx| tx.put(table, key, vec![0xff]));
        assert_eq!(spoilt, Ok(()));
    }

    #[tokio::test]
    async fn what_ends_ends_beside_unreadable_rows() {
        let store = MemoryStore::new(ACCESS, at(0));
        let [one, other, third] = [
            grant_of(&store, code()).await,
            grant_of(&store, code()).await,
            grant_of(&store, code()).await,
        ];
        let entry = Revoked::Grant(one.grant_id);
        spoil(&store, Name::revoked, &entry.key());
        let ended = store.revoke_grant(one.grant_id, Arc::default(), at(1));
        assert_eq!(ended.await, Ok(true));
        let newest = store.revocations_since(0, 9).await.unwrap();
        assert_eq!(newest.last().map(|last| &last.revoked), Some(&entry));
        spoil(&store, Name::grants, other.grant_id.as_bytes());
        let user = Owner::User(code().username);
        let ended = store.revoke_all(user, Arc::default(), at(2));
        assert_eq!(ended.await, Ok(1));
        let ended = store.grant(third.grant_id).await.unwrap().unwrap();
        assert_eq!(ended.revoked_at, Some(at(2)));
        // A later version may have written what this one cannot read.
        spoil(&store, Name::sessions, &[1; 32]);
        spoil(&store, Name::codes, &[2; 32]);
        spoil(&store, Name::failures, &[3; 32]);
        let (due, before) = (at(0) + WEEK * 100, unreadable_rows().get());
        let swept = store.sweep(due, due, 100).await.unwrap();
        assert!(swept.removed >= 2, "{swept:?}");
        let counts = store.counts().await.unwrap();
        assert_eq!((counts.grants, counts.sessions), (1, 1));
        assert!(unreadable_rows().get() >= before + 4);
    }

    #[tokio::test]
    async fn unreadable_notices_keep_no_others_waiting() {
        let store = MemoryStore::new(ACCESS, at(0));
        let names = ["ada", "grace", "joan"];
        let change = RegistryChange {
            notices: names.map(|name| notice(name, 1)).to_vec(),
            ..put(vec![], names.map(user).to_vec())
        };
        apply(&store, change, 1).await;
        for name in &names[..2] {
            spoil(&store, Name::owed_notices, name.as_bytes());
        }
        let claimed = store.claim_notices(at(2), at(60), 1).await.unwrap();
        let claimed: Vec<&str> = claimed
            .iter()
            .map(|one| one.notice.username.as_str())
            .collect();
        assert_eq!(claimed, ["joan"]);
    }

    #[tokio::test]
    async fn an_unreadable_client_leaves_no_secrets() {
        let store = MemoryStore::new(ACCESS, at(0));
        let with = |secrets: &[&str]| put(vec![web_server("web", secrets, &[])], vec![]);
        apply(&store, with(&["one", "two"]), 0).await;
        let secrets = async || {
            let times = store.secret_times(vec![client_id("web")]).await.unwrap();
            times
                .into_iter()
                .map(|times| times.added_at)
                .collect::<Vec<_>>()
        };
        spoil(&store, Name::clients, b"web");
        apply(&store, with(&["two", "three"]), 1).await;
        let mut left = secrets().await;
        left.sort();
        assert_eq!(left, [at(0), at(1)]);
        spoil(&store, Name::clients, b"web");
        apply(&store, remove(&["web"], &[]), 2).await;
        assert_eq!(secrets().await, []);
    }
}
