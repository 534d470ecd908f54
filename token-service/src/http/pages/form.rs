//! Reads forms: body, CSRF token and the request of the step.

use actix_web::dev;
use actix_web::web::{Data, Payload};
use actix_web::{FromRequest, HttpMessage as _, HttpRequest};
use futures_util::future::LocalBoxFuture;

use super::browser::Browser;
use super::carried;
use super::failure::PageFailure;
use crate::http::body;
use crate::service::Service;
use protocol::oauth::parameters::Parameters;

const CSRF: &str = "csrf";
/// The path and query of the request to which a form belongs.
pub(super) const REQUEST: &str = "request";

/// What a form belongs to: the browser, or a step that the field `request` names.
pub(super) trait Carried: Sized {
    async fn carried(browser: Browser, request: &str) -> Result<Self, PageFailure>;
}

impl Carried for Browser {
    async fn carried(browser: Browser, _request: &str) -> Result<Self, PageFailure> {
        Ok(browser)
    }
}

/// A form with a valid CSRF token, so it comes from a page of this service in this browser.
pub(super) struct Form<Of> {
    pub(super) of: Of,
    fields: Parameters<'static>,
}

impl<Of> Form<Of> {
    /// The value of a field; empty if the form does not have the field.
    pub(super) fn field(&self, name: &str) -> &str {
        self.fields.get(name).unwrap_or_default()
    }
}

impl<Of: Carried + 'static> FromRequest for Form<Of> {
    type Error = PageFailure;
    type Future = LocalBoxFuture<'static, Result<Self, PageFailure>>;

    fn from_request(http: &HttpRequest, payload: &mut dev::Payload) -> Self::Future {
        let service = Data::<Service>::extract(http);
        let payload = Payload::from_request(http, payload);
        let http = http.clone();
        Box::pin(async move {
            let service = service.await.map_err(unusable)?;
            if !http
                .content_type()
                .eq_ignore_ascii_case("application/x-www-form-urlencoded")
            {
                return Err(PageFailure::ContentType);
            }
            let body = body::read(payload.await.map_err(unusable)?).await?;
            let fields = Parameters::parse(&body)?.into_owned();
            let request = fields.get(REQUEST).unwrap_or_default();
            if !request.is_empty() {
                carried::keep(&http, request);
            }
            let browser = Browser::of(&http, &service);
            let token = browser.cookies.csrf(&http).ok_or(PageFailure::NoCookies)?;
            if !token.is_carried_as(fields.get(CSRF).unwrap_or_default()) {
                return Err(PageFailure::Forgery);
            }
            let of = Of::carried(browser, request).await?;
            Ok(Self { of, fields })
        })
    }
}

/// The application was assembled incorrectly.
fn unusable(error: actix_web::Error) -> PageFailure {
    PageFailure::Internal(error.to_string())
}
