//! Input of the audit log. Entries go to standard output at once and to the store within about a second, many in one
//! transaction. A request does not wait for its entry, because its own changes are durable without it.

mod print;
mod quota;
mod view;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tracing::Instrument as _;

use crate::config::Audit;
pub(crate) use domain::audit_entry::{Entry, Origin};
use domain::clock::Timestamp;
use domain::{AuditAction, AuditEvent, AuditKind};
pub(crate) use print::StandardOutput;
use quota::Quota;
use store::{Store, StoreError};
pub(crate) use view::AuditView;
pub(crate) use view::audit_actions;

/// Maximum number of entries per transaction.
const BATCH: usize = 16_384;

/// Maximum number of entries that wait for the store, for example while its disk is full. Further entries go only to
/// standard output.
const MOST_WAITING: usize = 100_000;

/// Maximum number of entries of a kind in the store. Together at most 10,000,000, about 2 GB.
pub(crate) const fn most_entries(kind: AuditKind) -> u64 {
    match kind {
        AuditKind::Operation => 1_000_000,
        AuditKind::Refusal => 3_000_000,
        AuditKind::SignIn => 2_000_000,
        AuditKind::Token => 4_000_000,
    }
}

/// Number of entries about tokens of one client and action that the store keeps one by one in a minute. Each replica counts
/// separately.
const TOKENS_PER_MINUTE: u32 = 600;

#[derive(Debug)]
pub(crate) struct AuditLog {
    keep_for: Duration,
    standard_output: StandardOutput,
    waiting: Mutex<VecDeque<AuditEvent>>,
    /// Locked while entries are on their way to the store.
    writing: tokio::sync::Mutex<()>,
    quotas: Mutex<BTreeMap<AuditAction, Quota>>,
    tokens: Mutex<Tokens>,
    arrived: Notify,
    /// Entries that were not kept since the last write.
    lost: AtomicU64,
}

/// Entries about tokens since the last call of [`AuditLog::tell_of_left_out`].
#[derive(Debug, Default)]
struct Tokens {
    /// `None` until the first entry.
    since: Option<Timestamp>,
    /// The number of entries by action and Client ID.
    counts: HashMap<(AuditAction, String), u32>,
}

impl AuditLog {
    /// A log that also writes to `standard_output`.
    pub(crate) fn new(config: &Audit, standard_output: StandardOutput) -> Self {
        Self {
            keep_for: config.keep_for,
            standard_output,
            waiting: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
            quotas: Mutex::default(),
            tokens: Mutex::default(),
            arrived: Notify::new(),
            lost: AtomicU64::new(0),
        }
    }

    /// Adds an entry. If there are too many refusals, or too many entries about tokens of a client, the store gets only
    /// their number; standard output gets all of them.
    pub(crate) fn record(&self, event: AuditEvent) {
        self.tell(&event);
        let keeps = match event.action.kind() {
            _ if event.action.is_refusal() => self.take(event.action, event.at),
            AuditKind::Token => self.count_token(&event),
            _ => true,
        };
        if keeps {
            self.keep(event);
        }
    }

    /// Writes an entry to standard output. For entries that a transaction of the store has already appended.
    pub(crate) fn tell(&self, event: &AuditEvent) {
        self.standard_output.print(event);
    }

    /// Adds entries with the number of entries that were omitted since the last call: for each action and, for tokens, for
    /// each client. Called once a minute, and before the process ends.
    pub(crate) fn tell_of_left_out(&self, now: Timestamp) {
        let counted = |action, left_out: u64, since: Timestamp| {
            let since = since.rfc3339();
            Entry::new(action).detail(format!(
                "{left_out} more since {since}, not kept one by one"
            ))
        };
        let mut entries = Vec::new();
        for (action, quota) in self.quotas().iter_mut() {
            if quota.left_out > 0 {
                let left_out = std::mem::take(&mut quota.left_out);
                entries.push(counted(*action, left_out, quota.left_out_since));
            }
        }
        let tokens = std::mem::take(&mut *self.tokens());
        for ((action, client_id), count) in tokens.counts {
            let left_out = count.saturating_sub(TOKENS_PER_MINUTE);
            if let Some(since) = tokens.since.filter(|_| left_out > 0) {
                entries.push(counted(action, left_out.into(), since).client(client_id));
            }
        }
        for entry in entries {
            self.keep(entry.event(&Origin::default(), now, self.keep_for));
        }
    }

    /// Counts an entry about tokens of a client. Returns whether it is kept as its own entry.
    fn count_token(&self, event: &AuditEvent) -> bool {
        let Some(client_id) = &event.client_id else {
            return true;
        };
        let mut tokens = self.tokens();
        tokens.since.get_or_insert(event.at);
        let key = (event.action, client_id.clone());
        let count = tokens.counts.entry(key).or_default();
        *count = count.saturating_add(1);
        *count <= TOKENS_PER_MINUTE
    }

