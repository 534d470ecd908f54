//! A client of HTTP/2, with and without TLS. It sends what the text of an HTTP/1.1 request says.

use std::io::Cursor;
use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use h2::client::SendRequest;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;

use crate::Answer;
use crate::tls::{self, Identity};
use crate::wire::{self, PATIENCE};

/// Streams of one connection: the most that Envoy allows.
pub const STREAMS: usize = 100;

/// A connection, from which requests are sent.
pub type Requests = SendRequest<Cursor<Vec<u8>>>;

/// Fields that HTTP/2 expresses in another way (RFC 9113 §8.2.2, §8.3.1).
const OF_HTTP1: [&str; 3] = ["host", "connection", "transfer-encoding"];

/// A request with at most one chunk of content, and its trailer section.
struct Parts {
    request: Request<()>,
    content: String,
    trailers: HeaderMap,
}

impl Parts {
    fn read(request: &str, scheme: &str) -> Result<Self> {
        let (head, body) = request
            .split_once("\r\n\r\n")
            .context("no end of the head")?;
        let (line, headers) = head.split_once("\r\n").context("no headers")?;
        let mut words = line.split(' ');
        let method = words.next().context("no method")?;
        let target = words.next().context("no target")?;
        let mut hosts = headers
            .lines()
            .filter_map(|line| line.strip_prefix("Host: "));
        let uri = Uri::builder()
            .scheme(scheme)
            .authority(hosts.next().context("no host")?)
            .path_and_query(target)
            .build()?;
        let mut sent = Request::builder().method(method).uri(uri).body(())?;
        *sent.headers_mut() = fields(headers)?;
        let (content, trailers) = body.split_once("\r\n0\r\n").unwrap_or_default();
        let (_, content) = content.split_once("\r\n").unwrap_or_default();
        Ok(Self {
            request: sent,
            content: content.to_owned(),
            trailers: fields(trailers)?,
        })
    }

    async fn exchange(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Option<Answer>> {
        let requests = handshake(stream).await?;
        exchange_with(&requests, self.request, &self.content, Some(self.trailers)).await
    }
}

fn fields(text: &str) -> Result<HeaderMap> {
    let mut fields = HeaderMap::new();
    for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let name = HeaderName::from_bytes(name.as_bytes())?;
        if !OF_HTTP1.contains(&name.as_str()) {
            fields.append(name, HeaderValue::from_str(value.trim())?);
        }
    }
    Ok(fields)
}

/// Sends a request to `port`, over TLS to a server with this certificate if `server` is given, and reads the response. `None` if
/// the server ends the stream without a response.
///
/// # Errors
/// If nothing listens on the port, the request is not one, or no response comes in time.
pub fn send(
    port: u16,
    server: Option<&Identity>,
    client: Option<&Identity>,
    request: &str,
) -> Result<Option<Answer>> {
    let exchange = async {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        let Some(server) = server else {
            return Parts::read(request, "http")?.exchange(stream).await;
        };
        let mut config = tls::config(server, client)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::try_from(server.name.clone())?;
        let connector = TlsConnector::from(Arc::new(config));
        let stream = connector.connect(name, stream).await?;
        Parts::read(request, "https")?.exchange(stream).await
    };
    runtime()?.block_on(async { tokio::time::timeout(PATIENCE, exchange).await })?
}

/// A runtime for connections.
///
/// # Errors
/// If the runtime cannot be started.
pub fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot start a runtime")
}

/// Opens a connection from `source`, an address of this machine, to `port`. A task of the runtime drives it.
///
/// # Errors
/// If the connection cannot be opened.
pub async fn connect(source: Ipv4Addr, port: u16) -> Result<Requests> {
    handshake(wire::bound(source, port).await?).await
}

async fn handshake(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Requests> {
    let (requests, connection) = h2::client::Builder::new()
        .initial_max_send_streams(STREAMS)
        .handshake(stream)
        .await?;
    tokio::spawn(async move {
        // The other side ends the connection.
        let _ended = connection.await;
    });
    Ok(requests)
}

/// Sends a request on one stream of a connection, and reads the response.
///
/// # Errors
/// When the other side ends the stream without a response.
pub async fn exchange(requests: &Requests, request: Request<()>, content: &str) -> Result<Answer> {
    let answer = exchange_with(requests, request, content, None).await?;
    answer.context("no response")
}

async fn exchange_with(
    requests: &Requests,
    request: Request<()>,
    content: &str,
    trailers: Option<HeaderMap>,
) -> Result<Option<Answer>> {
    let Ok(mut requests) = requests.clone().ready().await else {
        return Ok(None);
    };
    let is_short = content.is_empty();
    let (response, mut stream) = requests.send_request(request, is_short)?;
    if !is_short {
        // A server may answer before it has read everything.
        let _sent = stream.send_data(Cursor::new(content.into()), trailers.is_none());
        let _sent = trailers.map(|trailers| stream.send_trailers(trailers));
    }
    let Ok(response) = response.await else {
        return Ok(None);
    };
    let (head, mut content) = response.into_parts();
    let mut body = Vec::new();
    while let Some(Ok(chunk)) = content.data().await {
        content.flow_control().release_capacity(chunk.len())?;
        body.extend_from_slice(&chunk);
    }
    Ok(Some(Answer {
        status: head.status.as_u16(),
        headers: head.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    }))
}
