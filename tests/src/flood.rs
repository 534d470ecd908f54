//! Sends many requests at once, to 127.0.0.1 only, for the tests and for `make attack`.

use std::io::{Cursor, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use h2::SendStream;
use h2::client::{ResponseFuture, SendRequest};
use http::Request;
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;

/// Streams of one HTTP/2 connection: the most that Envoy allows.
const STREAMS: usize = 100;

/// Longest time that the flood reads from a held connection.
const PATIENCE: Duration = Duration::from_secs(60);

/// Raises this process's limit of open files as far as allowed.
///
/// # Errors
/// If the process may not open `needed` files.
pub fn allow_open_files(needed: u64) -> Result<()> {
    let limit = rlimit::increase_nofile_limit(rlimit::INFINITY)?;
    ensure!(
        limit >= needed,
        "this process may open {limit} files and needs {needed}: raise `ulimit -n`"
    );
    Ok(())
}

/// A runtime for the connections of a flood.
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

/// Parts of a body, ready to send.
pub type Part = Cursor<Vec<u8>>;

/// Opens an HTTP/2 connection from `source`, an address of this machine, to `port`. A task of the runtime drives it.
///
/// # Errors
/// If the connection cannot be opened.
pub async fn connect_http2(source: Ipv4Addr, port: u16) -> Result<SendRequest<Part>> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((source, 0)))?;
    let stream = socket
        .connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .await?;
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

/// Sends a request on one stream of a connection. Returns status and body of the response.
///
/// # Errors
/// When the stream or the connection breaks.
pub async fn exchange(
    requests: &SendRequest<Part>,
    request: Request<()>,
    body: &str,
) -> Result<(u16, Vec<u8>)> {
    let mut requests = requests.clone().ready().await?;
    let (response, mut stream) = requests.send_request(request, body.is_empty())?;
    if !body.is_empty() {
        stream.send_data(Cursor::new(body.as_bytes().to_vec()), true)?;
    }
    let (head, mut content) = response.await?.into_parts();
    let mut read = Vec::new();
    while let Some(chunk) = content.data().await {
        let chunk = chunk?;
        content.flow_control().release_capacity(chunk.len())?;
        read.extend_from_slice(&chunk);
    }
    Ok((head.status.as_u16(), read))
}

/// POST requests whose bodies never end. Dropping this value ends them.
#[derive(Debug, Default)]
pub struct UnfinishedPosts {
    http1: Vec<TcpStream>,
    http2: Vec<(ResponseFuture, SendStream<Part>)>,
    // Dropped last, because it drives the streams.
    runtime: Option<Runtime>,
}

/// The part of each body that is sent, of 1,000 announced bytes.
const BEGINNING: &[u8] = b"grant_type=client";

impl UnfinishedPosts {
    /// `count` connections to `port`, each with one unfinished form for `path`.
    ///
    /// # Errors
    /// When a connection cannot be opened.
    pub fn http1(port: u16, path: &str, count: usize) -> Result<Self> {
        let mut held = Self::default();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/x-www-form-urlencoded\r\n\
             content-length: 1000\r\n\r\n"
        );
        for _ in 0..count {
            let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            connection.set_read_timeout(Some(PATIENCE))?;
            connection.write_all(head.as_bytes())?;
            connection.write_all(BEGINNING)?;
            held.http1.push(connection);
        }
        Ok(held)
    }

    /// `count` streams on as few connections to `port` as possible, each with one unfinished form for `path`.
    ///
    /// # Errors
    /// When a connection cannot be opened.
    pub fn http2(port: u16, path: &str, count: usize) -> Result<Self> {
        let runtime = runtime()?;
        let mut held = Vec::with_capacity(count);
        runtime.block_on(async {
            while held.len() < count {
                let mut requests = connect_http2(Ipv4Addr::LOCALHOST, port).await?;
                for _ in 0..STREAMS.min(count - held.len()) {
                    requests = requests.ready().await?;
                    let request = Request::post(format!("http://127.0.0.1:{port}{path}"))
                        .header("content-type", "application/x-www-form-urlencoded")
                        .header("content-length", "1000")
                        .body(())?;
                    let (response, mut body) = requests.send_request(request, false)?;
                    body.send_data(Cursor::new(BEGINNING.to_vec()), false)?;
                    held.push((response, body));
                }
            }
            anyhow::Ok(())
        })?;
        Ok(Self {
            http1: Vec::new(),
            http2: held,
            runtime: Some(runtime),
        })
    }

    /// Everything that the other side sends on the first HTTP/1.1 connection until it closes the connection.
    ///
    /// # Errors
    /// If there is no such connection, or it is not closed within a minute.
    pub fn last_words(&mut self) -> Result<String> {
        let connection = self.http1.first_mut().context("nothing is held")?;
        let mut words = Vec::new();
        connection.read_to_end(&mut words)?;
        Ok(String::from_utf8_lossy(&words).into_owned())
    }

    /// The status of the response on the first HTTP/2 stream.
    ///
    /// # Errors
    /// If there is no such stream, or it ends without a response.
    pub fn last_status(&mut self) -> Result<u16> {
        ensure!(!self.http2.is_empty(), "nothing is held");
        let (response, _body) = self.http2.swap_remove(0);
        let runtime = self.runtime.as_ref().context("nothing is held")?;
        let status = runtime.block_on(async { anyhow::Ok(response.await?.status()) })?;
        Ok(status.as_u16())
    }
}
