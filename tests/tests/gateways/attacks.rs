//! Requests of somebody who wants around the guard. `TEST` stands for the value of `X-Test`, `LENGTH` for the length of the body.

use super::http2;

pub(super) enum Sent {
    /// Byte for byte. If the other side switches protocols, a request for `/api/documents/1` in HTTP/2 follows.
    Http1(String),
    Http2 {
        headers: Vec<(&'static str, String)>,
        body: String,
        end: Vec<(&'static str, String)>,
    },
}

pub(super) struct Attack {
    pub(super) name: String,
    pub(super) sent: Sent,
}

impl Attack {
    pub(super) fn new(name: &str, sent: Sent) -> Self {
        let name = name.chars().take(120).collect();
        Self { name, sent }
    }
}

fn http1(name: impl AsRef<str>, text: String) -> Attack {
    Attack::new(name.as_ref(), Sent::Http1(text))
}

fn get(target: &str, headers: &str) -> String {
    request(&format!("GET {target} HTTP/1.1"), headers)
}

fn request(line: &str, headers: &str) -> String {
    format!("{line}\r\nHost: localhost\r\nConnection: close\r\nX-Test: TEST\r\n{headers}\r\n")
}

/// All attacks; and two requests that must pass, with the token `good`, which has no scope for `/api/documents`.
pub(super) fn attacks(good: &str) -> Vec<Attack> {
    let good = format!("Authorization: Bearer {good}\r\n");
    let mut attacks = vec![
        http1("a good token", get("/api/projects", &good)),
        http1("an anonymous path", get("/healthz", "")),
    ];
    attacks.extend(paths(&good));
    attacks.extend(lines(&good));
    attacks.extend(names(&good));
    attacks.extend(upgrades());
    attacks.extend(bodies(&good));
    attacks.extend(http2::attacks(&good));
    attacks
}

/// Targets that some server reads as a protected path.
pub(super) const TARGETS: [&str; 75] = [
    "/api/DOCUMENTS/1",
    "/API/documents/1",
    "/api/%44ocuments/1",
    "/api/%64ocuments/1",
    "/api/%2564ocuments/1",
    "/%61pi/documents/1",
    "/api%2fdocuments%2f1",
    "/api/documents%2f1",
    "/api/documents%2F1",
    "/api%5cdocuments%5c1",
    "/api\\documents\\1",
    "//api/documents/1",
    "//localhost/api/documents/1",
    "///api/documents/1",
    "/.//api/documents/1",
    "/./api/documents/1",
    "/%2e/api/documents/1",
    "/api/./documents/1",
    "/api/projects/../documents/1",
    "/api/projects/%2e%2e/documents/1",
    "/api/projects/..%2fdocuments/1",
    "/api/projects/..;/documents/1",
    "/api/projects%00/../documents/1",
    "/public/../api/documents/1",
    "/public/./../api/documents/1",
    "/public/.%2e/api/documents/1",
    "/public/..;x=y/api/documents/1",
    "/public//../api/documents/1",
    "/public//api/documents/1",
    "//public/x",
    "/public/x%00/api/documents/1",
    "/public/%u002e%u002e/api/documents/1",
    "/public;/../api/documents/1",
    "/api/documents;x/../documents/1",
    "/api//documents/1",
    "/api/x/%2e%2e/documents/1",
    "/public/%2e%2e/api/documents/1",
    "/public/%2E%2E%2Fapi/documents/1",
    "/public/..%2fapi/documents/1",
    "/public/..%252fapi/documents/1",
    "/public/%252e%252e/api/documents/1",
    "/public/x/../../api/documents/1",
    "/public/..\\api\\documents\\1",
    "/public/..%5capi%5cdocuments%5c1",
    "/public/..;/api/documents/1",
    "/public/x;/../../api/documents/1",
    "/public/%c0%ae%c0%ae/api/documents/1",
    "/PUBLIC/../api/documents/1",
    "/healthz/../api/documents/1",
    "/healthz;/../api/documents/1",
    "/healthz?/../api/documents/1",
    "/healthz%3f/../api/documents/1",
    "/healthz%23/../api/documents/1",
    "/healthz#/../api/documents/1",
    "/api/documents/1?x=/healthz",
    "/api/documents/1#/../../../healthz",
    "/api/documents/1%3f",
    "/api/documents/1;x",
    "/api/documents;x/1",
    "/api;x/documents/1",
    "/;x/api/documents/1",
    "/api/documents/1/",
    "/api/documents//1",
    "/api/documents/1%20",
    "/api/documents/1%09",
    "/api/documents/1%00",
    "/api/documents/1.",
    "/api/documents/1/../1",
    "/api/documents/%31",
    "/api/document\u{17f}/1",
    "/api/document%C5%BF/1",
    "/api/documents/1\u{ff03}",
    "/a\u{440}i/documents/1",
    "/api/documents/1%0d%0aX-User-Id:%20admin",
    "/api/documents/%ef%bc%91",
];

fn paths(good: &str) -> Vec<Attack> {
    let with_token = |target| http1(format!("{target} with a token"), get(target, good));
    let mut paths: Vec<_> = TARGETS.into_iter().map(with_token).collect();
    for target in [
        "/API/PROJECTS",
        "/api/projects/",
        "/healthz/../api/projects",
        "/public/..%2fapi/projects",
    ] {
        paths.push(http1(format!("{target} without a token"), get(target, "")));
    }
    paths
}

/// Request lines, and heads that some server reads otherwise.
fn lines(good: &str) -> Vec<Attack> {
    let mut lines = Vec::new();
    for line in [
        "GET http://localhost/api/documents/1 HTTP/1.1",
        "GET http://localhost/api/DOCUMENTS/1 HTTP/1.1",
        "GET HTTP://LOCALHOST/api/documents/1 HTTP/1.1",
        "GET http://localhost/public/../api/documents/1 HTTP/1.1",
        "GET http://localhost/healthz@localhost/api/documents/1 HTTP/1.1",
        "GET http://localhost@/api/documents/1 HTTP/1.1",
        "GET http:///api/documents/1 HTTP/1.1",
        "GET http:/api/documents/1 HTTP/1.1",
        "GET https://localhost/api/documents/1 HTTP/1.1",
        "GET ftp://localhost/api/documents/1 HTTP/1.1",
        "GET http://localhost//api/documents/1 HTTP/1.1",
        "GET http://localhost;/api/documents/1 HTTP/1.1",
        "GET http://localhost?/healthz HTTP/1.1",
        "GET http://localhost\\api\\documents\\1 HTTP/1.1",
        "GET http://localhost/healthz#http://localhost/api/documents/1 HTTP/1.1",
        "GET localhost/api/documents/1 HTTP/1.1",
        "GET api/documents/1 HTTP/1.1",
        "GET ?/../api/documents/1 HTTP/1.1",
        "GET @localhost/api/documents/1 HTTP/1.1",
        "GET :/api/documents/1 HTTP/1.1",
        "GET * HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "GET  /api/documents/1 HTTP/1.1",
        "GET /healthz /api/documents/1 HTTP/1.1",
        "GET /healthz HTTP/1.1 /api/documents/1 HTTP/1.1",
        "GET /api/documents/1 /healthz HTTP/1.1",
        "GET\t/api/documents/1\tHTTP/1.1",
        "GET /healthz\t/../api/documents/1 HTTP/1.1",
        "GET /healthz\x0b/api/documents/1 HTTP/1.1",
        "GET /api/documents/1\0/healthz HTTP/1.1",
        "GET /healthz\0/../api/documents/1 HTTP/1.1",
        "GET /healthz\r/api/documents/1 HTTP/1.1",
        "GET /api/documents/1 HTTP/1.0",
        "GET /API/documents/1 HTTP/1.0",
        "GET http://localhost/api/documents/1 HTTP/1.0",
        "GET /api/documents/1 HTTP/0.9",
        "GET /api/documents/1 HTTP/1.2",
        "GET /api/documents/1 HTTP/2.0",
        "GET /api/documents/1 http/1.1",
        "GET /api/documents/1 HTTP/1.1\r",
        "GET /api/documents/1",
        "\r\nGET /api/documents/1 HTTP/1.1",
        " GET /api/documents/1 HTTP/1.1",
        "CONNECT localhost:80 HTTP/1.1",
        "CONNECT /api/documents/1 HTTP/1.1",
        "CONNECT http://localhost/api/documents/1 HTTP/1.1",
        "TRACE /api/documents/1 HTTP/1.1",
        "PRI /api/documents/1 HTTP/1.1",
        "get /api/documents/1 HTTP/1.1",
        "GET/healthz /api/documents/1 HTTP/1.1",
        "OPTIONS /api/documents/1 HTTP/1.1",
        "PROPFIND /api/documents/1 HTTP/1.1",
        "SOURCE /api/DOCUMENTS/1 HTTP/1.1",
        "M-SEARCH /api/documents/1 HTTP/1.1",
        "X!#$%&'*+-.^_`|~Y /api/documents/1 HTTP/1.1",
    ] {
        lines.push(http1(format!("{line:?} with a token"), request(line, good)));
    }
    for headers in [
        "Authorization: Bearer\tTOKEN\r\n",
        "Authorization:\tBearer TOKEN\r\n",
        "Authorization: Bearer TOKEN\r\n",
        "Authorization: Bearer TOKEN \t\r\n",
        "Authorization: Bearer TOKEN, Basic YTpi\r\n",
        "Authorization: Basic YTpi\r\nAuthorization: Bearer TOKEN\r\n",
        "Authorization: Bearer TOKEN\r\nAuthorization: Basic YTpi\r\n",
        "Authorization: Bearer TOKEN\r\nAuthorization:\r\n",
        "Authorization:\r\nAuthorization: Bearer TOKEN\r\n",
        "Authorization: Bearer\r\n TOKEN\r\n",
        "Authorization : Bearer TOKEN\r\n",
        "Proxy-Authorization: Bearer TOKEN\r\n",
        "X-Guard-Authorization: Bearer TOKEN\r\n",
        "Host: other\r\n",
        "Host: localhost/api/documents/1?\r\n",
    ] {
        let token = good.trim_end().rsplit(' ').next().unwrap_or_default();
        let sent = headers.replace("TOKEN", token);
        for target in ["/healthz", "/api/projects"] {
            lines.push(http1(
                format!("{headers:?} for {target}"),
                get(target, &sent),
            ));
        }
    }
    lines
}

/// Headers that some server reads as those that only the guard may set.
fn names(good: &str) -> Vec<Attack> {
    let mut names: Vec<String> = Vec::new();
    for sign in "!#$%&'*+-.^_`|~".chars() {
        let one = format!("X{sign}User{sign}Id: admin\r\n");
        names.push(format!(
            "{one}x-user{sign}id: admin\r\nX{sign}Scope: documents\r\nx{sign}client-ID: admin\r\n"
        ));
        names.push(one);
    }
    let many: String = (0..95).map(|number| format!("X-{number}: x\r\n")).collect();
    let more = (0..3000).map(|number| format!("X-{number}: x\r\n"));
    let more: String = more.collect();
    let large = "x".repeat(70_000);
    for lines in [
        "X-User-Id : admin\r\n",
        "X-User-Id\t: admin\r\n",
        "X-User-Id\x0b: admin\r\n",
        "X-User-Id\0: admin\r\n",
        "\x0bX-User-Id: admin\r\n",
        "X-User-Id\r: admin\r\n",
        "X-User-Id\n: admin\r\n",
        " X-User-Id: admin\r\n",
        "X-A: b\r\n X-User-Id: admin\r\n",
        "X-A: b\rX-User-Id: admin\r\n",
        "X-A: b\nX-User-Id: admin\r\n",
        "X-A: b\0\r\nX-User-Id: admin\r\n",
        "X-A: b\n\rX-User-Id: admin\r\n",
        "X-A\r\nX-User-Id: admin\r\n",
        ":\r\nX-User-Id: admin\r\n",
        ": x\r\nX-User-Id: admin\r\n",
        "X-User-Id: admin\r\nX-User-Id: root\r\nX_User_Id: x\r\nX.User.Id: y\r\nX~User~Id: z\r\n",
        "X-User-Id:\r\nX~User-Id: admin\r\n",
        "X-User-Id: 1879048402\r\nX-Client-Id: user-bound-demo\r\nX-Scope: projects documents\r\n",
        "Connection: X-User-Id\r\n",
        "Connection: close, X-User-Id, X-Client-Id, X-Scope, Authorization\r\n",
        "Connection: x_user_id\r\nX_User_Id: admin\r\n",
        "Connection: x~user~id\r\nX~User~Id: admin\r\n",
        "Connection: X-Forwarded-Uri, X-Forwarded-Method\r\nX-Forwarded-Uri: /healthz\r\n",
        "Connection: X-Token-Guard-Status\r\nX-Token-Guard-Status: 200\r\n",
        "Connection: Transfer-Encoding, Content-Length, Host\r\n",
        "Proxy-Connection: X-User-Id\r\nKeep-Alive: X-User-Id\r\n",
        "Te: X-User-Id\r\nTrailer: X-User-Id\r\n",
        "X-Original-Url: /api/documents/1\r\nX-Rewrite-Url: /api/documents/1\r\n",
        "X-Forwarded-Uri: /healthz\r\nX-Forwarded-Method: GET\r\nX_Forwarded_Uri: /healthz\r\n",
        "X-Envoy-Original-Path: /healthz\r\nX-Envoy-Auth-Headers-To-Remove: x-user-id\r\n",
        "X-Envoy-Internal: true\r\nX-Forwarded-For: 127.0.0.1\r\nX-Envoy-Force-Trace: 1\r\n",
        "HTTP_X_USER_ID: admin\r\nHttp-X-User-Id: admin\r\n",
        &format!("{many}X-User-Id: admin\r\n"),
        &format!("{many}X~User~Id: admin\r\n"),
        &format!("{more}X-User-Id: admin\r\n"),
        &format!("X-Large: {large}\r\nX-User-Id: admin\r\n"),
    ] {
        names.push(lines.to_owned());
    }
    let mut attacks = Vec::new();
    for headers in names {
        for (target, token) in [("/healthz", ""), ("/api/projects", good)] {
            let name = format!("{headers:?} for {target}");
            attacks.push(http1(name, get(target, &format!("{token}{headers}"))));
        }
    }
    attacks
}

/// Requests for another protocol, with which the gateway would see no requests any more.
fn upgrades() -> Vec<Attack> {
    let mut upgrades = Vec::new();
    for protocol in [
        "Upgrade: h2c\r\n",
        "Upgrade: H2C\r\n",
        "upgrade:h2c\r\n",
        "Upgrade:\th2c\r\n",
        "Upgrade: h2c \r\n",
        "Upgrade: ,h2c\r\n",
        "Upgrade: h2c,\r\n",
        "Upgrade: websocket, h2c\r\n",
        "Upgrade: h2c, websocket\r\n",
        "Upgrade: websocket,h2c\r\n",
        "Upgrade: websocket\r\nUpgrade: h2c\r\n",
        "Upgrade: h2c\r\nUpgrade: websocket\r\n",
        "Upgrade: websocket\r\n h2c\r\n",
        "Upgrade: websocket\th2c\r\n",
        "Upgrade: sock,h2c\r\n",
        "Upgrade: h2\r\n",
        "Upgrade: HTTP/2.0\r\n",
        "Upgrade: TLS/1.0\r\n",
        "Upgrade: TLS/1.0\r\nUpgrade: websocket\r\n",
        "Upgrade_: h2c\r\n",
        "Upgrade : h2c\r\n",
        "Upgrade: websocket\r\n",
    ] {
        for connection in ["Upgrade, HTTP2-Settings", "keep-alive, upgrade"] {
            let head = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Test: TEST\r\n";
            let text = format!(
                "{head}{protocol}Connection: {connection}\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
            );
            upgrades.push(http1(format!("{protocol:?}, {connection}"), text));
        }
    }
    upgrades
}

/// Bodies whose end some server sees elsewhere: what follows would be a second request.
fn bodies(good: &str) -> Vec<Attack> {
    let smuggled = "GET /api/documents/1 HTTP/1.1\r\nHost: localhost\r\nX-Test: TEST\r\nX-User-Id: admin\r\nConnection: close\r\n\r\n";
    let chunked = format!("0\r\n\r\n{smuggled}");
    let mut bodies = Vec::new();
    for framing in [
        "Content-Length: LENGTH\r\n",
        "Content-Length: LENGTH\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: LENGTH\r\n",
        "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: LENGTH\r\nTransfer-Encoding: xchunked\r\n",
        "Content-Length: LENGTH\r\nTransfer-Encoding: chunked, identity\r\n",
        "Content-Length: LENGTH\r\nTransfer-Encoding: identity, chunked\r\n",
        "Content-Length: LENGTH\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: LENGTH\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
        "Content-Length: LENGTH\r\nTransfer-Encoding : chunked\r\n",
        "Content-Length: LENGTH\r\nTransfer-Encoding: \x0bchunked\r\n",
        "Content-Length: LENGTH\r\nTransfer-Encoding:\r\n chunked\r\n",
        "Content-Length: LENGTH\r\nTransfer_Encoding: chunked\r\n",
        "Content-Length: LENGTH\r\nTransfer~Encoding: chunked\r\n",
        "Content-Length: LENGTH\r\nX-A: b\rTransfer-Encoding: chunked\r\n",
        "Content-Length: LENGTH\r\nX-A: b\nTransfer-Encoding: chunked\r\n",
        "Content-Length: LENGTH\r\nConnection: Content-Length\r\n",
        "Transfer-Encoding: chunked\r\nConnection: Transfer-Encoding\r\n",
        "Content-Length: LENGTH\r\nContent-Length: 0\r\n",
        "Content-Length: 0\r\nContent-Length: LENGTH\r\n",
        "Content-Length: 0, LENGTH\r\n",
        "Content-Length: +LENGTH\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 5_\r\n",
        "Content_Length: LENGTH\r\nContent-Length: 5\r\n",
        "Content-Length: LENGTH\r\nExpect: 100-continue\r\n",
        "Content-Length: LENGTH\r\nExpect: y 100-continue\r\n",
        "Content-Length: LENGTH\r\nExpect:\r\n 100-continue\r\n",
    ] {
        for method in ["POST", "GET"] {
            let head = request(&format!("{method} /healthz HTTP/1.1"), framing);
            bodies.push(http1(format!("{method}, {framing:?}"), head + &chunked));
        }
    }
    for chunks in [
        "5;\nhello\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5;x=\"\r\nhello\r\n0\r\n\r\n\"\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "00000000000000005\r\nhello\r\n0\r\n\r\n",
        "10000000000000005\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\nX-User-Id: admin\r\n\r\n",
        "5\r\nhello\r\n0\r\nx_user_id: admin\r\nX~Scope: documents\r\n\r\n",
        "5\r\nhello\r\n0\r\nContent-Length: 0\r\nAuthorization: x\r\n\r\n",
    ] {
        let head = "POST /healthz HTTP/1.1\r\nHost: localhost\r\nX-Test: TEST\r\nTransfer-Encoding: chunked\r\n\r\n";
        bodies.push(http1(
            format!("{chunks:?}"),
            format!("{head}{chunks}{smuggled}"),
        ));
    }
    for version in ["1.0", "1.1"] {
        let head = format!(
            "GET /healthz HTTP/{version}\r\nHost: localhost\r\nX-Test: TEST\r\nConnection: keep-alive\r\n\r\n"
        );
        bodies.push(http1(
            format!("pipelined in {version}"),
            format!("{head}{smuggled}"),
        ));
        let head = format!(
            "POST /healthz HTTP/{version}\r\nHost: localhost\r\nX-Test: TEST\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n"
        );
        bodies.push(http1(
            format!("chunked in {version}"),
            format!("{head}{chunked}"),
        ));
    }
    // What is known about a request must not hold for the next one on the connection.
    for target in ["/api/projects", "/api/documents/1", "/healthz"] {
        let known = get("/api/projects", good).replace("Connection: close", "Accept: */*");
        let next = get(target, "");
        bodies.push(http1(
            format!("{target} behind a good request"),
            known + &next,
        ));
    }
    bodies
}
