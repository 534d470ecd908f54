//! The only writing thread: it takes operations from a queue and commits many of them in one durable transaction. Its rows
//! are in the [journal](super::journal) before the commit, or the commit is a checkpoint.
//!
//! Each caller gets its result after its transaction is on disk. While a transaction waits for the disk, the next operations
//! queue up, and [a pause](super::gathering) waits for the rest of them. So the batch grows with the load, and a store
//! with few callers adds no delay.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redb::Durability;
use tokio::sync::{oneshot, watch};

use super::gathering::{Gathering, Last};
use super::open::OpenError;
use super::opened::Opened;
use super::rows::Rows;
use super::tables::{CHECKPOINT, Tables};
use super::writer_metrics::WriterMetrics;
use crate::StoreError;
use crate::fault::Fault;
use crate::tx::Note;
use crate::tx::tables::{META, Name};

/// Maximum number of queued operations. Callers beyond it get [`StoreError::Overloaded`].
const QUEUE: usize = 4096;

/// Maximum number of operations in a transaction. It limits the memory of a transaction, and the wait of its first
/// operation.
const BATCH: usize = 512;

/// Delay before the thread reopens a failed file.
const REOPEN_AFTER: Duration = Duration::from_secs(1);

/// The file for readers too; `None` while it is being reopened.
pub(super) type Shared = Arc<RwLock<Option<Opened>>>;

pub(super) type Opener = Box<dyn Fn() -> Result<Opened, OpenError> + Send>;

trait Job: Send {
    /// Runs the operation and keeps its result.
    ///
    /// # Errors
    /// A failure of the storage. The whole transaction is lost.
    fn apply(&mut self, tables: &mut Tables<'_>) -> Result<(), Fault>;

    /// Returns the result to the caller, after the commit.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Operation<T, F> {
    run: Option<F>,
    outcome: Result<T, StoreError>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Job for Operation<T, F>
where
    T: Send,
    F: FnOnce(&mut Tables<'_>) -> Result<T, Fault> + Send,
{
    fn apply(&mut self, tables: &mut Tables<'_>) -> Result<(), Fault> {
        let Some(run) = self.run.take() else {
            return Ok(());
        };
        match run(tables) {
            Ok(outcome) => self.outcome = Ok(outcome),
            Err(fault @ Fault::Storage(_)) => return Err(fault),
            Err(fault) => self.outcome = Err(fault.into()),
        }
        Ok(())
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        // The caller may be gone. The operation stays committed.
        let _ = self.reply.send(committed.and(self.outcome));
    }
}

/// The callers' handle of the queue. Dropping it waits until the thread has completed the queued operations.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Option<SyncSender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
    ready: Arc<AtomicBool>,
    closed: Arc<AtomicBool>,
    gathering: Arc<Gathering>,
    metrics: WriterMetrics,
    /// Closed when the thread ends.
    running: watch::Receiver<()>,
    feed_changes: watch::Receiver<u64>,
}

impl Writer {
    pub(super) fn start(shared: Shared, opener: Opener) -> std::io::Result<Self> {
        let (queue, jobs) = sync_channel(QUEUE);
        let ready = Arc::new(AtomicBool::new(true));
        let closed = Arc::new(AtomicBool::new(false));
        let gathering = Arc::<Gathering>::default();
        let metrics = WriterMetrics::default();
        let (running, until_end) = watch::channel(());
        let (feed_changed, feed_changes) = watch::channel(0);
        let mut state = State {
            shared,
            opener,
            ready: Arc::clone(&ready),
            closed: Arc::clone(&closed),
            gathering: Arc::clone(&gathering),
            metrics: metrics.clone(),
            feed_changed,
            failing: None,
        };
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || {
                // Dropped when the thread ends, even after a panic.
                let _running = running;
                let _file = AfterPanic(Arc::clone(&state.shared));
                state.run(&jobs);
            })?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
            ready,
            closed,
            gathering,
            metrics,
            running: until_end,
            feed_changes,
        })
    }

    /// Waits until the thread has ended. While `self` exists, the thread ends only after a panic.
    pub(super) async fn ended(&self) {
        let mut running = self.running.clone();
        while running.changed().await.is_ok() {}
    }

    /// Runs `operation` in a transaction with other operations, and returns after the commit is durable.
    ///
    /// An operation must complete its reads before its first write: an unreadable row fails only this operation, and
    /// earlier writes of the operation would be committed.
    pub(super) async fn write<T, F>(&self, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tables<'_>) -> Result<T, Fault> + Send + 'static,
    {
        let gone = || StoreError::Failed("the writer has stopped".into());
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Operation {
            run: Some(operation),
            outcome: Err(gone()),
            reply,
        });
        match self.queue.as_ref().ok_or_else(gone)?.try_send(job) {
            Ok(()) => {
                let queued = usize::try_from(self.metrics.queued.inc() + 1).unwrap_or(0);
                if let Some(thread) = &self.thread {
                    self.gathering.arrived(queued, thread.thread());
                }
                answer.await.unwrap_or_else(|_| Err(gone()))
            }
            Err(TrySendError::Full(_)) => Err(StoreError::Overloaded),
            Err(TrySendError::Disconnected(_)) => Err(gone()),
        }
    }

    /// From now on the thread does not reopen the file. The caller closes the file.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(super) const fn metrics(&self) -> &WriterMetrics {
        &self.metrics
    }

    /// Changes with every commit that wrote to the revocation feed, before the callers get their results.
    pub(super) fn feed_changes(&self) -> watch::Receiver<u64> {
        self.feed_changes.clone()
    }

    /// True if the last transaction succeeded, or the file was reopened since.
    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
            && self
                .thread
                .as_ref()
                .is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // The runtime's hook has already reported a panic of the thread. There is nothing left to do.
            let _ = thread.join();
        }
    }
}

