//! What an operation has read of the database, and what it writes.
//!
//! An operation runs on a [`View`] of what was [`Seen`]. An operation that asks for more ends with [`Fault::Unread`]. The
//! [engine](super::engine) then reads what the operation wants, and runs it again. The writes stay in the view until the
//! operation has all that it wants.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::time::Duration;

use crate::codec::{Bytes, Key as _, Keys};
use crate::fault::Fault;
use crate::tx::tables::{Announced, Name, REVOKED};
use crate::tx::{Entries, Entry, Form as _, Lock, Note, Read, Tx, Want};

/// Rows that the first read of a range without a small limit returns. Each further read of the same range returns four times as
/// many, so that a long range takes few round trips.
const PAGE: usize = 512;

/// Maximum number of rows of a range that are read at once.
const LONGEST_PAGE: usize = 8192;

/// Rows of one table.
#[derive(Debug, Default)]
struct SeenTable {
    /// `None`: the database has no such row.
    rows: BTreeMap<Bytes, Option<Bytes>>,
    /// From where to before where (`None`: the end of the table) all rows of the database are among `rows`. They neither
    /// overlap nor touch.
    ranges: BTreeMap<Bytes, Option<Bytes>>,
    locks: BTreeMap<Bytes, Lock>,
}

/// What an attempt has read and locked.
#[derive(Debug, Default)]
pub(super) struct Seen {
    tables: BTreeMap<Name, SeenTable>,
    /// False if the attempt needs no locks.
    takes_locks: bool,
    reads: u32,
}

impl Seen {
    pub(super) fn new(takes_locks: bool) -> Self {
        Self {
            takes_locks,
            ..Self::default()
        }
    }

    /// The row; `Some(None)` if the database has no such row, and `None` if nothing was read there.
    fn row(&self, table: Name, key: &[u8]) -> Option<Option<&Bytes>> {
        let seen = self.tables.get(&table)?;
        match seen.rows.get(key) {
            Some(row) => Some(row.as_ref()),
            None => seen.until(key).is_some().then_some(None),
        }
    }

    /// The lock that the attempt has on a row.
    pub(super) fn lock(&self, table: Name, key: &[u8]) -> Lock {
        let seen = self.tables.get(&table);
        let held = seen.and_then(|seen| seen.locks.get(key));
        held.copied().unwrap_or(Lock::None)
    }

    /// True if a row is to be locked that is not.
    pub(super) fn lacks_locks(&self, wants: &[Want]) -> bool {
        self.takes_locks && wants.iter().any(|want| self.lacks_lock(want))
    }

    fn lacks_lock(&self, want: &Want) -> bool {
        match want {
            Want::Row { table, key, lock } => self.lock(*table, key) < *lock,
            Want::Rows { .. } => false,
        }
    }

    /// Notes that a read has ended.
    pub(super) const fn count_read(&mut self) {
        self.reads += 1;
    }

    /// Learns the answer to a want: the rows that were found for it.
    pub(super) fn learn<'r>(
        &mut self,
        want: &Want,
        found: impl Iterator<Item = (&'r Bytes, &'r Bytes)>,
    ) {
        match want {
            Want::Row { table, key, lock } => {
                let row = found.map(|(_, row)| row.clone()).next();
                let seen = self.tables.entry(*table).or_default();
                seen.rows.insert(key.clone(), row);
                if self.takes_locks && *lock > Lock::None {
                    let held = seen.locks.entry(key.clone()).or_insert(*lock);
                    *held = (*held).max(*lock);
                }
            }
            Want::Rows { table, keys, limit } => {
                let seen = self.tables.entry(*table).or_default();
                let (mut count, mut last) = (0, None);
                for (key, row) in found.take(*limit) {
                    seen.rows.insert(key.clone(), Some(row.clone()));
                    (count, last) = (count + 1, Some(key));
                }
                let to = match last {
                    Some(last) if count == *limit => Some(crate::codec::next(last)),
                    _ => keys.to.clone(),
                };
                seen.add_range(keys.from.clone(), to);
            }
        }
    }
}

