//! The load of the benchmarks: HTTP/1.1 on keep-alive connections, the requests of each connection, and their times.

use std::net::SocketAddr;
use std::time::Duration;

use tests::load;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::short;

/// Timeout. No request of these measurements takes this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// A keep-alive connection.
pub(crate) struct Connection {
    address: SocketAddr,
    stream: TcpStream,
    read: Vec<u8>,
    /// True after the server has announced that it closes the connection: nginx does so after 1,000 requests.
    closes: bool,
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// The value of a string member of the JSON body.
    pub(crate) fn text(&self, member: &str) -> String {
        let body: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        body[member].as_str().unwrap().to_owned()
    }

    /// The values of all headers with this name.
    pub(crate) fn headers(&self, name: &str) -> impl Iterator<Item = &str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .filter(move |(given, _)| given.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    }
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            address,
            stream,
            read: Vec::with_capacity(8192),
            closes: false,
        }
    }

    pub(crate) async fn ask(&mut self, request: &[u8]) -> Reply {
        self.send(request).await;
        self.receive().await
    }

    pub(crate) async fn send(&mut self, request: &[u8]) {
        if self.closes {
            *self = Self::open(self.address).await;
        }
        self.stream.write_all(request).await.unwrap();
    }

    /// The response to the last request.
    pub(crate) async fn receive(&mut self) -> Reply {
        timeout(PATIENCE, self.read_reply()).await.unwrap()
    }

    async fn read_reply(&mut self) -> Reply {
        self.read.clear();
        let end = loop {
            let read = self.stream.read_buf(&mut self.read).await.unwrap();
            assert_ne!(read, 0, "the connection was closed");
            let end = self.read.windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(end) = end {
                break end + 4;
            }
        };
        let head = String::from_utf8(self.read[..end].to_vec()).unwrap();
        let mut reply = Reply {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head,
            body: Vec::new(),
        };
        self.closes = reply
            .headers("connection")
            .any(|value| value.eq_ignore_ascii_case("close"));
        let length = reply.headers("content-length").next();
        let length: usize = length.map_or(0, |length| length.parse().unwrap());
        while self.read.len() < end + length {
            let read = self.stream.read_buf(&mut self.read).await.unwrap();
            assert_ne!(read, 0, "the connection was closed");
        }
        reply.body = self.read[end..].to_vec();
        reply
    }
}

pub(crate) fn post(path: &str, headers: &str, body: &str) -> Vec<u8> {
    let headers = format!("{headers}content-type: application/x-www-form-urlencoded\r\n");
    request("POST", path, &headers, body)
}

/// A request with a body. `headers` has the type of the body.
pub(crate) fn request(method: &str, path: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: bench\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

pub(crate) fn get(path: &str, headers: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: bench\r\n{headers}\r\n").into_bytes()
}

pub(crate) fn basic(client_id: &str, secret: &str) -> String {
    format!("authorization: {}\r\n", load::basic(client_id, secret))
}

/// The requests of one connection. The script continues in the next block.
pub(crate) trait Script: Send {
    /// Makes requests in advance, before the time of a block begins.
    fn prepare(&mut self) {}

    /// The next request; `None` at the end.
    fn request(&mut self) -> Option<Vec<u8>>;

    /// Processes the response. Returns true if the response counts, and false if it is an intermediate step.
    fn answered(&mut self, reply: &Reply) -> bool {
        assert_ok(reply)
    }
}

/// Requests that must all get 200.
impl<F: FnMut() -> Option<Vec<u8>> + Send> Script for F {
    fn request(&mut self) -> Option<Vec<u8>> {
        self()
    }
}

pub(crate) type Scripts = Vec<Box<dyn Script>>;

/// The scripts of this number of connections.
pub(crate) fn scripts<S: Script + 'static>(
    count: usize,
    script: impl FnMut(usize) -> S,
) -> Scripts {
    let scripts = (0..count).map(script);
    scripts
        .map(|script| Box::new(script) as Box<dyn Script>)
        .collect()
}

/// The same request again and again.
pub(crate) fn only(request: Vec<u8>) -> impl Script {
    move || Some(request.clone())
}

/// Asserts that the status is 200. Returns true.
pub(crate) fn assert_ok(reply: &Reply) -> bool {
    let text = String::from_utf8_lossy(&reply.body);
    assert_eq!(reply.status, 200, "{text}");
    true
}

/// The length of a block, and its request rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) time: Duration,
    rate: Option<f64>,
}

impl Load {
    /// Each connection sends as soon as it has its response.
    pub(crate) const fn fastest(time: Duration) -> Self {
        Self { time, rate: None }
    }

    /// All connections together send this number of requests per second.
    pub(crate) const fn paced(time: Duration, rate: f64) -> Self {
        let rate = Some(rate);
        Self { time, rate }
    }
}

/// The result of a block of requests.
pub(crate) struct Block {
    pub(crate) elapsed: Duration,
    pub(crate) times: Vec<Duration>,
}

/// Runs each script on its own connection.
pub(crate) async fn block(address: SocketAddr, scripts: &mut Scripts, load: Load) -> Block {
    let mut connections = Vec::new();
    for script in &mut *scripts {
        script.prepare();
        connections.push(Connection::open(address).await);
    }
    let start = Instant::now();
    let count = scripts.len() as f64;
    let period = load.rate.map(|rate| Duration::from_secs_f64(count / rate));
    let mut tasks = JoinSet::new();
    for (index, (script, connection)) in scripts.drain(..).zip(connections).enumerate() {
        let first = start + period.unwrap_or_default().mul_f64(index as f64 / count);
        let pace = period.map(|period| (first, period));
        tasks.spawn(drive(
            script,
            connection,
            pace,
            start + short::time(load.time),
        ));
    }
    let mut times = Vec::new();
    for (script, own) in tasks.join_all().await {
        scripts.push(script);
        times.extend(own);
    }
    Block {
        elapsed: start.elapsed(),
        times,
    }
}

async fn drive(
    mut script: Box<dyn Script>,
    mut connection: Connection,
    pace: Option<(Instant, Duration)>,
    end: Instant,
) -> (Box<dyn Script>, Vec<Duration>) {
    let mut times = Vec::new();
    let mut due = pace.map(|(first, _)| first);
    while Instant::now() < end {
        let sent = match due {
            // A late request counts from its due time, so that the latency includes waiting in line.
            Some(due) if due <= Instant::now() => due,
            // The timer is up to a millisecond late. This must not count as latency of the service.
            Some(due) => {
                sleep_until(due).await;
                Instant::now()
            }
            None => Instant::now(),
        };
        let Some(request) = script.request() else {
            break;
        };
        let reply = connection.ask(&request).await;
        if script.answered(&reply) {
            times.push(sent.elapsed());
        }
        due = due.zip(pace).map(|(due, (_, period))| due + period);
    }
    (script, times)
}
