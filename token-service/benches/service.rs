//! The running service: CPU per token against the floor, requests per second, latencies, memory.
//!
//! `cargo bench --package token-service --bench service`. The floor, in the same run: an empty actix POST and one Ed25519
//! signature by aws-lc-rs. CPU time is the server process's own; blocks of all variants alternate, so that what else the
//! machine does hits all alike.

#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that meets the unexpected has nothing to report"
)]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use actix_web::{App, HttpResponse, HttpServer, web};
use aws_lc_rs::signature::Ed25519KeyPair;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use support::{Bound, cpu, percentile, resident, row};
use token_service::token::SigningKey;

const ROUNDS: usize = 7;
const REQUESTS: usize = 3000;
const THREADS: usize = 4;
const REDIRECT: &str = "https://app.example.com/callback";

fn main() {
    match std::env::var("BENCH_FLOOR") {
        Ok(port) => floor(port.parse().unwrap()),
        Err(_) => measure(),
    }
}

/// An empty POST that costs one signature.
fn floor(port: u16) {
    let key = Ed25519KeyPair::generate().unwrap();
    let key = web::Data::new(key);
    let handler = |key: web::Data<Ed25519KeyPair>, body: web::Bytes| async move {
        std::hint::black_box(key.sign(&body));
        HttpResponse::Ok().finish()
    };
    let app = move || {
        App::new()
            .app_data(key.clone())
            .route("/", web::post().to(handler))
    };
    let server = HttpServer::new(app).bind(("127.0.0.1", port)).unwrap();
    actix_web::rt::System::new().block_on(server.run()).unwrap();
}

struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    fn start(command: &mut Command, port: u16) -> Self {
        let process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        while TcpStream::connect(address).is_err() {
            std::thread::yield_now();
        }
        Self { process, address }
    }

    fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A connection that is kept alive.
struct Connection {
    stream: BufReader<TcpStream>,
}

struct Reply {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Connection {
    fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream: BufReader::new(stream),
        }
    }

    fn send(&mut self, request: &[u8]) {
        self.stream.get_mut().write_all(request).unwrap();
    }

    fn receive(&mut self) -> Reply {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(
                self.stream.read_line(&mut head).unwrap(),
                0,
                "closed after {head}"
            );
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .map_or(0, |(_, value)| value.trim().parse().unwrap());
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
        Reply { status, head, body }
    }

    fn ask(&mut self, request: &[u8]) -> Reply {
        self.send(request);
        self.receive()
    }
}

