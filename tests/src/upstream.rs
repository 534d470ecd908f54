//! A resource server that records each request byte for byte.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};

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
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let upstream = Self {
            port: listener.local_addr()?.port(),
            remembers,
            arrived: Arc::default(),
        };
        let arrived = Arc::clone(&upstream.arrived);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let arrived = remembers.then(|| Arc::clone(&arrived));
                // If a connection breaks, the gateway must handle that.
                std::thread::spawn(move || serve(connection, arrived.as_deref()));
            }
        });
        Ok(upstream)
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

fn serve(connection: TcpStream, arrived: Option<&Mutex<HashMap<String, Arrived>>>) -> Result<()> {
    connection.set_nodelay(true)?;
    let mut writer = connection.try_clone()?;
    let mut reader = BufReader::new(connection);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut words = line.split_whitespace();
        let mut request = Arrived {
            method: words.next().context("no method")?.to_owned(),
            target: words.next().context("no target")?.to_owned(),
            ..Arrived::default()
        };
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else {
                break;
            };
            let header = (name.to_owned(), value.trim().to_owned());
            request.headers.push(header);
        }
        let length = request.values("content-length").first().copied();
        let mut body = vec![0; length.map_or(Ok(0), str::parse)?];
        reader.read_exact(&mut body)?;
        request.body = String::from_utf8_lossy(&body).into_owned();
        if let Some(arrived) = arrived {
            let test = request.values("x-test").concat();
            let mut arrived = arrived.lock().unwrap_or_else(PoisonError::into_inner);
            arrived.insert(test, request);
        }
        writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")?;
    }
}
