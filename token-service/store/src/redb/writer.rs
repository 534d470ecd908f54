//! The one thread that writes: it drains a queue and commits many operations in one durable transaction.
//!
//! Nobody is answered before the commit of their operation is on disk. While a commit waits for the disk the
//! next operations gather, so the batch grows with the load and an idle store adds no delay.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redb::Database;
use tokio::sync::{oneshot, watch};

use super::fault::Fault;
use super::open::OpenError;
use super::tables::Tables;
use super::writer_metrics::WriterMetrics;
use crate::StoreError;

/// Operations that wait at most; beyond, callers are told to come back.
const QUEUE: usize = 4096;

/// Operations of one transaction at most: bounds the memory of a transaction and the wait of the first.
const BATCH: usize = 512;

/// How long a file that failed is left alone before it is opened again.
const REOPEN_AFTER: Duration = Duration::from_secs(1);

/// The database that readers use; `None` while it is being reopened.
pub(super) type Shared = Arc<RwLock<Option<Database>>>;

/// Opens the file.
pub(super) type Opener = Box<dyn Fn() -> Result<Database, OpenError> + Send>;

/// An operation in the queue.
trait Job: Send {
    /// Runs the operation and keeps its outcome.
    ///
    /// # Errors
    /// A failure of the storage; the whole transaction is lost then.
    fn apply(&mut self, tables: &mut Tables<'_>) -> Result<(), Fault>;

    /// Answers the caller, after the commit.
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
            Err(Fault::Row(row)) => self.outcome = Err(Fault::Row(row).into()),
            Err(fault @ Fault::Storage(_)) => return Err(fault),
        }
        Ok(())
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        // The caller may have gone away: its operation stands all the same.
        let _ = self.reply.send(committed.and(self.outcome));
    }
}

/// The queue's end that callers hold. Dropping it lets the thread finish what is queued, and waits for that.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Option<SyncSender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
    ready: Arc<AtomicBool>,
    metrics: WriterMetrics,
    /// Closed when the thread ends.
    running: watch::Receiver<()>,
    feed_changes: watch::Receiver<u64>,
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub(super) fn start(shared: Shared, opener: Opener) -> std::io::Result<Self> {
        let (queue, jobs) = sync_channel(QUEUE);
        let ready = Arc::new(AtomicBool::new(true));
        let metrics = WriterMetrics::default();
        let (running, until_end) = watch::channel(());
        let (feed_changed, feed_changes) = watch::channel(0);
        let state = State {
            shared,
            opener,
            ready: Arc::clone(&ready),
            metrics: metrics.clone(),
            feed_changed,
        };
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || {
                // Dropped at the end, in a panic too.
                let _running = running;
                state.run(&jobs);
            })?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
            ready,
            metrics,
            running: until_end,
            feed_changes,
        })
    }

    /// Waits until the thread has ended, which it only does after a panic while this is there.
    pub(super) async fn ended(&self) {
        let mut running = self.running.clone();
        while running.changed().await.is_ok() {}
    }

    /// Runs `operation` in a transaction with others, and answers once that is durable.
    ///
    /// An operation must read what it needs before it first writes: a row that cannot be read fails it alone,
    /// and what it wrote until then would stay.
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
                self.metrics.queued.inc();
                answer.await.unwrap_or_else(|_| Err(gone()))
            }
            Err(TrySendError::Full(_)) => Err(StoreError::Overloaded),
            Err(TrySendError::Disconnected(_)) => Err(gone()),
        }
    }

    /// What is counted here.
    pub(super) const fn metrics(&self) -> &WriterMetrics {
        &self.metrics
    }

    /// Moves with every commit that wrote to the revocation feed, before its callers are answered.
    pub(super) fn feed_changes(&self) -> watch::Receiver<u64> {
        self.feed_changes.clone()
    }

    /// Whether the last transaction succeeded, or the file has been opened again since.
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
            // A panic of the thread has been reported by the runtime's hook; nothing is left to save.
            let _ = thread.join();
        }
    }
}

struct State {
    shared: Shared,
    opener: Opener,
    ready: Arc<AtomicBool>,
    metrics: WriterMetrics,
    feed_changed: watch::Sender<u64>,
}

impl State {
    fn run(&self, jobs: &Receiver<Box<dyn Job>>) {
        while let Ok(first) = jobs.recv() {
            let mut batch = vec![first];
            batch.extend(jobs.try_iter().take(BATCH - 1));
            if self.commit(batch).is_err() && self.reopen(jobs).is_err() {
                return;
            }
        }
    }

    /// Runs and answers a batch. After a failure nothing of it is known, so nothing is tried again.
    fn commit(&self, mut batch: Vec<Box<dyn Job>>) -> Result<(), ()> {
        let guard = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        let started = Instant::now();
        let operations = batch.len();
        self.metrics
            .queued
            .dec_by(i64::try_from(operations).unwrap_or(i64::MAX));
        let outcome = match guard.as_ref() {
            Some(database) => transact(database, &mut batch),
            None => Err(Fault::Row("the file is closed".into())),
        };
        drop(guard);
        match outcome {
            Ok(wrote_to_feed) => {
                if wrote_to_feed {
                    self.feed_changed.send_modify(|changes| *changes += 1);
                }
                self.metrics.batch.observe(operations as f64);
                self.metrics.commit.observe(started.elapsed().as_secs_f64());
                batch.into_iter().for_each(|job| job.answer(Ok(())));
                Ok(())
            }
            Err(fault) => {
                self.ready.store(false, Ordering::Release);
                self.metrics.failed.inc();
                tracing::error!(%fault, operations = batch.len(), "a transaction of the store failed");
                let error = StoreError::from(fault);
                for job in batch {
                    job.answer(Err(error.clone()));
                }
                Err(())
            }
        }
    }

    /// Closes the file and opens it again, as redb wants it after an I/O error; meanwhile every operation
    /// fails at once. `Err` when all callers are gone.
    fn reopen(&self, jobs: &Receiver<Box<dyn Job>>) -> Result<(), ()> {
        *self.shared.write().unwrap_or_else(PoisonError::into_inner) = None;
        loop {
            match (self.opener)() {
                Ok(database) => {
                    *self.shared.write().unwrap_or_else(PoisonError::into_inner) = Some(database);
                    self.ready.store(true, Ordering::Release);
                    tracing::info!("the store is open again");
                    return Ok(());
                }
                Err(error) => tracing::error!(%error, "the store stays closed"),
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

/// Runs a batch; whether it wrote to the revocation feed.
fn transact(database: &Database, batch: &mut [Box<dyn Job>]) -> Result<bool, Fault> {
    let transaction = database.begin_write()?;
    let wrote_to_feed = {
        let mut tables = Tables::new(&transaction);
        for job in batch {
            job.apply(&mut tables)?;
        }
        tables.revocations.is_open()
    };
    transaction.commit()?;
    Ok(wrote_to_feed)
}