impl SeenTable {
    /// Where the rows from `key` on, without a gap, end: `None` if nothing was read there, `Some(None)` for the end of the
    /// table.
    fn until(&self, key: &[u8]) -> Option<Option<&Bytes>> {
        let (_, to) = self.ranges.range::<[u8], _>(up_to(key)).next_back()?;
        let contains = to.as_ref().is_none_or(|to| key < to.as_slice());
        contains.then_some(to.as_ref())
    }

    /// True if a range that was read ends before `key`.
    fn ends_at(&self, key: &[u8]) -> bool {
        let before = self.ranges.range::<[u8], _>(up_to(key)).next_back();
        before.is_some_and(|(_, to)| to.as_deref() == Some(key))
    }

    fn add_range(&mut self, mut from: Bytes, mut to: Option<Bytes>) {
        loop {
            // The last range that does not begin behind the new one, which it overlaps or touches unless it ends before.
            let other = match &to {
                Some(to) => self.ranges.range::<[u8], _>(up_to(to)).next_back(),
                None => self.ranges.last_key_value(),
            };
            let Some((start, end)) =
                other.filter(|(_, end)| end.as_ref().is_none_or(|end| *end >= from))
            else {
                break;
            };
            let (start, end) = (start.clone(), end.clone());
            self.ranges.remove(&start);
            from = from.min(start);
            to = to.zip(end).map(|(to, end)| to.max(end));
        }
        self.ranges.insert(from, to);
    }
}

fn up_to(key: &[u8]) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Unbounded, Bound::Included(key))
}

/// A row as it was when the attempt read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Before {
    Unread,
    Absent,
    Row(Bytes),
}

/// A row that an operation puts, or removes (`None`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) table: Name,
    pub(super) key: Bytes,
    pub(super) before: Before,
    pub(super) row: Option<Bytes>,
    /// Of an entry of the feed: its place among those that the operation appended.
    pub(super) place: usize,
}

/// What an operation does to the database.
#[derive(Debug, Default)]
pub(super) struct Writes {
    /// By table and key.
    pub(super) rows: Vec<Write>,
    pub(super) audit: Vec<Entries>,
}

impl Writes {
    pub(super) const fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.audit.is_empty()
    }
}

/// What a run of an operation leaves.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// What the operation would read, and has not seen or locked.
    pub(super) wants: Vec<Want>,
    pub(super) writes: Writes,
    pub(super) notes: Vec<Note>,
}

impl Run {
    /// Reports what happened, after the commit.
    pub(super) fn report(&self) {
        self.notes.iter().for_each(Note::report);
    }
}

/// A transaction of an operation.
#[derive(Debug)]
pub(crate) struct View<'s> {
    seen: &'s Seen,
    longest_token: Duration,
    wants: Vec<Want>,
    writes: BTreeMap<Name, BTreeMap<Bytes, Option<Bytes>>>,
    /// The keys of entries of the feed, in the order in which they were appended.
    appended: Vec<Bytes>,
    audit: Vec<Entries>,
    notes: Vec<Note>,
}

