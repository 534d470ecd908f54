//! Operations that share their statements, so that their rate does not depend on the distance to the database.
//!
//! Each reads few rows, and writes nothing or replaces one row, its guard, if this row is as the operation has read it. What
//! else the operation writes depends on its guard. An operation whose guard has changed in the meantime runs
//! again, first with others, then without.

use std::collections::{BTreeMap, HashSet};
use std::slice;
use std::sync::{Arc, Mutex, PoisonError};

use super::attempt::{ATTEMPTS, Core, Ended, fetch, pause, waiting};
use super::fault::Fault as DatabaseFault;
use super::gathered::Gathered;
use super::lease::{self, Lease, Sent};
use super::statements::{self, Guarded, Statement};
use super::view::{Before, Run, Seen, View, Write};
use crate::StoreError;
use crate::fault::Fault;
use crate::tx::Want;
use crate::tx::tables::Name;

/// Maximum number of reads of an operation. Each sees what was committed before it.
const READS: u32 = 3;

/// An operation that keeps its outcome for itself.
struct Part {
    name: &'static str,
    #[expect(clippy::type_complexity, reason = "used once")]
    operation: Box<dyn Fn(&mut View<'_>) -> Result<(), Fault> + Send + Sync>,
}

enum Settled {
    Done,
    /// Nothing was written, because another operation was faster.
    Overtaken,
    Failed(StoreError),
}

/// Operations of one kind: a slow kind does not keep others waiting.
pub(super) struct Together {
    gathered: Gathered<Arc<Part>, Settled>,
    /// The round trips of an operation that does not run again.
    round_trips: u32,
}

impl Together {
    pub(super) fn new(round_trips: u32) -> Self {
        Self {
            gathered: Gathered::default(),
            round_trips,
        }
    }

    pub(super) async fn run<T: Send + 'static>(
        &self,
        core: &Arc<Core>,
        name: &'static str,
        operation: impl Fn(&mut View<'_>) -> Result<T, Fault> + Send + Sync + 'static,
    ) -> Result<T, StoreError> {
        let outcome = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&outcome);
        let part = Arc::new(Part {
            name,
            operation: Box::new(move |view| {
                let done = operation(view)?;
                *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
                Ok(())
            }),
        });
        let round_trips = self.round_trips;
        let run = |parts: Vec<Arc<Part>>| {
            let core = Arc::clone(core);
            async move { core.together(&parts, round_trips).await }
        };
        for attempt in 0..ATTEMPTS {
            pause(attempt).await?;
            let settled = match attempt {
                // Many that write the same row would otherwise take all connections.
                0 | 1 => self.gathered.run(Arc::clone(&part), &run).await?,
                _ => {
                    let alone = core.together(slice::from_ref(&part), round_trips).await?;
                    alone.into_iter().next().unwrap_or(Settled::Overtaken)
                }
            };
            match settled {
                Settled::Done => {
                    let missing = || StoreError::Failed("an operation left no outcome".into());
                    let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
                    return outcome.take().ok_or_else(missing);
                }
                Settled::Failed(error) => return Err(error),
                Settled::Overtaken => {}
            }
        }
        Err(StoreError::Overloaded)
    }
}

/// An operation, and how far it is.
struct Member<'p> {
    part: &'p Part,
    seen: Seen,
    state: State,
}

enum State {
    /// What the operation wants to read before it runs.
    Asks(Vec<Want>),
    /// What the operation wants to write.
    Ready(Run),
    Settled(Settled),
}

impl<'p> Member<'p> {
    fn new(part: &'p Part) -> Self {
        Self {
            part,
            seen: Seen::new(false),
            state: State::Asks(Vec::new()),
        }
    }

    fn wants(&self) -> &[Want] {
        match &self.state {
            State::Asks(wants) => wants,
            State::Ready(_) | State::Settled(_) => &[],
        }
    }

    fn run(&mut self, core: &Core) {
        let State::Asks(_) = &self.state else {
            return;
        };
        let (outcome, run) = core.run(&self.seen, &self.part.operation);
        self.state = match outcome {
            Ok(()) => State::Ready(run),
            Err(Fault::Unread) => State::Asks(run.wants),
            Err(fault) => State::Settled(Settled::Failed(fault.into())),
        };
    }
}

impl Core {
    /// Runs operations. Returns what became of each.
    async fn together(
        &self,
        parts: &[Arc<Part>],
        round_trips: u32,
    ) -> Result<Vec<Settled>, StoreError> {
        let mut members: Vec<Member<'_>> = parts.iter().map(|part| Member::new(part)).collect();
        let (outcome, sent) = match Lease::new(&self.pool).await {
            Ok(mut lease) => {
                let outcome = self.together_on(&mut lease, &mut members).await;
                let sent = lease.sent;
                if let Ok((_, Some(fault))) | Err(Ended::Database(fault)) = &outcome {
                    lease.close(&self.pool, fault);
                }
                (outcome, sent)
            }
            Err(fault) => (Err(Ended::Database(fault)), Sent::default()),
        };
        match outcome {
            Ok((settled, fault)) => {
                lease::note(&self.pool, fault.as_ref());
                for (part, settled) in parts.iter().zip(&settled) {
                    if let Settled::Done = settled {
                        self.measures.note(part.name, 1, sent, round_trips);
                    }
                }
                Ok(settled)
            }
            Err(Ended::Overtaken | Ended::Widen) => {
                Ok(parts.iter().map(|_| Settled::Overtaken).collect())
            }
            Err(Ended::Operation(fault)) => Err(fault.into()),
            Err(Ended::Database(fault)) => {
                lease::note(&self.pool, Some(&fault));
                Err(fault.into())
            }
        }
    }

