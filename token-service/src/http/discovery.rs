//! Discovery for clients and the filter: metadata (RFC 8414) and public keys.

use actix_web::http::StatusCode;
use actix_web::http::header::{self, EntityTag, IfNoneMatch};
use actix_web::middleware::from_fn;
use actix_web::web::{self, Data};
use actix_web::{HttpMessage as _, HttpRequest, HttpResponse};
use claims::Algorithm;
use serde::Serialize;
use utoipa::ToSchema;

use super::{cors, error, paths};
use crate::config::{LANGUAGES, MutualTls};
use crate::service::Service;
use domain::amr;
use domain::client_key;
use domain::digest::Digest;
use protocol::oauth::assertion::identity::ID_JAG_PROFILE;
use protocol::oauth::grants::GrantType;
use protocol::oauth::proof;

/// Caches may keep keys and metadata for 300 seconds. A new key is announced for longer than that before its use.
const MAX_AGE: &str = "public, max-age=300";

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes
        .service(
            web::resource(paths::JWKS)
                .wrap(cors::registered_apps())
                .wrap(from_fn(cors::look_up_origin))
                .route(web::get().to(jwks))
                .default_service(error::other_methods("GET, HEAD, OPTIONS")),
        )
        .service(
            web::resource([paths::METADATA, paths::OPENID_CONFIGURATION])
                .wrap(cors::registered_apps())
                .wrap(from_fn(cors::look_up_origin))
                .route(web::get().to(metadata))
                .default_service(error::other_methods("GET, HEAD, OPTIONS")),
        );
}

/// The public keys that verify access tokens.
#[utoipa::path(get, path = "/auth/jwks", tag = "discovery",
    responses((status = 200, description = "A JWK set.", body = Keys, content_type = "application/jwk-set+json")))]
pub(super) async fn jwks(request: HttpRequest, service: Data<Service>) -> HttpResponse {
    let keys = service.keys().published().to_owned();
    cacheable(&request, "application/jwk-set+json", keys)
}

/// A response with `content`, or 304 if the client already has that content (RFC 9110 §13.1.2).
pub(super) fn cacheable(
    request: &HttpRequest,
    content_type: &'static str,
    content: String,
) -> HttpResponse {
    let digest = Digest::of(content.as_bytes());
    let tag = EntityTag::new_strong(digest.to_base64url());
    let is_known = match request.get_header::<IfNoneMatch>() {
        Some(IfNoneMatch::Any) => true,
        Some(IfNoneMatch::Items(known)) => known.iter().any(|known| known.weak_eq(&tag)),
        None => false,
    };
    let status = if is_known {
        StatusCode::NOT_MODIFIED
    } else {
        StatusCode::OK
    };
    let mut response = HttpResponse::build(status);
    response
        .insert_header((header::CACHE_CONTROL, MAX_AGE))
        .insert_header(header::ETag(tag));
    if is_known {
        return response.finish();
    }
    response
        .insert_header((header::CONTENT_TYPE, content_type))
        .body(content)
}

/// A public key (RFC 7517 §4).
#[derive(ToSchema)]
#[expect(dead_code, reason = "only describes")]
struct Key {
    kid: String,
    /// `OKP`, `EC` or `RSA`.
    kty: String,
    alg: String,
    r#use: String,
}

/// A JWK set (RFC 7517 §5).
#[derive(ToSchema)]
#[expect(dead_code, reason = "only describes")]
struct Keys {
    keys: Vec<Key>,
}

const CLIENT_SECRET_BASIC: &str = "client_secret_basic";
const PRIVATE_KEY_JWT: &str = "private_key_jwt";
/// RFC 8705 §2.2.
const SELF_SIGNED_TLS: &str = "self_signed_tls_client_auth";

