//! The OpenAPI description of the public endpoints, for tools that make clients and requests (protocol.md §4). The schemas of
//! responses come from the types that the endpoints write. The schemas of forms are in [`forms`], because the protocol
//! reads forms without types.

use std::sync::LazyLock;

use actix_web::web::{self, Data};
use actix_web::{HttpRequest, HttpResponse};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Content, Ref, ResponseBuilder};
use utoipa::{Modify, OpenApi, ToSchema};

use super::error::ErrorBody;
use super::{
    discovery, error, forms, introspection, legacy, openapi, paths, pushed, revocation, token,
};
use crate::service::Service;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Gatepass",
        description = "The OAuth 2.0 endpoints of the token service: authorization, tokens, revocation, introspection, keys, and \
                       the legacy flow, whose endpoints are at its own hosts. A client may also authenticate with an assertion in the form \
                       (`private_key_jwt`). Every error has the members `error` and `error_description`, except on pages."
    ),
    modifiers(&Complete),
    components(schemas(ErrorBody)),
    paths(
        forms::authorize,
        token::token,
        pushed::push,
        revocation::revoke,
        introspection::introspect,
        discovery::jwks,
        discovery::metadata,
        forms::logon,
        legacy::show_status,
        legacy::token,
    )
)]
struct Description;

const TAGS: [(&str, &str); 4] = [
    (
        "authorization",
        "What browsers open, and requests that clients push before.",
    ),
    ("tokens", "Tokens: issue, revocation and state."),
    ("discovery", "Metadata and keys."),
    ("legacy", "The legacy flow, at its own hosts."),
];

/// The refusals of each endpoint that reads a form.
const REFUSALS: [(&str, &str); 7] = [
    (
        "400",
        "The request is not what the endpoint takes, or the grant is refused.",
    ),
    ("401", "The client did not authenticate."),
    ("408", "The form came too slowly."),
    ("413", "The form has more than 64 KiB."),
    (
        "429",
        "Too many wrong secrets, or too many revocations. `Retry-After` says when to try again.",
    ),
    ("500", "The service failed."),
    (
        "503",
        "The service cannot decide now. `Retry-After` says when to try again.",
    ),
];

/// Adds what the attributes of the handlers omit: the server, the ways of client authentication, and the refusals.
struct Complete;

impl Modify for Complete {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let basic = HttpBuilder::new().scheme(HttpAuthScheme::Basic);
        let basic = basic.description(Some(
            "Client ID and client secret, each percent-encoded (RFC 6749 §2.3.1).",
        ));
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("client_secret_basic", SecurityScheme::Http(basic.build()));
        let certificate = "Certificate of the client at `mtls_endpoint_aliases` of the metadata, with `client_id` in the form: \
                           `self_signed_tls_client_auth` (RFC 8705 §2.2).";
        let description = Some(certificate.to_owned());
        components.add_security_scheme(
            "client_certificate",
            SecurityScheme::MutualTls {
                description,
                deprecated: None,
                extensions: None,
            },
        );
        openapi::complete(openapi, &TAGS);
        for operation in openapi
            .paths
            .paths
            .values_mut()
            .filter_map(|item| item.post.as_mut())
        {
            for (status, meaning) in REFUSALS {
                let body = Content::new(Some(Ref::from_schema_name(ErrorBody::name())));
                let refusal = ResponseBuilder::new()
                    .description(meaning)
                    .content("application/json", body);
                operation
                    .responses
                    .responses
                    .insert(status.to_owned(), refusal.build().into());
            }
        }
    }
}

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes.service(error::get(paths::OPENAPI, openapi));
}

/// Made once, because anybody may ask for it.
static DESCRIPTION: LazyLock<utoipa::openapi::OpenApi> = LazyLock::new(Description::openapi);

async fn openapi(request: HttpRequest, service: Data<Service>) -> HttpResponse {
    let issuer = &service.config.protocol.issuer;
    let description = openapi::at(DESCRIPTION.clone(), issuer, "The issuer");
    match serde_json::to_string(&description) {
        Ok(json) => discovery::cacheable(&request, "application/json", json),
        Err(_) => error::failed("The description cannot be written"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_described_for_readers_without_the_source() {
        let description = openapi::at(DESCRIPTION.clone(), "https://lobby.example", "Here");
        assert_eq!(openapi::problems(&description), [""; 0]);
    }
}