    fn tokens(&self) -> MutexGuard<'_, Tokens> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
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
            // Once, and not for each entry.
            if self.lost.fetch_add(1, Ordering::Relaxed) == 0 {
                tracing::error!("audit entries are not kept: too many wait for the store");
            }
        }
    }

    /// Waits until there is an entry to write.
    pub(crate) async fn arrival(&self) {
        self.arrived.notified().await;
    }

    /// Writes the entries that wait now. Later entries wait for the next call: on a busy service, entries arrive during
    /// every transaction, and each transaction would have only a few.
    ///
    /// Runs to its end even if this future is dropped, as at a stop: the entries of a dropped transaction would be lost. The
    /// next call waits for this end.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails; unwritten entries continue to wait.
    pub(crate) async fn write(self: &Arc<Self>, store: &Arc<dyn Store>) -> Result<(), StoreError> {
        let (log, store) = (Arc::clone(self), Arc::clone(store));
        let writing = async move { log.write_waiting(&*store).await };
        let written = tokio::spawn(writing.in_current_span()).await;
        written.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    async fn write_waiting(&self, store: &dyn Store) -> Result<(), StoreError> {
        let _writing = self.writing.lock().await;
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
            let lost = self.lost.swap(0, Ordering::Relaxed);
            if lost > 0 {
                tracing::warn!(lost, "audit entries are kept again");
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
    use domain::AuditRange;
    use store::redb::RedbStore;
    use store::testing::Watched;

    const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);
    const KEEP_FOR: Duration = Duration::from_secs(90 * 24 * 60 * 60);

    fn log() -> Arc<AuditLog> {
        let config = Audit {
            keep_for: KEEP_FOR,
            standard_output: false,
        };
        Arc::new(AuditLog::new(&config, StandardOutput::Nothing))
    }

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
        let log = log();
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

    #[test]
    fn tokens_of_a_busy_client_are_counted_and_other_entries_kept() {
        let log = log();
        let record = |action, client_id: &str, count: u32| {
            let entry = Entry::new(action).by_client(Some(client_id));
            let event = entry.event(&Origin::default(), NOW, KEEP_FOR);
            (0..count).for_each(|_| log.record(event.clone()));
        };
        record(AuditAction::TokensIssued, "busy", TOKENS_PER_MINUTE + 40);
        record(AuditAction::TokensRefreshed, "busy", TOKENS_PER_MINUTE + 2);
        record(AuditAction::TokensIssued, "quiet", TOKENS_PER_MINUTE);
        record(AuditAction::ClientUpdated, "busy", 50);
        let kept = |action| details(&log, action).len();
        let at_most = TOKENS_PER_MINUTE as usize;
        assert_eq!(kept(AuditAction::TokensIssued), 2 * at_most);
        assert_eq!(kept(AuditAction::ClientUpdated), 50);
        log.tell_of_left_out(NOW);
        log.tell_of_left_out(NOW);
        for (action, count) in [
            (AuditAction::TokensIssued, 40),
            (AuditAction::TokensRefreshed, 2),
        ] {
            let waiting = log.waiting();
            let of_action = waiting.iter().filter(|event| event.action == action);
            let counted = of_action.filter(|event| event.detail.is_some());
            let counted: Vec<_> = counted
                .map(|event| (event.client_id.as_deref(), event.detail.clone()))
                .collect();
            let detail = format!("{count} more since {}, not kept one by one", NOW.rfc3339());
            assert_eq!(counted, [(Some("busy"), Some(detail))]);
        }
        // The next minute starts again.
        record(AuditAction::TokensIssued, "busy", 1);
        assert_eq!(kept(AuditAction::TokensIssued), 2 * at_most + 2);
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

    /// A store that is slow until the test releases it.
    struct Slow {
        _folder: tempfile::TempDir,
        watched: Arc<Watched>,
        store: Arc<dyn Store>,
    }

    impl Slow {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store.redb");
            let store = Arc::new(RedbStore::open(&path, KEEP_FOR).unwrap());
            let watched = Arc::new(Watched::new(store));
            watched.hold(Some("append_audit"));
            Self {
                _folder: folder,
                store: Arc::clone(&watched) as _,
                watched,
            }
        }

        /// Waits until the store has got entries.
        async fn got_entries(&self) {
            while self.watched.calls().is_empty() {
                tokio::task::yield_now().await;
            }
        }

        async fn actions(&self) -> Vec<AuditAction> {
            let records = self.store.audit(AuditRange::After(0), 10).await.unwrap();
            records.iter().map(|record| record.event.action).collect()
        }
    }

    #[tokio::test]
    async fn what_arrives_during_a_write_waits_for_the_next() {
        let (log, slow) = (log(), Slow::new());
        log.record(event(AuditAction::ClientCreated));
        let (written, ()) = tokio::join!(log.write(&slow.store), async {
            slow.got_entries().await;
            log.record(event(AuditAction::ClientDeleted));
            slow.watched.hold(None);
        });
        written.unwrap();
        assert_eq!(slow.actions().await, [AuditAction::ClientCreated]);
        log.write(&slow.store).await.unwrap();
        let both = [AuditAction::ClientCreated, AuditAction::ClientDeleted];
        assert_eq!(slow.actions().await, both);
    }

    /// A stop drops the upkeep, which may be writing, and then writes what is left.
    #[tokio::test]
    async fn what_a_dropped_write_has_begun_is_written() {
        let (log, slow) = (log(), Slow::new());
        log.record(event(AuditAction::ClientCreated));
        tokio::select! {
            _ = log.write(&slow.store) => unreachable!(),
            () = slow.got_entries() => {}
        }
        log.record(event(AuditAction::ClientDeleted));
        slow.watched.hold(None);
        log.write(&slow.store).await.unwrap();
        let both = [AuditAction::ClientCreated, AuditAction::ClientDeleted];
        assert_eq!(slow.actions().await, both);
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