/// Authorization server metadata (RFC 8414 §2), with the flag of RFC 9207 §3.
#[derive(Debug, Serialize, ToSchema)]
struct Metadata<'a> {
    issuer: &'a str,
    authorization_endpoint: String,
    token_endpoint: String,
    revocation_endpoint: String,
    introspection_endpoint: String,
    pushed_authorization_request_endpoint: String,
    /// False: single clients may be registered for it (RFC 9126 §5, §6).
    require_pushed_authorization_requests: bool,
    jwks_uri: String,
    response_types_supported: [&'static str; 1],
    response_modes_supported: [&'static str; 1],
    grant_types_supported: Vec<&'static str>,
    /// Only with identity providers (draft-ietf-oauth-identity-assertion-authz-grant).
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    authorization_grant_profiles_supported: &'static [&'static str],
    token_endpoint_auth_methods_supported: Vec<&'static str>,
    token_endpoint_auth_signing_alg_values_supported: [&'static str; 4],
    revocation_endpoint_auth_methods_supported: Vec<&'static str>,
    revocation_endpoint_auth_signing_alg_values_supported: [&'static str; 4],
    introspection_endpoint_auth_methods_supported: Vec<&'static str>,
    introspection_endpoint_auth_signing_alg_values_supported: [&'static str; 4],
    code_challenge_methods_supported: [&'static str; 1],
    /// RFC 9449 §5.1.
    dpop_signing_alg_values_supported: [&'static str; 3],
    /// RFC 8705 §3.3.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    tls_client_certificate_bound_access_tokens: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    mtls_endpoint_aliases: Option<Aliases>,
    authorization_response_iss_parameter_supported: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    scopes_supported: Vec<&'a str>,
    acr_values_supported: [&'static str; 1],
    ui_locales_supported: [&'static str; 2],
    #[serde(skip_serializing_if = "Option::is_none")]
    service_documentation: Option<&'a str>,
}

/// The endpoints for connections with a certificate (RFC 8705 §5).
#[derive(Debug, Serialize, ToSchema)]
struct Aliases {
    token_endpoint: String,
    revocation_endpoint: String,
    introspection_endpoint: String,
    pushed_authorization_request_endpoint: String,
}

impl Aliases {
    fn of(config: &MutualTls) -> Self {
        let at = |path: &str| format!("{}{path}", config.url);
        Self {
            token_endpoint: at(paths::TOKEN),
            revocation_endpoint: at(paths::REVOKE),
            introspection_endpoint: at(paths::INTROSPECT),
            pushed_authorization_request_endpoint: at(paths::PUSHED),
        }
    }
}

/// Metadata of the authorization server (RFC 8414).
#[utoipa::path(get, path = "/.well-known/oauth-authorization-server", tag = "discovery",
    responses((status = 200, description = "Metadata.", body = Metadata)))]
pub(super) async fn metadata(request: HttpRequest, service: Data<Service>) -> HttpResponse {
    let issuer = service.config.protocol.issuer.as_str();
    let at = |path: &str| format!("{issuer}{path}");
    let summary = service.directory().summary();
    let mutual_tls = service.config.mutual_tls.as_ref().map(Aliases::of);
    // Only clients that authenticate may introspect.
    let mut proving = vec![CLIENT_SECRET_BASIC, PRIVATE_KEY_JWT];
    proving.extend(mutual_tls.as_ref().map(|_| SELF_SIGNED_TLS));
    let methods = [proving.as_slice(), &["none"]].concat();
    let metadata = Metadata {
        issuer,
        authorization_endpoint: at(paths::AUTHORIZE),
        token_endpoint: at(paths::TOKEN),
        revocation_endpoint: at(paths::REVOKE),
        introspection_endpoint: at(paths::INTROSPECT),
        pushed_authorization_request_endpoint: at(paths::PUSHED),
        require_pushed_authorization_requests: false,
        jwks_uri: at(paths::JWKS),
        response_types_supported: ["code"],
        response_modes_supported: ["query"],
        grant_types_supported: GrantType::ALL.iter().map(|grant| grant.name()).collect(),
        authorization_grant_profiles_supported: match &*service.config.protocol.identity_providers {
            [] => &[],
            [_, ..] => &[ID_JAG_PROFILE],
        },
        token_endpoint_auth_methods_supported: methods.clone(),
        token_endpoint_auth_signing_alg_values_supported: client_key::ALGORITHMS,
        revocation_endpoint_auth_methods_supported: methods,
        revocation_endpoint_auth_signing_alg_values_supported: client_key::ALGORITHMS,
        introspection_endpoint_auth_methods_supported: proving,
        introspection_endpoint_auth_signing_alg_values_supported: client_key::ALGORITHMS,
        code_challenge_methods_supported: ["S256"],
        dpop_signing_alg_values_supported: proof::ALGORITHMS.map(Algorithm::name),
        tls_client_certificate_bound_access_tokens: mutual_tls.is_some(),
        mtls_endpoint_aliases: mutual_tls,
        authorization_response_iss_parameter_supported: true,
        scopes_supported: summary.scopes.iter().map(String::as_str).collect(),
        acr_values_supported: [amr::MULTI_FACTOR],
        ui_locales_supported: LANGUAGES,
        service_documentation: service.config.service_documentation.as_deref(),
    };
    match serde_json::to_string(&metadata) {
        Ok(metadata) => cacheable(&request, "application/json", metadata),
        Err(error) => {
            tracing::error!(%error, "the metadata cannot be written");
            HttpResponse::InternalServerError().finish()
        }
    }
}
