//! Who may administrate: whoever has the admin token.

use std::fmt;
use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use actix_web::web::Data;
use actix_web::{FromRequest, HttpRequest, HttpResponse, ResponseError};

use super::super::{error, origin};
use crate::admin::Administration;
use crate::audit_log::{Entry, Origin};
use crate::service::Service;
use domain::AuditAction;

/// Somebody with the admin token. A handler that takes one cannot be reached without.
#[derive(Debug)]
pub(super) struct Administrator {
    service: Data<Service>,
    origin: Origin,
}

impl Administrator {
    /// What they may do.
    pub(super) fn administration(&self) -> Administration<'_> {
        Administration {
            service: &self.service,
            origin: &self.origin,
        }
    }
}

/// The admin token is absent or wrong.
#[derive(Debug, Clone, Copy)]
pub(super) struct Denied;

impl fmt::Display for Denied {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the admin token is absent or wrong")
    }
}

impl ResponseError for Denied {
    fn status_code(&self) -> StatusCode {
        StatusCode::UNAUTHORIZED
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = error::json(
            StatusCode::UNAUTHORIZED,
            "invalid_token",
            "Send the content of admin_token_file as a bearer token",
        );
        response.headers_mut().insert(
            header::WWW_AUTHENTICATE,
            HeaderValue::from_static("Bearer realm=\"administration\""),
        );
        response
    }
}

impl FromRequest for Administrator {
    type Error = Denied;
    type Future = Ready<Result<Self, Self::Error>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let Some(service) = request.app_data::<Data<Service>>().cloned() else {
            return ready(Err(Denied));
        };
        let origin = origin::of(request);
        let presented = request
            .headers()
            .get(header::AUTHORIZATION)
            .and_then(|value| value.as_bytes().split_first_chunk::<7>())
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"Bearer "))
            .map(|(_, token)| token);
        if presented.is_some_and(|token| service.is_admin_token(token)) {
            return ready(Ok(Self { service, origin }));
        }
        let entry = Entry::new(AuditAction::AdministrationRefused);
        service.record(&origin, entry.detail(request.path()));
        ready(Err(Denied))
    }
}
