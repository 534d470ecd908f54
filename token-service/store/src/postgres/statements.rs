//! The statements of the [engine](super::engine): one for all locks, one for all other reads, and one for all writes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use tokio_postgres::types::ToSql;

use super::feed::now;
use super::value::{rows, seconds};
use super::view::{Before, Write};
use crate::codec::{Bytes, Keys};
use crate::row::{RowError, encode};
use crate::tx::tables::Name;
use crate::tx::{Lock, Want};
use domain::AuditEvent;

/// Maximum number of keys, ranges or rows of a statement. Operations may read and write more.
pub(super) const LARGEST: usize = 8192;

/// A value of a statement.
#[derive(Debug, Clone)]
pub(super) enum Value<'a> {
    Bytes(&'a [u8]),
    Number(i64),
    AllBytes(Vec<&'a [u8]>),
    Numbers(Vec<i64>),
}

/// A statement that is prepared once for each of its forms.
#[derive(Debug, Default)]
pub(super) struct Statement<'a> {
    pub(super) sql: String,
    values: Vec<Value<'a>>,
    /// Of reads: the tables of the rows, whose first column is the index.
    pub(super) tables: Vec<Name>,
}

impl<'a> Statement<'a> {
    pub(super) fn values(&self) -> Vec<&(dyn ToSql + Sync)> {
        let values = self.values.iter().map(|value| match value {
            Value::Bytes(bytes) => bytes as &(dyn ToSql + Sync),
            Value::Number(number) => number,
            Value::AllBytes(all) => all,
            Value::Numbers(all) => all,
        });
        values.collect()
    }

    /// The placeholder of a value.
    fn value(&mut self, value: Value<'a>) -> String {
        let sql_type = match value {
            Value::Bytes(_) => "BYTEA",
            Value::Number(_) => "BIGINT",
            Value::AllBytes(_) => "BYTEA[]",
            Value::Numbers(_) => "BIGINT[]",
        };
        self.values.push(value);
        format!("${}::{sql_type}", self.values.len())
    }

    /// Adds rows of a table to what the statement reads.
    fn branch(&mut self, table: Name, rows: &str) {
        if !self.tables.is_empty() {
            self.sql.push_str(" UNION ALL ");
        }
        let index = self.tables.len();
        self.tables.push(table);
        // Writing to a string cannot fail.
        let _ = write!(self.sql, "SELECT {index}, k, v FROM ({rows}) AS t{index}");
    }
}

/// Statements of at most [`LARGEST`] keys and ranges.
#[derive(Debug, Default)]
struct Filled<'a> {
    full: Vec<Statement<'a>>,
    last: Statement<'a>,
    /// Of the last one.
    keys: usize,
}

impl<'a> Filled<'a> {
    fn with_room_for(&mut self, keys: usize) -> &mut Statement<'a> {
        if self.keys + keys > LARGEST {
            self.full.push(std::mem::take(&mut self.last));
            self.keys = 0;
        }
        self.keys += keys;
        &mut self.last
    }

    fn all(self) -> impl Iterator<Item = Statement<'a>> {
        let all = self.full.into_iter().chain([self.last]);
        all.filter(|statement| !statement.tables.is_empty())
    }
}

