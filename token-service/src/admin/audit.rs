//! The audit log, listed.

use std::time::Duration;

use super::views::{AuditView, Page};
use super::{AdminError, Administration, DEFAULT_PAGE, MAX_PAGE};
use domain::clock::Timestamp;
use domain::{AuditAction, AuditRange, AuditRecord};

/// Entries that one request looks at, at most, for those that it asks for.
const MOST_LOOKED_AT: usize = 50_000;

/// How far the clocks of replicas may be apart, for reading the log back to a moment.
const CLOCKS_DIFFER_BY: Duration = Duration::from_secs(600);

/// Filter and page of a listing of the audit log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// Oldest first, behind this sequence.
    pub after: Option<u64>,
    /// Newest first, before this sequence.
    pub before: Option<u64>,
    /// Only those of this moment or later.
    pub since: Option<Timestamp>,
    /// At most so many, 1 to [`MAX_PAGE`].
    pub limit: Option<usize>,
    /// Only those of this client.
    pub client_id: Option<String>,
    /// Only those of this user.
    pub username: Option<String>,
    /// Only those of this action.
    pub action: Option<AuditAction>,
}

impl AuditQuery {
    fn wants(&self, record: &AuditRecord) -> bool {
        let event = &record.event;
        let same =
            |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        same(&self.client_id, &event.client_id)
            && same(&self.username, &event.username)
            && self.action.is_none_or(|action| action == event.action)
            && self.since.is_none_or(|since| event.at >= since)
    }

    /// Whether the log, read backwards, has nothing more to give. Replicas' clocks differ a little, and so does the
    /// order of their entries.
    fn is_past(&self, record: &AuditRecord) -> bool {
        let since = self.since.filter(|_| self.after.is_none());
        since.is_some_and(|since| record.event.at + CLOCKS_DIFFER_BY < since)
    }

    fn behind(&self, last: Option<u64>) -> AuditRange {
        match (self.after, last) {
            (Some(after), last) => AuditRange::After(last.unwrap_or(after)),
            (None, last) => AuditRange::Before(last.or(self.before)),
        }
    }
}

impl Administration<'_> {
    /// Entries of the audit log. `next` of the page is the sequence at which to go on; following the log, there is
    /// always one.
    ///
    /// # Errors
    /// [`AdminError::Malformed`] when both ends are given, or the store's.
    pub async fn audit(&self, query: &AuditQuery) -> Result<Page<AuditView>, AdminError> {
        if query.after.is_some() && query.before.is_some() {
            let message = "after and before exclude each other".to_owned();
            return Err(AdminError::Malformed(message));
        }
        // What happened before the question belongs to the answer. A store that cannot be written may still be read.
        let written = self.service.audit.write(&*self.service.store).await;
        if let Err(error) = written {
            tracing::warn!(%error, "the newest entries of the audit log are not in the answer");
        }
        let limit = query.limit.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_PAGE);
        let (mut items, mut last, mut looked_at) = (Vec::new(), None, 0);
        let exhausted = loop {
            let range = query.behind(last);
            let batch = self.service.store.audit(range, MAX_PAGE).await?;
            let full = batch.len() == MAX_PAGE;
            looked_at += batch.len();
            let mut past = false;
            for record in batch {
                last = Some(record.sequence);
                past |= query.is_past(&record);
                if query.wants(&record) {
                    items.push(AuditView::from(record));
                }
                if items.len() == limit {
                    break;
                }
            }
            if items.len() == limit || looked_at >= MOST_LOOKED_AT {
                break false;
            }
            if !full || past {
                break true;
            }
        };
        let next = match (query.after, exhausted) {
            (Some(after), _) => Some(last.unwrap_or(after)),
            (None, false) => last,
            (None, true) => None,
        };
        Ok(Page {
            items,
            next: next.map(|sequence| sequence.to_string()),
        })
    }
}