fn post(path: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: bench\r\n{headers}content-type: application/x-www-form-urlencoded\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn basic(client_id: &str) -> String {
    let credentials = format!("{client_id}:demo-secret-of-{client_id}-not-for-real-use");
    format!("authorization: Basic {}\r\n", STANDARD.encode(credentials))
}

fn form(fields: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish()
}

/// What one connection sends: the next request, knowing the last answer.
trait Script: Send {
    fn next(&mut self, last: Option<&Reply>) -> Vec<u8>;
}

struct Constant(Vec<u8>);

impl Script for Constant {
    fn next(&mut self, _: Option<&Reply>) -> Vec<u8> {
        self.0.clone()
    }
}

struct Assertions(Vec<Vec<u8>>);

impl Script for Assertions {
    fn next(&mut self, _: Option<&Reply>) -> Vec<u8> {
        self.0.pop().unwrap()
    }
}

struct Refreshes(String);

impl Script for Refreshes {
    fn next(&mut self, last: Option<&Reply>) -> Vec<u8> {
        if let Some(reply) = last {
            self.0 = refresh_token(reply);
        }
        let body = form(&[("grant_type", "refresh_token"), ("refresh_token", &self.0)]);
        post("/auth/token", &basic("web-demo"), &body)
    }
}

fn refresh_token(reply: &Reply) -> String {
    let body: Value = serde_json::from_slice(&reply.body).unwrap();
    body["refresh_token"].as_str().unwrap().to_owned()
}

/// What a block of requests took.
struct Block {
    elapsed: Duration,
    times: Vec<Duration>,
}

/// Sends `requests` over the connections of `scripts`, each of which has one request under way.
fn block(address: SocketAddr, scripts: &mut [Box<dyn Script>], requests: usize) -> Block {
    let per_connection = requests / scripts.len();
    let share = scripts.len().div_ceil(THREADS);
    let start = Instant::now();
    let times: Vec<Duration> = std::thread::scope(|scope| {
        let threads: Vec<_> = scripts
            .chunks_mut(share)
            .map(|scripts| scope.spawn(move || drive(address, scripts, per_connection)))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    Block {
        elapsed: start.elapsed(),
        times,
    }
}

fn drive(address: SocketAddr, scripts: &mut [Box<dyn Script>], each: usize) -> Vec<Duration> {
    let mut connections: Vec<Connection> =
        scripts.iter().map(|_| Connection::open(address)).collect();
    let mut last: Vec<Option<Reply>> = scripts.iter().map(|_| None).collect();
    let mut times = Vec::with_capacity(each * scripts.len());
    for _ in 0..each {
        let mut sent = Vec::with_capacity(scripts.len());
        for ((connection, script), last) in
            connections.iter_mut().zip(scripts.iter_mut()).zip(&last)
        {
            connection.send(&script.next(last.as_ref()));
            sent.push(Instant::now());
        }
        for ((connection, last), sent) in connections.iter_mut().zip(&mut last).zip(sent) {
            let reply = connection.receive();
            times.push(sent.elapsed());
            assert_eq!(
                reply.status,
                200,
                "{}",
                String::from_utf8_lossy(&reply.body)
            );
            *last = Some(reply);
        }
    }
    // Scripts go on where they were in the next block.
    for (script, last) in scripts.iter_mut().zip(&last) {
        script.next(last.as_ref());
    }
    times
}

struct Service {
    server: Server,
    _state: tempfile::TempDir,
}

fn start_service() -> Service {
    let state = tempfile::tempdir().unwrap();
    let at = |name: &str| state.path().join(name).display().to_string();
    let (port, internal) = (free_port(), free_port());
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../demo/config.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_token-service"));
    command
        .args(["serve", "--config", config])
        .env(
            "TOKEN_SERVICE__STORE__URL",
            format!("redb:{}", at("store.redb")),
        )
        .env("TOKEN_SERVICE__ENCRYPTION_KEY_FILE", at("encryption-key"))
        .env("TOKEN_SERVICE__ADMIN_TOKEN_FILE", at("admin-token"))
        .env("TOKEN_SERVICE__LISTEN", format!("127.0.0.1:{port}"))
        .env(
            "TOKEN_SERVICE__INTERNAL_LISTEN",
            format!("127.0.0.1:{internal}"),
        );
    Service {
        server: Server::start(&mut command, port),
        _state: state,
    }
}

/// Signs Ada in; the cookies of her browser.
fn sign_in(connection: &mut Connection) -> String {
    let authorize = format!("/auth/authorize?{}", authorization());
    let page =
        connection.ask(format!("GET {authorize} HTTP/1.1\r\nhost: bench\r\n\r\n").as_bytes());
    let html = String::from_utf8(page.body.clone()).unwrap();
    let hidden = |name: &str| -> String {
        let start = format!("name=\"{name}\" value=\"");
        let value = html
            .split_once(&start)
            .unwrap()
            .1
            .split('"')
            .next()
            .unwrap();
        value.replace("&#38;", "&").replace("&amp;", "&")
    };
    let body = form(&[
        ("csrf", &hidden("csrf")),
        ("request", &hidden("request")),
        ("username", "ada@example.com"),
        ("password", "demo-password-of-ada"),
    ]);
    let cookie = format!("cookie: {}\r\n", cookies(&page));
    let signed_in = connection.ask(&post("/auth/sign-in", &cookie, &body));
    assert_eq!(signed_in.status, 303, "{}", signed_in.head);
    format!("cookie: {}\r\n", cookies(&signed_in))
}

fn cookies(reply: &Reply) -> String {
    let set = reply
        .head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"))
        .filter_map(|(_, value)| value.split(';').next());
    let set: Vec<&str> = set.map(str::trim).collect();
    set.join("; ")
}

fn authorization() -> String {
    form(&[
        ("response_type", "code"),
        ("client_id", "web-demo"),
        ("redirect_uri", REDIRECT),
    ])
}

/// A code by the session in `cookie`, exchanged.
fn exchange(connection: &mut Connection, cookie: &str) -> String {
    let request = format!(
        "GET /auth/authorize?{} HTTP/1.1\r\nhost: bench\r\n{cookie}\r\n",
        authorization()
    );
    let reply = connection.ask(request.as_bytes());
    assert_eq!(reply.status, 302, "{}", reply.head);
    let location = reply
        .head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("location"))
        .map(|(_, value)| value.trim().to_owned())
        .unwrap();
    let code = url::Url::parse(&location).unwrap();
    let code = code
        .query_pairs()
        .find(|(name, _)| name == "code")
        .unwrap()
        .1
        .into_owned();
    let body = form(&[
        ("grant_type", "authorization_code"),
        ("code", &code),
        ("redirect_uri", REDIRECT),
    ]);
    let tokens = connection.ask(&post("/auth/token", &basic("web-demo"), &body));
    assert_eq!(tokens.status, 200, "{}", tokens.head);
    refresh_token(&tokens)
}

/// `count` requests with an assertion each.
fn assertions(key: &SigningKey, count: usize, first: usize) -> Vec<Vec<u8>> {
    let now = token_service::clock::Clock::now(&token_service::clock::SystemClock).seconds();
    let header = URL_SAFE_NO_PAD
        .encode(json!({"typ": "JWT", "alg": "RS256", "kid": "demo-2020"}).to_string());
    let assertion = |number: usize| {
        let claims = json!({
            "iss": "non-interactive-demo", "sub": "ada@example.com", "aud": "https://identity.example.com/",
            "iat": now, "exp": now + 3600, "jti": format!("bench-{number}"),
        });
        let input = format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = URL_SAFE_NO_PAD.encode(key.sign(input.as_bytes()).unwrap());
        let body = form(&[
            ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
            ("assertion", &format!("{input}.{signature}")),
        ]);
        post("/auth/token", &basic("non-interactive-demo"), &body)
    };
    (first..first + count).map(assertion).collect()
}

fn demo_key() -> SigningKey {
    let pem = include_str!("../../demo/non-interactive-demo.key.pem");
    let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let der = STANDARD.decode(base64).unwrap();
    SigningKey::from_pkcs8(claims::Algorithm::Rs256, &der).unwrap()
}

fn constant(count: usize, request: &[u8]) -> Vec<Box<dyn Script>> {
    (0..count)
        .map(|_| Box::new(Constant(request.to_vec())) as Box<dyn Script>)
        .collect()
}

fn measure() {
    let port = free_port();
    let mut command = Command::new(std::env::current_exe().unwrap());
    let floor = Server::start(command.env("BENCH_FLOOR", port.to_string()), port);
    let service = start_service();
    let address = service.server.address;
    println!(
        "{:<66} {:>10} {:<8} {:>9} .. {:<9}",
        "what", "median", "", "least", "most"
    );
    let bound = Some(Bound::AtMost(40.0));
    row(
        "resident memory, idle",
        &[resident(service.server.pid())],
        "MiB",
        bound,
    );

    let empty = post("/", "", "grant_type=client_credentials");
    let credentials = post(
        "/auth/token",
        &basic("user-bound-demo"),
        &form(&[
            ("grant_type", "client_credentials"),
            ("user_id", "1879048402"),
            ("user_site", "https://us1.example.com"),
        ]),
    );
    let mut browser = Connection::open(address);
    let cookie = sign_in(&mut browser);
    let key = demo_key();
    let connections = 16;
    let mut refreshing: Vec<Box<dyn Script>> = (0..connections)
        .map(|_| Box::new(Refreshes(exchange(&mut browser, &cookie))) as Box<dyn Script>)
        .collect();

    let (mut floors, mut costs) = (vec![], [vec![], vec![], vec![], vec![]]);
    for round in 0..ROUNDS {
        let cost = |server: &Server, requests: usize, run: &mut dyn FnMut()| {
            let before = cpu(server.pid());
            run();
            (cpu(server.pid()) - before) as f64 / 1000.0 / requests as f64
        };
        floors.push(cost(&floor, REQUESTS, &mut || {
            block(floor.address, &mut constant(connections, &empty), REQUESTS);
        }));
        costs[0].push(cost(&service.server, REQUESTS, &mut || {
            block(address, &mut constant(connections, &credentials), REQUESTS);
        }));
        let each = REQUESTS / connections;
        let mut asserting: Vec<Box<dyn Script>> = (0..connections)
            .map(|index| {
                let first = (round * connections + index) * (each + 1);
                Box::new(Assertions(assertions(&key, each + 1, first))) as Box<dyn Script>
            })
            .collect();
        costs[1].push(cost(&service.server, each * connections, &mut || {
            block(address, &mut asserting, REQUESTS);
        }));
        costs[2].push(cost(&service.server, each * connections, &mut || {
            block(address, &mut refreshing, REQUESTS);
        }));
        costs[3].push(cost(&service.server, REQUESTS / 4, &mut || {
            for _ in 0..REQUESTS / 4 {
                exchange(&mut browser, &cookie);
            }
        }));
    }
    row(
        "floor: empty actix POST and one Ed25519 signature",
        &floors,
        "us",
        None,
    );
    let names = [
        ("client_credentials", Some(Bound::AtMost(2.0))),
        ("jwt-bearer", None),
        ("refresh_token", None),
        ("authorize with a session, and exchange the code", None),
    ];
    for ((name, bound), costs) in names.into_iter().zip(&costs) {
        row(&format!("{name}: CPU per answer"), costs, "us", None);
        let ratios: Vec<f64> = costs
            .iter()
            .zip(&floors)
            .map(|(cost, floor)| cost / floor)
            .collect();
        row(&format!("{name}: ratio to the floor"), &ratios, "", bound);
    }

    for connections in [1, 16, 256] {
        let mut refreshing: Vec<Box<dyn Script>> = (0..connections)
            .map(|_| Box::new(Refreshes(exchange(&mut browser, &cookie))) as Box<dyn Script>)
            .collect();
        let (mut rates, mut refreshes, mut p50, mut p99) = (vec![], vec![], vec![], vec![]);
        for _ in 0..ROUNDS {
            let requests = REQUESTS.max(connections * 10);
            let mut issued = block(address, &mut constant(connections, &credentials), requests);
            rates.push(issued.times.len() as f64 / issued.elapsed.as_secs_f64());
            p50.push(percentile(&mut issued.times, 500));
            p99.push(percentile(&mut issued.times, 990));
            let refreshed = block(address, &mut refreshing, requests);
            refreshes.push(refreshed.times.len() as f64 / refreshed.elapsed.as_secs_f64());
        }
        row(
            &format!("{connections} connections: client_credentials"),
            &rates,
            "1/s",
            None,
        );
        row(
            &format!("{connections} connections: client_credentials, p50"),
            &p50,
            "ms",
            None,
        );
        row(
            &format!("{connections} connections: client_credentials, p99"),
            &p99,
            "ms",
            None,
        );
        row(
            &format!("{connections} connections: durable refreshes"),
            &refreshes,
            "1/s",
            None,
        );
    }
    row(
        "resident memory, after the load",
        &[resident(service.server.pid())],
        "MiB",
        None,
    );
}
