//! The log line of a denial: one JSON object, without the token, the query and personal data.

use serde::Serialize;
use serde_json::json;

/// Longest method, path and request id in the line, in bytes.
const MAX_METHOD: usize = 32;
const MAX_PATH: usize = 256;
const MAX_REQUEST_ID: usize = 128;

/// What the line contains from the request, as sent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Denied<'a> {
    /// `:method`.
    pub method: &'a [u8],
    /// `:path`, with the query.
    pub target: &'a [u8],
    /// `x-request-id`; empty if there is none.
    pub request_id: &'a [u8],
}

impl<'a> Denied<'a> {
    /// The part of the request id that fits into the line. A waiting request keeps only this part.
    pub(crate) fn bounded_request_id(&self) -> &'a [u8] {
        let id = self.request_id;
        id.get(..MAX_REQUEST_ID).unwrap_or(id)
    }
}

/// The members of the line. In method and path, bytes that are not printable ASCII are percent-encoded; in the
/// request id, they are removed. So a client can neither start its own line nor send escape sequences to a
/// terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// `denied`, or `would_deny` if the request passed because of report-only mode.
    pub event: &'static str,
    /// Lines that the rate limit has suppressed since the last line.
    pub left_out: u64,
    /// The method, at most 32 bytes.
    pub method: String,
    /// The path without the query, at most 256 bytes.
    pub path: String,
    /// A name of [`Denial::names`](crate::verdict::Denial::names), or a reason of the host.
    pub reason: &'static str,
    /// The request id, at most 128 bytes.
    pub request_id: String,
    /// Status of the response; 0 if the request passed.
    pub status: u32,
}

impl Line {
    pub(crate) fn new(
        reason: &'static str,
        status: u32,
        reported: bool,
        left_out: u64,
        request: &Denied<'_>,
    ) -> Self {
        let path = request
            .target
            .split(|byte| matches!(byte, b'?' | b'#'))
            .next()
            .unwrap_or_default();
        let request_id = request
            .request_id
            .iter()
            .filter(|byte| is_printable(**byte));
        Self {
            event: if reported { "would_deny" } else { "denied" },
            left_out,
            method: escape(request.method, MAX_METHOD),
            path: escape(path, MAX_PATH),
            reason,
            request_id: request_id
                .take(MAX_REQUEST_ID)
                .map(|byte| char::from(*byte))
                .collect(),
            status,
        }
    }

    /// The line as JSON.
    pub fn json(&self) -> String {
        json!(self).to_string()
    }
}

/// Most lines in a second. Further lines are only counted.
const LINES_PER_SECOND: u32 = 10;

/// Limits the lines in a second.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    second: u64,
    lines: u32,
    left_out: u64,
}

impl Throttle {
    /// Returns the number of lines that were left out since the last line; `None` if this line is left out too.
    pub(crate) fn admits(&mut self, second: u64) -> Option<u64> {
        if self.second != second {
            self.second = second;
            self.lines = 0;
        }
        if self.lines >= LINES_PER_SECOND {
            self.left_out += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

const fn is_printable(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e)
}

/// At most `longest` bytes of printable ASCII. A longer text ends with `...`.
fn escape(bytes: &[u8], longest: usize) -> String {
    let mut escaped = String::new();
    for byte in bytes {
        if escaped.len() + 3 > longest {
            escaped.push_str("...");
            break;
        }
        if is_printable(*byte) {
            escaped.push(char::from(*byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn read(request: &Denied<'_>) -> (String, Value) {
        let line = Line::new("no_token", 401, false, 3, request).json();
        let read = line.parse().unwrap();
        (line, read)
    }

    #[test]
    fn method_path_and_request_id_are_told_and_the_query_is_not() {
        let (_, read) = read(&Denied {
            method: b"GET",
            target: b"/api/projects?access_token=secret",
            request_id: b"4d1e6e2c-0d0a-4d3c",
        });
        let expected = json!({
            "event": "denied", "reason": "no_token", "status": 401, "left_out": 3,
            "method": "GET", "path": "/api/projects", "request_id": "4d1e6e2c-0d0a-4d3c",
        });
        assert_eq!(read, expected);
    }

    #[test]
    fn a_client_chooses_neither_the_length_nor_the_lines() {
        let long = [b"/\xff\r\n\x1b[2J\"".as_slice(), &[b'a'; 70_000]].concat();
        let (line, read) = read(&Denied {
            method: &long,
            target: &long,
            request_id: &long,
        });
        assert!(line.bytes().all(|byte| matches!(byte, b' '..=b'~')));
        assert!(line.len() < 700, "{}", line.len());
        let path = read["path"].as_str().unwrap();
        assert!(path.starts_with("/%FF%0D%0A%1B[2J\"aaa"), "{path}");
        assert!(path.ends_with("a..."), "{path}");
        let id = read["request_id"].as_str().unwrap();
        assert!(id.starts_with("/[2J\"aaa"), "{id}");
        assert_eq!(id.len(), MAX_REQUEST_ID);
    }
}
