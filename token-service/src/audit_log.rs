//! Input of the audit log. Entries go to standard output at once and to the store within about a second, many in one
//! transaction. A request does not wait for its entry, because its own changes are durable without it.

mod entry;
mod print;
mod quota;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use domain::clock::Timestamp;
use domain::{AuditAction, AuditEvent};
pub use entry::{Entry, Origin};
pub use print::StandardOutput;
use print::print;
use quota::Quota;
use store::{Store, StoreError};

/// Maximum number of entries per transaction.
const BATCH: usize = 16_384;

/// Maximum number of entries that wait for the store, for example while its disk is full. Further entries go only to
/// standard output.
const MOST_WAITING: usize = 100_000;

/// Maximum number of entries in the store, about 2 GB.
pub const MOST_ENTRIES: u64 = 10_000_000;

/// The input of the audit log.
#[derive(Debug)]
pub struct AuditLog {
    keep_for: Duration,
    standard_output: StandardOutput,
    waiting: Mutex<VecDeque<AuditEvent>>,
    quotas: Mutex<BTreeMap<AuditAction, Quota>>,
    arrived: Notify,
}

impl AuditLog {
    /// A log with the retention `keep_for`, which also writes to standard output if configured.
    #[must_use]
    pub fn new(keep_for: Duration, standard_output: StandardOutput) -> Self {
        Self {
            keep_for,
            standard_output,
            waiting: Mutex::default(),
            quotas: Mutex::default(),
            arrived: Notify::new(),
        }
    }

    /// Adds an entry. If there are too many refusals, the store gets only their number; standard output gets all of
    /// them.
    pub fn record(&self, event: AuditEvent) {
        let event = self.tell(event);
        if event.action.is_refusal() && !self.take(event.action, event.at) {
            return;
        }
        self.keep(event);
    }

    /// Writes an entry to standard output. For entries that a transaction of the store has already appended.
    pub fn tell(&self, event: AuditEvent) -> AuditEvent {
        match self.standard_output {
            StandardOutput::Nothing => event,
            format => print(event, format),
        }
    }

    /// Adds an entry with the number of omitted refusals, for each kind of refusal omitted since the last call.
    pub fn tell_of_left_out(&self, now: Timestamp) {
        let left_out: Vec<AuditEvent> = self
            .quotas()
            .iter_mut()
            .filter(|(_, quota)| quota.left_out > 0)
            .map(|(action, quota)| AuditEvent {
                at: now,
                action: *action,
                actor: None,
                client_id: None,
                username: None,
                grant_id: None,
                detail: Some(format!(
                    "{} more since {}, not kept one by one",
                    std::mem::take(&mut quota.left_out),
                    quota.left_out_since.rfc3339()
                )),
                address: None,
                request_id: None,
                expires_at: now + self.keep_for,
            })
            .collect();
        left_out.into_iter().for_each(|event| self.keep(event));
    }

    fn take(&self, action: AuditAction, now: Timestamp) -> bool {
        let mut quotas = self.quotas();
        let quota = quotas
            .entry(action)
            .or_insert_with(|| Quota::full(self.keep_for, now));
        quota.take(self.keep_for, now)
    }

