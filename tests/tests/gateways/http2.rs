//! HTTP/2 byte for byte, because libraries do not send what attackers send.

use std::io::{Read, Write as _};
use std::net::TcpStream;

use super::attacks::{Attack, Sent, TARGETS};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// Stream 1 is that of the request that upgraded the connection (RFC 7540 §3.2).
const STREAM: u32 = 3;

/// Names and values of a header or trailer section, pseudo-headers first.
pub(super) type Fields<'a> = &'a [(&'a str, &'a str)];

/// The preface and a request.
fn opening(headers: Fields, body: &str, end: Fields) -> Vec<u8> {
    let is_short = body.is_empty() && end.is_empty();
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    sent.extend(frame(SETTINGS, 0, 0, &[]));
    let section = |is_last, fields: Fields| {
        let flags = END_HEADERS | if is_last { END_STREAM } else { 0 };
        let block: Vec<u8> = fields.iter().flat_map(literal).collect();
        frame(HEADERS, flags, STREAM, &block)
    };
    sent.extend(section(is_short, headers));
    if !is_short {
        let flags = if end.is_empty() { END_STREAM } else { 0 };
        sent.extend(frame(DATA, flags, STREAM, body.as_bytes()));
    }
    if !end.is_empty() {
        sent.extend(section(true, end));
    }
    sent
}

/// Speaks HTTP/2 on a connection, and sends this request. True if a response arrived.
pub(super) fn send(mut connection: TcpStream, headers: Fields, body: &str, end: Fields) -> bool {
    // The other side may have closed the connection.
    let _sent = connection.write_all(&opening(headers, body, end));
    loop {
        let mut head = [0; 9];
        if connection.read_exact(&mut head).is_err() {
            return false;
        }
        let [a, b, c, kind, flags, stream @ ..] = head;
        let length = u64::from(u32::from_be_bytes([0, a, b, c]));
        let mut rest = Read::by_ref(&mut connection).take(length);
        if std::io::copy(&mut rest, &mut std::io::sink()).is_err() {
            return false;
        }
        let is_ours = u32::from_be_bytes(stream) == STREAM;
        match kind {
            SETTINGS if flags & ACK == 0 => {
                let _sent = connection.write_all(&frame(SETTINGS, ACK, 0, &[]));
            }
            DATA | HEADERS if is_ours && flags & END_STREAM != 0 => return true,
            RST_STREAM if is_ours => return false,
            GOAWAY => return false,
            _ => {}
        }
    }
}

/// RFC 9113 §4.1.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A field that neither side remembers (RFC 7541 §6.2.2).
fn literal((name, value): &(&str, &str)) -> Vec<u8> {
    let mut literal = vec![0];
    for text in [name, value] {
        // An integer with a prefix of 7 bits (RFC 7541 §5.1).
        match text.len().checked_sub(127) {
            None => literal.push(u8::try_from(text.len()).unwrap()),
            Some(mut rest) => {
                literal.push(127);
                while rest >= 128 {
                    literal.push(u8::try_from(rest % 128 + 128).unwrap());
                    rest /= 128;
                }
                literal.push(u8::try_from(rest).unwrap());
            }
        }
        literal.extend(text.as_bytes());
    }
    literal
}

/// Like [`Fields`], with names of this file.
type Named<'a> = &'a [(&'static str, &'a str)];

