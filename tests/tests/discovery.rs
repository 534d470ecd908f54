//! Metadata and keys for clients (RFC 8414, RFC 7517), and the health of the service.

use serde_json::json;

use crate::support::{Browser, Reply, get, lobby, pair, send};

/// Reads a path of the lobby.
fn read(path: &str) -> Reply {
    get(&format!("{}{path}", lobby()), &[])
}

#[test]
fn rfc8414_s3_3_metadata_names_the_issuer_it_was_fetched_from() {
    let reply = read("/.well-known/oauth-authorization-server");
    assert_eq!(reply.status, 200);
    let metadata = reply.json();
    assert_eq!(metadata["issuer"], lobby());
    for (member, path) in [
        ("authorization_endpoint", "/auth/authorize"),
        ("token_endpoint", "/auth/token"),
        ("jwks_uri", "/auth/jwks"),
        ("revocation_endpoint", "/auth/revoke"),
        ("introspection_endpoint", "/auth/introspect"),
        ("pushed_authorization_request_endpoint", "/auth/par"),
    ] {
        assert_eq!(metadata[member], format!("{}{path}", lobby()), "{member}");
    }
    assert_eq!(metadata["response_types_supported"], json!(["code"]));
    assert_eq!(
        metadata["code_challenge_methods_supported"],
        json!(["S256"])
    );
    assert_eq!(
        metadata["dpop_signing_alg_values_supported"],
        json!(["EdDSA", "ES256", "RS256"])
    );
    assert_eq!(
        metadata["authorization_response_iss_parameter_supported"],
        true
    );
    assert_eq!(
        metadata["scopes_supported"],
        json!(["documents", "projects"])
    );
    assert_eq!(metadata["ui_locales_supported"], json!(["en", "de"]));
    // Where clients of OpenID Connect look (D-30).
    let also = read("/.well-known/openid-configuration");
    assert_eq!((also.status, also.json()), (200, metadata));
    let elsewhere = read("/.well-known/oauth-authorization-server/x");
    elsewhere.assert_error(404, "not_found");
}

#[test]
fn the_keys_are_public_and_cacheable() {
    let reply = read("/auth/jwks");
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
        read(path).assert_error(404, "not_found");
    }
}

/// No page of another origin reads the token endpoint, and none at all the authorization endpoint.
#[test]
fn rfc9700_s2_6_cors_for_registered_apps_alone() {
    let preflight = |path: &str, origin: &str| {
        let headers = [
            ("origin", origin),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "content-type,dpop"),
        ];
        let reply = send("OPTIONS", &format!("{}{path}", lobby()), &headers, ());
        assert!(reply.header("x-request-id").is_some());
        let allowed = reply.header("access-control-allow-origin");
        if allowed.is_none() && path != "/auth/authorize" {
            reply.assert_error(400, "invalid_request");
        }
        allowed.map(str::to_owned)
    };
    let app = "https://spa.example.com";
    for path in ["/auth/token", "/auth/revoke", "/auth/par"] {
        assert_eq!(preflight(path, app).as_deref(), Some(app), "{path}");
        assert_eq!(preflight(path, "https://evil.example.com"), None, "{path}");
        assert_eq!(
            preflight(path, "https://app.example.com"),
            None,
            "a confidential client has no pages"
        );
    }
    assert_eq!(preflight("/auth/authorize", app), None);
    // RFC 9449 §8: the nonce for the next proof.
    let refused = get(&format!("{}/auth/token", lobby()), &[("origin", app)]);
    let exposed = refused.header("access-control-expose-headers").unwrap();
    for name in ["dpop-nonce", "www-authenticate"] {
        assert!(exposed.contains(name), "{exposed}");
    }
}

/// D-29, RFC 9110 §9.1: "All general-purpose servers MUST support the methods GET and HEAD."
#[test]
fn rfc9110_s9_3_2_head_is_get_without_a_body() {
    let home = read("/auth/");
    let stylesheet = home
        .body
        .split('"')
        .find(|text| text.ends_with(".css"))
        .unwrap();
    let public = [
        "/auth/jwks",
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
        "/auth/",
        "/auth/authorize?client_id=nobody",
        stylesheet,
        "/nowhere",
    ]
    .map(|path| format!("{}{path}", lobby()));
    let internal = [
        "/healthz",
        "/readyz",
        "/metrics",
        "/revocations",
        "/admin/openapi.json",
    ]
    .map(|path| format!("{}{path}", pair().internal_url()));
    for url in public.into_iter().chain(internal) {
        let (got, head) = (get(&url, &[]), send("HEAD", &url, &[], ()));
        assert_eq!(head.status, got.status, "{url}");
        assert_eq!(
            head.header("content-type"),
            got.header("content-type"),
            "{url}"
        );
        assert_eq!(head.body, "", "{url}");
        assert!(!got.body.is_empty(), "{url}");
    }
}

