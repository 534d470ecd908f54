//! HTTP/1.1 byte for byte, because client libraries do not send what attackers send.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use anyhow::Result;
use http::{HeaderName, HeaderValue};
use tokio::net::TcpSocket;

use crate::{Answer, http2};

/// Longest time to wait for the next bytes of a response.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Reads a complete response; `None` if the text is not one.
#[must_use]
pub fn parse(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let headers = lines.filter_map(|(name, value)| {
        let name = HeaderName::try_from(name).ok()?;
        Some((name, HeaderValue::try_from(value.trim()).ok()?))
    });
    Some(Answer {
        status: head.split(' ').nth(1)?.parse().ok()?,
        headers: headers.collect(),
        body: body.to_owned(),
    })
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
    let mut connection = connect(port)?;
    let answer = exchange(&mut connection, request);
    Ok((answer, connection))
}

/// Sends a request, or a part of one, on a new connection, and does not wait for the response.
///
/// # Errors
/// If nothing listens on the port.
pub fn begin(port: u16, request: &str) -> io::Result<TcpStream> {
    let mut connection = connect(port)?;
    // A server may answer and close the connection before it has read everything.
    let _sent = connection.write_all(request.as_bytes());
    Ok(connection)
}

/// A connection that waits for the next bytes for a time.
///
/// # Errors
/// If nothing listens on the port.
pub fn connect(port: u16) -> io::Result<TcpStream> {
    ready(TcpStream::connect((Ipv4Addr::LOCALHOST, port))?)
}

/// Like [`connect`], from `source`, an address of this machine.
///
/// # Errors
/// If nothing listens on the port.
pub fn connect_from(source: Ipv4Addr, port: u16) -> Result<TcpStream> {
    let connection = http2::runtime()?.block_on(async { bound(source, port).await?.into_std() })?;
    connection.set_nonblocking(false)?;
    Ok(ready(connection)?)
}

pub(crate) async fn bound(source: Ipv4Addr, port: u16) -> io::Result<tokio::net::TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((source, 0).into())?;
    socket.connect((Ipv4Addr::LOCALHOST, port).into()).await
}

fn ready(connection: TcpStream) -> io::Result<TcpStream> {
    connection.set_nodelay(true)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    Ok(connection)
}

/// Resets the connections (RST), where dropping them would end them in order.
///
/// # Errors
/// If the operating system returns an error.
pub fn reset(connections: Vec<TcpStream>) -> Result<()> {
    let runtime = http2::runtime()?;
    let _context = runtime.enter();
    for connection in connections {
        connection.set_nonblocking(true)?;
        tokio::net::TcpStream::from_std(connection)?.set_zero_linger()?;
    }
    Ok(())
}

/// Sends a request, and reads the whole response.
pub fn exchange(connection: &mut (impl Read + Write), request: &str) -> Option<Answer> {
    let _sent = connection.write_all(request.as_bytes());
    receive(connection, request.starts_with("HEAD "))
}

/// Reads the whole response to the request of [`begin`].
pub fn answer(connection: &mut TcpStream) -> Option<Answer> {
    receive(connection, false)
}

fn receive(connection: &mut impl Read, to_head: bool) -> Option<Answer> {
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    while !is_complete(&answer, to_head) {
        match connection.read(&mut part) {
            // A reset after a response does not invalidate the response.
            Ok(0) | Err(_) => break,
            Ok(size) => answer.extend(part.iter().take(size)),
        }
    }
    parse(&String::from_utf8_lossy(&answer))
}

/// True if the response is complete, as far as it declares its length (RFC 9112 §6.3).
fn is_complete(answer: &[u8], to_head: bool) -> bool {
    let Some(answer) = parse(&String::from_utf8_lossy(answer)) else {
        return false;
    };
    if to_head || answer.status == 101 {
        return true;
    }
    if answer.header("transfer-encoding").is_some() {
        return answer.body.ends_with("0\r\n\r\n");
    }
    let length = answer.header("content-length");
    let length: Option<usize> = length.and_then(|length| length.parse().ok());
    length.is_some_and(|length| answer.body.len() >= length)
}
