//! The metadata of the resource server.

use crate::answers::Answer;

use super::*;

#[test]
fn rfc9728_metadata_is_answered_and_pointed_to() {
    let mut config = fixtures::config();
    config["protected_resource"] =
        json!({"resource": "https://api.example.com/v1", "scopes_supported": ["projects"]});
    let mut guard = ready_with(&config, &Issuer::new(Algorithm::EdDsa));
    let Decision::Answer(answer) =
        decide(&mut guard, "/.well-known/oauth-protected-resource/v1", None)
    else {
        panic!("the filter answers");
    };
    assert_eq!(answer.status, 200);
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(
        body,
        json!({
            "resource": "https://api.example.com/v1",
            "authorization_servers": ["https://lobby.example.com"],
            "bearer_methods_supported": ["header"],
            "scopes_supported": ["projects"],
        })
    );
    let other = decide(&mut guard, "/.well-known/oauth-protected-resource", None);
    assert_eq!(other, Decision::Deny(Denial::NoRule));
    let Fate::Answer(refusal) = guard.effect(Denial::NoToken.into()).fate else {
        panic!("refused");
    };
    let pointer =
        "resource_metadata=\"https://api.example.com/.well-known/oauth-protected-resource/v1\"";
    assert!(
        refusal
            .headers
            .iter()
            .any(|(_, value)| value.contains(pointer))
    );
}

/// Returns the answer to a request for the metadata of `resource`. One of the two issuers has no metadata of
/// its own.
fn metadata(resource: &str, method: &str, target: &str) -> Option<Answer> {
    let mut config = fixtures::config();
    let mut other = config["issuers"][0].clone();
    other["issuer"] = json!("https://legacy.example.com");
    other["authorization_server"] = json!(false);
    config["issuers"].as_array_mut().unwrap().push(other);
    config["protected_resource"] = json!({ "resource": resource });
    let mut guard = guard(&config);
    let request = Request {
        method: method.as_bytes(),
        target: target.as_bytes(),
        authorization: &[],
        dpop: &[],
        connection: &None,
    };
    let outcome = guard.decide(request, Patience::Left, || NOW);
    match outcome.decision {
        Decision::Answer(answer) => Some(answer),
        _ => None,
    }
}

#[test]
fn rfc9728_s3_1_metadata_is_found_with_and_without_a_final_slash() {
    const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
    for (resource, path) in [
        ("https://api.example.com", ""),
        ("https://api.example.com/", ""),
        ("https://api.example.com/v1", "/v1"),
        ("https://api.example.com/v1/", "/v1"),
        ("http://[::1]:8080/a/b.c", "/a/b.c"),
    ] {
        for method in ["GET", "HEAD"] {
            for end in ["", "/", "?x=1", "/?x=1"] {
                let target = format!("{WELL_KNOWN}{path}{end}");
                let answer = metadata(resource, method, &target);
                let answer = answer.unwrap_or_else(|| panic!("{method} {target} of {resource}"));
                assert_eq!(answer.status, 200);
                let body: Value = serde_json::from_str(&answer.body).unwrap();
                assert_eq!(body["resource"], resource);
            }
        }
        for target in [
            format!("{WELL_KNOWN}{path}//"),
            format!("{WELL_KNOWN}{path}/x"),
        ] {
            assert_eq!(metadata(resource, "GET", &target), None, "{target}");
        }
        assert_eq!(
            metadata(resource, "POST", &format!("{WELL_KNOWN}{path}")),
            None
        );
    }
}

#[test]
fn rfc9728_s2_only_servers_with_metadata_are_listed() {
    let target = "/.well-known/oauth-protected-resource";
    let answer = metadata("https://api.example.com", "GET", target).unwrap();
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(
        body["authorization_servers"],
        json!(["https://lobby.example.com"])
    );
    let mut config = fixtures::config();
    config["issuers"][0]["authorization_server"] = json!(false);
    config["protected_resource"] = json!({"resource": "https://api.example.com"});
    let Decision::Answer(answer) = decide(&mut guard(&config), target, None) else {
        panic!("the filter answers");
    };
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(
        body.get("authorization_servers"),
        None,
        "no server, no member"
    );
}