/// Locks and reads what is to be locked, in the order of tables and keys, and then reads the rest. The later statements see
/// what was committed before the locks.
pub(super) fn reads<'a>(
    wants: impl Iterator<Item = &'a Want>,
    takes_locks: bool,
) -> Vec<Statement<'a>> {
    let mut keys = BTreeMap::<(Name, Lock), BTreeSet<&[u8]>>::new();
    let mut ranges = BTreeMap::<Name, BTreeSet<(&Keys, usize)>>::new();
    for want in wants {
        match want {
            Want::Row { table, key, lock } => {
                let lock = if takes_locks { *lock } else { Lock::None };
                keys.entry((*table, lock)).or_default().insert(key);
            }
            Want::Rows { table, keys, limit } => {
                ranges.entry(*table).or_default().insert((keys, *limit));
            }
        }
    }
    let (mut locks, mut reads) = (Filled::default(), Filled::default());
    for ((table, lock), keys) in keys {
        let (statements, behind) = match lock {
            Lock::None => (&mut reads, ""),
            Lock::Share => (&mut locks, " ORDER BY k FOR SHARE"),
            Lock::Own => (&mut locks, " ORDER BY k FOR UPDATE"),
        };
        let keys: Vec<&[u8]> = keys.into_iter().collect();
        for keys in keys.chunks(LARGEST) {
            let statement = statements.with_room_for(keys.len());
            let keys = statement.value(Value::AllBytes(keys.to_vec()));
            let name = table.text();
            let rows = format!("SELECT k, v FROM {name} WHERE k = ANY({keys}){behind}");
            statement.branch(table, &rows);
        }
    }
    for (table, ranges) in ranges {
        let (bounded, open): (Vec<_>, Vec<_>) =
            ranges.into_iter().partition(|(keys, _)| keys.to.is_some());
        match bounded.as_slice() {
            [] => {}
            [(keys, limit)] => range(reads.with_room_for(1), table, keys, *limit),
            _ => {
                for part in bounded.chunks(LARGEST) {
                    bounded_ranges(reads.with_room_for(part.len()), table, part);
                }
            }
        }
        for (keys, limit) in open {
            range(reads.with_room_for(1), table, keys, limit);
        }
    }
    locks.all().chain(reads.all()).collect()
}

fn range<'a>(statement: &mut Statement<'a>, table: Name, keys: &'a Keys, limit: usize) {
    let from = statement.value(Value::Bytes(&keys.from));
    let mut bounds = format!("k >= {from}");
    if let Some(to) = &keys.to {
        let to = statement.value(Value::Bytes(to));
        bounds += &format!(" AND k < {to}");
    }
    let limit = statement.value(Value::Number(rows(limit)));
    let name = table.text();
    statement.branch(
        table,
        &format!("SELECT k, v FROM {name} WHERE {bounds} ORDER BY k LIMIT {limit}"),
    );
}

/// Several ranges of a table. The statement is the same for every number of ranges.
fn bounded_ranges<'a>(statement: &mut Statement<'a>, table: Name, ranges: &[(&'a Keys, usize)]) {
    let from = ranges
        .iter()
        .map(|(keys, _)| keys.from.as_slice())
        .collect();
    let to = ranges
        .iter()
        .filter_map(|(keys, _)| keys.to.as_deref())
        .collect();
    let limits = ranges.iter().map(|(_, limit)| rows(*limit)).collect();
    let from = statement.value(Value::AllBytes(from));
    let to = statement.value(Value::AllBytes(to));
    let limits = statement.value(Value::Numbers(limits));
    let name = table.text();
    statement.branch(
        table,
        &format!(
            "SELECT found.k, found.v FROM unnest({from}, {to}, {limits}) AS wanted (from_key, to_key, most),
            LATERAL (SELECT k, v FROM {name} WHERE k >= wanted.from_key AND k < wanted.to_key
                ORDER BY k LIMIT wanted.most) AS found"
        ),
    );
}

/// What a write does, which decides how it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Replaces a row that is as it was read.
    Replace,
    /// Adds a row whose key had none.
    Insert,
    /// Removes a row that is as it was read.
    Remove,
    /// Writes a row, whatever was there.
    Put,
    /// Removes what was there.
    Delete,
}

impl Kind {
    const fn of(write: &Write) -> Self {
        match (&write.before, &write.row) {
            (Before::Row(_), Some(_)) => Self::Replace,
            (Before::Row(_), None) => Self::Remove,
            (Before::Absent, Some(_)) => Self::Insert,
            (Before::Unread, Some(_)) => Self::Put,
            (Before::Unread | Before::Absent, None) => Self::Delete,
        }
    }
}

/// An entry of the audit log, before it has its place in the log.
#[derive(Debug)]
pub(super) struct Waiting {
    batch: [u8; 16],
    place: i64,
    kind: i64,
    expires_at: i64,
    body: Bytes,
}

