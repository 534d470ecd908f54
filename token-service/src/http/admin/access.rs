//! Access to the administration: checks admin tokens and their roles.

use std::future::{Ready, ready};
use std::ops::Deref;

use actix_web::dev::Payload;
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use actix_web::web::Data;
use actix_web::{FromRequest, HttpRequest, HttpResponse, ResponseError};

use super::super::{error, method, origin};
use super::Administration;
use crate::admin_tokens::Role;
use crate::service::Service;
use crate::telemetry::audit_log::Entry;
use crate::telemetry::visible::bounded;
use domain::AuditAction;

/// An administrator with a token of any role, or only of the role `full`. Handlers with this argument require such a
/// token.
pub(super) struct Access<const FULL: bool>(Administration);

pub(super) type Administrator = Access<true>;
/// For handlers that change nothing.
pub(super) type Reader = Access<false>;

impl<const FULL: bool> Deref for Access<FULL> {
    type Target = Administration;

    fn deref(&self) -> &Administration {
        &self.0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.texts().1)]
pub(super) enum AccessRefusal {
    /// The admin token is absent or wrong.
    Unknown,
    /// The admin token has the role `read-only`.
    ReadOnly,
}

impl AccessRefusal {
    /// `error` and its description (RFC 6750 §3.1).
    const fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Unknown => (
                "invalid_token",
                "Send a token of admin_token_file as a bearer token",
            ),
            Self::ReadOnly => (
                "insufficient_scope",
                "This admin token has the role read-only; send one with the role full",
            ),
        }
    }
}

impl ResponseError for AccessRefusal {
    fn status_code(&self) -> StatusCode {
        match self {
            Self::Unknown => StatusCode::UNAUTHORIZED,
            Self::ReadOnly => StatusCode::FORBIDDEN,
        }
    }

    fn error_response(&self) -> HttpResponse {
        let (code, description) = self.texts();
        let challenge = match self {
            Self::Unknown => "Bearer realm=\"administration\"",
            Self::ReadOnly => "Bearer realm=\"administration\", error=\"insufficient_scope\"",
        };
        let mut response = error::json(self.status_code(), code, description);
        response.headers_mut().insert(
            header::WWW_AUTHENTICATE,
            HeaderValue::from_static(challenge),
        );
        response
    }
}

impl<const FULL: bool> FromRequest for Access<FULL> {
    type Error = AccessRefusal;
    type Future = Ready<Result<Self, Self::Error>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(admitted(request, |role| !FULL || role == Role::Full).map(Self))
    }
}

fn admitted(
    request: &HttpRequest,
    may: impl FnOnce(Role) -> bool,
) -> Result<Administration, AccessRefusal> {
    let service = request.app_data::<Data<Service>>().cloned();
    let service = service.ok_or(AccessRefusal::Unknown)?;
    let origin = origin::of(request);
    let presented = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.as_bytes().split_first_chunk::<7>())
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"Bearer "))
        .map(|(_, token)| token);
    let holder = presented.and_then(|token| service.administrator(token));
    let entry = Entry::new(AuditAction::AdministrationRefused);
    let method = method::name(request.method());
    let entry = entry.detail(format!("{method} {}", bounded(request.path())));
    match holder {
        Some(holder) if may(holder.role) => {
            let service = service.into_inner();
            Ok(Administration::new(service, origin, holder.name))
        }
        Some(holder) => {
            let entry = entry.by_administrator(holder.name.as_deref());
            service.record(&origin, entry);
            Err(AccessRefusal::ReadOnly)
        }
        None => {
            service.record(&origin, entry);
            Err(AccessRefusal::Unknown)
        }
    }
}
