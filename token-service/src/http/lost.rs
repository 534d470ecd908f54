//! Responses to unknown public paths, which name the path that was probably meant.

use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};

use super::{error, pages, paths};
use crate::service::Service;
use protocol::flows::FLOWS;

/// Endings of paths that integrators try, in lower case, with the method and path that they probably mean.
const MEANT: [(&str, &str, &str); 12] = [
    ("/token", "POST", paths::TOKEN),
    ("/access_token", "POST", paths::TOKEN),
    ("/par", "POST", paths::PUSHED),
    ("/authorize", "GET", paths::AUTHORIZE),
    ("/authorization", "GET", paths::AUTHORIZE),
    ("/revoke", "POST", paths::REVOKE),
    ("/revocation", "POST", paths::REVOKE),
    ("/introspect", "POST", paths::INTROSPECT),
    ("/introspection", "POST", paths::INTROSPECT),
    ("/jwks", "GET", paths::JWKS),
    ("/jwks.json", "GET", paths::JWKS),
    ("/keys", "GET", paths::JWKS),
];

/// Handles a path without a route. The bare address redirects to the page with the signed-in user.
pub(super) async fn not_found(request: HttpRequest) -> HttpResponse {
    let path = request.path();
    if matches!(path, "/" | "/auth") {
        let mut response = HttpResponse::build(StatusCode::SEE_OTHER).finish();
        let home = HeaderValue::from_static(paths::HOME);
        response.headers_mut().insert(header::LOCATION, home);
        return response;
    }
    let meant = meant(path).map(|(method, meant)| format!("{method} {meant}"));
    let service = request.app_data::<Data<Service>>();
    match (service, meant) {
        (Some(service), meant) if pages::are_opened(&request) => {
            pages::nothing_here(&request, service, meant).await
        }
        (_, Some(meant)) => error::no_such_path(&format!(
            "There is nothing at this path; perhaps you mean {meant}"
        )),
        (_, None) => error::not_found().await,
    }
}

fn meant(path: &str) -> Option<(&'static str, &'static str)> {
    let path = path.trim_end_matches('/').to_ascii_lowercase();
    let of_flows = FLOWS.iter().flat_map(|flow| flow.endpoints());
    let named = of_flows.copied().find(|(_, endpoint)| {
        let end = endpoint.rsplit('/').next().unwrap_or_default();
        let asked = path.rsplit('/').next().unwrap_or_default();
        asked.eq_ignore_ascii_case(end)
    });
    let alike = || MEANT.into_iter().find(|(end, ..)| path.ends_with(end));
    named.or_else(|| alike().map(|(_, method, meant)| (method, meant)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_spellings_lead_to_the_endpoint() {
        for (path, found) in [
            ("/auth/token/", "/auth/token"),
            ("/token", "/auth/token"),
            ("/oauth/token", "/auth/token"),
            ("/oauth2/v1/Token", "/auth/token"),
            ("/authorize", "/auth/authorize"),
            ("/.well-known/jwks.json", "/auth/jwks"),
            ("/oauthstatus", "/OAuthStatus"),
            ("/as/token.oauth2/", "/as/token.oauth2"),
        ] {
            assert_eq!(meant(path).map(|(_, path)| path), Some(found), "{path}");
        }
        for path in ["", "/favicon.ico", "/auth", "/tokens"] {
            assert_eq!(meant(path), None, "{path}");
        }
    }
}
