//! `/admin/audit`.

use std::time::UNIX_EPOCH;

use actix_web::http::StatusCode;
use actix_web::web;
use actix_web::{HttpRequest, HttpResponse};
use document::unknown;
use serde::Deserialize;
use utoipa::IntoParams;

use super::access::Reader;
use super::answer::{self, ErrorBody};
use super::body;
use crate::admin::AdminError;
use crate::admin::audit::AuditQuery;
use crate::admin::views::{AuditView, Page};
use crate::visible::bounded;
use domain::AuditAction;
use domain::clock::Timestamp;

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes.service(web::resource("/audit").route(web::get().to(list)));
}

/// Filter and page of a listing of the audit log.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Query {
    /// List entries after this sequence, oldest first; 0 for the start of the log. Default: newest first.
    after: Option<u64>,
    /// List entries before this sequence, newest first: `next` of the previous page.
    before: Option<u64>,
    /// Only entries of this time or later, in RFC 3339.
    since: Option<String>,
    /// Maximum number of entries, 1 to 500. Default: 50.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// Only entries of this client.
    client_id: Option<String>,
    /// Only entries of this user.
    username: Option<String>,
    /// Only entries of this action.
    #[param(schema_with = crate::event_view::audit_actions)]
    action: Option<String>,
}

/// Lists the audit log, newest first. With `after`, oldest first, so that a caller can follow the log.
#[utoipa::path(get, path = "/admin/audit", tag = "audit", params(Query),
    responses((status = 200, body = Page<AuditView>), (status = 400, body = ErrorBody),
        (status = 401, body = ErrorBody)))]
async fn list(reader: Reader, http: HttpRequest) -> Result<HttpResponse, AdminError> {
    let query = body::query::<Query>(http.query_string())?;
    let query = AuditQuery {
        after: query.after,
        before: query.before,
        since: query.since.as_deref().map(moment).transpose()?,
        limit: query.limit,
        client_id: query.client_id,
        username: query.username,
        action: query.action.as_deref().map(action).transpose()?,
    };
    let page = reader.administration().audit(&query).await;
    Ok(answer::json(StatusCode::OK, page?))
}

fn action(name: &str) -> Result<AuditAction, AdminError> {
    let known = AuditAction::ALL.map(AuditAction::name);
    let action = AuditAction::ALL
        .into_iter()
        .find(|action| action.name() == name);
    action.ok_or_else(|| {
        let message = unknown("action", name, &known);
        AdminError::Malformed(format!("{}: {message}", bounded(name)))
    })
}

fn moment(text: &str) -> Result<Timestamp, AdminError> {
    let malformed = || {
        let message = "since must be a moment of RFC 3339, such as 2026-01-31T12:00:00Z";
        AdminError::Malformed(message.to_owned())
    };
    let moment = humantime::parse_rfc3339_weak(text).map_err(|_| malformed())?;
    let since_1970 = moment.duration_since(UNIX_EPOCH).map_err(|_| malformed())?;
    Ok(Timestamp::from_seconds(since_1970.as_secs()))
}