impl<'s> View<'s> {
    pub(super) const fn new(seen: &'s Seen, longest_token: Duration) -> Self {
        Self {
            seen,
            longest_token,
            wants: Vec::new(),
            writes: BTreeMap::new(),
            appended: Vec::new(),
            audit: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(super) fn end(self) -> Run {
        let appended = self.appended.iter().enumerate();
        let places: HashMap<&Bytes, usize> = appended.map(|(place, key)| (key, place)).collect();
        let mut rows = Vec::new();
        for (table, writes) in self.writes {
            for (key, row) in writes {
                let before = match self.seen.row(table, &key) {
                    None => Before::Unread,
                    Some(before) if before == row.as_ref() => continue,
                    Some(None) => Before::Absent,
                    Some(Some(before)) => Before::Row(before.clone()),
                };
                let place = match table {
                    Name::revoked => places.get(&key).copied().unwrap_or_default(),
                    _ => 0,
                };
                rows.push(Write {
                    table,
                    key,
                    before,
                    row,
                    place,
                });
            }
        }
        Run {
            wants: self.wants,
            writes: Writes {
                rows,
                audit: self.audit,
            },
            notes: self.notes,
        }
    }

    /// The row as this operation sees it, or `None` if it was not read.
    fn row(&self, table: Name, key: &[u8]) -> Option<Option<&Bytes>> {
        let written = self.writes.get(&table).and_then(|rows| rows.get(key));
        match written {
            Some(row) => Some(row.as_ref()),
            None => self.seen.row(table, key),
        }
    }

    /// The rows of a range, or an error with the key from which on they were not read.
    fn rows(&self, table: Name, keys: &Keys, limit: usize) -> Result<Vec<(&Bytes, &Bytes)>, Bytes> {
        if keys.is_empty() || limit == 0 {
            return Ok(Vec::new());
        }
        let seen = self.seen.tables.get(&table);
        let Some(until) = seen.and_then(|seen| seen.until(&keys.from)) else {
            return Err(keys.from.clone());
        };
        let is_whole = match (until, &keys.to) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(until), Some(to)) => to <= until,
        };
        let to = if is_whole { keys.to.as_ref() } else { until };
        let bounds = (
            Bound::Included(keys.from.as_slice()),
            to.map_or(Bound::Unbounded, |to| Bound::Excluded(to.as_slice())),
        );
        let written = self.writes.get(&table).into_iter();
        let mut written = written
            .flat_map(|rows| rows.range::<[u8], _>(bounds))
            .peekable();
        let seen = seen.into_iter();
        let mut seen = seen
            .flat_map(|seen| seen.rows.range::<[u8], _>(bounds))
            .peekable();
        let mut found = Vec::new();
        while found.len() < limit {
            let next = match (written.peek(), seen.peek()) {
                (None, None) => break,
                (Some((ours, _)), Some((theirs, _))) if ours > theirs => seen.next(),
                (None, Some(_)) => seen.next(),
                (Some((ours, _)), theirs) => {
                    if theirs.is_some_and(|(theirs, _)| ours == theirs) {
                        seen.next();
                    }
                    written.next()
                }
            };
            found.extend(next.and_then(|(key, row)| Some((key, row.as_ref()?))));
        }
        if is_whole || found.len() == limit {
            return Ok(found);
        }
        Err(until.cloned().unwrap_or_default())
    }

    /// How many rows of a range are read at once.
    fn page(&self, table: Name, from: &[u8], limit: usize) -> usize {
        let seen = self.seen.tables.get(&table);
        if !seen.is_some_and(|seen| seen.ends_at(from)) {
            return limit.min(PAGE);
        }
        let growth = 4_usize.saturating_pow(self.seen.reads);
        PAGE.saturating_mul(growth).clamp(PAGE, LONGEST_PAGE)
    }
}

impl Read for View<'_> {
    fn get<T>(
        &mut self,
        table: Name,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        match self.row(table, key) {
            Some(row) => row.map(|row| read(row)).transpose(),
            None => {
                self.wants.push(Want::Row {
                    table,
                    key: key.to_vec(),
                    lock: Lock::None,
                });
                Err(Fault::Unread)
            }
        }
    }

    fn range(
        &mut self,
        table: Name,
        keys: &Keys,
        limit: usize,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        match self.rows(table, keys, limit) {
            Ok(rows) => rows.into_iter().try_for_each(|(key, row)| each(key, row)),
            Err(from) => {
                let limit = self.page(table, &from, limit);
                let to = keys.to.clone();
                self.wants.push(Want::Rows {
                    table,
                    keys: Keys { from, to },
                    limit,
                });
                Err(Fault::Unread)
            }
        }
    }

    fn ahead<I: IntoIterator<Item = Want>>(&mut self, wanted: impl FnOnce() -> I) {
        for mut want in wanted() {
            let is_seen = match &mut want {
                Want::Row { table, key, .. } => self.row(*table, key).is_some(),
                Want::Rows { table, keys, limit } => match self.rows(*table, keys, *limit) {
                    Ok(_) => true,
                    Err(from) => {
                        *limit = self.page(*table, &from, *limit);
                        keys.from = from;
                        false
                    }
                },
            };
            if !is_seen || (self.seen.takes_locks && self.seen.lacks_lock(&want)) {
                self.wants.push(want);
            }
        }
    }

    fn note(&mut self, note: Note) {
        self.notes.push(note);
    }

    fn longest_token(&self) -> Duration {
        self.longest_token
    }
}

