//! `/admin/...`, on the internal listener: registration and operations, as JSON behind the admin token.

mod access;
mod answer;
mod audit;
mod body;
mod clients;
mod grants;
mod keys;
mod legacy_instances;
mod revocations;
mod service;
mod users;

use actix_web::HttpResponse;
use actix_web::http::header;
use actix_web::web;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use super::{error, paths};
use crate::admin::AdminError;

/// The administration's description, made from the handlers.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Token service administration",
        description = "Registration and operations of the token service. Every request carries the admin token, \
                       which `admin_token_file` holds, as a bearer token."
    ),
    security(("admin_token" = [])),
    modifiers(&AdminToken),
    paths(
        clients::list,
        clients::create,
        clients::show,
        clients::update,
        clients::delete,
        clients::add_secret,
        clients::end_old_secrets,
        clients::add_certificate,
        clients::delete_certificate,
        users::list,
        users::create,
        users::show,
        users::update,
        users::delete,
        users::remove_second_factor,
        users::link_account,
        users::unlink_account,
        grants::list,
        grants::show,
        grants::revoke,
        keys::list,
        keys::rotate,
        keys::delete,
        legacy_instances::list,
        legacy_instances::put,
        legacy_instances::delete,
        revocations::cut_off,
        revocations::renew_feed,
        audit::list,
        service::apply,
        service::backup,
        service::explain,
    )
)]
struct Description;

struct AdminToken;

impl Modify for AdminToken {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        openapi
            .components
            .get_or_insert_default()
            .add_security_scheme("admin_token", SecurityScheme::Http(scheme));
    }
}

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes.service(
        web::scope(paths::ADMIN)
            .route("/openapi.json", web::get().to(openapi))
            .configure(clients::routes)
            .configure(users::routes)
            .configure(grants::routes)
            .configure(keys::routes)
            .configure(legacy_instances::routes)
            .configure(revocations::routes)
            .configure(audit::routes)
            .configure(service::routes)
            .default_service(web::to(error::not_found)),
    );
}

/// The description is no secret: it is the same for every installation.
async fn openapi() -> Result<HttpResponse, AdminError> {
    let json = Description::openapi()
        .to_json()
        .map_err(|error| AdminError::Internal(error.to_string()))?;
    Ok(HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "application/json"))
        .body(json))
}
