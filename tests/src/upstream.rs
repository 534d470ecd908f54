//! A resource server that records each request byte for byte, and that switches to HTTP/2 whatever protocol a request
//! asks for.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Request, Response};
use sha1::{Digest as _, Sha1};

/// A request as it arrived.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arrived {
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names as sent, and values.
    pub headers: Vec<(String, String)>,
    /// The body, if the request had a length.
    pub body: String,
}

impl Arrived {
    /// A number among the parameters of the query.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<usize> {
        let (_, query) = self.target.split_once('?')?;
        let mut parameters = query.split('&').filter_map(|part| part.split_once('='));
        parameters.find(|(known, _)| *known == name)?.1.parse().ok()
    }

    /// The values of a header, in any case and in all spellings that servers treat as equal: `x_user_id` and
    /// `x.user.id` for `x-user-id`.
    #[must_use]
    pub fn values(&self, name: &str) -> Vec<&str> {
        let plain = |other: &str| {
            other
                .to_ascii_lowercase()
                .replace(|sign: char| !sign.is_ascii_alphanumeric(), "-")
        };
        let same = |other: &str| plain(other) == name;
        let all = self.headers.iter();
        all.filter(|(other, _)| same(other))
            .map(|(_, value)| value.as_str())
            .collect()
    }
}

/// The server. It ends with the process.
#[derive(Debug)]
pub struct Upstream {
    port: u16,
    remembers: bool,
    /// The last request for each value of `x-test`.
    arrived: Arc<Mutex<HashMap<String, Arrived>>>,
}

impl Upstream {
    /// Starts the server on a free port. With `remembers` it keeps the last request for each value of `x-test`.
    ///
    /// # Errors
    /// If no port is free.
    pub fn start(remembers: bool) -> Result<Self> {
        let arrived: Arc<Mutex<HashMap<_, _>>> = Arc::default();
        let recorder = remembers.then(|| Arc::clone(&arrived));
        let port = listen("127.0.0.1", 0, move |connection| {
            let recorder = recorder.as_deref();
            let switched = exchange(connection, |request| {
                let switching = switching(&request);
                record(recorder, request);
                switching.unwrap_or_else(|| response("200 OK", "", "ok"))
            })?;
            switched.map_or(Ok(()), |connection| serve_http2(connection, recorder))
        })?;
        Ok(Self {
            port,
            remembers,
            arrived,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The last request with this `x-test`; `None` if no such request arrived.
    #[must_use]
    pub fn arrived(&self, test: &str) -> Option<Arrived> {
        debug_assert!(self.remembers, "it was started to remember nothing");
        let arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        arrived.get(test).cloned()
    }
}

/// Starts a server at this port of `host`, or at a free one if `port` is 0. It ends with the process. `answer` returns the text of
/// each response; an empty text closes the connection.
///
/// # Errors
/// If no port is free.
pub fn serve(
    host: &str,
    port: u16,
    answer: impl Fn(&Arrived) -> String + Send + Sync + 'static,
) -> Result<u16> {
    listen(host, port, move |connection| {
        exchange(connection, |request| answer(&request)).map(drop)
    })
}

/// The text of a response. Each of its header lines ends with a line end.
#[must_use]
pub fn response(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}")
}

fn listen(
    host: &str,
    port: u16,
    serve: impl Fn(TcpStream) -> Result<()> + Send + Sync + 'static,
) -> Result<u16> {
    let listener = TcpListener::bind((host, port))?;
    let port = listener.local_addr()?.port();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            // If a connection breaks, the client must handle that.
            std::thread::spawn(move || serve(connection));
        }
    });
    Ok(port)
}

/// Answers the requests of a connection, one after the other. Returns the connection if the protocol was switched.
fn exchange(
    connection: TcpStream,
    answer: impl Fn(Arrived) -> String,
) -> Result<Option<TcpStream>> {
    connection.set_nodelay(true)?;
    let mut writer = connection.try_clone()?;
    let mut reader = BufReader::new(connection);
    while let Some(request) = next(&mut reader)? {
        let answer = answer(request);
        writer.write_all(answer.as_bytes())?;
        if answer.is_empty() {
            break;
        }
        if answer.starts_with("HTTP/1.1 101 ") {
            return Ok(Some(writer));
        }
    }
    Ok(None)
}

/// The next request; `None` at the end of the connection.
fn next(reader: &mut impl BufRead) -> Result<Option<Arrived>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let mut request = Arrived {
        method: words.next().context("no method")?.to_owned(),
        target: words.next().context("no target")?.to_owned(),
        ..Arrived::default()
    };
    request.headers = fields(reader)?;
    let mut body = Vec::new();
    if request.values("transfer-encoding") == ["chunked"] {
        while let size @ 1.. = chunk_size(reader)? {
            reader.by_ref().take(size).read_to_end(&mut body)?;
            reader.read_line(&mut String::new())?;
        }
        // As servers do that do not keep trailers apart.
        request.headers.append(&mut fields(reader)?);
    } else {
        let length = request.values("content-length").first().copied();
        body.resize(length.map_or(Ok(0), str::parse)?, 0);
        reader.read_exact(&mut body)?;
    }
    request.body = String::from_utf8_lossy(&body).into_owned();
    Ok(Some(request))
}

/// The fields of a header or trailer section, to the empty line behind it.
fn fields(reader: &mut impl BufRead) -> Result<Vec<(String, String)>> {
    let mut fields = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            return Ok(fields);
        };
        fields.push((name.to_owned(), value.trim().to_owned()));
    }
}

/// The size of the next chunk of a body (RFC 9112 §7.1).
fn chunk_size(reader: &mut impl BufRead) -> Result<u64> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    Ok(u64::from_str_radix(line.trim_end(), 16)?)
}

fn record(arrived: Option<&Mutex<HashMap<String, Arrived>>>, request: Arrived) {
    let Some(arrived) = arrived else { return };
    let test = request.values("x-test").concat();
    let mut arrived = arrived.lock().unwrap_or_else(PoisonError::into_inner);
    arrived.insert(test, request);
}

/// The response that switches to the protocol that the request names. HAProxy checks the key of a WebSocket.
fn switching(request: &Arrived) -> Option<String> {
    let protocol = request.values("upgrade").join(", ");
    if protocol.is_empty() {
        return None;
    }
    // RFC 6455 §4.2.2.
    let key = request.values("sec-websocket-key").concat();
    let digest = Sha1::digest(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let accept = STANDARD.encode(digest);
    Some(format!(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: {protocol}\r\n\
         sec-websocket-accept: {accept}\r\n\r\n"
    ))
}

/// Serves a connection on which both sides have switched to HTTP/2 (RFC 7540 §3.2).
fn serve_http2(
    connection: TcpStream,
    arrived: Option<&Mutex<HashMap<String, Arrived>>>,
) -> Result<()> {
    connection.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    runtime.block_on(async {
        let connection = tokio::net::TcpStream::from_std(connection)?;
        let mut connection = h2::server::handshake(connection).await?;
        while let Some(accepted) = connection.accept().await {
            let (request, mut response) = accepted?;
            record(arrived, read(&request));
            response.send_response(Response::new(()), true)?;
        }
        Ok(())
    })
}

fn read<B>(request: &Request<B>) -> Arrived {
    let headers = request.headers().iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes());
        (name.to_string(), value.into_owned())
    });
    Arrived {
        method: request.method().to_string(),
        target: request.uri().path().to_owned(),
        headers: headers.collect(),
        body: String::new(),
    }
}
