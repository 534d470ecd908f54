//! Attempts of operations, on tables of keys and rows.
//!
//! An operation runs on a [`View`] of the rows that were read. If it wants others, they are read, and it runs again. What it
//! writes is sent at the end. The first reads travel with the begin of the transaction, and the writes with its commit.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use super::connection::Pool;
use super::fault::Fault as DatabaseFault;
use super::lease::{self, Lease, Sent};
use super::measures::Measures;
use super::statements::{self, LARGEST, Statement, Waiting};
use super::turns::Turns;
use super::view::{Run, Seen, View, Writes};
use crate::StoreError;
use crate::codec::Bytes;
use crate::fault::Fault;
use crate::row::RowError;
use crate::tx::tables::Name;
use crate::tx::{Entries, Want};
use domain::random;
use system::OsRandom;

/// Maximum attempts of an operation, whose rows other operations change in the meantime.
pub(super) const ATTEMPTS: u32 = 20;

const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// How the statements of an operation belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// One statement without a transaction.
    Read,
    /// Reads in one snapshot.
    Snapshot,
    /// A transaction, which first locks what the operation wants locked. Each later statement sees what was committed before
    /// the locks.
    Owned,
}

impl Mode {
    const fn begin(self) -> Option<&'static str> {
        match self {
            Self::Read => None,
            Self::Snapshot => Some(SNAPSHOT),
            Self::Owned => Some("BEGIN"),
        }
    }

    const fn round_trips(self) -> u32 {
        match self {
            Self::Read => 1,
            Self::Snapshot | Self::Owned => 2,
        }
    }
}

/// Why an attempt ended.
#[derive(Debug)]
pub(super) enum Ended {
    Database(DatabaseFault),
    Operation(Fault),
    /// Another transaction was faster.
    Overtaken,
    /// The operation needs more than one statement.
    Widen,
}

impl From<DatabaseFault> for Ended {
    fn from(fault: DatabaseFault) -> Self {
        if fault.asks_again() || fault.collides() {
            return Self::Overtaken;
        }
        Self::Database(fault)
    }
}

impl From<RowError> for Ended {
    fn from(error: RowError) -> Self {
        Self::Operation(error.into())
    }
}

impl From<tokio_postgres::Error> for Ended {
    fn from(error: tokio_postgres::Error) -> Self {
        DatabaseFault::from(error).into()
    }
}

impl DatabaseFault {
    /// True if a row was not as the operation had read it.
    fn collides(&self) -> bool {
        matches!(
            self,
            Self::Database(error) if matches!(
                error.code(),
                Some(&SqlState::UNIQUE_VIOLATION | &SqlState::DIVISION_BY_ZERO)
            )
        )
    }
}

/// What a read found, by table and key.
#[derive(Debug, Default)]
pub(super) struct Answers(BTreeMap<Name, BTreeMap<Bytes, Bytes>>);

impl Answers {
    fn add(&mut self, tables: &[Name], rows: &[Row]) -> Result<(), Ended> {
        for row in rows {
            let index = usize::try_from(row.try_get::<_, i32>(0)?).unwrap_or(usize::MAX);
            let Some(table) = tables.get(index) else {
                continue;
            };
            let found = self.0.entry(*table).or_default();
            found.insert(row.try_get(1)?, row.try_get(2)?);
        }
        Ok(())
    }

    /// Teaches `seen` the answers to these wants. The rows of other wants do no harm: the rows of a range are
    /// the first of all rows in it.
    pub(super) fn teach(&self, wants: &[Want], seen: &mut Seen) {
        for want in wants {
            let (Want::Row { table, .. } | Want::Rows { table, .. }) = want;
            let found = self.0.get(table);
            match want {
                Want::Row { key, .. } => {
                    let row = found.and_then(|found| found.get_key_value(key));
                    seen.learn(want, row.into_iter());
                }
                Want::Rows { keys, .. } => {
                    let to = keys.to.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
                    let bounds = (Bound::Included(&keys.from), to);
                    let rows = found.map(|found| found.range::<Bytes, _>(bounds));
                    seen.learn(want, rows.into_iter().flatten());
                }
            }
        }
        seen.count_read();
    }
}

/// What all operations share.
pub(super) struct Core {
    pub(super) pool: Pool,
    /// Longest lifetime of tokens that may still be valid, in seconds.
    pub(super) longest_token: Arc<AtomicU64>,
    turns: Turns,
    pub(super) measures: Measures,
}

impl Core {
    pub(super) fn new(pool: Pool, longest_token: Arc<AtomicU64>) -> Self {
        Self {
            pool,
            longest_token,
            turns: Turns::default(),
            measures: Measures::default(),
        }
    }

