//! `GET /revocations`, on the internal listener: the revocation feed for gateways (`claims::revocation`).

use std::time::Duration;

use actix_web::http::{StatusCode, header};
use actix_web::web::{self, Data};
use actix_web::{HttpMessage as _, HttpRequest, HttpResponse};
use claims::revocation::VERSION;

use super::observe::Waited;
use super::{error, paths};
use crate::feed::{FeedError, Reader};
use crate::service::Service;
use protocol::oauth::error::ErrorCode;
use protocol::oauth::parameters::Parameters;

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes.service(error::get(paths::REVOCATIONS, revocations));
}

async fn revocations(request: HttpRequest, service: Data<Service>) -> HttpResponse {
    let reader = match reader(request.query_string()) {
        Ok(reader) => reader,
        Err(description) => {
            let code = ErrorCode::InvalidRequest.as_str();
            return error::json(StatusCode::BAD_REQUEST, code, description);
        }
    };
    let mut response = HttpResponse::Ok();
    response.insert_header((header::CACHE_CONTROL, "no-store"));
    request.extensions_mut().insert(Waited);
    match service.feed.page(&reader).await {
        Ok(page) => response
            .insert_header((header::CONTENT_TYPE, "application/json"))
            .body(page),
        Err(FeedError::Store(error)) => error::unavailable(error),
        Err(error @ FeedError::Json(_)) => {
            tracing::error!(%error, "gateways get no revocations");
            error::failed("The feed cannot be written")
        }
    }
}

fn reader(query: &str) -> Result<Reader, &'static str> {
    let parameters = Parameters::parse(query.as_bytes())
        .map_err(|_| "The parameters are repeated, or not percent-encoded UTF-8")?;
    let number = |name, absent: u64, description| match parameters.get(name) {
        None => Ok(absent),
        Some(text) => text.parse().map_err(|_| description),
    };
    // The latest version that the reader supports. A reader of a later version gets this one.
    const SUPPORTED: &str = "version is the version of the feed, a whole number from 1 on";
    if number("version", VERSION, SUPPORTED)? < VERSION {
        return Err(SUPPORTED);
    }
    let since = number(
        "since",
        0,
        "since is the position up to which the feed was read, a whole number",
    )?;
    let wait = number(
        "wait",
        0,
        "wait is the time to wait for an entry in seconds, a whole number",
    )?;
    Ok(Reader {
        feed: parameters.get("feed").map(str::to_owned),
        since,
        wait: Duration::from_secs(wait),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_cannot_be_meant_are_refused() {
        for query in [
            "since=x",
            "since=-1",
            "since=1&since=2",
            "version=two",
            "version=0",
            "version=1&wait=1.5",
            "version=1&since=18446744073709551616",
            "feed=%FF",
        ] {
            assert!(reader(query).is_err(), "{query}");
        }
    }

    #[test]
    fn what_is_absent_is_the_start_of_the_feed() {
        for query in ["", "since=", "since=0&later=1"] {
            assert_eq!(reader(query), Ok(Reader::default()));
        }
        let expected = Reader {
            feed: Some("abc".to_owned()),
            since: 7,
            wait: Duration::from_secs(5),
        };
        assert_eq!(reader("version=2&feed=abc&since=7&wait=5"), Ok(expected));
    }
}