impl Waiting {
    /// `batch` is random.
    pub(super) fn all<'e>(
        batch: [u8; 16],
        events: impl Iterator<Item = &'e AuditEvent>,
    ) -> Result<Vec<Self>, RowError> {
        let entries = (0..).zip(events).map(|(place, event)| {
            Ok(Self {
                batch,
                place,
                kind: event.action.kind().number().into(),
                expires_at: seconds(event.expires_at),
                body: encode(event)?,
            })
        });
        entries.collect()
    }
}

/// The writes of an operation. They depend on one row, the guard, which must be as the operation has read it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guarded<'a> {
    pub(super) guard: &'a Write,
    /// With the guard.
    pub(super) rows: &'a [Write],
    pub(super) audit: &'a [Waiting],
}

/// Writes rows. A row that is not as it was read makes the statement fail, with `unique_violation` or `division_by_zero`.
/// `None` if there is nothing to write.
pub(super) fn writes<'a>(rows: &'a [Write], audit: &'a [Waiting]) -> Option<Statement<'a>> {
    let mut parts = Parts::default();
    parts.write(rows.iter().map(|write| (write, &[] as &[u8])));
    parts.wait(audit.iter().map(|entry| (entry, &[] as &[u8])));
    if parts.expressions.is_empty() {
        return None;
    }
    let check = parts.check().unwrap_or_else(|| "1".to_owned());
    Some(parts.with(&format!("SELECT {check}")))
}

/// Writes the rows of those operations whose guards, rows of `table`, are as they were read. Returns the keys of these guards.
/// Fails as [`writes`] if another row of such an operation is not as it was read. The operations are sorted by the keys of their
/// guards, so that statements lock in one order.
pub(super) fn guarded<'a>(table: Name, operations: &[Guarded<'a>]) -> Statement<'a> {
    let mut guards = BTreeMap::<Kind, Vec<&Write>>::new();
    for Guarded { guard, .. } in operations {
        guards.entry(Kind::of(guard)).or_default().push(guard);
    }
    let mut parts = Parts::default();
    for (kind, guards) in &guards {
        parts.guard(table, *kind, guards);
    }
    let dependent = operations.iter().flat_map(|operation| {
        let guard = operation.guard;
        let rows = operation.rows.iter().filter(move |row| *row != guard);
        rows.map(move |row| (row, guard.key.as_slice()))
    });
    let mut dependent: Vec<_> = dependent.collect();
    dependent.sort_unstable_by_key(|(row, _)| (row.table, row.key.as_slice()));
    let audit = operations.iter().flat_map(|operation| {
        let entries = operation.audit.iter();
        entries.map(|entry| (entry, operation.guard.key.as_slice()))
    });
    let audit: Vec<_> = audit.collect();
    if dependent.is_empty()
        && audit.is_empty()
        && let [(_, guard)] = parts.expressions.as_slice()
    {
        parts.statement.sql = guard.clone();
        return parts.statement;
    }
    parts.tie();
    parts.write(dependent.into_iter());
    parts.wait(audit.into_iter());
    let check = parts.check();
    let check = check.map_or_else(String::new, |check| format!(" WHERE {check} = 1"));
    parts.with(&format!("SELECT k FROM done{check}"))
}

/// The parts of a statement that writes.
#[derive(Debug, Default)]
struct Parts<'a> {
    statement: Statement<'a>,
    /// Common table expressions, each behind its name.
    expressions: Vec<(String, String)>,
    /// True if the parts depend on the guards, which are in `done`.
    is_tied: bool,
    /// The numbers of written rows, for rows that must be as they were read.
    written: Vec<String>,
    /// The numbers that these must be.
    expected: Vec<String>,
}

/// Columns of the rows that a part writes.
#[derive(Debug, Default)]
struct Columns<'a> {
    keys: Vec<&'a [u8]>,
    rows: Vec<&'a [u8]>,
    before: Vec<&'a [u8]>,
    /// Microseconds by which an entry of the feed waits behind the first.
    places: Vec<i64>,
    /// The keys of the guards.
    guards: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    fn add(&mut self, write: &'a Write, guard: &'a [u8]) {
        self.keys.push(&write.key);
        self.rows.extend(write.row.as_deref());
        if let Before::Row(before) = &write.before {
            self.before.push(before);
        }
        self.places.push(rows(write.place));
        self.guards.push(guard);
    }
}

