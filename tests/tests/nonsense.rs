//! Nonsense at every endpoint gets a clear 4xx with the error body, and the service continues.

use crate::support::{Reply, USER_BOUND, lobby, send};

pub(crate) const POSTS: [&str; 7] = [
    "/auth/token",
    "/auth/revoke",
    "/auth/introspect",
    "/auth/sign-in",
    "/auth/second-factor",
    "/auth/select-account",
    "/auth/sign-out",
];

fn post_bytes(path: &str, content_type: &str, body: &[u8]) -> Reply {
    let headers = [
        ("content-type", content_type),
        ("authorization", &USER_BOUND.basic()),
    ];
    send("POST", &format!("{}{path}", lobby()), &headers, body)
}

/// Checks for a JSON error at endpoints for clients, and for a page at endpoints for people: neither a success nor a
/// 5xx.
fn assert_clear(path: &str, reply: &Reply, what: &str) {
    assert!(
        (400..500).contains(&reply.status),
        "{path}, {what}: {} {}",
        reply.status,
        reply.body
    );
    if path.starts_with("/auth/s") {
        assert!(
            reply.body.contains("<h1>"),
            "{path}, {what}: {}",
            reply.body
        );
    } else {
        assert!(reply.json()["error"].is_string(), "{path}, {what}");
        assert!(
            reply.json()["error_description"].is_string(),
            "{path}, {what}"
        );
    }
}

#[test]
fn nonsense_gets_a_clear_refusal_and_the_service_goes_on() {
    let form = "application/x-www-form-urlencoded";
    let random: Vec<u8> = (0..5000_u32)
        .map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let many = "a=b&".repeat(10_000);
    for path in POSTS {
        for (what, content_type, body) in [
            ("nothing", form, b"".as_slice()),
            ("random bytes", form, &random),
            ("bad UTF-8", form, b"grant_type=\xff\xfe&token=\xc3\x28"),
            ("encoded bad UTF-8", form, b"grant_type=%ff%fe&csrf=%c3%28"),
            ("half an escape", form, b"grant_type=%4&csrf=%"),
            (
                "repeated parameters",
                form,
                b"grant_type=a&grant_type=b&token=a&token=b&csrf=1&csrf=2",
            ),
            ("many parameters", form, many.as_bytes()),
            (
                "JSON",
                "application/json",
                b"{\"grant_type\":\"client_credentials\"}",
            ),
            ("no type", "text/plain", b"grant_type=client_credentials"),
            ("nulls", form, b"\0\0\0=\0&grant_type=\0"),
        ] {
            assert_clear(path, &post_bytes(path, content_type, body), what);
        }
    }
    crate::api::call(&crate::api::token());
}

/// The gateway passes the header on. It refuses headers of 100 KiB itself (edge.rs).
#[forms::each]
fn d_18_long_tokens_are_refused() {
    let reply = crate::api::call(&"a".repeat(40 * 1024));
    let description = reply.assert_error(401, "invalid_token");
    assert!(
        description.ends_with("longer than 16384 bytes"),
        "{description}"
    );
}
