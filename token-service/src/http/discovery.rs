//! What clients and the filter find out by themselves: metadata (RFC 8414) and the public keys.

use actix_web::http::header;
use actix_web::web::{self, Data};
use actix_web::{HttpRequest, HttpResponse};
use serde::Serialize;

use super::{cors, error, paths};
use crate::oauth::grants::GrantType;
use crate::service::Service;

/// Seconds that caches may keep keys and metadata. A new key is announced longer than this before its use.
const MAX_AGE: &str = "public, max-age=300";

pub(super) fn routes(routes: &mut web::ServiceConfig, service: &Data<Service>) {
    routes
        .service(
            web::resource(paths::JWKS)
                .wrap(cors::registered_apps(service.clone()))
                .route(web::get().to(jwks))
                .default_service(web::to(|| async {
                    error::method_not_allowed("GET, OPTIONS")
                })),
        )
        .service(
            web::resource([
                paths::METADATA.to_owned(),
                format!("{}/{{issuer_path:.*}}", paths::METADATA),
            ])
            .wrap(cors::registered_apps(service.clone()))
            .route(web::get().to(metadata))
            .default_service(web::to(|| async {
                error::method_not_allowed("GET, OPTIONS")
            })),
        );
}

async fn jwks(service: Data<Service>) -> HttpResponse {
    HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "application/jwk-set+json"))
        .insert_header((header::CACHE_CONTROL, MAX_AGE))
        .body(service.keys().published().to_owned())
}

/// Authorization server metadata (RFC 8414 §2), with the flag of RFC 9207 §3.
#[derive(Debug, Serialize)]
struct Metadata<'a> {
    issuer: &'a str,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    response_types_supported: [&'static str; 1],
    response_modes_supported: [&'static str; 1],
    grant_types_supported: [&'static str; 4],
    token_endpoint_auth_methods_supported: [&'static str; 2],
    code_challenge_methods_supported: [&'static str; 1],
    authorization_response_iss_parameter_supported: bool,
}

async fn metadata(request: HttpRequest, service: Data<Service>) -> HttpResponse {
    let issuer = service.config.issuer.as_str();
    // RFC 8414 §3.1: an issuer's path follows the well-known part; any other path is somebody else's.
    let path = request
        .path()
        .strip_prefix(paths::METADATA)
        .unwrap_or_default();
    if path != issuer_path(issuer) {
        return error::not_found().await;
    }
    let at = |path: &str| format!("{issuer}{path}");
    HttpResponse::Ok()
        .insert_header((header::CACHE_CONTROL, MAX_AGE))
        .json(Metadata {
            issuer,
            authorization_endpoint: at(paths::AUTHORIZE),
            token_endpoint: at(paths::TOKEN),
            jwks_uri: at(paths::JWKS),
            response_types_supported: ["code"],
            response_modes_supported: ["query"],
            grant_types_supported: GrantType::ALL.map(GrantType::name),
            token_endpoint_auth_methods_supported: ["client_secret_basic", "none"],
            code_challenge_methods_supported: ["S256"],
            authorization_response_iss_parameter_supported: true,
        })
}

fn issuer_path(issuer: &str) -> &str {
    let authority = issuer.split_once("://").map_or(issuer, |(_, rest)| rest);
    authority
        .find('/')
        .map_or("", |start| authority.split_at(start).1)
}
