//! HTTP/1.1 byte for byte, because client libraries do not send what attackers send.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// Longest time to wait for the next bytes of a response.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A response as received.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    /// The body as sent: a chunked body contains its chunk sizes.
    pub body: String,
}

impl Answer {
    /// Reads a complete response; `None` if the text is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (head, body) = text.split_once("\r\n\r\n")?;
        Some(Self {
            status: head.split(' ').nth(1)?.parse().ok()?,
            head: head.to_owned(),
            body: body.to_owned(),
        })
    }

    /// Names and values of the headers, in the order of the response.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.map(|(name, value)| (name, value.trim()))
    }

    /// The values of a header.
    #[must_use]
    pub fn values(&self, name: &str) -> Vec<&str> {
        self.headers()
            .filter(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .collect()
    }
}

/// Sends a request on a new connection, and reads the whole response. `None` if the connection ended without a
/// response, which is a refusal too.
///
/// # Errors
/// If nothing listens on the port.
pub fn send(port: u16, request: &str) -> io::Result<Option<Answer>> {
    Ok(open(port, request)?.0)
}

/// Like [`send`], and returns the connection too.
///
/// # Errors
/// If nothing listens on the port.
pub fn open(port: u16, request: &str) -> io::Result<(Option<Answer>, TcpStream)> {
    let mut connection = connect(port, PATIENCE)?;
    let answer = exchange(&mut connection, request);
    Ok((answer, connection))
}

/// A connection that waits for the next bytes for `patience`.
///
/// # Errors
/// If nothing listens on the port.
pub fn connect(port: u16, patience: Duration) -> io::Result<TcpStream> {
    let connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    connection.set_nodelay(true)?;
    connection.set_read_timeout(Some(patience))?;
    Ok(connection)
}

/// Sends a request, and reads the whole response.
pub fn exchange(connection: &mut (impl Read + Write), request: &str) -> Option<Answer> {
    // A server may answer and close the connection before it has read everything.
    let _sent = connection.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    while !is_complete(&answer, request.starts_with("HEAD ")) {
        match connection.read(&mut part) {
            // A reset after a response does not invalidate the response.
            Ok(0) | Err(_) => break,
            Ok(size) => answer.extend(part.iter().take(size)),
        }
    }
    Answer::parse(&String::from_utf8_lossy(&answer))
}

/// True if the response is complete, as far as it declares its length (RFC 9112 §6.3).
fn is_complete(answer: &[u8], to_head: bool) -> bool {
    let Some(answer) = Answer::parse(&String::from_utf8_lossy(answer)) else {
        return false;
    };
    if to_head || answer.status == 101 {
        return true;
    }
    if !answer.values("transfer-encoding").is_empty() {
        return answer.body.ends_with("0\r\n\r\n");
    }
    let length = answer.values("content-length");
    let length: Option<usize> = length.first().and_then(|length| length.parse().ok());
    length.is_some_and(|length| answer.body.len() >= length)
}
