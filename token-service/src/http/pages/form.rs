//! Reading forms: the body, the CSRF token, the request that the form is a step of.

use actix_web::web::{Bytes, Payload};
use actix_web::{HttpMessage as _, HttpRequest};

use super::carried;
use super::cookies::Cookies;
use super::failure::PageFailure;
use super::journey::Journey;
use crate::http::body;
use crate::service::Service;
use domain::Registry;
use protocol::oauth::parameters::Parameters;

/// The fields that every form of a sign-in has.
pub(super) const CSRF: &str = "csrf";
pub(super) const REQUEST: &str = "request";

/// Reads the body of a form.
pub(super) async fn read(http: &HttpRequest, payload: Payload) -> Result<Bytes, PageFailure> {
    if !http
        .content_type()
        .eq_ignore_ascii_case("application/x-www-form-urlencoded")
    {
        return Err(PageFailure::ContentType);
    }
    Ok(body::read(payload).await?)
}

/// The fields of a form that comes from one of our own pages in this browser.
pub(super) fn fields<'a>(
    body: &'a [u8],
    http: &HttpRequest,
    cookies: Cookies,
) -> Result<Parameters<'a>, PageFailure> {
    let fields = Parameters::parse(body)?;
    if let Some(request) = fields.get(REQUEST) {
        carried::keep(http, request);
    }
    let token = cookies.csrf(http).ok_or(PageFailure::Forgery)?;
    let sent = fields.get(CSRF).ok_or(PageFailure::Forgery)?;
    if token.is_carried_as(sent) {
        Ok(fields)
    } else {
        Err(PageFailure::Forgery)
    }
}

/// What a form is a step of, validated in full.
pub(super) fn journey(
    fields: &Parameters<'_>,
    http: &HttpRequest,
    service: &Service,
    registry: &Registry,
) -> Result<Journey, PageFailure> {
    let carried = fields.get(REQUEST).unwrap_or_default();
    Journey::carried(carried, http, service, registry)
}
