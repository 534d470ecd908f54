//! The rows of the table.

use super::super::bearer;
use super::Fate::{self, Closed, Judged, Passes, Refused};
use super::Identity::{Bare, Good, Nobody};
use super::{MALFORMED, OVERRIDES, Row, Tokens};

/// Requests for another protocol than WebSocket. On a connection that has switched, the gateway sees no requests.
const OTHER_PROTOCOLS: [&str; 8] = [
    "Upgrade: h2c\r\n",
    "Upgrade: H2C\r\n",
    "Upgrade: websocket, h2c\r\n",
    "Upgrade: h2c, websocket\r\n",
    "Upgrade: websocket\r\nUpgrade: h2c\r\n",
    "Upgrade: h2c\r\nUpgrade: websocket\r\n",
    "Upgrade: TLS/1.0\r\n",
    "Upgrade: TLS/1.0\r\nUpgrade: websocket\r\n",
];

pub(super) fn row(
    name: impl Into<String>,
    target: impl Into<String>,
    headers: &str,
    fate: Fate,
) -> Row {
    Row {
        name: name.into(),
        method: "GET",
        target: target.into(),
        headers: headers.to_owned(),
        body: "",
        fate,
    }
}

pub(super) fn rows(tokens: &Tokens) -> Vec<Row> {
    let good = bearer(&tokens.good);
    let bare = bearer(&tokens.bare);
    let [expired, revoked, elsewhere, forged, unknown] = [
        &tokens.expired,
        &tokens.revoked,
        &tokens.wrong_audience,
        &tokens.forged,
        &tokens.unknown_issuer,
    ]
    .map(|token| bearer(token));
    let api = "/api/projects";
    let basic = "Authorization: Basic YTpi\r\n";
    let none = Refused(401, "invalid_request");
    let in_query = format!("/api/projects?access_token={}", tokens.good);
    let lower_case = format!("authorization: bEARER {}\r\n", tokens.good);
    let in_one_header = format!("Authorization: Bearer {0}, Bearer {0}\r\n", tokens.good);
    let websocket = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let [two, bad_first, bad_last] = [
        format!("{good}{good}"),
        format!("{expired}{good}"),
        format!("{good}{expired}"),
    ];
    let mut rows: Vec<Row> = Vec::new();
    let mut add = |fate: Fate, of: &[(&str, &str, &str)]| {
        let of = of.iter();
        rows.extend(of.map(|(name, target, headers)| row(*name, *target, headers, fate)));
    };
    add(
        Passes(Good),
        &[
            ("a good token", "/api/projects?x=1&y=%2F..", &good),
            ("the scheme in another case", api, &lower_case),
            ("upper case below a rule", "/api/Projects/A.B", &good),
            ("an encoded number sign", "/api/RFI%20%2312.pdf", &good),
        ],
    );
    let spoofed = format!("{bare}X-User-Id: 1\r\nX-Scope: admin\r\n");
    add(
        Passes(Bare),
        &[
            ("a token with empty claims", api, &bare),
            ("the same, with forged headers", api, &spoofed),
        ],
    );
    add(
        Passes(Nobody),
        &[
            ("an anonymous path", "/healthz", ""),
            ("a token where none is needed", "/public/x", &good),
            ("a bad one where none is needed", "/public/x", &expired),
            ("another scheme there", "/public/x", basic),
        ],
    );
    add(
        Refused(401, "invalid_token"),
        &[
            ("an expired token", api, &expired),
            ("a revoked token", api, &revoked),
            ("a token for another audience", api, &elsewhere),
            ("a forged token", api, &forged),
            ("a token of an unknown issuer", api, &unknown),
        ],
    );
    add(
        none,
        &[
            ("no token", api, ""),
            ("no token where a scope is needed", "/api/documents/1", ""),
            ("another scheme", api, basic),
            ("a token only in the query", &in_query, ""),
        ],
    );
    add(
        Refused(400, "invalid_request"),
        &[
            ("two tokens in one header", api, &in_one_header),
            ("a token in the query, too", &in_query, &good),
            ("another case of an anonymous path", "/HEALTHZ", ""),
            ("another case below a rule", "/api/DOCUMENTS/1", &good),
        ],
    );
    add(
        Refused(403, "insufficient_scope"),
        &[
            ("a token without the scope", "/api/documents/1", &good),
            ("a rule with a slash at its end", "/api/slides", &good),
        ],
    );
    add(
        Refused(403, "access_denied"),
        &[("a path without a rule", "/other", &good)],
    );
    add(
        Closed(&[400]),
        &[
            ("two tokens in two headers", api, &two),
            ("a bad token before a good one", api, &bad_first),
            ("a good token before a bad one", api, &bad_last),
        ],
    );
    add(
        Closed(MALFORMED),
        &[
            ("the absolute form", "http://127.0.0.1/api/projects", ""),
            ("a WebSocket without a token", api, websocket),
        ],
    );
    add(
        Judged,
        &[
            ("a fragment", "/public/x#/api/projects", ""),
            (
                "an absolute form without a host",
                "http:///public/api/projects",
                "",
            ),
            ("one in the query", "/public/x?#/../api/projects", ""),
        ],
    );
    rows.push(Row {
        method: "OPTIONS",
        // Go's server answers this request itself.
        ..row("the asterisk form", "*", "", Closed(&[200, 400, 403, 404]))
    });
    // Spoofed identity headers, in every spelling that some server treats as equal.
    for name in [
        "X-User-Id",
        "x_user_id",
        "X-User_Id",
        "X_User-Id",
        "X-USER-ID",
        "X.User.Id",
        "X-User~Id",
    ] {
        let spoofed = format!("{name}: 1\r\n{name}: 2\r\nX-Client-Id: admin\r\nX_Scope: admin\r\n");
        let both = format!("{good}{spoofed}");
        let targets = [
            ("a token", "/api/projects", &both, Passes(Good)),
            ("nobody", "/healthz", &spoofed, Passes(Nobody)),
        ];
        for (whose, target, headers, fate) in targets {
            rows.push(row(format!("{name} with {whose}"), target, headers, fate));
        }
    }
    // Headers that name another target than the request line.
    for name in [
        "X-Forwarded-Uri",
        "X_Forwarded_Uri",
        "X-Forwarded_Uri",
        "X.Forwarded.Uri",
        "X-Original-Uri",
        "X-Original-Url",
        "X-Rewrite-Url",
        "X-Envoy-Original-Path",
        "X-Forwarded-Prefix",
    ] {
        let headers =
            format!("{name}: /healthz\r\nX-Forwarded-Method: GET\r\nX_Forwarded_Method: GET\r\n");
        rows.push(row(
            format!("{name} without a token"),
            api,
            &headers,
            Closed(MALFORMED),
        ));
    }
    let overrides = OVERRIDES.map(|name| format!("{name}: DELETE\r\n")).concat();
    rows.push(row(
        "another method and path in headers",
        "/healthz",
        &overrides,
        Passes(Nobody),
    ));
    // Gateways remove headers that a client names here. They must not remove headers that the gateway adds.
    for name in [
        "X-User-Id",
        "X-Client-Id, X-Scope",
        "X-Forwarded-Uri, X-Forwarded-Method",
        "Authorization",
    ] {
        let connection = format!("Connection: close, {name}\r\n");
        let headers = format!("{good}{connection}");
        rows.push(row(
            format!("Connection: {name}, with a token"),
            api,
            &headers,
            Judged,
        ));
        rows.push(row(
            format!("Connection: {name}, without a token"),
            api,
            &connection,
            Closed(MALFORMED),
        ));
    }
    for protocol in OTHER_PROTOCOLS {
        let headers = format!(
            "{protocol}Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
        );
        let name = format!("{protocol:?} without a token");
        rows.push(row(name, "/healthz", &headers, Judged));
    }
    // `attacks` has all other paths with more than one reading.
    for path in ["/public/../api/projects", "/public/..%2fapi/projects"] {
        rows.push(row(format!("{path} of nobody"), path, "", Judged));
    }
    for path in [
        "/api/caf%C3%A9",
        "/api/100%25",
        "/api/x;version=1",
        "/api/a%20b/",
    ] {
        rows.push(row(
            format!("{path}, which has one rule"),
            path,
            &good,
            Judged,
        ));
    }
    for (method, headers, fate) in [
        ("HEAD", good.as_str(), Passes(Good)),
        ("OPTIONS", good.as_str(), Passes(Good)),
        ("DELETE", good.as_str(), Passes(Good)),
        ("OPTIONS", "", Refused(401, "invalid_request")),
        ("HEAD", "", Refused(401, "")),
    ] {
        let mut other = row(format!("{method} {headers:.13}"), api, headers, fate);
        other.method = method;
        rows.push(other);
    }
    let length = "Content-Length: 5\r\n";
    for (headers, fate) in [
        (format!("{good}{length}"), Passes(Good)),
        (length.to_owned(), none),
    ] {
        let mut post = row(format!("a body {headers:.13}"), api, &headers, fate);
        (post.method, post.body) = ("POST", "hello");
        rows.push(post);
    }
    for target in ["/healthz", api] {
        let mut post = row(
            format!("identity in the trailers for {target}"),
            target,
            &format!("{good}Trailer: X-User-Id\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n"),
            Judged,
        );
        (post.method, post.body) = ("POST", "5\r\nhello\r\n0\r\nX-User-Id: admin\r\n\r\n");
        rows.push(post);
    }
    // Firefox sends it.
    let te = format!("{good}TE: trailers\r\n");
    rows.push(row("TE: trailers", api, &te, Passes(Good)));
    rows
}
