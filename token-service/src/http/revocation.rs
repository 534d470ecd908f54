//! `POST /auth/revoke`.

use actix_web::http::header;
use actix_web::web::{self, Data};
use actix_web::{HttpRequest, HttpResponse};
use serde_json::json;

use super::endpoint_request::{authorization, endpoint_request};
use super::token::{refused, too_soon};
use super::{body, cors, error, origin, paths};
use crate::audit_log::{Entry, Origin};
use crate::service::Service;
use domain::AuditAction;
use protocol::issued_token::revocation;
use protocol::oauth::error::TokenError;
use protocol::oauth::secret_guesses::Guess;

pub(super) fn routes(routes: &mut web::ServiceConfig, service: &Data<Service>) {
    routes.service(
        web::resource(paths::REVOKE)
            .wrap(cors::registered_apps(service.clone()))
            .route(web::post().to(revoke))
            .default_service(error::other_methods("POST, OPTIONS")),
    );
}

async fn revoke(
    request: HttpRequest,
    payload: web::Payload,
    service: Data<Service>,
) -> HttpResponse {
    let body = match body::read(payload).await {
        Ok(body) => body,
        Err(error) => return error::unreadable_body(error),
    };
    let authorization = authorization(&request);
    let moment = service.moment();
    let context = moment.context();
    let address = origin::address(&request);
    let guess = match Guess::begin(&context, &service.suspects, &authorization, address).await {
        Ok(guess) => guess,
        Err(error) => return too_soon(&service, &error),
    };
    let origin = origin::of(&request);
    let form = endpoint_request(&request, &authorization, &body);
    let claimed = || form.claimed_client();
    let limit = &service.revocation_limit;
    let answer = revocation::revoke(&context, form, |client_id| limit.admit(client_id)).await;
    guess.end(answer.as_ref().err()).await;
    match answer {
        Ok(ended) => {
            if let Some(token) = ended {
                let mut entry = Entry::new(AuditAction::TokenRevoked)
                    .by_client(Some(token.client_id.as_str()))
                    .grant(token.grant_id);
                if let Some(username) = token.username {
                    entry = entry.user(username);
                }
                service.record(&origin, entry);
            }
            HttpResponse::Ok()
                .insert_header((header::CACHE_CONTROL, "no-store"))
                .json(json!({}))
        }
        Err(error @ TokenError::TooManyRevocations { .. }) => {
            limited(&service, &origin, &error);
            error::token_error(&error)
        }
        Err(error) => {
            refused(&service, &origin, "revocation", claimed, &error);
            error::token_error(&error)
        }
    }
}

/// Counts every refusal and logs some of them, so that refusals fill neither log nor audit log.
fn limited(service: &Service, origin: &Origin, error: &TokenError) {
    service.metrics.revocation_refused();
    let TokenError::TooManyRevocations { client_id, .. } = error else {
        return;
    };
    if service.revocation_limit.is_to_be_told(client_id) {
        tracing::warn!(%client_id, "a client revokes more than limits.revocations_per_second allows");
        let entry = Entry::new(AuditAction::RevocationsLimited).by_client(Some(client_id.as_str()));
        service.record(origin, entry);
    }
}
