//! Requests for an address that nobody has opened.

use actix_web::http::StatusCode;
use actix_web::http::header::HeaderValue;
use actix_web::{HttpMessage as _, HttpRequest};

use crate::http::method::IsHead;

/// The status of the answer if nobody has opened the address: a code would be lost, and a pushed request used up. A browser that
/// prefetches drops an answer with an error, and asks again when the person follows the link.
pub(super) fn only_looks(http: &HttpRequest) -> Option<StatusCode> {
    let prefetches = ["sec-purpose", "purpose", "x-moz"].into_iter().any(|name| {
        let purpose = http.headers().get(name).map(HeaderValue::as_bytes);
        let purpose = purpose.and_then(|value| value.get(..8));
        purpose.is_some_and(|value| value.eq_ignore_ascii_case(b"prefetch"))
    });
    let is_head = http.extensions().contains::<IsHead>();
    match (prefetches, is_head) {
        (true, _) => Some(StatusCode::FORBIDDEN),
        (false, true) => Some(StatusCode::OK),
        (false, false) => None,
    }
}