/// Leaves the file as a crash would leave it if the thread panics. redb would close the file without a checkpoint, and the
/// next start would read the whole file.
struct AfterPanic(Shared);

impl Drop for AfterPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut shared = self.0.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(opened) = shared.take() {
                std::mem::forget(opened);
            }
        }
    }
}

struct State {
    shared: Shared,
    opener: Opener,
    ready: Arc<AtomicBool>,
    /// True if the file was closed on purpose.
    closed: Arc<AtomicBool>,
    gathering: Arc<Gathering>,
    metrics: WriterMetrics,
    feed_changed: watch::Sender<u64>,
    /// The cause of the last failure, until a transaction succeeds.
    failing: Option<String>,
}

impl State {
    fn run(&mut self, jobs: &Receiver<Box<dyn Job>>) {
        let mut last = Last::default();
        while let Ok(first) = jobs.recv() {
            self.gathering.pause(last, || self.queued());
            let mut batch = vec![first];
            batch.extend(jobs.try_iter().take(BATCH - 1));
            let committed = self.commit(batch);
            let is_open = !self.closed.load(Ordering::Acquire);
            if committed.is_err() && is_open && self.reopen(jobs).is_err() {
                return;
            }
            last = committed.unwrap_or_default();
        }
    }

    fn queued(&self) -> usize {
        usize::try_from(self.metrics.queued.get()).unwrap_or(0)
    }

    /// Runs and completes a batch. After a failure the outcome is unknown, so the batch is not retried.
    fn commit(&mut self, mut batch: Vec<Box<dyn Job>>) -> Result<Last, ()> {
        let guard = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        let started = Instant::now();
        let operations = batch.len();
        self.metrics
            .queued
            .dec_by(i64::try_from(operations).unwrap_or(i64::MAX));
        let outcome = match guard.as_ref() {
            Some(opened) => transact(opened, &mut batch),
            None => Err(Fault::Row("the file is closed".into())),
        };
        drop(guard);
        match outcome {
            Ok((wrote_to_feed, notes)) => {
                if let Some(cause) = self.failing.take() {
                    tracing::warn!(cause, "the store works again");
                }
                if wrote_to_feed {
                    self.feed_changed.send_modify(|changes| *changes += 1);
                }
                self.metrics.batch.observe(operations as f64);
                // Counted before the answers: a caller that sends its next operation at once would count twice.
                let last = Last {
                    callers: (operations + self.queued()).min(BATCH),
                    took: started.elapsed(),
                };
                self.metrics.commit.observe(last.took.as_secs_f64());
                notes.iter().for_each(Note::report);
                batch.into_iter().for_each(|job| job.answer(Ok(())));
                Ok(last)
            }
            Err(fault) => {
                self.ready.store(false, Ordering::Release);
                self.metrics.failed.inc();
                // Once for each cause, and not for each transaction.
                let cause = fault.to_string();
                if self.failing.as_ref() != Some(&cause) {
                    tracing::error!(
                        cause,
                        operations = batch.len(),
                        "a transaction of the store failed"
                    );
                    self.failing = Some(cause);
                }
                let error = StoreError::from(fault);
                for job in batch {
                    job.answer(Err(error.clone()));
                }
                Err(())
            }
        }
    }

    /// Closes and reopens the file, which redb requires after an I/O error. In the meantime every operation fails at
    /// once. Returns `Err` if all callers are gone.
    fn reopen(&self, jobs: &Receiver<Box<dyn Job>>) -> Result<(), ()> {
        *self.shared.write().unwrap_or_else(PoisonError::into_inner) = None;
        let mut told = String::new();
        loop {
            match (self.opener)() {
                Ok(opened) => {
                    *self.shared.write().unwrap_or_else(PoisonError::into_inner) = Some(opened);
                    self.ready.store(true, Ordering::Release);
                    tracing::debug!("the store is open again");
                    return Ok(());
                }
                // Once for each cause, and not for each attempt.
                Err(error) if error.to_string() != told => {
                    tracing::error!(%error, "the store stays closed");
                    told = error.to_string();
                }
                Err(_) => {}
            }
            let again = Instant::now() + REOPEN_AFTER;
            loop {
                match jobs.recv_timeout(again.saturating_duration_since(Instant::now())) {
                    Ok(job) => {
                        self.metrics.queued.dec();
                        job.answer(Err(StoreError::Failed(
                            "the store is closed after a failure".into(),
                        )));
                    }
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return Err(()),
                }
            }
        }
    }
}

/// Runs a batch. Returns whether it wrote to the revocation feed, and what the operations left to report.
fn transact(opened: &Opened, batch: &mut [Box<dyn Job>]) -> Result<(bool, Vec<Note>), Fault> {
    let rows = Rows::new();
    let mut transaction = opened.database.begin_write()?;
    let outcome = {
        let mut tables = Tables::recorded(&transaction, &rows);
        for job in batch {
            job.apply(&mut tables)?;
        }
        (tables.is_open(Name::revocations), tables.notes)
    };
    let mut journal = opened.journal();
    // Durable before readers see it.
    let journaled = match rows.into_bytes() {
        Some(rows) => rows.is_empty() || journal.append(&rows)?,
        None => false,
    };
    if journaled {
        transaction
            .set_durability(Durability::None)
            .map_err(redb::Error::from)?;
        transaction.commit()?;
    } else {
        let mut tables = Tables::new(&transaction);
        let checkpoint = journal.announce_checkpoint()?;
        META.put(&mut tables, CHECKPOINT, &checkpoint)?;
        drop(tables);
        transaction.set_quick_repair(true);
        transaction.commit()?;
        journal.checkpoint_done()?;
    }
    Ok(outcome)
}
