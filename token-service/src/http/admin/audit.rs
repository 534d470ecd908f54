//! `/admin/audit`: lists the audit log.

use std::time::{Duration, UNIX_EPOCH};

use actix_web::{HttpRequest, web};
use document::unknown_word;
use serde::Deserialize;
use utoipa::IntoParams;

use super::access::Reader;
use super::answer::{self, AdminError, Answer, ErrorBody};
use super::pages::{MAX_PAGE, Page, entries};
use super::{Administration, body};
use crate::telemetry::audit_log::{AuditView, audit_actions};
use crate::telemetry::visible::bounded;
use domain::clock::Timestamp;
use domain::{AuditAction, AuditRange, AuditRecord, Username};

/// Maximum number of entries that one request reads to find matching entries.
const MOST_LOOKED_AT: usize = 50_000;

/// Maximum difference between the clocks of replicas, for reading the log back to a given time.
const CLOCKS_DIFFER_BY: Duration = Duration::from_secs(600);

/// Filter and page of a listing of the audit log.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditQuery {
    /// List entries after this sequence, oldest first; 0 for the start of the log. Default: newest first.
    pub after: Option<u64>,
    /// List entries before this sequence, newest first: `next` of the previous page.
    pub before: Option<u64>,
    /// Only entries of this time or later, in RFC 3339.
    pub since: Option<String>,
    /// Maximum number of entries, 1 to 500. Default: 50.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<usize>,
    /// Only entries of this client.
    pub client_id: Option<String>,
    /// Only entries of this user.
    pub username: Option<String>,
    /// Only entries of this action.
    #[param(schema_with = audit_actions)]
    pub action: Option<String>,
}

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes.service(web::resource("/audit").route(web::get().to(list)));
}

/// Lists the audit log, newest first. With `after`, oldest first, so that a caller can follow the log.
#[utoipa::path(get, path = "/admin/audit", tag = "audit", params(AuditQuery),
    responses((status = 200, body = Page<AuditView<'static>>), (status = 400, body = ErrorBody)))]
async fn list(reader: Reader, http: HttpRequest) -> Answer {
    let query = body::query::<AuditQuery>(http.query_string())?;
    let Page { items, next } = reader.audit(&query).await?;
    let items = items.iter().map(AuditView::from).collect();
    answer::ok(Page { items, next })
}

fn action(name: &str) -> Result<AuditAction, AdminError> {
    let known: Vec<&str> = AuditAction::ALL.iter().map(|known| known.name()).collect();
    let mut all = AuditAction::ALL.iter().copied();
    let action = all.find(|action| action.name() == name);
    action.ok_or_else(|| {
        let message = unknown_word("action", name, &known);
        AdminError::Malformed(format!("action: {}: {message}", bounded(name)))
    })
}

pub(super) fn moment(text: &str) -> Result<Timestamp, AdminError> {
    let malformed = || {
        let message = "since: expected a moment of RFC 3339, such as 2026-01-31T12:00:00Z";
        AdminError::Malformed(message.to_owned())
    };
    let moment = humantime::parse_rfc3339_weak(text).map_err(|_| malformed())?;
    let since_1970 = moment.duration_since(UNIX_EPOCH).map_err(|_| malformed())?;
    Ok(Timestamp::from_seconds(since_1970.as_secs()))
}

/// A query whose time and action are read.
struct Filter<'q> {
    query: &'q AuditQuery,
    since: Option<Timestamp>,
    action: Option<AuditAction>,
}

impl<'q> Filter<'q> {
    fn of(query: &'q AuditQuery) -> Result<Self, AdminError> {
        Ok(Self {
            query,
            since: query.since.as_deref().map(moment).transpose()?,
            action: query.action.as_deref().map(action).transpose()?,
        })
    }

    fn wants(&self, record: &AuditRecord) -> bool {
        let (query, event) = (self.query, &record.event);
        let wanted = query.username.as_deref();
        (query.client_id.is_none() || query.client_id == event.client_id)
            && wanted.is_none_or(|wanted| is_same_person(wanted, event.username.as_deref()))
            && self.action.is_none_or(|action| action == event.action)
            && self.since.is_none_or(|since| event.at >= since)
    }

    /// True if the log, read backwards, cannot contain further matching entries. Allows for differences between the
    /// replicas' clocks, which also affect the order of entries.
    fn is_past(&self, record: &AuditRecord) -> bool {
        let since = self.since.filter(|_| self.query.after.is_none());
        since.is_some_and(|since| record.event.at + CLOCKS_DIFFER_BY < since)
    }

    fn behind(&self, last: Option<u64>) -> AuditRange {
        match (self.query.after, last) {
            (Some(after), last) => AuditRange::After(last.unwrap_or(after)),
            (None, last) => AuditRange::Before(last.or(self.query.before)),
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

impl Administration {
    /// A page that follows the log always has `next`.
    ///
    /// # Errors
    /// [`AdminError::Malformed`] if both `after` and `before` are given, or [`AdminError::Store`].
    pub(crate) async fn audit(&self, query: &AuditQuery) -> Result<Page<AuditRecord>, AdminError> {
        let filter = Filter::of(query)?;
        if query.after.is_some() && query.before.is_some() {
            let message = "after and before cannot be combined".to_owned();
            return Err(AdminError::Malformed(message));
        }
        // Writes waiting entries first, so the response contains all events before the request. If the store cannot be
        // written, it may still be readable.
        let written = self.service.audit.write(&self.service.store).await;
        if let Err(error) = written {
            tracing::warn!(%error, "the newest entries of the audit log are not in the answer");
        }
        let limit = entries(query.limit);
        let (mut items, mut last, mut looked_at) = (Vec::new(), None, 0);
        let exhausted = loop {
            let range = filter.behind(last);
            let batch = self.service.store.audit(range, MAX_PAGE).await?;
            let full = batch.len() == MAX_PAGE;
            looked_at += batch.len();
            let mut past = false;
            for record in batch {
                last = Some(record.sequence);
                past |= filter.is_past(&record);
                if filter.wants(&record) {
                    items.push(record);
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
