//! Lists the audit log.

use std::time::Duration;

use super::views::{AuditView, Page};
use super::{AdminError, Administration, DEFAULT_PAGE, MAX_PAGE};
use domain::clock::Timestamp;
use domain::{AuditAction, AuditRange, AuditRecord, Username};

/// Maximum number of entries that one request reads to find matching entries.
const MOST_LOOKED_AT: usize = 50_000;

/// Maximum difference between the clocks of replicas, for reading the log back to a given time.
const CLOCKS_DIFFER_BY: Duration = Duration::from_secs(600);

/// Filter and page of a listing of the audit log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// Only entries after this sequence, oldest first.
    pub after: Option<u64>,
    /// Only entries before this sequence, newest first.
    pub before: Option<u64>,
    /// Only entries at or after this time.
    pub since: Option<Timestamp>,
    /// Maximum number of entries, 1 to [`MAX_PAGE`].
    pub limit: Option<usize>,
    pub client_id: Option<String>,
    pub username: Option<String>,
    pub action: Option<AuditAction>,
}

impl AuditQuery {
    fn wants(&self, record: &AuditRecord) -> bool {
        let event = &record.event;
        let same =
            |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        let wanted = self.username.as_deref();
        same(&self.client_id, &event.client_id)
            && wanted.is_none_or(|wanted| is_same_person(wanted, event.username.as_deref()))
            && self.action.is_none_or(|action| action == event.action)
            && self.since.is_none_or(|since| event.at >= since)
    }

    /// True if the log, read backwards, cannot contain further matching entries. Allows for differences between the
    /// replicas' clocks, which also affect the order of entries.
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

/// True if an entry of the user `found` is one of the user `wanted`: letter case does not matter (D-43).
fn is_same_person(wanted: &str, found: Option<&str>) -> bool {
    let folded = |name| Some(Username::parse(name)?.folded().into_owned());
    found.is_some_and(|found| {
        found == wanted || folded(found).is_some_and(|one| Some(one) == folded(wanted))
    })
}

impl Administration<'_> {
    /// Lists entries of the audit log. `next` is the sequence from which the next request continues. A page that
    /// follows the log always has `next`.
    ///
    /// # Errors
    /// [`AdminError::Malformed`] if both `after` and `before` are given, or [`AdminError::Store`].
    pub async fn audit(&self, query: &AuditQuery) -> Result<Page<AuditView>, AdminError> {
        if query.after.is_some() && query.before.is_some() {
            let message = "after and before exclude each other".to_owned();
            return Err(AdminError::Malformed(message));
        }
        // Writes waiting entries first, so the response contains all events before the request. If the store cannot be
        // written, it may still be readable.
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
