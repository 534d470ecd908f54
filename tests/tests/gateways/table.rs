//! The table of requests and their required outcomes at every gateway, whatever protocol it uses to ask the guard.
//!
//! Gateways differ in which requests they refuse themselves, and in whether they normalize a path first. All gateways
//! must pass on only what the rules allow, with the identity of the token and no other identity.

use guard::config::Config;
use guard::rules::Access;
use guard::signature::NoHostVerifier;
use tests::wire::{self, Answer};
use tests::{Arrived, Upstream};

use super::http2;

/// The tokens of the table.
pub(super) struct Tokens {
    /// A token of the token service, for `projects`.
    pub(super) good: String,
    /// A revoked token of the token service.
    pub(super) revoked: String,
    pub(super) expired: String,
    pub(super) wrong_audience: String,
    pub(super) forged: String,
    pub(super) unknown_issuer: String,
}

/// Outcome of a request.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// The request passes with this identity, and the resource server sees the target as sent.
    Passes(Identity),
    /// The client gets this status and `error`, and the resource server gets no request.
    Refused(u16, &'static str),
    /// The client gets one of these statuses, or a closed connection, because some gateways refuse the request
    /// themselves.
    Closed(&'static [u16]),
    /// The request is refused, or it passes in a form that the rules allow, because some gateways normalize the path
    /// first.
    Judged,
}

/// Identity that the resource server sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Identity {
    Nobody,
    Good,
}

use Fate::{Closed, Judged, Passes, Refused};
use Identity::{Good, Nobody};

struct Row {
    name: String,
    method: &'static str,
    target: String,
    /// Lines of the head, each with its line end.
    headers: String,
    body: &'static str,
    fate: Fate,
}

/// Statuses with which gateways themselves refuse requests that no client needs.
const MALFORMED: &[u16] = &[400, 401, 403, 404, 405];

/// The headers that the guard sets for the good token.
const IDENTITY: [(&str, &str); 3] = [
    ("x-user-id", "1879048402"),
    ("x-client-id", "user-bound-demo"),
    ("x-scope", "projects"),
];

/// Paths with more than one reading. Below `/public/` nobody needs a token.
const ODD_PATHS: [&str; 26] = [
    "/public/../api/projects",
    "/public/./../api/projects",
    "/public/%2e%2e/api/projects",
    "/public/.%2e/api/projects",
    "/public/..%2fapi/projects",
    "/public/..%2Fapi/projects",
    "/public/%252e%252e/api/projects",
    "/public/..%5capi/projects",
    "/public/..\\api\\projects",
    "/public/..;/api/projects",
    "/public/..;x=y/api/projects",
    "/public//../api/projects",
    "/public//api/projects",
    "//api/projects",
    "//public/x",
    "/public/x%00/api",
    "/public/%u002e%u002e/api/projects",
    "/public/%c0%ae%c0%ae/api/projects",
    "/public;/../api/projects",
    "/api;x/documents/1",
    "/api/documents;x/../1",
    "/api//documents/1",
    "/api/./documents/1",
    "/api/x/../documents/1",
    "/api/x/%2e%2e/documents/1",
    "/api%2fdocuments/1",
];

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

/// Headers from which some frameworks take another method or path than those of the request line.
const OVERRIDES: [&str; 5] = [
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
];

