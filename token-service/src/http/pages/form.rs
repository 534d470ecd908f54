//! Reads forms: body, CSRF token and the request of the step.

use actix_web::dev;
use actix_web::web::{Data, Payload};
use actix_web::{FromRequest, HttpMessage as _, HttpRequest};
use futures_util::future::LocalBoxFuture;

use super::browser::Browser;
use super::carried;
use super::failure::PageFailure;
use super::journey::Journey;
use crate::http::body;
use crate::service::Service;
use protocol::oauth::parameters::Parameters;

/// Fields of every form of a sign-in.
const CSRF: &str = "csrf";
const REQUEST: &str = "request";

/// A form with a valid CSRF token, so it comes from a page of this service in this browser.
pub(super) struct Form {
    pub(super) browser: Browser,
    fields: Parameters<'static>,
}

impl Form {
    /// The value of a field; empty if the form does not have the field.
    pub(super) fn field(&self, name: &str) -> &str {
        self.fields.get(name).unwrap_or_default()
    }
}

impl FromRequest for Form {
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
            if let Some(request) = fields.get(REQUEST) {
                carried::keep(&http, request);
            }
            let form = Self {
                browser: Browser::of(&http, &service),
                fields,
            };
            let token = form.browser.cookies.csrf(&http);
            match token.ok_or(PageFailure::Forgery)? {
                token if token.is_carried_as(form.field(CSRF)) => Ok(form),
                _ => Err(PageFailure::Forgery),
            }
        })
    }
}

/// The application was assembled incorrectly.
fn unusable(error: actix_web::Error) -> PageFailure {
    PageFailure::Internal(error.to_string())
}

/// A form that is a step of a journey.
pub(super) struct StepForm {
    pub(super) journey: Journey,
    fields: Parameters<'static>,
}

impl StepForm {
    /// The value of a field; empty if the form does not have the field.
    pub(super) fn field(&self, name: &str) -> &str {
        self.fields.get(name).unwrap_or_default()
    }
}

impl FromRequest for StepForm {
    type Error = PageFailure;
    type Future = LocalBoxFuture<'static, Result<Self, PageFailure>>;

    fn from_request(http: &HttpRequest, payload: &mut dev::Payload) -> Self::Future {
        let form = Form::from_request(http, payload);
        Box::pin(async move {
            let Form { browser, fields } = form.await?;
            let carried = fields.get(REQUEST).unwrap_or_default();
            let journey = Journey::carried(browser, carried).await?;
            Ok(Self { journey, fields })
        })
    }
}
