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
    routes.service(
        web::resource(paths::REVOCATIONS)
            .route(web::get().to(revocations))
            .default_service(error::other_methods("GET, HEAD")),
    );
}

async fn revocations(request: HttpRequest, service: Data<Service>) -> HttpResponse {
    let query = match Query::parse(request.query_string()) {
        Ok(query) => query,
        Err(description) => {
            let code = ErrorCode::InvalidRequest.as_str();
            return error::json(StatusCode::BAD_REQUEST, code, description);
        }
    };
    let mut response = HttpResponse::Ok();
    response.insert_header((header::CACHE_CONTROL, "no-store"));
    if query.version < VERSION {
        return match service.feed.first_version(query.reader.since).await {
            Ok(feed) => response.json(feed),
            Err(error) => error::unavailable(error),
        };
    }
    request.extensions_mut().insert(Waited);
    match service.feed.page(&query.reader).await {
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

#[derive(Debug, PartialEq, Eq)]
struct Query {
    /// The latest version that the reader supports. If that is later than [`VERSION`], the response has [`VERSION`].
    version: u64,
    reader: Reader,
}

impl Query {
    fn parse(query: &str) -> Result<Self, &'static str> {
        let parameters = Parameters::parse(query.as_bytes())
            .map_err(|_| "The parameters are repeated, or not percent-encoded UTF-8")?;
        let number = |name, absent: u64, description| match parameters.get(name) {
            None => Ok(absent),
            Some(text) => text.parse().map_err(|_| description),
        };
        let version = number(
            "version",
            1,
            "version is the version of the feed, a whole number: 1 or 2",
        )?;
        if version == 0 {
            return Err("version is the version of the feed, a whole number: 1 or 2");
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
        Ok(Self {
            version,
            reader: Reader {
                feed: parameters.get("feed").map(str::to_owned),
                since,
                wait: Duration::from_secs(wait),
            },
        })
    }
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
            "version=2&wait=1.5",
            "version=2&since=18446744073709551616",
            "feed=%FF",
        ] {
            assert!(Query::parse(query).is_err(), "{query}");
        }
    }

    #[test]
    fn what_is_absent_or_unknown_is_version_1_from_the_start() {
        for query in ["", "since=", "since=0&later=1"] {
            let parsed = Query::parse(query).unwrap();
            assert_eq!((parsed.version, parsed.reader), (1, Reader::default()));
        }
        let parsed = Query::parse("version=3&feed=abc&since=7&wait=5").unwrap();
        let reader = Reader {
            feed: Some("abc".to_owned()),
            since: 7,
            wait: Duration::from_secs(5),
        };
        assert_eq!((parsed.version, parsed.reader), (3, reader));
    }
}