fn row(name: impl Into<String>, target: impl Into<String>, headers: &str, fate: Fate) -> Row {
    Row {
        name: name.into(),
        method: "GET",
        target: target.into(),
        headers: headers.to_owned(),
        body: "",
        fate,
    }
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

fn rows(tokens: &Tokens) -> Vec<Row> {
    let good = bearer(&tokens.good);
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
            ("another scheme", api, basic),
            ("a token in the query alone", &in_query, ""),
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
            ("a bad token beside a good one", api, &bad_first),
            ("a good token beside a bad one", api, &bad_last),
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
            rows.push(row(format!("{name} beside {whose}"), target, headers, fate));
        }
    }
    // token-guard refuses such a spelling where the gateway cannot remove it. All signs of a name (RFC 9110 §5.6.2).
    for sign in "!#$%&'*+.^_`|~".chars() {
        let name = format!("X{sign}User{sign}Id");
        let spoofed = format!("{name}: admin\r\n");
        let both = format!("{good}{spoofed}");
        for (whose, target, headers) in [("a token", api, &both), ("nobody", "/healthz", &spoofed)]
        {
            let name = format!("{name} beside {whose}");
            rows.push(row(name, target, headers, Judged));
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
    for path in ODD_PATHS {
        for (whose, headers) in [("nobody", ""), ("a token", good.as_str())] {
            rows.push(row(format!("{path} of {whose}"), path, headers, Judged));
        }
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

/// Sends every row to the gateway at `port`. Returns a description of each row with another outcome.
pub(super) fn differences(
    port: u16,
    upstream: &Upstream,
    configuration: &str,
    tokens: &Tokens,
) -> Vec<String> {
    let config = Config::parse(configuration.as_bytes(), &NoHostVerifier).unwrap();
    let mut differences = Vec::new();
    for (number, row) in rows(tokens).iter().enumerate() {
        let (answer, arrived) = ask(port, upstream, number, row);
        if let Err(difference) = judge(row, answer.as_ref(), arrived.as_ref(), &config, tokens) {
            let status = answer.map(|answer| (answer.status, answer.body));
            differences.push(format!(
                "{}: {difference}; expected {:?}; answered {status:?}; arrived: {:?}",
                row.name,
                row.fate,
                arrived.map(|arrived| (arrived.target, arrived.headers)),
            ));
        }
    }
    differences
}

fn ask(
    port: u16,
    upstream: &Upstream,
    number: usize,
    row: &Row,
) -> (Option<Answer>, Option<Arrived>) {
    let test = format!("{port}-{number}");
    let close = match row.headers.contains("Connection:") {
        true => "",
        false => "Connection: close\r\n",
    };
    let request = format!(
        "{} {} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Test: {test}\r\n{close}{}\r\n{}",
        row.method, row.target, row.headers, row.body
    );
    let (answer, connection) = wire::open(port, &request).unwrap();
    let has_switched = answer.as_ref().is_some_and(|answer| answer.status == 101);
    if has_switched && !is_websocket(upstream.arrived(&test).as_ref()) {
        let smuggled = [
            (":method", "DELETE"),
            (":scheme", "http"),
            (":authority", "localhost"),
            (":path", "/api/documents/1"),
            ("x-test", &test),
            ("x-user-id", "admin"),
        ];
        // If the other side has not switched either, nothing more arrives.
        http2::send(connection, &smuggled, "", &[]);
    }
    (answer, upstream.arrived(&test))
}

fn is_websocket(arrived: Option<&Arrived>) -> bool {
    arrived.is_some_and(|arrived| arrived.values("upgrade") == ["websocket"])
}

fn judge(
    row: &Row,
    answer: Option<&Answer>,
    arrived: Option<&Arrived>,
    config: &Config,
    tokens: &Tokens,
) -> Result<(), String> {
    if let Some(arrived) = arrived {
        let answer = answer.ok_or("it arrived and had no answer")?;
        allowed(row, arrived, config, tokens)?;
        return match answer.status {
            200 => Ok(()),
            101 if is_websocket(Some(arrived)) => Ok(()),
            _ => Err("it arrived and was refused".to_owned()),
        };
    }
    let passes = match row.fate {
        Passes(_) => return Err("it did not arrive".to_owned()),
        Refused(status, error) => {
            let answer = answer.ok_or("no answer")?;
            return refused(answer, status, error);
        }
        Closed(statuses) => statuses,
        Judged => MALFORMED,
    };
    match answer {
        Some(answer) if !passes.contains(&answer.status) => Err("another status".to_owned()),
        _ => Ok(()),
    }
}

/// True if the resource server may get this request.
fn allowed(row: &Row, arrived: &Arrived, config: &Config, tokens: &Tokens) -> Result<(), String> {
    if matches!(row.fate, Refused(..) | Closed(_)) {
        return Err("it arrived".to_owned());
    }
    let (method, target) = (arrived.method.as_bytes(), arrived.target.as_bytes());
    let access = config
        .rules
        .find(method, target)
        .map_err(|_| "the path that arrived has more than one reading")?
        .ok_or("no rule allows the path that arrived")?;
    let identity = match access.as_ref() {
        Access::Anonymous { .. } => Nobody,
        Access::Token { scopes, .. } if scopes.is_empty() => Good,
        Access::Token { .. } => return Err("the token lacks the scope of the path".to_owned()),
    };
    let credentials = arrived.values("authorization");
    let has_token = matches!(credentials.as_slice(), [value] if value.ends_with(&tokens.good));
    if identity == Good && !has_token {
        return Err("the token did not arrive".to_owned());
    }
    if identity == Nobody && !credentials.is_empty() {
        return Err("credentials arrived that nobody verified".to_owned());
    }
    for (name, value) in IDENTITY {
        let expected: &[&str] = match identity {
            Good => &[value],
            Nobody => &[],
        };
        if arrived.values(name) != expected {
            return Err(format!("{name} is {:?}", arrived.values(name)));
        }
    }
    if let Some(name) = OVERRIDES
        .iter()
        .find(|name| !arrived.values(name).is_empty())
    {
        return Err(format!("{name} arrived"));
    }
    let options = arrived.values("connection").join(",").to_lowercase();
    if IDENTITY.iter().any(|(name, _)| options.contains(name)) {
        return Err(format!("the next hop would obey Connection: {options}"));
    }
    let Passes(expected) = row.fate else {
        return Ok(());
    };
    let is_same =
        arrived.target == row.target && arrived.body == row.body && arrived.method == row.method;
    match is_same && expected == identity {
        true => Ok(()),
        false => Err("the request that arrived is another one".to_owned()),
    }
}

/// True if this is the guard's answer (RFC 6750 §3, protocol.md §2.4).
fn refused(answer: &Answer, status: u16, error: &str) -> Result<(), String> {
    if answer.status != status {
        return Err("another status".to_owned());
    }
    let told = format!("\"error\":\"{error}\"");
    let has_error = match error {
        // The answer to HEAD.
        "" => answer.body.is_empty(),
        _ => answer.body.replace(' ', "").contains(&told),
    };
    if !has_error {
        return Err("another error".to_owned());
    }
    let challenges = answer.values("www-authenticate");
    let is_right = match (status, challenges.as_slice()) {
        (401, [challenge]) => {
            let named = challenge.contains("error=\"invalid_token\"") == (error == "invalid_token");
            challenge.starts_with("Bearer realm=\"api\"") && named
        }
        (403, [challenge]) => challenge.contains("scope=\"documents\""),
        (403, []) => error == "access_denied",
        (400, challenges) => challenges.len() <= 1,
        _ => false,
    };
    match is_right {
        true => Ok(()),
        false => Err(format!("another challenge: {challenges:?}")),
    }
}

/// Sends a request with the valid token and a request without a token while the guard is down. Both must be refused.
/// Returns the failures.
pub(super) fn openings(port: u16, upstream: &Upstream, tokens: &Tokens) -> Vec<String> {
    let good = bearer(&tokens.good);
    let asked = [
        ("/api/projects", good.as_str()),
        ("/api/projects", ""),
        ("/healthz", ""),
    ];
    // At the same time: a gateway may wait for half a minute.
    std::thread::scope(|scope| {
        let opened = asked.iter().enumerate().map(|(number, (target, headers))| {
            scope.spawn(move || {
                let row = row("closed", *target, headers, Closed(&[]));
                let (answer, arrived) = ask(port, upstream, 1000 + number, &row);
                let status = answer.map(|answer| answer.status);
                let is_closed = status.is_some_and(|status| (500..600).contains(&status));
                (arrived.is_some() || !is_closed)
                    .then(|| format!("{target} {headers:.13}: {status:?}, {arrived:?}"))
            })
        });
        let threads: Vec<_> = opened.collect();
        threads
            .into_iter()
            .filter_map(|thread| thread.join().unwrap())
            .collect()
    })
}