impl Tx for View<'_> {
    fn put(&mut self, table: Name, key: &[u8], row: Bytes) -> Result<(), Fault> {
        let rows = self.writes.entry(table).or_default();
        rows.insert(key.to_vec(), Some(row));
        Ok(())
    }

    fn remove(&mut self, table: Name, key: &[u8]) -> Result<(), Fault> {
        let rows = self.writes.entry(table).or_default();
        rows.insert(key.to_vec(), None);
        Ok(())
    }

    fn append(&mut self, entry: Entry<'_>) -> Result<(), Fault> {
        match entry {
            Entry::Revoked(revoked, extent) => {
                let row = Announced::new(revoked, extent, None);
                let key = revoked.bytes().into_owned();
                self.put(REVOKED.name(), &key, row.encode()?)?;
                self.appended.push(key);
                Ok(())
            }
            Entry::Audit(entries) => {
                if !entries.events.is_empty() {
                    self.audit.push(entries.clone());
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Table = BTreeMap<Bytes, Bytes>;

    const TABLE: Name = Name::users;

    #[derive(Debug, Clone)]
    enum Step {
        Get(Bytes),
        Range(Keys, usize),
        Ahead(Keys, usize),
        Put(Bytes, Bytes),
        Remove(Bytes),
    }

    /// What a step returns.
    type Found = Vec<(Bytes, Bytes)>;

    fn run(view: &mut View<'_>, steps: &[Step]) -> Result<Vec<Found>, Fault> {
        steps
            .iter()
            .map(|step| {
                let mut found = Found::new();
                match step {
                    Step::Get(key) => {
                        let row = view.get(TABLE, key, |row| Ok(row.to_vec()))?;
                        found.extend(row.map(|row| (key.clone(), row)));
                    }
                    Step::Range(keys, limit) => view.range(TABLE, keys, *limit, |key, row| {
                        found.push((key.to_vec(), row.to_vec()));
                        Ok(())
                    })?,
                    Step::Ahead(keys, limit) => view.ahead(|| {
                        [Want::Rows {
                            table: TABLE,
                            keys: keys.clone(),
                            limit: *limit,
                        }]
                    }),
                    Step::Put(key, row) => view.put(TABLE, key, row.clone())?,
                    Step::Remove(key) => view.remove(TABLE, key)?,
                }
                Ok(found)
            })
            .collect()
    }

    /// The same steps on a map.
    fn expected(table: &mut Table, steps: &[Step]) -> Vec<Found> {
        let found = steps.iter().map(|step| match step {
            Step::Get(key) => {
                let row = table.get_key_value(key).into_iter();
                row.map(|(key, row)| (key.clone(), row.clone())).collect()
            }
            Step::Range(keys, limit) => {
                let found = rows(table, keys).take(*limit);
                found.map(|(key, row)| (key.clone(), row.clone())).collect()
            }
            Step::Ahead(..) => Found::new(),
            Step::Put(key, row) => {
                table.insert(key.clone(), row.clone());
                Found::new()
            }
            Step::Remove(key) => {
                table.remove(key);
                Found::new()
            }
        });
        found.collect()
    }

    fn rows<'t>(table: &'t Table, keys: &Keys) -> impl Iterator<Item = (&'t Bytes, &'t Bytes)> {
        let keys = keys.clone();
        let is_in =
            move |key: &Bytes| *key >= keys.from && keys.to.as_ref().is_none_or(|to| key < to);
        table.iter().filter(move |(key, _)| is_in(key))
    }

    /// Answers as the database does.
    fn answer(table: &Table, wants: &[Want], seen: &mut Seen) {
        for want in wants {
            match want {
                Want::Row { key, .. } => seen.learn(want, table.get_key_value(key).into_iter()),
                Want::Rows { keys, limit, .. } => {
                    seen.learn(want, rows(table, keys).take(*limit));
                }
            }
        }
        seen.count_read();
    }

    /// Runs steps until they have all that they want. Returns the number of reads too.
    fn complete(table: &Table, steps: &[Step]) -> (Vec<Found>, Writes, u32) {
        let mut seen = Seen::new(false);
        loop {
            let mut view = View::new(&seen, Duration::ZERO);
            let outcome = run(&mut view, steps);
            let end = view.end();
            match outcome {
                Ok(found) => return (found, end.writes, seen.reads),
                Err(Fault::Unread) => answer(table, &end.wants, &mut seen),
                Err(fault) => panic!("{fault}"),
            }
        }
    }

    fn key() -> impl Strategy<Value = Bytes> {
        prop::collection::vec(0..3_u8, 0..4)
    }

    fn keys() -> impl Strategy<Value = Keys> {
        (key(), prop::option::of(key())).prop_map(|(from, to)| Keys { from, to })
    }

    fn step() -> impl Strategy<Value = Step> {
        let row = || prop::collection::vec(any::<u8>(), 0..2);
        let limit = || prop_oneof![0..4_usize, Just(usize::MAX)];
        prop_oneof![
            key().prop_map(Step::Get),
            (keys(), limit()).prop_map(|(keys, limit)| Step::Range(keys, limit)),
            (keys(), limit()).prop_map(|(keys, limit)| Step::Ahead(keys, limit)),
            (key(), row()).prop_map(|(key, row)| Step::Put(key, row)),
            key().prop_map(Step::Remove),
        ]
    }

    proptest! {
        #[test]
        fn a_view_is_the_table_with_the_writes(
            table in prop::collection::btree_map(key(), prop::collection::vec(any::<u8>(), 0..2), 0..30),
            steps in prop::collection::vec(step(), 0..20),
        ) {
            let mut after = table.clone();
            let outcomes = expected(&mut after, &steps);
            let (found, writes, _) = complete(&table, &steps);
            prop_assert_eq!(found, outcomes);
            let mut written = table.clone();
            for write in writes.rows {
                let before = match written.get(&write.key) {
                    Some(row) => Before::Row(row.clone()),
                    None => Before::Absent,
                };
                prop_assert!(write.before == Before::Unread || write.before == before);
                prop_assert!(write.before == Before::Unread || written.get(&write.key) != write.row.as_ref());
                match write.row {
                    Some(row) => written.insert(write.key, row),
                    None => written.remove(&write.key),
                };
            }
            prop_assert_eq!(written, after);
        }
    }

    #[test]
    fn a_long_range_takes_few_reads() {
        let key = |index: u32| index.to_be_bytes().to_vec();
        let table: Table = (0..20_000)
            .map(|index| (key(index), Bytes::new()))
            .collect();
        let (found, _, reads) = complete(&table, &[Step::Range(Keys::all(), usize::MAX)]);
        assert_eq!((found[0].len(), reads), (20_000, 5));
        // Page by page, as an operation reads a range that it knows no end of.
        let steps: Vec<Step> = (0..40)
            .map(|page| match page {
                0 => Keys::all(),
                _ => Keys::all().behind(&key(page * 512 - 1)),
            })
            .map(|keys| Step::Range(keys, 512))
            .collect();
        let (found, _, reads) = complete(&table, &steps);
        assert_eq!((found.concat().len(), reads), (20_000, 5));
        let first = Step::Range(Keys::all(), 3);
        assert_eq!(complete(&table, &[first]).2, 1);
    }

    /// An operation that has read a row, and then wants to lock it, reads it again.
    #[test]
    fn a_lock_is_wanted_until_it_is_held() {
        let want = |lock| Want::Row {
            table: TABLE,
            key: b"ada".to_vec(),
            lock,
        };
        let wants = |seen: &Seen, lock| {
            let mut view = View::new(seen, Duration::ZERO);
            view.ahead(|| [want(lock)]);
            view.end().wants
        };
        let mut seen = Seen::new(true);
        let table = Table::new();
        answer(&table, &[want(Lock::None)], &mut seen);
        assert_eq!(wants(&seen, Lock::None), []);
        assert_eq!(wants(&seen, Lock::Share), [want(Lock::Share)]);
        assert!(seen.lacks_locks(&[want(Lock::Share)]));
        answer(&table, &[want(Lock::Own)], &mut seen);
        answer(&table, &[want(Lock::Share)], &mut seen);
        assert_eq!(wants(&seen, Lock::Own), []);
        assert!(!seen.lacks_locks(&[want(Lock::Own)]));
        // Guarded operations lock nothing.
        let mut seen = Seen::new(false);
        answer(&table, &[want(Lock::Own)], &mut seen);
        assert_eq!(wants(&seen, Lock::Own), []);
        assert!(!seen.lacks_locks(&[want(Lock::Own)]));
    }
}