    /// Runs an operation on what was seen.
    pub(super) fn run<T>(
        &self,
        seen: &Seen,
        operation: impl Fn(&mut View<'_>) -> Result<T, Fault>,
    ) -> (Result<T, Fault>, Run) {
        let longest = Duration::from_secs(self.longest_token.load(Ordering::Acquire));
        let mut view = View::new(seen, longest);
        let outcome = operation(&mut view);
        (outcome, view.end())
    }

    pub(super) async fn run_in<T>(
        &self,
        mode: Mode,
        name: &'static str,
        operation: impl Fn(&mut View<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        // What an operation wants first does not depend on what it reads.
        let seen = Seen::new(mode == Mode::Owned);
        let (outcome, run) = self.run(&seen, &operation);
        match outcome {
            Ok(outcome) if run.writes.is_empty() && !seen.lacks_locks(&run.wants) => {
                run.report();
                return Ok(outcome);
            }
            Ok(_) | Err(Fault::Unread) => {}
            Err(fault) => return Err(fault.into()),
        }
        let turn = match mode {
            Mode::Owned => self.turns.queue(&run.wants),
            Mode::Read | Mode::Snapshot => None,
        };
        let _turn = match &turn {
            Some(turn) => Some(turn.wait().await?),
            None => None,
        };
        let (mut mode, mut sent) = (mode, Sent::default());
        for attempt in 0..ATTEMPTS {
            pause(attempt).await?;
            let ended = match self.attempt(mode, &run.wants, &operation, &mut sent).await {
                Ok(outcome) => {
                    self.measures
                        .note(name, attempt + 1, sent, mode.round_trips());
                    return Ok(outcome);
                }
                Err(ended) => ended,
            };
            match ended {
                Ended::Overtaken => {}
                Ended::Widen => mode = Mode::Snapshot,
                Ended::Operation(fault) => return Err(fault.into()),
                Ended::Database(fault) => return Err(fault.into()),
            }
        }
        Err(StoreError::Overloaded)
    }

    async fn attempt<T>(
        &self,
        mode: Mode,
        wants: &[Want],
        operation: impl Fn(&mut View<'_>) -> Result<T, Fault>,
        sent: &mut Sent,
    ) -> Result<T, Ended> {
        let outcome = match Lease::new(&self.pool).await {
            Ok(mut lease) => {
                let outcome = self.attempt_on(&mut lease, mode, wants, operation).await;
                sent.add(lease.sent);
                match &outcome {
                    Err(Ended::Database(fault)) => lease.close(&self.pool, fault),
                    Err(_) => drop(lease.roll_back().await),
                    Ok(_) => {}
                }
                outcome
            }
            Err(fault) => Err(Ended::Database(fault)),
        };
        match &outcome {
            Ok(_) => lease::note(&self.pool, None),
            Err(Ended::Database(fault)) => lease::note(&self.pool, Some(fault)),
            Err(_) => {}
        }
        outcome
    }

    async fn attempt_on<T>(
        &self,
        lease: &mut Lease,
        mode: Mode,
        wants: &[Want],
        operation: impl Fn(&mut View<'_>) -> Result<T, Fault>,
    ) -> Result<T, Ended> {
        let takes_locks = mode == Mode::Owned;
        let mut seen = Seen::new(takes_locks);
        let mut wants = Cow::Borrowed(wants);
        loop {
            if !wants.is_empty() {
                let begin = mode.begin().filter(|_| !lease.is_open());
                let answers = fetch(lease, begin, takes_locks, wants.iter()).await?;
                answers.teach(&wants, &mut seen);
            }
            let (outcome, run) = self.run(&seen, &operation);
            match outcome {
                Ok(outcome) if !seen.lacks_locks(&run.wants) => {
                    #[cfg(test)]
                    super::owners::assert_owned(&seen, &run.writes.rows);
                    #[cfg(test)]
                    super::owners::assert_locked(&seen, &run.writes.rows);
                    finish(lease, &run.writes).await?;
                    run.report();
                    return Ok(outcome);
                }
                Ok(_) | Err(Fault::Unread) if mode == Mode::Read => return Err(Ended::Widen),
                Ok(_) | Err(Fault::Unread) => wants = Cow::Owned(run.wants),
                Err(fault) => return Err(Ended::Operation(fault)),
            }
        }
    }
}

/// Reads rows in one round trip, in which a transaction may begin. Locks come first.
pub(super) async fn fetch<'w>(
    lease: &mut Lease,
    begin: Option<&'static str>,
    takes_locks: bool,
    wants: impl Iterator<Item = &'w Want>,
) -> Result<Answers, Ended> {
    let statements = statements::reads(wants, takes_locks);
    let found = lease.exchange(begin, &statements, false).await?;
    let mut answers = Answers::default();
    for (statement, rows) in statements.iter().zip(found) {
        answers.add(&statement.tables, &rows?)?;
    }
    Ok(answers)
}

/// Sends the writes of an operation, with the commit of its transaction behind.
async fn finish(lease: &mut Lease, writes: &Writes) -> Result<(), Ended> {
    let audit = waiting(&writes.audit)?;
    let (mut rows, mut entries) = (writes.rows.chunks(LARGEST), audit.chunks(LARGEST));
    let parts = std::iter::from_fn(|| {
        let (rows, entries) = (rows.next(), entries.next());
        statements::writes(rows.unwrap_or_default(), entries.unwrap_or_default())
    });
    let parts: Vec<Statement<'_>> = parts.collect();
    if parts.is_empty() {
        lease.leave();
        return Ok(());
    }
    let begin = (parts.len() > 1 && !lease.is_open()).then_some("BEGIN");
    let commit = lease.is_open() || begin.is_some();
    for written in lease.exchange(begin, &parts, commit).await? {
        written?;
    }
    Ok(())
}

/// The entries of an operation, as a batch of the audit log.
pub(super) fn waiting(audit: &[Entries]) -> Result<Vec<Waiting>, Ended> {
    if audit.is_empty() {
        return Ok(Vec::new());
    }
    let batch = random::bytes(&OsRandom).map_err(DatabaseFault::from)?;
    let events = audit.iter().flat_map(|entries| &*entries.events);
    Ok(Waiting::all(batch, events)?)
}

/// Waits before the third attempt and those after it, the longer the more there were.
pub(super) async fn pause(attempt: u32) -> Result<(), StoreError> {
    if attempt < 2 {
        return Ok(());
    }
    let random = random::bytes(&OsRandom).map(u16::from_le_bytes);
    let share = u32::from(random.map_err(DatabaseFault::from)?);
    let most = Duration::from_millis(attempt.into());
    #[expect(
        clippy::disallowed_methods,
        reason = "nothing tells when the others are done"
    )]
    tokio::time::sleep(most * share / u32::from(u16::MAX)).await;
    Ok(())
}