/// Microseconds since 1970.
const NOW: &str = now!();

impl<'a> Parts<'a> {
    /// Adds the guards of one kind.
    fn guard(&mut self, table: Name, kind: Kind, guards: &[&'a Write]) {
        let mut columns = Columns::default();
        for guard in guards {
            columns.add(guard, &[]);
        }
        let sql = self.writing(table, kind, columns);
        let name = table.text();
        let more = match kind {
            // Of two operations that add the same row, one does.
            Kind::Insert => " ON CONFLICT (k) DO NOTHING".to_owned(),
            // A row that another transaction has locked is left to its own operation, and keeps no other one waiting.
            Kind::Replace | Kind::Remove if guards.len() > 1 => {
                let keys = guards.iter().map(|guard| guard.key.as_slice());
                let keys = self.statement.value(Value::AllBytes(keys.collect()));
                format!(
                    " AND {name}.k IN (WITH free AS (
                        SELECT k FROM {name} WHERE k = ANY({keys}) ORDER BY k FOR UPDATE SKIP LOCKED
                    ) SELECT k FROM free)"
                )
            }
            _ => String::new(),
        };
        self.add(format!("{sql}{more} RETURNING {name}.k"));
    }

    /// Makes what follows depend on the guards.
    fn tie(&mut self) {
        let guards = self.expressions.iter();
        let guards: Vec<String> = guards
            .map(|(name, _)| format!("SELECT k FROM {name}"))
            .collect();
        self.expressions
            .push(("done".to_owned(), guards.join(" UNION ALL ")));
        self.is_tied = true;
    }

    fn add(&mut self, sql: String) {
        self.expressions.push((self.next_name(), sql));
    }

    fn next_name(&self) -> String {
        format!("w{}", self.expressions.len())
    }

    /// Adds writes, each with the key of its guard.
    fn write(&mut self, writes: impl Iterator<Item = (&'a Write, &'a [u8])>) {
        let mut groups = BTreeMap::<(Name, Kind), Columns<'a>>::new();
        for (write, guard) in writes {
            let group = groups.entry((write.table, Kind::of(write))).or_default();
            group.add(write, guard);
        }
        for ((table, kind), columns) in groups {
            let (count, guards) = (columns.keys.len(), columns.guards.clone());
            let sql = self.writing(table, kind, columns);
            let sql = match kind {
                Kind::Replace | Kind::Remove => {
                    let written = format!("(SELECT count(*) FROM {})", self.next_name());
                    self.written.push(written);
                    let expected = self.expect(count, guards);
                    self.expected.push(expected);
                    format!("{sql} RETURNING 1")
                }
                Kind::Put if table == Name::revoked => format!(
                    "{sql} ON CONFLICT (k) DO UPDATE SET v = excluded.v, waits_since = excluded.waits_since"
                ),
                Kind::Put => format!("{sql} ON CONFLICT (k) DO UPDATE SET v = excluded.v"),
                Kind::Insert | Kind::Delete => sql,
            };
            self.add(sql);
        }
    }

    /// The number of rows of `count` that are to be written: those whose guards were.
    fn expect(&mut self, count: usize, guards: Vec<&'a [u8]>) -> String {
        if !self.is_tied {
            return self.statement.value(Value::Number(rows(count)));
        }
        let guards = self.statement.value(Value::AllBytes(guards));
        let done = self.done();
        format!("(SELECT count(*) FROM unnest({guards}) AS n (guard) WHERE TRUE{done})")
    }

    /// The condition that the guard of a row was written.
    fn done(&self) -> &'static str {
        if self.is_tied {
            " AND n.guard IN (SELECT k FROM done)"
        } else {
            ""
        }
    }

    /// The statement that writes these rows.
    fn writing(&mut self, table: Name, kind: Kind, columns: Columns<'a>) -> String {
        let mut names = vec!["k"];
        let mut values = vec![self.statement.value(Value::AllBytes(columns.keys))];
        if !columns.rows.is_empty() {
            names.push("v");
            values.push(self.statement.value(Value::AllBytes(columns.rows)));
        }
        if !columns.before.is_empty() {
            names.push("before");
            values.push(self.statement.value(Value::AllBytes(columns.before)));
        }
        // Only the feed has entries that wait for a position.
        let waits =
            table == Name::revoked && matches!(kind, Kind::Replace | Kind::Insert | Kind::Put);
        if waits {
            names.push("place");
            values.push(self.statement.value(Value::Numbers(columns.places)));
        }
        if self.is_tied {
            names.push("guard");
            values.push(self.statement.value(Value::AllBytes(columns.guards)));
        }
        let new = format!("unnest({}) AS n ({})", values.join(", "), names.join(", "));
        let (name, done) = (table.text(), self.done());
        match kind {
            Kind::Replace => {
                let waits = match waits {
                    true => format!(", waits_since = {NOW} + n.place"),
                    false => String::new(),
                };
                format!(
                    "UPDATE {name} SET v = n.v{waits} FROM {new} WHERE {name}.k = n.k AND {name}.v = n.before{done}"
                )
            }
            Kind::Insert | Kind::Put => {
                let (column, now) = match waits {
                    true => (", waits_since", format!(", {NOW} + n.place")),
                    false => ("", String::new()),
                };
                format!(
                    "INSERT INTO {name} (k, v{column}) SELECT n.k, n.v{now} FROM {new} WHERE TRUE{done}"
                )
            }
            Kind::Remove => {
                format!(
                    "DELETE FROM {name} USING {new} WHERE {name}.k = n.k AND {name}.v = n.before{done}"
                )
            }
            Kind::Delete => format!("DELETE FROM {name} USING {new} WHERE {name}.k = n.k{done}"),
        }
    }

    /// Adds entries that wait for their place in the audit log, each with the key of its guard.
    fn wait(&mut self, entries: impl Iterator<Item = (&'a Waiting, &'a [u8])>) {
        let (mut batches, mut bodies, mut guards) = (Vec::new(), Vec::new(), Vec::new());
        let (mut places, mut kinds, mut expiries) = (Vec::new(), Vec::new(), Vec::new());
        for (entry, guard) in entries {
            batches.push(entry.batch.as_slice());
            places.push(entry.place);
            kinds.push(entry.kind);
            expiries.push(entry.expires_at);
            bodies.push(entry.body.as_slice());
            guards.push(guard);
        }
        if places.is_empty() {
            return;
        }
        let statement = &mut self.statement;
        let mut values = vec![
            statement.value(Value::AllBytes(batches)),
            statement.value(Value::Numbers(places)),
            statement.value(Value::Numbers(kinds)),
            statement.value(Value::Numbers(expiries)),
            statement.value(Value::AllBytes(bodies)),
        ];
        let mut names = "batch, place, kind, expires_at, body".to_owned();
        if self.is_tied {
            values.push(statement.value(Value::AllBytes(guards)));
            names.push_str(", guard");
        }
        let (values, done) = (values.join(", "), self.done());
        self.add(format!(
            "INSERT INTO audit_waiting (batch, place, waits_since, kind, expires_at, body)
            SELECT n.batch, n.place, {NOW}, n.kind, n.expires_at, n.body FROM unnest({values}) AS n ({names})
            WHERE TRUE{done}"
        ));
    }

    /// An expression that is 1, or fails if a row was not as it was read. `None` if no row had to be.
    fn check(&self) -> Option<String> {
        let (written, expected) = (self.written.join(" + "), self.expected.join(" + "));
        (!written.is_empty())
            .then(|| format!("1 / CASE WHEN {written} = {expected} THEN 1 ELSE 0 END"))
    }

    /// The statement, with `last` behind the parts.
    fn with(mut self, last: &str) -> Statement<'a> {
        let mut sql = String::with_capacity(1024);
        for (index, (name, expression)) in self.expressions.iter().enumerate() {
            let before = if index == 0 { "WITH" } else { "," };
            // Writing to a string cannot fail.
            let _ = write!(sql, "{before} {name} AS ({expression})");
        }
        let _ = write!(sql, " {last}");
        self.statement.sql = sql;
        self.statement
    }
}
