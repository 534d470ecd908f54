//! The error page.

use actix_web::http::{ConnectionType, StatusCode, header};
use actix_web::{HttpMessage as _, HttpResponse};
use protocol::oauth::authorize::UnsafeRequest;
use protocol::oauth::message::printable;
use protocol::oauth::parameters::Parameters;

use super::browser::Browser;
use super::failure::PageFailure;
use super::form::Carried as _;
use super::journey::Journey;
use super::templates::ErrorPage;
use super::{are_opened, carried, response};
use crate::http::error;
use crate::http::origin::RequestId;

pub(super) async fn page(failure: &PageFailure, browser: &Browser) -> HttpResponse {
    let (http, status) = (&browser.http, failure.status());
    match failure {
        PageFailure::ErrorAtClient(_, location) | PageFailure::SignInEnded(location) => {
            return response::redirect(status, location);
        }
        PageFailure::WrongHost(words) if !are_opened(http) => return error::no_such_path(words),
        _ => {}
    }
    let carried = carried::carried(http);
    let journey = Journey::carried(Browser::of(http, &browser.service), &carried)
        .await
        .ok();
    let named = |parameter: &str| {
        let (_, query) = carried.split_once('?')?;
        let (parameters, _) = Parameters::parse_unrepeated(query.as_bytes()).ok()?;
        // Not as sentences: a link could say anything on this page.
        Some(printable(parameters.get(parameter)?).replace(' ', "%20"))
    };
    let received = match failure {
        PageFailure::Request(UnsafeRequest::RedirectUriUnregistered) => named("redirect_uri"),
        _ => None,
    };
    let claimed = match &journey {
        Some(_) => None,
        None => named("client_id"),
    };
    let known = match &claimed {
        // Without the client, the page says less.
        Some(id) => browser.service.directory().client(id).await.ok().flatten(),
        None => None,
    };
    let texts = browser.texts();
    let page = ErrorPage {
        texts,
        frame: browser.frame(),
        problem: failure.problem(texts),
        advice: failure.advice(texts),
        details: failure.details(),
        received,
        request_id: http.extensions().get::<RequestId>().map(|id| id.0.clone()),
        time: browser.context().now.rfc3339(),
        client: match (&journey, &known) {
            (Some(journey), _) => Some(journey.request.client().name.clone()),
            (None, Some(client)) => Some(client.name.clone()),
            (None, None) => claimed,
        },
        back: match journey {
            Some(journey) => Some(journey.cancel()),
            None => known.and_then(|client| client.home_url.clone()),
        },
    };
    let mut response = response::page(status, &page);
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
