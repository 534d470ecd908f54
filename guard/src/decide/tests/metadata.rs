//! The metadata of the resource server.

use super::*;

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The configuration of a resource with this metadata.
fn resource(metadata: Value) -> Value {
    let mut config = fixtures::config();
    config["protected_resource"] = metadata;
    config
}

/// What the guard answers itself; `None` if it refuses the request.
fn answered(config: &Value, method: &str, target: &str) -> Option<Value> {
    let request = Request {
        method: method.as_bytes(),
        ..get(target, &[])
    };
    let effect = Tested::new(config).effect(request);
    if effect.denial.is_some() {
        return None;
    }
    let answer = answer(effect);
    assert_eq!(answer.status, 200);
    Some(serde_json::from_str(&answer.body).unwrap())
}

#[test]
fn rfc9728_metadata_is_answered_and_pointed_to() {
    let config = resource(
        json!({"resource": "https://api.example.com/v1", "scopes_supported": ["projects"]}),
    );
    let target = format!("{WELL_KNOWN}/v1");
    let expected = json!({
        "resource": "https://api.example.com/v1",
        "authorization_servers": ["https://lobby.example.com"],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["projects"],
    });
    assert_eq!(answered(&config, "GET", &target), Some(expected));
    let mut guard = Tested::new(&config);
    assert_eq!(guard.bare(WELL_KNOWN), denied(Denial::NoRule));
    let refusal = answer(guard.denial(Denial::NoToken, None));
    let pointer = format!("resource_metadata=\"https://api.example.com{target}\"");
    assert!(challenge(&refusal).contains(&pointer));
}

#[test]
fn rfc9728_s3_1_metadata_is_found_with_and_without_a_final_slash() {
    for (resource_url, path) in [
        ("https://api.example.com", ""),
        ("https://api.example.com/", ""),
        ("https://api.example.com/v1", "/v1"),
        ("https://api.example.com/v1/", "/v1"),
        ("http://[::1]:8080/a/b.c", "/a/b.c"),
    ] {
        let config = resource(json!({ "resource": resource_url }));
        for (methods, ends, is_found) in [
            (
                ["GET", "HEAD"].as_slice(),
                ["", "/", "?x=1", "/?x=1"].as_slice(),
                true,
            ),
            (&["GET"], &["//", "/x"], false),
            (&["POST"], &[""], false),
        ] {
            for (method, end) in methods
                .iter()
                .flat_map(|one| ends.iter().map(move |end| (one, end)))
            {
                let target = format!("{WELL_KNOWN}{path}{end}");
                let body = answered(&config, method, &target);
                let found = body.as_ref().map(|body| &body["resource"]);
                let expected = json!(resource_url);
                assert_eq!(found, is_found.then_some(&expected), "{method} {target}");
            }
        }
    }
}

#[test]
fn rfc9728_s2_only_servers_with_metadata_are_listed() {
    let mut config = resource(json!({"resource": "https://api.example.com"}));
    let mut other = with(
        config["issuers"][0].clone(),
        "authorization_server",
        json!(false),
    );
    other["issuer"] = json!("https://legacy.example.com");
    config["issuers"].as_array_mut().unwrap().push(other);
    let listed = |config: &Value| {
        answered(config, "GET", WELL_KNOWN).unwrap()["authorization_servers"].clone()
    };
    assert_eq!(listed(&config), json!(["https://lobby.example.com"]));
    config["issuers"].as_array_mut().unwrap().remove(0);
    let body = answered(&config, "GET", WELL_KNOWN).unwrap();
    assert_eq!(
        body.get("authorization_servers"),
        None,
        "no server, no member"
    );
}

/// RFC 9449 §10.2, RFC 8705 §3.3.
#[test]
fn rfc9728_s2_the_metadata_names_what_is_accepted() {
    let names = [
        "dpop_signing_alg_values_supported",
        "dpop_bound_access_tokens_required",
        "tls_client_certificate_bound_access_tokens",
    ];
    let (none, yes, algorithms) = (json!(null), json!(true), json!(["ES256", "EdDSA"]));
    for (has_dpop, sender_constrained, certificates, expected) in [
        (false, "optional", false, [&none, &none, &none]),
        (true, "optional", false, [&algorithms, &none, &none]),
        (true, "required", false, [&algorithms, &yes, &none]),
        (true, "required", true, [&algorithms, &none, &yes]),
        (false, "required", true, [&none, &none, &yes]),
    ] {
        let mut config = resource(json!({
            "resource": "https://api.example.com",
            "tls_client_certificate_bound_access_tokens": certificates,
        }));
        if has_dpop {
            config["dpop"] = json!({"origins": ["https://api.example.com"]});
        }
        config["issuers"][0]["sender_constrained"] = json!(sender_constrained);
        let body = answered(&config, "GET", WELL_KNOWN).unwrap();
        assert_eq!(names.map(|name| &body[name]), expected, "{body}");
    }
}
