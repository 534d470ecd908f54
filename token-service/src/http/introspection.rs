//! `POST /auth/introspect`.

use actix_web::http::header;
use actix_web::web::{self, Data};
use actix_web::{HttpRequest, HttpResponse};

use super::endpoint_request::{authorization, endpoint_request};
use super::token::{refused, too_soon};
use super::{body, error, origin, paths};
use crate::service::Service;
use protocol::issued_token::introspection;
use protocol::oauth::secret_guesses::Guess;

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes.service(
        web::resource(paths::INTROSPECT)
            .route(web::post().to(introspect))
            .default_service(error::other_methods("POST")),
    );
}

async fn introspect(
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
    let request = endpoint_request(&request, &authorization, &body);
    let claimed = || request.claimed_client();
    let answer = introspection::introspect(&context, request).await;
    guess.end(answer.as_ref().err()).await;
    match answer {
        Ok(introspection) => HttpResponse::Ok()
            .insert_header((header::CACHE_CONTROL, "no-store"))
            .json(introspection),
        Err(error) => {
            refused(&service, &origin, "introspection", claimed, &error);
            error::token_error(&error)
        }
    }
}
