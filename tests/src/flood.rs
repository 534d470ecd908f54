//! Sends many requests at once, to 127.0.0.1 only, for the tests and for `make attack`.

use std::io::{self, Cursor, Read as _};
use std::net::{Ipv4Addr, TcpStream};

use anyhow::{Context as _, Result, ensure};
use h2::SendStream;
use h2::client::ResponseFuture;
use http::Request;
use tokio::runtime::Runtime;

use crate::browsing::FORM;
use crate::http2::{self, STREAMS};
use crate::{Answer, wire};

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

/// POST requests whose bodies never end. Dropping this value ends them.
#[derive(Debug, Default)]
pub struct UnfinishedPosts {
    http1: Vec<TcpStream>,
    http2: Vec<(ResponseFuture, SendStream<Cursor<Vec<u8>>>)>,
    // Dropped last, because it drives the streams.
    runtime: Option<Runtime>,
}

/// The part of each body that is sent, of 1,000 announced bytes.
const BEGINNING: &str = "grant_type=client";

impl UnfinishedPosts {
    /// `count` connections to `port`, each with one unfinished form for `path`.
    ///
    /// # Errors
    /// When a connection cannot be opened.
    pub fn http1(port: u16, path: &str, count: usize) -> Result<Self> {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {FORM}\r\ncontent-length: 1000\r\n\r\n{BEGINNING}"
        );
        let http1: io::Result<_> = (0..count).map(|_| wire::begin(port, &request)).collect();
        Ok(Self {
            http1: http1?,
            ..Self::default()
        })
    }

    /// `count` streams on as few connections to `port` as possible, each with one unfinished form for `path`.
    ///
    /// # Errors
    /// When a connection cannot be opened.
    pub fn http2(port: u16, path: &str, count: usize) -> Result<Self> {
        let runtime = http2::runtime()?;
        let mut held = Vec::with_capacity(count);
        runtime.block_on(async {
            while held.len() < count {
                let mut requests = http2::connect(Ipv4Addr::LOCALHOST, port).await?;
                for _ in 0..STREAMS.min(count - held.len()) {
                    requests = requests.ready().await?;
                    let request = Request::post(format!("http://127.0.0.1:{port}{path}"))
                        .header("content-type", FORM)
                        .header("content-length", "1000")
                        .body(())?;
                    let (response, mut body) = requests.send_request(request, false)?;
                    body.send_data(Cursor::new(BEGINNING.into()), false)?;
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

    /// The response on the first HTTP/1.1 connection, which the other side then closes.
    ///
    /// # Errors
    /// If there is no such connection, or it is not closed in time.
    pub fn last_words(&mut self) -> Result<Answer> {
        let connection = self.http1.first_mut().context("nothing is held")?;
        let mut words = Vec::new();
        connection.read_to_end(&mut words)?;
        wire::parse(&String::from_utf8_lossy(&words)).context("no response")
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