    /// Returns what became of each, and a fault that some of them have met.
    async fn together_on(
        &self,
        lease: &mut Lease,
        members: &mut [Member<'_>],
    ) -> Result<(Vec<Settled>, Option<DatabaseFault>), Ended> {
        members.iter_mut().for_each(|member| member.run(self));
        for _ in 0..READS {
            if members.iter().all(|member| member.wants().is_empty()) {
                break;
            }
            let wants = members.iter().flat_map(Member::wants);
            let answers = match fetch(lease, None, false, wants).await {
                Err(Ended::Database(fault)) if members.len() > 1 && fault.is_of_statement() => {
                    return Err(Ended::Overtaken);
                }
                answers => answers?,
            };
            for member in &mut *members {
                if let State::Asks(wants) = &member.state {
                    answers.teach(wants, &mut member.seen);
                }
                member.run(self);
            }
        }
        let (written, fault) = write(lease, members).await?;
        let settled = members.iter_mut().zip(written).map(|(member, written)| {
            let state = std::mem::replace(&mut member.state, State::Asks(Vec::new()));
            match state {
                State::Ready(run) => {
                    if let Settled::Done = written {
                        run.report();
                    }
                    written
                }
                // An operation that still asks runs again too.
                State::Asks(_) => Settled::Overtaken,
                State::Settled(settled) => settled,
            }
        });
        Ok((settled.collect(), fault))
    }
}

/// The index of an operation, and its guard if it has one.
type Caller<'a> = (usize, Option<&'a Write>);

/// Writes what the operations want to write, if their guards are as they were read. Returns what became of each, and a fault that
/// some of them have met. An operation whose share of a statement may be at fault runs again without the others, but not if its
/// outcome is unknown.
async fn write(
    lease: &mut Lease,
    members: &[Member<'_>],
) -> Result<(Vec<Settled>, Option<DatabaseFault>), Ended> {
    let mut written: Vec<Settled> = members.iter().map(|_| Settled::Overtaken).collect();
    let audit = members.iter().map(|member| match &member.state {
        State::Ready(run) => waiting(&run.writes.audit),
        State::Asks(_) | State::Settled(_) => Ok(Vec::new()),
    });
    let audit = audit.collect::<Result<Vec<_>, _>>()?;
    let mut taken = HashSet::new();
    // By the keys of the guards, so that batches lock in one order.
    let mut groups = BTreeMap::<Name, BTreeMap<&[u8], (usize, Guarded<'_>)>>::new();
    let mut sent: Vec<(Vec<Caller<'_>>, Statement<'_>)> = Vec::new();
    for (index, (member, audit)) in members.iter().zip(&audit).enumerate() {
        let State::Ready(run) = &member.state else {
            continue;
        };
        #[cfg(test)]
        super::owners::assert_owned(&member.seen, &run.writes.rows);
        let rows = &run.writes.rows;
        // Of operations that write the same row, the first.
        let keys = || rows.iter().map(|row| (row.table, &row.key));
        if keys().any(|key| taken.contains(&key)) {
            continue;
        }
        taken.extend(keys());
        if let Some(guard) = guard(rows) {
            let group = groups.entry(guard.table).or_default();
            group.insert(&guard.key, (index, Guarded { guard, rows, audit }));
        } else if let Some(statement) = statements::writes(rows, audit) {
            sent.push((vec![(index, None)], statement));
        } else {
            written[index] = Settled::Done;
        }
    }
    for (table, group) in groups {
        let (indexes, operations): (Vec<usize>, Vec<Guarded<'_>>) = group.into_values().unzip();
        let statement = statements::guarded(table, &operations);
        let guards = operations.iter().map(|operation| Some(operation.guard));
        sent.push((indexes.into_iter().zip(guards).collect(), statement));
    }
    if sent.is_empty() {
        return Ok((written, None));
    }
    let mut met = None;
    let (operations, statements): (Vec<_>, Vec<_>) = sent.into_iter().unzip();
    let answers = lease.exchange(None, &statements, false).await?;
    for (operations, answer) in operations.into_iter().zip(answers) {
        let rows = match answer {
            Ok(rows) => rows,
            Err(fault) if operations.len() > 1 && fault.is_of_statement() => continue,
            Err(fault) => {
                if let Ended::Database(fault) = fault.into() {
                    for (index, _) in operations {
                        written[index] = Settled::Failed((&fault).into());
                    }
                    met = Some(fault);
                }
                continue;
            }
        };
        let guards = rows.iter().map(|row| row.try_get::<_, &[u8]>(0));
        let is_guarded = operations.iter().any(|(_, guard)| guard.is_some());
        let guards: HashSet<&[u8]> = match is_guarded {
            true => guards.collect::<Result<_, _>>()?,
            false => HashSet::new(),
        };
        for (index, guard) in operations {
            if guard.is_none_or(|guard| guards.contains(guard.key.as_slice())) {
                written[index] = Settled::Done;
            }
        }
    }
    Ok((written, met))
}

/// The row that decides whether an operation takes place: of the rows that the operation has read, the first one that is no
/// entry of the feed, because an entry follows from another row.
fn guard(rows: &[Write]) -> Option<&Write> {
    let read = || rows.iter().filter(|row| row.before != Before::Unread);
    let first = read().find(|row| row.table != Name::revoked);
    first.or_else(|| read().next())
}