/// Requests of somebody who wants around the guard.
pub(super) fn attacks(good: &str) -> Vec<Attack> {
    let token = good
        .trim_end()
        .split_once(": ")
        .map_or("", |(_, value)| value);
    let attack = |headers: Named, body: &str, end: Named| {
        let owned = |fields: Named| -> Vec<(&'static str, String)> {
            let fields = fields.iter();
            fields
                .map(|(name, value)| (*name, (*value).to_owned()))
                .collect()
        };
        let name = format!("HTTP/2: {headers:?}, {body:?}, {end:?}");
        let mut headers = owned(headers);
        headers.push(("x-test", "TEST".to_owned()));
        let (body, end) = (body.to_owned(), owned(end));
        Attack::new(&name, Sent::Http2 { headers, body, end })
    };
    let plain = |method, path| {
        [
            (":method", method),
            (":scheme", "http"),
            (":authority", "localhost"),
            (":path", path),
        ]
    };
    let anonymous = attack(&plain("GET", "/healthz"), "", &[]);
    let name = "HTTP/2: an anonymous path".to_owned();
    let mut attacks = vec![Attack { name, ..anonymous }];
    for path in TARGETS.iter().copied().chain([
        "api/documents/1",
        "http://localhost/api/documents/1",
        "",
        "*",
        "?/api/documents/1",
        "/healthz HTTP/1.1\r\nX-User-Id: admin\r\nX: ",
        "/healthz\r\n\r\nGET /api/documents/1 HTTP/1.1\r\nX-User-Id: admin\r\n\r\n",
        "/healthz /api/documents/1",
        "/healthz\t",
        "/healthz\0",
    ]) {
        attacks.push(attack(&plain("GET", path), "", &[]));
    }
    for method in [
        "GET /api/documents/1 HTTP/1.1\r\nX-User-Id: admin\r\nX:",
        "CONNECT",
        "TRACE",
        "get",
        "PRI",
        "",
    ] {
        for path in ["/healthz", "/api/documents/1"] {
            attacks.push(attack(&plain(method, path), "", &[]));
        }
    }
    attacks.push(attack(
        &[(":method", "CONNECT"), (":authority", "localhost:80")],
        "",
        &[],
    ));
    // A WebSocket of HTTP/2 (RFC 8441), and in place of it, a request in another HTTP/2.
    let mut within = plain("GET", "/api/documents/1").to_vec();
    within.push(("x-user-id", "admin"));
    let within = String::from_utf8(opening(&within, "", &[])).unwrap();
    for protocol in ["websocket", "h2c", "websocket, h2c", "HTTP/2.0"] {
        for path in ["/healthz", "/api/documents/1"] {
            let mut headers = plain("CONNECT", path).to_vec();
            headers.extend([
                (":protocol", protocol),
                ("http2-settings", "AAMAAABkAAQAAP__"),
            ]);
            attacks.push(attack(&headers, &within, &[]));
        }
    }
    let smuggled = "GET /api/documents/1 HTTP/1.1\r\nHost: localhost\r\nX-Test: TEST\r\nX-User-Id: admin\r\n\r\n";
    for extra in [
        (":path", "/api/documents/1"),
        (":method", "DELETE"),
        (":scheme", "http://localhost/api/documents/1?"),
        (":authority", "localhost/api/documents/1?"),
        (":protocol", "websocket"),
        (":protocol", "h2c"),
        (":status", "200"),
        (":x-user-id", "admin"),
        ("x-user-id", "admin"),
        ("X-User-Id", "admin"),
        ("x_user_id", "admin"),
        ("x~user~id", "admin"),
        ("x.user.id", "admin"),
        ("x-user-id ", "admin"),
        (" x-user-id", "admin"),
        ("x-user-id:", "admin"),
        ("x-a: b\r\nx-user-id", "admin"),
        ("x-a", "b\r\nX-User-Id: admin"),
        ("x-a", "b\nX-User-Id: admin"),
        ("x-a", "b\rX-User-Id: admin"),
        ("x-a", "b\0"),
        ("", "admin"),
        ("upgrade", "h2c"),
        ("http2-settings", "AAMAAABkAAQAAP__"),
        ("connection", "x-user-id"),
        ("connection", "upgrade, http2-settings"),
        ("proxy-connection", "x-user-id"),
        ("keep-alive", "x"),
        ("te", "x-user-id"),
        ("transfer-encoding", "chunked"),
        ("transfer-encoding", "identity"),
        ("content-length", "0"),
        ("content-length", "5"),
        ("content-length", "+0"),
        ("host", "other"),
        ("host", "localhost/api/documents/1?"),
        ("expect", "100-continue"),
        ("trailer", "x-user-id"),
        ("authorization", "Basic YTpi"),
        ("x-forwarded-uri", "/healthz"),
        ("cookie", "x"),
    ] {
        let mut headers = plain("POST", "/healthz").to_vec();
        headers.push(extra);
        attacks.push(attack(&headers, &format!("0\r\n\r\n{smuggled}"), &[]));
        let mut headers = plain("POST", "/api/projects").to_vec();
        headers.extend([("authorization", token), extra]);
        attacks.push(attack(&headers, "", &[]));
    }
    for end in [
        ("x-user-id", "admin"),
        ("x_user_id", "admin"),
        ("x~user~id", "admin"),
        (":path", "/api/documents/1"),
        ("authorization", token),
        ("content-length", "0"),
    ] {
        attacks.push(attack(&plain("POST", "/healthz"), "hello", &[end]));
        let mut headers = plain("POST", "/api/projects").to_vec();
        headers.push(("authorization", token));
        attacks.push(attack(&headers, "hello", &[end]));
    }
    attacks
}
