//! The page that says why there is no other.

use actix_web::http::{ConnectionType, StatusCode, header};
use actix_web::{HttpMessage as _, HttpRequest, HttpResponse};
use protocol::oauth::message::printable;
use protocol::oauth::parameters::Parameters;

use super::failure::PageFailure;
use super::journey::Journey;
use super::templates::ErrorPage;
use super::texts::Texts;
use super::{carried, response};
use crate::http::origin::RequestId;
use crate::http::{host, lost, paths};
use crate::service::Service;

/// The page, or the redirect, that answers `failure`.
pub(super) fn page(failure: &PageFailure, http: &HttpRequest, service: &Service) -> HttpResponse {
    let status = failure.status();
    let registry = service.registry();
    match failure {
        PageFailure::ErrorAtClient(_, location) | PageFailure::SignInEnded(location) => {
            return response::redirect(status, location);
        }
        PageFailure::UnknownHost => {
            return lost::wrong_legacy_host(paths::LOGON, host::of(http), &registry);
        }
        _ => {}
    }
    let carried = carried::carried(http);
    let journey = Journey::carried(&carried, http, service, &registry).ok();
    let named = || {
        let (_, query) = carried.split_once('?')?;
        let (parameters, _) = Parameters::parse_unrepeated(query.as_bytes()).ok()?;
        Some(printable(parameters.get("client_id")?))
    };
    let texts = Texts::of(http);
    let page = ErrorPage {
        texts,
        service: &service.config.protocol.name,
        problem: failure.problem(texts),
        advice: failure.advice(texts),
        details: failure.details(),
        request_id: http.extensions().get::<RequestId>().map(|id| id.0.clone()),
        time: service.clock.now().rfc3339(),
        client: match &journey {
            Some(journey) => Some(journey.client().name.clone()),
            None => named(),
        },
        back: journey.map(|journey| journey.cancel(&service.config.protocol.issuer)),
    };
    let mut response = response::page(status, &page, None);
    if status == StatusCode::REQUEST_TIMEOUT {
        let head = response.head_mut();
        head.set_connection_type(ConnectionType::Close);
    }
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, header::HeaderValue::from_static("5"));
    }
    response
}
