//! `/admin/...`, on the internal listener: registration and operations, as JSON behind the admin token.

mod access;
mod answer;
mod audit;
mod body;
mod clients;
mod encryption_keys;
mod grants;
mod keys;
mod legacy_instances;
mod objects;
mod operations;
mod revocations;
mod service;
mod users;

use actix_web::HttpResponse;
use actix_web::middleware::from_fn;
use actix_web::web;
use utoipa::openapi::RefOr;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use super::{error, line, paths, uncancelled};
use crate::admin::schema::{ClientView, UserView};
use crate::admin::views::Page;
use domain::{Client, User};

/// Path of the description, below [`paths::ADMIN`].
const OPENAPI: &str = "/openapi.json";

/// The OpenAPI description of the administration, generated from the handlers.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Gatepass administration",
        description = "Registration and operations of the token service. Every request carries a token of \
                       `admin_token_file` as a bearer token. A read-only token may list, show and explain. Other requests \
                       return 403."
    ),
    security(("admin_token" = [])),
    servers((url = "/", description = "The internal listener that serves this description")),
    modifiers(&AdminToken, &Objects, &Complete),
    components(schemas(Page<ClientView>, Page<UserView>)),
    paths(
        clients::add_secret,
        clients::end_old_secrets,
        clients::add_certificate,
        clients::delete_certificate,
        users::remove_second_factor,
        users::link_account,
        users::unlink_account,
        grants::list,
        grants::show,
        grants::revoke,
        grants::revoke_all,
        keys::list,
        keys::rotate,
        keys::delete,
        encryption_keys::list,
        encryption_keys::reseal,
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

/// Adds the common operations of clients and users.
struct Objects;

impl Modify for Objects {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        objects::describe::<Client>(openapi);
        objects::describe::<User>(openapi);
    }
}

/// Adds what the handlers' attributes omit: unique operation ids and the meaning of each status.
struct Complete;

impl Modify for Complete {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        for item in openapi.paths.paths.values_mut() {
            let operations = [
                &mut item.get,
                &mut item.put,
                &mut item.post,
                &mut item.delete,
                &mut item.patch,
            ];
            for operation in operations.into_iter().flatten() {
                let tag = operation.tags.as_ref().and_then(|tags| tags.first());
                if let (Some(tag), Some(name)) = (tag, &operation.operation_id) {
                    operation.operation_id = Some(format!("{}_{name}", tag.replace(' ', "_")));
                }
                if !is_for_readers(operation) {
                    let forbidden = "403".to_owned();
                    let like = operation.responses.responses.get("401").cloned();
                    if let Some(RefOr::T(mut response)) = like {
                        response.description.clear();
                        let response = RefOr::T(response);
                        operation.responses.responses.insert(forbidden, response);
                    }
                }
                for (status, response) in &mut operation.responses.responses {
                    if let RefOr::T(response) = response
                        && response.description.is_empty()
                    {
                        meaning(status).clone_into(&mut response.description);
                    }
                }
            }
        }
    }
}

/// True if the role `read-only` is enough: contains the names of the handlers with a `Reader`.
fn is_for_readers(operation: &Operation) -> bool {
    let name = operation.operation_id.as_deref();
    let name = name.and_then(|id| id.rsplit('_').next());
    matches!(name, Some("list" | "show" | "explain"))
}

fn meaning(status: &str) -> &'static str {
    match status {
        "200" => "Done; the body is the result.",
        "201" => "Made; the body is what was made.",
        "204" => "Done.",
        "400" => "The request is not what the operation takes; nothing was changed.",
        "401" => "The admin token is absent or wrong.",
        "403" => "The admin token has the role read-only.",
        "404" => "There is nothing of this name.",
        "409" => {
            "It exists already, or is in a state that does not allow the operation; nothing was changed."
        }
        "413" => "The body is too large.",
        "500" => "The service failed.",
        _ => "See the error in the body.",
    }
}

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes.service(
        web::scope(paths::ADMIN)
            .wrap(from_fn(operations::check))
            .wrap(from_fn(uncancelled::run))
            .route(OPENAPI, web::get().to(openapi))
            .configure(clients::routes)
            .configure(users::routes)
            .configure(grants::routes)
            .configure(keys::routes)
            .configure(encryption_keys::routes)
            .configure(legacy_instances::routes)
            .configure(revocations::routes)
            .configure(audit::routes)
            .configure(service::routes)
            .default_service(web::to(error::not_found)),
    );
}

/// The description needs no token, because it is the same for every installation.
async fn openapi() -> HttpResponse {
    line::json(&mut HttpResponse::Ok(), &Description::openapi())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Generators of clients make functions and paths of the ids.
    #[test]
    fn operation_ids_are_unique_and_safe_in_urls() {
        let mut ids = BTreeSet::new();
        for (path, item) in Description::openapi().paths.paths {
            let operations = [item.get, item.put, item.post, item.delete, item.patch];
            for operation in operations.into_iter().flatten() {
                let id = operation.operation_id.unwrap();
                let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
                assert!(id.bytes().all(is_safe), "{path}: {id}");
                assert!(ids.insert(id), "{path}");
            }
        }
    }
}
