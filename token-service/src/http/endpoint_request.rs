//! The parts of an HTTP request that the protocol reads.

use actix_web::HttpRequest;
use actix_web::http::header;

use protocol::oauth::endpoint_request::EndpointRequest;

/// All `Authorization` headers, as sent.
pub(super) fn authorization(request: &HttpRequest) -> Vec<&[u8]> {
    request
        .headers()
        .get_all(header::AUTHORIZATION)
        .map(|value| value.as_bytes())
        .collect()
}

/// The request, with its `authorization` headers and its body.
pub(super) fn endpoint_request<'a>(
    request: &'a HttpRequest,
    authorization: &'a [&'a [u8]],
    body: &'a [u8],
) -> EndpointRequest<'a> {
    EndpointRequest {
        authorization,
        content_type: request
            .headers()
            .get(header::CONTENT_TYPE)
            .map(|value| value.as_bytes()),
        query: request.query_string(),
        body,
    }
}
