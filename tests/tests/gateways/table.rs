//! The table of requests and their required outcomes at every gateway, whatever protocol it uses to ask the guard.
//!
//! Gateways differ in which requests they refuse themselves, and in whether they normalize a path first. All gateways
//! must pass on only what the rules allow, with the identity of the token and no other identity.

mod rows;

use guard::config::Config;
use guard::rules::Access;
use keys::signature::NoHostVerifier;
use tests::gateways::Kind;
use tests::{Answer, wire};
use tests::{Arrived, Upstream};

use self::rows::{row, rows};
use super::{bearer, http2};

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
    /// A good token whose claims for the resource server are empty, but for `client_id`.
    pub(super) bare: String,
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
    /// That of [`Tokens::bare`].
    Bare,
}

use Fate::{Closed, Judged, Passes, Refused};
use Identity::{Bare, Good, Nobody};

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

/// Headers from which some frameworks take a method or path that replaces that of the request line.
const OVERRIDES: [&str; 5] = [
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
];

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
            return refused(row, answer, status, error);
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
        Access::Token { scopes, .. } if scopes.is_empty() => match row.fate {
            Passes(Bare) => Bare,
            _ => Good,
        },
        Access::Token { .. } => return Err("the token lacks the scope of the path".to_owned()),
    };
    let credentials = arrived.values("authorization");
    let token = match identity {
        Nobody => None,
        Good => Some(&tokens.good),
        Bare => Some(&tokens.bare),
    };
    match (token, credentials.as_slice()) {
        (None, []) => {}
        (None, _) => return Err("credentials arrived that nobody verified".to_owned()),
        (Some(token), [value]) if value.ends_with(token) => {}
        (Some(_), _) => return Err("the token did not arrive".to_owned()),
    }
    for (name, value) in IDENTITY {
        let expected: &[&str] = match (identity, name) {
            (Good, _) => &[value],
            (Bare, "x-client-id") => &["client-1"],
            (Bare | Nobody, _) => &[],
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
fn refused(row: &Row, answer: &Answer, status: u16, error: &str) -> Result<(), String> {
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
            let has_scope = challenge.contains("scope=\"documents\"");
            let needs_scope = row.target.starts_with("/api/documents");
            challenge.starts_with("Bearer realm=\"api\"") && named && has_scope == needs_scope
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
pub(super) fn openings(kind: Kind, port: u16, upstream: &Upstream, tokens: &Tokens) -> Vec<String> {
    let name = kind.name();
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
                (arrived.is_some() || !is_closed).then(|| {
                    format!("{name}, shut: {target} {headers:.13}: {status:?}, {arrived:?}")
                })
            })
        });
        let threads: Vec<_> = opened.collect();
        threads
            .into_iter()
            .filter_map(|thread| thread.join().unwrap())
            .collect()
    })
}
