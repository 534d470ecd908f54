//! Requests to the administration that it does not understand.

use serde_json::json;

use crate::support::{OwnPair, WEB};

/// A misspelt or empty parameter would be ignored, and the operation would do more than asked.
#[test]
fn misspelt_and_empty_query_parameters_are_refused() {
    let pair = OwnPair::start(&[]);
    let nothing = json!({"clients": [], "users": []}).to_string();
    for (method, path, body, expected) in [
        (
            "PUT",
            "/registrations?dry_runs=true&prune=true",
            nothing.as_str(),
            "dry_runs: unknown query parameter; did you mean dry_run?",
        ),
        (
            "DELETE",
            "/grants?username=ada@example.com&client=web-demo",
            "",
            "client: unknown query parameter; did you mean client_id?",
        ),
        // An owner that is empty by mistake is not nobody, and not everybody.
        ("DELETE", "/grants?username=", "", "username: is empty"),
        (
            "DELETE",
            "/grants?client_id=web-demo&username=",
            "",
            "username: is empty",
        ),
        (
            "GET",
            "/clients?limits=1",
            "",
            "limits: unknown query parameter; did you mean limit?",
        ),
        (
            "POST",
            "/keys/rotate?immediate=true",
            "",
            "immediate: unknown query parameter",
        ),
        (
            "DELETE",
            "/clients/web-demo?dry_run=true",
            "",
            "dry_run: unknown query parameter",
        ),
    ] {
        let reply = pair.administrate(method, path, body);
        assert_eq!(reply.assert_error(400, "invalid_request"), expected);
    }
    let reply = pair.administrate("GET", &format!("/clients/{}", WEB.id), "");
    assert_eq!(reply.status, 200, "nothing was removed");
}

#[test]
fn repeated_members_of_a_body_are_refused() {
    let pair = OwnPair::start(&[]);
    for (method, path, body) in [
        (
            "POST",
            "/clients",
            r#"{"client_id": "a", "client_id": "b"}"#,
        ),
        (
            "PATCH",
            "/clients/web-demo",
            r#"{"name": "a", "name": "b"}"#,
        ),
        (
            "PUT",
            "/registrations",
            r#"{"clients": [{"name": "a", "name": "b"}]}"#,
        ),
        (
            "POST",
            "/keys/rotate",
            r#"{"immediate": true, "immediate": false}"#,
        ),
    ] {
        let reply = pair.administrate(method, path, body);
        assert_eq!(reply.status, 400, "{path}: {}", reply.body);
        let description = reply.text("error_description");
        assert!(
            description.contains("occurs twice"),
            "{path}: {description}"
        );
    }
}

/// Every described path, with every method.
#[test]
fn other_methods_and_paths_have_error_bodies_and_get_has_head() {
    let pair = OwnPair::start(&[]);
    let description = pair.administrate("GET", "/openapi.json", "");
    assert!(description.body.ends_with("}\n"));
    let description = description.json();
    let mut paths = description["paths"].as_object().unwrap().clone();
    paths.insert("/admin/openapi.json".to_owned(), json!({"get": {}}));
    for (path, operations) in &paths {
        let path = path.strip_prefix("/admin").unwrap().replace(['{', '}'], "");
        let has = |method: &str| operations.get(method.to_lowercase()).is_some();
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"] {
            if !has(method) {
                let reply = pair.administrate(method, &path, "");
                reply.assert_error(405, "method_not_allowed");
                assert!(reply.body.ends_with("}\n"));
                let allow = reply.header("allow").unwrap();
                assert!(
                    allow.split(", ").all(|name| name == "HEAD" || has(name)),
                    "{allow}"
                );
                assert_eq!(allow.contains("HEAD"), has("GET"), "{path}: {allow}");
            }
        }
        let head = pair.administrate("HEAD", &path, "");
        assert_eq!(head.body, "");
        // A copy of the store is no text.
        if path == "/backup" {
            assert_eq!(head.status, 200);
        } else if has("GET") {
            let get = pair.administrate("GET", &path, "");
            assert_eq!(head.status, get.status, "{path}");
            assert!(get.body.ends_with('\n'), "{path}");
        } else {
            assert_eq!(head.status, 405, "{path}");
        }
    }
    for path in ["", "/", "/nowhere", "/clients/a/b", "/users/%ff", "/keys/"] {
        let reply = pair.administrate("GET", path, "");
        assert_eq!(reply.status, 404, "{path}");
        assert_eq!(reply.text("error"), "not_found", "{path}");
    }
}
