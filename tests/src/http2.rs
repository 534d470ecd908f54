//! A client of HTTP/2, with and without TLS. It sends what the text of an HTTP/1.1 request says.

use std::io::Cursor;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::flood;
use crate::tls::{self, Identity};
use crate::wire::Answer;

/// Longest time to wait for a response.
const PATIENCE: Duration = Duration::from_secs(90);

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
            return exchange(stream, Parts::read(request, "http")?).await;
        };
        let mut config = tls::config(server, client)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::try_from("localhost")?;
        let connector = TlsConnector::from(Arc::new(config));
        let stream = connector.connect(name, stream).await?;
        exchange(stream, Parts::read(request, "https")?).await
    };
    flood::runtime()?.block_on(async { tokio::time::timeout(PATIENCE, exchange).await })?
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    parts: Parts,
) -> Result<Option<Answer>> {
    let (requests, connection) = h2::client::Builder::new().handshake(stream).await?;
    tokio::spawn(async move {
        // The other side ends the connection.
        let _ended = connection.await;
    });
    let Ok(mut requests) = requests.ready().await else {
        return Ok(None);
    };
    let is_short = parts.content.is_empty();
    let (response, mut stream) = requests.send_request(parts.request, is_short)?;
    if !is_short {
        // A server may answer before it has read everything.
        let content = Cursor::new(parts.content.into_bytes());
        let _sent = stream.send_data(content, false);
        let _sent = stream.send_trailers(parts.trailers);
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
    let headers = head.headers.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes());
        format!("{name}: {value}\r\n")
    });
    Ok(Some(Answer {
        status: head.status.as_u16(),
        head: headers.collect(),
        body: String::from_utf8_lossy(&body).into_owned(),
    }))
}