    fn quotas(&self) -> MutexGuard<'_, BTreeMap<AuditAction, Quota>> {
        self.quotas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, event: AuditEvent) {
        let mut waiting = self.waiting();
        if waiting.len() < MOST_WAITING {
            waiting.push_back(event);
            self.arrived.notify_one();
        } else {
            tracing::error!("an audit entry is not kept: too many wait for the store");
        }
    }

    /// Waits until there is an entry to write.
    pub async fn arrival(&self) {
        self.arrived.notified().await;
    }

    /// Writes the entries that wait now. Later entries wait for the next call: on a busy service, entries arrive during
    /// every transaction, and each transaction would have only a few.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails; unwritten entries continue to wait.
    pub async fn write(&self, store: &dyn Store) -> Result<(), StoreError> {
        let mut left = self.waiting().len();
        while left > 0 {
            let batch: Arc<[AuditEvent]> = {
                let mut waiting = self.waiting();
                let most = waiting.len().min(left).min(BATCH);
                waiting.drain(..most).collect()
            };
            if batch.is_empty() {
                return Ok(());
            }
            left -= batch.len();
            if let Err(error) = store.append_audit(Arc::clone(&batch)).await {
                let mut waiting = self.waiting();
                for event in batch.iter().rev() {
                    waiting.push_front(event.clone());
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<AuditEvent>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::quota::{REFUSALS_AT_ONCE, REFUSALS_OF_A_KIND};
    use super::*;
    use crate::config::LogFormat;

    const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);
    const KEEP_FOR: Duration = Duration::from_secs(90 * 24 * 60 * 60);

    fn event(action: AuditAction) -> AuditEvent {
        Entry::new(action).event(&Origin::default(), NOW, KEEP_FOR)
    }

    fn details(log: &AuditLog, action: AuditAction) -> Vec<Option<String>> {
        let waiting = log.waiting();
        let of_action = waiting.iter().filter(|event| event.action == action);
        of_action.map(|event| event.detail.clone()).collect()
    }

    #[test]
    fn refusals_leave_the_log_to_what_happened() {
        let log = AuditLog::new(KEEP_FOR, StandardOutput::Nothing);
        let record = |action| log.record(event(action));
        for _ in 0..REFUSALS_AT_ONCE + 500 {
            record(AuditAction::TokenRequestRefused);
        }
        record(AuditAction::SignInRefused);
        record(AuditAction::ClientCreated);
        let kept = |action| details(&log, action).len() as u64;
        assert_eq!(kept(AuditAction::TokenRequestRefused), REFUSALS_AT_ONCE);
        assert_eq!(kept(AuditAction::SignInRefused), 1, "each kind for itself");
        assert_eq!(kept(AuditAction::ClientCreated), 1);
        log.tell_of_left_out(NOW);
        log.tell_of_left_out(NOW);
        let refused = details(&log, AuditAction::TokenRequestRefused);
        let told: Vec<_> = refused.iter().flatten().collect();
        let expected = format!("500 more since {}, not kept one by one", NOW.rfc3339());
        assert_eq!(told, [&expected]);
    }

    /// Sends refused requests continuously, for the whole retention.
    #[test]
    fn refusals_of_a_kind_fill_their_part_of_the_log_at_most() {
        let mut quota = Quota::full(KEEP_FOR, NOW);
        let mut taken = 0;
        for second in 0..KEEP_FOR.as_secs() {
            let now = NOW + Duration::from_secs(second);
            while quota.take(KEEP_FOR, now) {
                taken += 1;
            }
        }
        assert!(taken > REFUSALS_OF_A_KIND / 2, "{taken}");
        assert!(taken <= REFUSALS_OF_A_KIND + REFUSALS_AT_ONCE, "{taken}");
    }

    #[tokio::test]
    async fn what_arrives_during_a_write_waits_for_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.redb");
        let store = store::redb::RedbStore::open(&path, KEEP_FOR).unwrap();
        let log = AuditLog::new(KEEP_FOR, StandardOutput::Nothing);
        let record = |action| log.record(event(action));
        record(AuditAction::ClientCreated);
        let (written, ()) = tokio::join!(log.write(&store), async {
            record(AuditAction::ClientDeleted);
        });
        written.unwrap();
        assert_eq!(details(&log, AuditAction::ClientCreated).len(), 0);
        assert_eq!(details(&log, AuditAction::ClientDeleted).len(), 1);
        log.write(&store).await.unwrap();
        assert_eq!(details(&log, AuditAction::ClientDeleted).len(), 0);
    }

    #[test]
    fn a_terminal_gets_one_format_and_a_collector_always_json() {
        use StandardOutput::{Json, Nothing, Text};
        for (enabled, log_format, is_terminal, expected) in [
            (true, LogFormat::Text, true, Text),
            (true, LogFormat::Text, false, Json),
            (true, LogFormat::Json, true, Json),
            (true, LogFormat::Json, false, Json),
            (false, LogFormat::Text, true, Nothing),
        ] {
            let found = StandardOutput::of(enabled, log_format, is_terminal);
            assert_eq!(found, expected, "{log_format:?} {is_terminal}");
        }
    }
}
