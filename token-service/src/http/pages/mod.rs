//! The pages and forms of the authorization endpoint and the sign-in.
//!
//! `GET /auth/authorize`, or the start page of another flow, shows the next step. Every form contains the request's
//! path and query, which each step validates again in full, and a CSRF token. After a step the service redirects the
//! browser to the request (303), which decides the next step again.

mod agent;
mod authenticator;
mod browser;
mod browser_token;
mod carried;
mod change_password;
mod confirm;
mod cookie_notice;
mod cookies;
mod csrf;
mod destination;
mod end;
mod ending;
mod error_page;
mod failure;
mod forgot_password;
mod form;
mod frame;
mod home;
mod invitation;
mod journey;
mod language;
mod looks;
mod new_password;
mod notice;
mod offer;
mod own;
mod password;
mod problem;
mod provider;
mod purpose;
mod recovery_codes;
mod response;
mod select_account;
mod sign_in;
mod step;
mod tags;
mod templates;
mod texts;

use actix_web::body::BoxBody;
use actix_web::dev::ServiceResponse;
use actix_web::guard::{GuardContext, fn_guard};
use actix_web::http::header;
use actix_web::web::{self, Data, ServiceConfig};
use actix_web::{Error, HttpRequest, HttpResponse, Resource, Route};

use super::paths;
use crate::branding::Asset;
use crate::service::Service;
use browser::Browser;
use failure::PageFailure;
pub(super) use invitation::invitation;
pub(super) use notice::second_factor_removed;
use protocol::flows::FLOWS;

pub(super) fn routes(routes: &mut ServiceConfig) {
    for flow in FLOWS {
        let begin = web::get().to(step::begin);
        routes.service(only_get(flow.begins_at()).route(begin));
    }
    routes
        .service(only_post(paths::SIGN_IN).route(web::post().to(sign_in::password)))
        .service(only_post(paths::SECOND_FACTOR).route(web::post().to(sign_in::second_factor)))
        .service(only_post(paths::SELECT_ACCOUNT).route(web::post().to(select_account::select)))
        .service(only_post(paths::CONTINUE).route(web::post().to(step::confirm)))
        .service(only_post(paths::SIGN_OUT).route(web::post().to(home::sign_out)))
        .service(
            web::resource(paths::AUTHENTICATOR)
                .route(web::get().to(authenticator::offer))
                .route(web::post().to(authenticator::accept))
                .default_service(other_methods("GET, HEAD, POST")),
        )
        .service(
            web::resource(paths::RECOVERY_CODES)
                .route(web::get().to(recovery_codes::ask))
                .route(web::post().to(recovery_codes::accept))
                .default_service(other_methods("GET, HEAD, POST")),
        )
        .service(
            web::resource(paths::PASSWORD)
                .route(web::get().to(password::own))
                .route(web::post().to(change_password::accept))
                .default_service(other_methods("GET, HEAD, POST")),
        )
        .service(
            web::resource(paths::NEW_PASSWORD)
                .route(web::get().to(new_password::ask))
                .route(web::post().to(new_password::accept))
                .default_service(other_methods("GET, HEAD, POST")),
        )
        .service(
            web::resource(paths::FORGOT_PASSWORD)
                .route(web::get().to(forgot_password::ask))
                .route(web::post().to(forgot_password::accept))
                .default_service(other_methods("GET, HEAD, POST")),
        )
        .service(
            web::resource(paths::END)
                .route(web::get().to(end::ask))
                .route(web::post().to(end::accept))
                .default_service(other_methods("GET, HEAD, POST")),
        )
        .service(only_post(paths::PROVIDER).route(web::post().to(provider::begin)))
        .service(only_get(&paths::provider("{id}")).route(web::get().to(provider::back)))
        .service(only_get(paths::HOME).route(web::get().to(home::home)))
        .service(only_get(paths::CHANGE_PASSWORD).route(web::get().to(password::well_known)))
        .service(only_get(paths::COOKIE_NOTICE).route(web::get().to(cookie_notice::stylesheet)))
        .service(
            only_get(&format!("{}{{file}}", Asset::FOLDER))
                .guard(fn_guard(|request| asset(request).is_some()))
                .route(web::get().to(file)),
        );
}

/// The file of the pages at the path of a request.
fn asset<'a>(request: &'a GuardContext<'_>) -> Option<&'a Asset> {
    let service = request.app_data::<Data<Service>>()?;
    service.config.branding.asset(request.head().uri.path())
}

async fn file(http: HttpRequest, service: Data<Service>) -> HttpResponse {
    match service.config.branding.asset(http.path()) {
        Some(asset) => asset.answer(),
        None => HttpResponse::NotFound().finish(),
    }
}

fn only_get(path: &str) -> Resource {
    web::resource(path).default_service(other_methods("GET, HEAD"))
}

fn only_post(path: &str) -> Resource {
    web::resource(path).default_service(other_methods("POST"))
}

/// The route of a page for all methods except those in `allow`.
fn other_methods(allow: &'static str) -> Route {
    web::to(move |browser: Browser| async move {
        let mut response = error_page::page(&PageFailure::Method, &browser).await;
        response
            .headers_mut()
            .insert(header::ALLOW, header::HeaderValue::from_static(allow));
        response
    })
}

/// True if a person opens an address in a browser, and not a program.
pub(super) fn are_opened(http: &HttpRequest) -> bool {
    let mut accepted = http.headers().get_all(header::ACCEPT);
    accepted.any(|value| {
        let value = value.to_str();
        value.is_ok_and(|value| value.contains("text/html"))
    })
}

/// The page at a path without a route. `meant`: the endpoint that was probably meant.
pub(super) async fn nothing_here(
    http: &HttpRequest,
    service: &Data<Service>,
    meant: Option<String>,
) -> HttpResponse {
    let failure = PageFailure::NothingHere(meant);
    error_page::page(&failure, &Browser::of(http, service)).await
}

/// Replaces a failed response by the error page. This happens here because the request, and so the browser's language,
/// is known only here.
pub(super) async fn explain(response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
    let failure = response.response().error().and_then(Error::as_error);
    let service = response.request().app_data::<Data<Service>>();
    let page = match (failure, service) {
        (Some(failure), Some(service)) => {
            error_page::page(failure, &Browser::of(response.request(), service)).await
        }
        _ => return response,
    };
    response.into_response(page)
}
