//! `/admin/...`, on the internal listener: registration and operators' daily tasks, as JSON behind the admin token. One
//! file for each topic, with its routes, its functions and their OpenAPI description.

mod access;
mod answer;
pub(crate) mod audit;
mod backup;
mod body;
pub(crate) mod clients;
mod effects;
pub(crate) mod encryption_keys;
pub(crate) mod explain;
pub(crate) mod grants;
pub(crate) mod keys;
mod legacy_instances;
pub(crate) mod objects;
mod operations;
pub(crate) mod pages;
pub(crate) mod registrations;
pub(crate) mod revocations;
pub(crate) mod users;

use std::sync::Arc;

use actix_web::middleware::from_fn;
use actix_web::web;
use actix_web::{HttpRequest, HttpResponse};
use serde_json::{Map, Value};
use utoipa::openapi::RefOr;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

pub(crate) use self::answer::AdminError;
use self::pages::Page;
use super::{error, line, openapi, paths, uncancelled};
use crate::service::Service;
use crate::telemetry::audit_log::{Entry, Origin};
use domain::{AuditEvent, Client, LegacyInstance, User};
use registry::objects::{ClientView, UserView};
use secrets::protection::Passwords;

/// A JSON object, such as a request body.
pub(crate) type Object = Map<String, Value>;

/// The running service and the administrator who uses it.
pub(crate) struct Administration {
    pub service: Arc<Service>,
    pub origin: Origin,
    /// The name of the admin token, if it has one.
    pub name: Option<String>,
    /// The passwords in the request, with their protection.
    passwords: Arc<Passwords>,
}

impl Administration {
    pub(crate) fn new(service: Arc<Service>, origin: Origin, name: Option<String>) -> Self {
        Self {
            service,
            origin,
            name,
            passwords: Arc::default(),
        }
    }

    /// An entry of the audit log, by this administrator.
    fn event(&self, entry: Entry) -> AuditEvent {
        let entry = entry.by_administrator(self.name.as_deref());
        self.service.event(&self.origin, entry)
    }

    /// The entry of the audit log for the transaction of a change.
    fn events(&self, entry: Entry) -> Arc<[AuditEvent]> {
        [self.event(entry)].into()
    }

    fn record(&self, entry: Entry) {
        let entry = entry.by_administrator(self.name.as_deref());
        self.service.record(&self.origin, entry);
    }
}

/// Runs `work` outside the worker of the administration, which also answers health checks.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, AdminError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| AdminError::Internal(error.to_string()))
}

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
    modifiers(&Complete),
    components(schemas(Page<ClientView>, Page<UserView>)),
    paths(
        clients::add_secret,
        clients::end_old_secrets,
        clients::add_certificate,
        clients::delete_certificate,
        users::remove_second_factor,
        users::make_password_link,
        users::link_account,
        users::unlink_account,
        users::link_identity,
        users::unlink_identity,
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
        registrations::apply,
        backup::backup,
        explain::explain,
    )
)]
struct Description;

const TAGS: [(&str, &str); 9] = [
    (
        "clients",
        "Clients: registrations, secrets and certificates.",
    ),
    (
        "users",
        "Users: registrations, accounts, identities, passwords and second factors.",
    ),
    ("grants", "What users authorized."),
    ("keys", "Keys that sign tokens."),
    ("encryption_keys", "Keys that seal stored values."),
    ("legacy instances", "Hosts of the legacy flow."),
    (
        "revocations",
        "Cut-offs and the feed of revocations to the gateways.",
    ),
    ("audit", "The audit log."),
    (
        "service",
        "The registrations file, backups and explanations.",
    ),
];

/// Adds what the handlers' attributes omit: the token, the common operations of clients and users, unique operation ids,
/// refusals of access, and the meaning of each status.
struct Complete;

impl Modify for Complete {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("admin_token", SecurityScheme::Http(scheme));
        objects::describe::<Client>(
            openapi,
            [
                "Lists clients in the order of their ids.",
                "Registers a client. A generated secret is in the answer, this once.",
                "Shows a client.",
                "Changes a client by a JSON merge patch (RFC 7396) of its registration. Disabling it revokes what was \
                 issued to it.",
                "Removes a client; everything issued to it is revoked, at the edge too.",
            ],
        );
        objects::describe::<User>(
            openapi,
            [
                "Lists users in the order of their names.",
                "Registers a user.",
                "Shows a user.",
                "Changes a user by a JSON merge patch (RFC 7396) of the registration. A new password or second \
                 factor, or being disabled, ends the user's sessions and revokes what was issued.",
                "Removes a user; everything issued to them is revoked, at the edge too.",
            ],
        );
        objects::describe_owner::<LegacyInstance>(openapi);
        openapi::complete(openapi, &TAGS);
        for item in openapi.paths.paths.values_mut() {
            for operation in openapi::operations(item) {
                let tag = operation.tags.as_ref().and_then(|tags| tags.first());
                if let (Some(tag), Some(name)) = (tag, &operation.operation_id) {
                    operation.operation_id = Some(format!("{}_{name}", tag.replace(' ', "_")));
                }
                let refusals = match is_for_readers(operation) {
                    true => &["401"][..],
                    false => &["401", "403"],
                };
                let responses = &mut operation.responses.responses;
                let refused = |status: &&str| ((*status).to_owned(), objects::failed().into());
                responses.extend(refusals.iter().map(refused));
                for (status, response) in responses {
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
            "It exists already, a file defines it, or its state does not allow the operation; nothing was changed."
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
            .configure(registrations::routes)
            .configure(backup::routes)
            .configure(explain::routes)
            .default_service(web::to(error::not_found)),
    );
}

/// The description needs no token, because it is the same for every installation.
async fn openapi(request: HttpRequest) -> HttpResponse {
    let connection = request.connection_info();
    let url = format!("{}://{}", connection.scheme(), connection.host());
    let description = openapi::at(Description::openapi(), &url, "The internal listener");
    line::json(&mut HttpResponse::Ok(), &description)
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

    #[test]
    fn everything_is_described_for_readers_without_the_source() {
        let description = openapi::at(Description::openapi(), "http://127.0.0.1:9081", "Here");
        assert_eq!(openapi::problems(&description), [""; 0]);
    }

    /// A token without a JOSE header has none to explain.
    #[test]
    fn an_explanation_may_lack_header_and_claims() {
        let description = serde_json::to_value(Description::openapi()).unwrap();
        let schema = &description["components"]["schemas"]["Explanation"];
        for name in ["header", "claims"] {
            let kinds = &schema["properties"][name]["type"];
            assert_eq!(*kinds, serde_json::json!(["object", "null"]), "{schema}");
            assert!(schema["required"].to_string().contains(name), "{schema}");
        }
    }
}
