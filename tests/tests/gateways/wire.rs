//! Requests byte for byte, because client libraries do not send what attackers send.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use ureq::http::Request;

/// A response as received.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) status: u16,
    head: String,
    pub(super) body: String,
}

impl Answer {
    /// The values of a header.
    pub(super) fn values(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines
            .filter(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
            .collect()
    }
}

/// Sends a request on a new connection, and reads the whole response. `None` if the connection ended without a
/// response, which is a refusal too.
pub(super) fn send(port: u16, request: &str) -> Option<Answer> {
    open(port, request).0
}

/// Like [`send`], and returns the connection too.
pub(super) fn open(port: u16, request: &str) -> (Option<Answer>, TcpStream) {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
    connection
        .set_read_timeout(Some(Duration::from_secs(90)))
        .unwrap();
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    while !is_complete(&answer, request.starts_with("HEAD ")) {
        match connection.read(&mut part) {
            // A reset after a response does not invalidate the response.
            Ok(0) | Err(_) => break,
            Ok(size) => answer.extend(part.iter().take(size)),
        }
    }
    (read(&String::from_utf8_lossy(&answer)), connection)
}

fn read(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer {
        status,
        head: head.to_owned(),
        body: body.to_owned(),
    })
}

/// Speaks HTTP/2 on a connection whose other side has switched to it, and sends this request.
pub(super) fn send_http2(connection: TcpStream, request: Request<()>) -> Result<(), h2::Error> {
    connection.set_nonblocking(true).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let exchange = async {
        let connection = tokio::net::TcpStream::from_std(connection).unwrap();
        let (client, connection) = h2::client::handshake(connection).await?;
        tokio::spawn(connection);
        let (response, _) = client.ready().await?.send_request(request, true)?;
        response.await.map(|_| ())
    };
    let deadline = Duration::from_secs(60);
    runtime.block_on(async { tokio::time::timeout(deadline, exchange).await.unwrap() })
}

/// True if the response is complete, as far as it declares its length (RFC 9112 §6.3).
fn is_complete(answer: &[u8], to_head: bool) -> bool {
    let answer = String::from_utf8_lossy(answer).to_ascii_lowercase();
    let Some((head, body)) = answer.split_once("\r\n\r\n") else {
        return false;
    };
    if head.starts_with("http/1.1 101 ") {
        return true;
    }
    let value = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(':'));
        lines
            .find(|(other, _)| *other == name)
            .map(|(_, value)| value.trim())
    };
    if value("transfer-encoding").is_some() {
        return to_head || body.ends_with("0\r\n\r\n");
    }
    let length = value("content-length").and_then(|length| length.parse().ok());
    to_head || length.is_some_and(|length: usize| body.len() >= length)
}
