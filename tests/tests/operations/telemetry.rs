//! Traces for an OpenTelemetry collector.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;

use serde_json::Value;

use crate::support::{OwnPair, USER_BOUND};

/// The body of the first request to `listener`, which gets an empty answer.
fn first_request(listener: &TcpListener) -> (String, Vec<u8>) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head).unwrap();
    }
    let length = head
        .lines()
        .find_map(|line| {
            line.to_ascii_lowercase()
                .strip_prefix("content-length:")?
                .trim()
                .parse()
                .ok()
        })
        .unwrap();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    stream
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        .unwrap();
    (head, body)
}

#[test]
fn spans_of_requests_are_exported() {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    let pair = OwnPair::start(&[("TOKEN_SERVICE__OTLP_ENDPOINT", &endpoint)]);
    USER_BOUND.token(
        &pair.pair.lobby_url(),
        &[("grant_type", "client_credentials")],
    );
    let (head, body) = first_request(&collector);
    assert!(head.starts_with("POST /v1/traces "), "{head}");
    let text = String::from_utf8_lossy(&body);
    for word in ["token-service", "request_id", "path"] {
        assert!(text.contains(word), "{word} in {text}");
    }
    drop(collector);
}

#[test]
fn a_line_of_the_json_log_names_its_request_once_and_its_reason_in_a_word() {
    let pair = OwnPair::start(&[("TOKEN_SERVICE__LOG_FORMAT", "json")]);
    USER_BOUND
        .token(&pair.pair.lobby_url(), &[("grant_type", "unknown")])
        .assert_error(400, "invalid_grant");
    let log = pair.pair.end();
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let refused: Vec<Value> = lines
        .filter(|line| line["message"] == "token request refused")
        .collect();
    let [line] = refused.as_slice() else {
        panic!("{refused:?}");
    };
    assert_eq!(line["reason"], "unknown_grant_type");
    assert_eq!(line["span"]["path"], "/auth/token");
    assert!(line.get("spans").is_none(), "{line}");
}
