//! What clients find out by themselves (RFC 8414, RFC 7517), and the health of the service.

use serde_json::json;

use crate::support::{agent, get, lobby, pair, send};

/// Checklist row 23.
#[test]
fn rfc8414_s3_3_metadata_names_the_issuer_it_was_fetched_from() {
    let reply = get(
        &format!("{}/.well-known/oauth-authorization-server", lobby()),
        &[],
    );
    assert_eq!(reply.status, 200);
    let metadata = reply.json();
    assert_eq!(metadata["issuer"], lobby());
    for (member, path) in [
        ("authorization_endpoint", "/auth/authorize"),
        ("token_endpoint", "/auth/token"),
        ("jwks_uri", "/auth/jwks"),
        ("revocation_endpoint", "/auth/revoke"),
        ("introspection_endpoint", "/auth/introspect"),
    ] {
        assert_eq!(metadata[member], format!("{}{path}", lobby()), "{member}");
    }
    assert_eq!(metadata["response_types_supported"], json!(["code"]));
    assert_eq!(
        metadata["code_challenge_methods_supported"],
        json!(["S256"])
    );
    assert_eq!(
        metadata["authorization_response_iss_parameter_supported"],
        true
    );
    let elsewhere = get(
        &format!("{}/.well-known/oauth-authorization-server/x", lobby()),
        &[],
    );
    elsewhere.assert_error(404, "invalid_request");
}

#[test]
fn the_keys_are_public_and_cacheable() {
    let reply = get(&format!("{}/auth/jwks", lobby()), &[]);
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("cache-control"), Some("public, max-age=300"));
    let keys = reply.json();
    let key = &keys["keys"][0];
    assert_eq!(
        (&key["kty"], &key["crv"]),
        (&json!("OKP"), &json!("Ed25519"))
    );
    assert_eq!((&key["use"], &key["alg"]), (&json!("sig"), &json!("EdDSA")));
    for private in ["d", "p", "q", "k"] {
        assert!(key.get(private).is_none(), "{private}");
    }
}

#[test]
fn health_is_internal() {
    for path in ["/healthz", "/readyz"] {
        let internal = get(&format!("{}{path}", pair().internal_url()), &[]);
        assert_eq!(internal.status, 200);
    }
    for path in [
        "/healthz",
        "/readyz",
        "/revocations",
        "/metrics",
        "/admin/clients",
    ] {
        let public = get(&format!("{}{path}", lobby()), &[]);
        public.assert_error(404, "invalid_request");
    }
}

/// Checklist row 25: no page of another origin reads the token endpoint, and none at all the authorization endpoint.
#[test]
fn rfc9700_s2_6_cors_for_registered_apps_alone() {
    let preflight = |path: &str, origin: &str| {
        let request = ureq::http::Request::options(format!("{}{path}", lobby()))
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "content-type")
            .body(())
            .unwrap();
        let reply = send(&agent(), request);
        reply
            .header("access-control-allow-origin")
            .map(str::to_owned)
    };
    let app = "https://spa.example.com";
    for path in ["/auth/token", "/auth/revoke"] {
        assert_eq!(preflight(path, app).as_deref(), Some(app), "{path}");
        assert_eq!(preflight(path, "https://evil.example.com"), None, "{path}");
        assert_eq!(
            preflight(path, "https://app.example.com"),
            None,
            "a confidential client has no pages"
        );
    }
    assert_eq!(preflight("/auth/authorize", app), None);
}