/// RFC 9110 §13.1.2: a client that already has the keys gets 304.
#[test]
fn rfc9110_s13_1_2_unchanged_keys_and_metadata_are_not_sent_again() {
    for path in ["/auth/jwks", "/.well-known/oauth-authorization-server"] {
        let url = format!("{}{path}", lobby());
        let reply = get(&url, &[]);
        let tag = reply.header("etag").unwrap().to_owned();
        for known in [tag.clone(), format!("\"other\", W/{tag}"), "*".to_owned()] {
            let again = get(&url, &[("if-none-match", &known)]);
            assert_eq!(
                (again.status, again.body.as_str()),
                (304, ""),
                "{path} {known}"
            );
            assert_eq!(again.header("etag"), Some(tag.as_str()));
            assert_eq!(again.header("cache-control"), Some("public, max-age=300"));
        }
        let other = get(&url, &[("if-none-match", "\"other\"")]);
        assert_eq!((other.status, other.body), (200, reply.body));
    }
}

/// The answer to a wrong path or method names the right one.
#[test]
fn who_asks_in_the_wrong_way_is_told_the_right_one() {
    for (method, path, right, allow) in [
        ("GET", "/auth/token", "POST", "POST, OPTIONS"),
        ("GET", "/auth/revoke", "POST", "POST, OPTIONS"),
        ("GET", "/auth/introspect", "POST", "POST"),
        ("DELETE", "/auth/jwks", "GET", "GET, HEAD, OPTIONS"),
    ] {
        let reply = send(method, &format!("{}{path}", lobby()), &[], ());
        let description = format!("{path} takes {right}; this request is {method}");
        assert_eq!(reply.assert_error(405, "method_not_allowed"), description);
        assert_eq!(reply.header("allow"), Some(allow));
        let asked = send("OPTIONS", &format!("{}{path}", lobby()), &[], ());
        let expected = if allow.contains("OPTIONS") { 204 } else { 405 };
        assert_eq!(
            (asked.status, asked.header("allow")),
            (expected, Some(allow))
        );
    }
    for (path, meant) in [
        ("/auth/token/", "POST /auth/token"),
        ("/token", "POST /auth/token"),
        ("/oauth/token", "POST /auth/token"),
        ("/oauth2/authorize", "GET /auth/authorize"),
        ("/.well-known/jwks.json", "GET /auth/jwks"),
    ] {
        let description = read(path).assert_error(404, "not_found");
        assert!(
            description.ends_with(&format!("perhaps you mean {meant}")),
            "{path}: {description}"
        );
    }
    let browser = Browser::new(&lobby());
    let page = |path| browser.look("GET", path, ("accept", "text/html,*/*;q=0.8"));
    for (path, word) in [
        ("/auth/profile", "This page does not exist"),
        ("/auth/authorise", "This page does not exist"),
        ("/auth/token/", "Perhaps you mean POST /auth/token."),
        ("/profile", "This page does not exist"),
        ("/oauth/token", "Perhaps you mean POST /auth/token."),
        ("/Logon", "this host is no legacy host."),
    ] {
        let reply = page(path);
        assert_eq!(reply.status, 404, "{path}");
        assert!(
            reply.body.contains("<h1>") && reply.body.contains(word),
            "{}",
            reply.body
        );
    }
    // Password managers ask whether the service says 404 to what it does not know.
    let unknown = "/.well-known/resource-that-should-not-exist-whose-status-code-should-not-be-200";
    assert_eq!(read(unknown).status, 404);
    let change = read("/.well-known/change-password");
    let answered = (change.status, change.header("location"));
    assert_eq!(answered, (302, Some("/auth/password")));
    for path in ["/", "/auth"] {
        let reply = read(path);
        let answered = (reply.status, reply.header("location"));
        assert_eq!(answered, (303, Some("/auth/")), "{path}");
    }
}
