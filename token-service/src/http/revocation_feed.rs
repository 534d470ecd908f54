//! `GET /revocations?since=`, on the internal listener: what the filter polls.

use actix_web::http::{StatusCode, header};
use actix_web::web::{self, Data};
use actix_web::{HttpRequest, HttpResponse};
use claims::revocation::{Feed, MAX_PAGE, Revocation, RevocationKind};

use super::{error, paths};
use crate::oauth::error::ErrorCode;
use crate::oauth::parameters::Parameters;
use crate::service::Service;
use crate::store::{self, Revoked, StoreError};

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes.service(
        web::resource(paths::REVOCATIONS)
            .route(web::get().to(revocations))
            .default_service(web::to(|| async { error::method_not_allowed("GET") })),
    );
}

async fn revocations(request: HttpRequest, service: Data<Service>) -> HttpResponse {
    let Some(since) = since(request.query_string()) else {
        return error::json(
            StatusCode::BAD_REQUEST,
            ErrorCode::InvalidRequest.as_str(),
            "since is the sequence of the last entry that was read, a whole number",
        );
    };
    match feed(&service, since).await {
        Ok(feed) => HttpResponse::Ok()
            .insert_header((header::CACHE_CONTROL, "no-store"))
            .json(feed),
        Err(error) => error::token_error(&error.into()),
    }
}

/// The position of the reader: 0 when it has none.
fn since(query: &str) -> Option<u64> {
    match Parameters::parse(query.as_bytes()).ok()?.get("since") {
        Some(since) => since.parse().ok(),
        None => Some(0),
    }
}

async fn feed(service: &Service, since: u64) -> Result<Feed, StoreError> {
    // Read first: an entry that is added meanwhile comes with the next page, and never seems to be lost.
    let last = service.store.last_revocation().await?;
    let entries = service.store.revocations_since(since, MAX_PAGE).await?;
    Ok(Feed {
        last: entries
            .last()
            .map_or(last, |entry| last.max(entry.sequence)),
        revocations: entries.into_iter().map(published).collect(),
    })
}

fn published(entry: store::Revocation) -> Revocation {
    let (kind, id) = match entry.revoked {
        Revoked::Grant(id) => (RevocationKind::Grant, id.to_string()),
        Revoked::Token(id) => (RevocationKind::Token, id.to_string()),
        Revoked::Client(id) => (RevocationKind::Client, id.to_string()),
        Revoked::User(name) => (RevocationKind::User, name.to_string()),
    };
    Revocation {
        sequence: entry.sequence,
        kind,
        id,
        at: entry.at.seconds(),
        exp: entry.expires_at.seconds(),
    }
}
