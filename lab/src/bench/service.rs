//! The running service on each store: CPU per response compared with the floor, responses per second and latencies at
//! 1, 16 and 256 connections, and the cost of many clients, users and live grants.
//!
//! Run: `make bench-service`; this one alone: `lab bench service`. The floor, measured in the same run, is an
//! empty actix POST with one Ed25519 signature by aws-lc-rs. CPU time is the CPU time of the server process. Blocks of
//! all variants alternate, so that other load on the machine affects all variants alike. PostgreSQL is measured if it
//! is installed.
//!
//! - `SIZES=1000,100000,1000000`: other numbers of clients, users and grants; `SIZES=` skips this part.
//! - `ONLY_SIZES=1`: only this part.
//! - `ONLY_COSTS=1`: only the CPU per response.
//! - `ONLY_DISTANCE=1`: only revocations and refreshes with PostgreSQL 70 ms away.
//! - `GRANTS=refresh_token,jwt-bearer`: only these grants; `code` for the code, `proof` for client credentials with DPoP.
//! - `POSTGRES=`: without PostgreSQL.
//! - `SHORT=1`: for a moment each, to see that it works.
//! - `TOKEN_SERVICE=path`: measures another build of the service.
//! - `BEFORE=path`: also measures the CPU per response of an earlier build on redb, and the ratio to it.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::{App, HttpResponse, HttpServer, web};
use aws_lc_rs::signature::Ed25519KeyPair;
use claims::revocation::Page;
use tests::free_port;

use super::distance;
use super::scripts::{
    Assertor, Codes, Proven, Refreshes, Web, browsers, client_credentials, demo_client, grant,
};
use super::seed::{Size, seed, signed_in};
use super::server::{Demo, Postgres, Server};
use crate::http::{Connection, InTurn, Load, Script, Scripts, block, form, get, post};
use crate::measure::{
    Bound, Spread, cpu, heads, microseconds, percentile, ratios, resident, row, spread,
};
use crate::short;

/// Blocks per variant in the comparison of CPU time.
const ROUNDS: usize = 7;
/// Blocks per variant and number of connections.
const RATE_ROUNDS: usize = 3;
const BLOCK: Load = Load {
    time: Duration::from_secs(1),
    rate: None,
};
/// Assertions that are signed before a block. The block ends when they are used up.
const ASSERTIONS: usize = 3000;
const CONNECTIONS: usize = 16;

/// Name of the earlier build.
const BEFORE: &str = "redb, before";

/// Users that authorize in turn.
const PERSONS: usize = 2000;

/// Numbers of gateways with a held request.
const HELD: [usize; 2] = [100, 1000];
/// Number of revocations. Each revocation wakes the held requests.
const WAKE_UPS: usize = 20;
const BETWEEN_WAKE_UPS: Duration = Duration::from_millis(250);

/// The load at which the 99th percentile of refreshes has a bound: half of what the service can do.
const HALF: Load = Load {
    time: Duration::from_secs(2),
    rate: Some(8000.0),
};

/// Requests per second for the comparison of sizes: far below saturation.
const STEADY: Load = Load {
    time: Duration::from_secs(2),
    rate: Some(200.0),
};

/// Serves an empty POST that costs one signature.
///
/// # Errors
/// If the port is in use.
pub(crate) fn floor(port: u16) -> anyhow::Result<()> {
    let key = web::Data::new(Ed25519KeyPair::generate()?);
    let handler = |key: web::Data<Ed25519KeyPair>, body: web::Bytes| async move {
        std::hint::black_box(key.sign(&body));
        HttpResponse::Ok().finish()
    };
    let app = move || {
        App::new()
            .app_data(key.clone())
            .route("/", web::post().to(handler))
    };
    let server = HttpServer::new(app).bind(("127.0.0.1", port))?;
    Ok(actix_web::rt::System::new().block_on(server.run())?)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grant {
    ClientCredentials,
    /// With a proof by ES256.
    Bound,
    JwtBearer,
    Refresh,
    Code,
}

impl Grant {
    const ALL: [Self; 5] = [
        Self::ClientCredentials,
        Self::Bound,
        Self::JwtBearer,
        Self::Refresh,
        Self::Code,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::ClientCredentials => "client_credentials",
            Self::Bound => "client_credentials with a DPoP proof",
            Self::JwtBearer => "jwt-bearer",
            Self::Refresh => "refresh_token",
            Self::Code => "authorize in a session, and exchange the code",
        }
    }

    /// The grants that `GRANTS` names, or all.
    fn measured() -> Vec<Self> {
        let wanted = std::env::var("GRANTS").unwrap_or_else(|_| {
            "client_credentials,proof,jwt-bearer,refresh_token,code".to_owned()
        });
        let is_wanted = |grant: &Self| wanted.split(',').any(|name| grant.name().ends_with(name));
        Self::ALL.into_iter().filter(is_wanted).collect()
    }
}

/// A measured service, and the data of its clients.
struct Fixture<'a> {
    name: &'static str,
    postgres: Option<&'a Postgres>,
    server: Server,
    /// The cookies of browsers. Each browser has another signed-in user, because the number of grants per user is
    /// capped.
    browsers: Arc<[String]>,
    assertor: Assertor,
    _demo: Demo,
}

impl<'a> Fixture<'a> {
    async fn start(name: &'static str, demo: Demo, postgres: Option<&'a Postgres>) -> Self {
        // The first start hashes the passwords of the demo, which takes memory that later starts do not need.
        demo.serve().stop();
        let sessions = signed_in(&demo, short::count(PERSONS)).await;
        let server = demo.serve();
        let idle = [resident(server.pid())];
        let bound = Some(Bound::AtMost(40.0));
        row(
            &format!("{name}: resident memory, idle"),
            &idle,
            "MiB",
            bound,
        );
        let browsers = browsers(server.address, &sessions).await;
        Self {
            name,
            postgres,
            server,
            browsers,
            assertor: Assertor::new(),
            _demo: demo,
        }
    }

    /// The scripts of `connections` clients.
    async fn scripts(&mut self, grant_type: Grant, connections: usize) -> Scripts {
        let assertions = match grant_type {
            Grant::JwtBearer => self.assertor.sign(short::count(ASSERTIONS)),
            _ => self.assertor.sign(0),
        };
        let mut browser = Connection::open(self.server.address).await;
        let mut scripts = Scripts::new();
        for number in 0..connections {
            let person = number * self.browsers.len() / connections;
            let script: Box<dyn Script> = match grant_type {
                Grant::ClientCredentials => Box::new(InTurn::only(client_credentials())),
                Grant::Bound => Box::new(Proven::client_credentials()),
                Grant::JwtBearer => Box::new(assertions.clone()),
                Grant::Refresh => {
                    let token = grant(Web::DEMO, &mut browser, &self.browsers, person).await;
                    Box::new(Refreshes::new(Web::DEMO, vec![token]))
                }
                Grant::Code => Box::new(Codes::new(Web::DEMO, Arc::clone(&self.browsers), person)),
            };
            scripts.push(script);
        }
        scripts
    }

    /// CPU time of the service and its database, in nanoseconds.
    fn cpu(&self) -> [u64; 2] {
        let database = self.postgres.map_or(0, Postgres::cpu);
        [cpu(self.server.pid()), database]
    }
}

pub(crate) async fn measure() {
    let wanted = std::env::var_os("POSTGRES").is_none_or(|wanted| !wanted.is_empty());
    let postgres = wanted.then(Postgres::start).flatten();
    let only_sizes = std::env::var_os("ONLY_SIZES").is_some();
    let only_distance = std::env::var_os("ONLY_DISTANCE").is_some();
    heads();
    if postgres.is_none() {
        println!("PostgreSQL is not installed or not wanted, and not measured");
    }
    if !only_sizes && !only_distance {
        costs_and_rates(postgres.as_ref()).await;
    }
    if std::env::var_os("ONLY_COSTS").is_some() {
        return;
    }
    if let Some(postgres) = postgres.as_ref().filter(|_| !only_sizes) {
        distance::measure(postgres).await;
    }
    if only_distance {
        return;
    }
    let sizes = std::env::var("SIZES").unwrap_or_else(|_| short::sizes());
    let sizes: Vec<usize> = sizes
        .split(',')
        .filter_map(|size| size.trim().parse().ok())
        .collect();
    if sizes.is_empty() {
        return;
    }
    compare_sizes("redb", &sizes, None).await;
    if let Some(postgres) = &postgres {
        compare_sizes("PostgreSQL", &sizes, Some(postgres)).await;
    }
}

async fn costs_and_rates(postgres: Option<&Postgres>) {
    let mut subjects = vec![Fixture::start("redb", Demo::on_redb(), None).await];
    if let Some(postgres) = postgres {
        let demo = Demo::on_postgres(postgres.database("demo"));
        subjects.push(Fixture::start("PostgreSQL", demo, Some(postgres)).await);
    }
    if let Some(before) = std::env::var_os("BEFORE") {
        let demo = Demo::on_redb().served_by(before);
        subjects.push(Fixture::start(BEFORE, demo, None).await);
        costs(&mut subjects).await;
        subjects.pop();
    } else {
        costs(&mut subjects).await;
    }
    if std::env::var_os("ONLY_COSTS").is_some() {
        return;
    }
    for subject in &mut subjects {
        rates(subject).await;
    }
    for subject in &subjects {
        for gateways in HELD {
            held(subject, short::count(gateways)).await;
        }
    }
}

/// Measures the cost of announcing a revocation to gateways with held requests, and the time until the last gateway
/// receives it.
async fn held(subject: &Fixture<'_>, gateways: usize) {
    let mut client = Connection::open(subject.server.address).await;
    let mut revocations = Vec::new();
    for _ in 0..short::count(WAKE_UPS) {
        let reply = client.ask(&client_credentials()).await;
        let body: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        let token = form(&[("token", body["access_token"].as_str().unwrap())]);
        revocations.push(post(
            "/auth/revoke",
            &demo_client("user-bound-demo"),
            &token,
        ));
    }
    let (told, mut answers) = tokio::sync::mpsc::unbounded_channel();
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..gateways {
        let (told, internal) = (told.clone(), subject.server.internal);
        readers.spawn(async move {
            let mut connection = Connection::open(internal).await;
            let mut since = 0;
            loop {
                let path = format!("/revocations?version=1&since={since}&wait=20");
                let reply = connection.ask(&get(&path, "")).await;
                let page: Page = serde_json::from_slice(&reply.body).unwrap();
                since = page.position;
                if told.send((since, Instant::now())).is_err() {
                    return;
                }
            }
        });
    }
    let (mut times, mut costs) = (vec![], vec![]);
    for request in revocations {
        // All requests are held again before the next revocation.
        tokio::time::sleep_until(tokio::time::Instant::now() + BETWEEN_WAKE_UPS).await;
        while answers.try_recv().is_ok() {}
        let before = cpu(subject.server.pid());
        assert_eq!(client.ask(&request).await.status, 200);
        let revoked = Instant::now();
        let mut last = Duration::ZERO;
        for _ in 0..gateways {
            let (_, at) = answers.recv().await.unwrap();
            last = last.max(at.saturating_duration_since(revoked));
        }
        times.push(last.as_secs_f64() * 1000.0);
        tokio::time::sleep_until(tokio::time::Instant::now() + BETWEEN_WAKE_UPS).await;
        let after = cpu(subject.server.pid());
        costs.push(microseconds(before, after, gateways));
    }
    readers.shutdown().await;
    let what = format!(
        "{}: {gateways} gateways held, told of a revocation",
        subject.name
    );
    row(&format!("{what}: CPU for each"), &costs, "us", None);
    row(&format!("{what}: the last one after"), &times, "ms", None);
}

/// CPU per response of each grant type, compared with the floor.
async fn costs(subjects: &mut [Fixture<'_>]) {
    let port = free_port().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["bench", "floor", &port.to_string()])
        .stdout(Stdio::null());
    let floor = Server::start(&mut command, port);
    let mut empty: Scripts = (0..CONNECTIONS)
        .map(|_| {
            let request = post("/", "", "grant_type=client_credentials");
            Box::new(InTurn::only(request)) as Box<dyn Script>
        })
        .collect();
    let mut floors = vec![];
    let mut costs = vec![[const { Vec::new() }; Grant::ALL.len()]; subjects.len()];
    let mut database = costs.clone();
    for _ in 0..short::count(ROUNDS) {
        let before = cpu(floor.pid());
        let answers = block(floor.address, &mut empty, BLOCK).await.times.len();
        floors.push(microseconds(before, cpu(floor.pid()), answers));
        for (index, subject) in subjects.iter_mut().enumerate() {
            for (position, grant_type) in Grant::measured().into_iter().enumerate() {
                let mut scripts = subject.scripts(grant_type, CONNECTIONS).await;
                let before = subject.cpu();
                let block = block(subject.server.address, &mut scripts, BLOCK).await;
                let after = subject.cpu();
                let answers = block.times.len();
                costs[index][position].push(microseconds(before[0], after[0], answers));
                database[index][position].push(microseconds(before[1], after[1], answers));
            }
        }
    }
    let what = "floor: empty actix POST and one Ed25519 signature, CPU";
    row(what, &floors, "us", None);
    let earlier = subjects.iter().position(|subject| subject.name == BEFORE);
    let earlier = earlier.map(|index| costs[index].clone());
    for (index, subject) in subjects.iter().enumerate() {
        for (position, grant_type) in Grant::measured().into_iter().enumerate() {
            let (store, name) = (subject.name, grant_type.name());
            let bounded = grant_type == Grant::ClientCredentials;
            let bound = bounded.then_some(Bound::AtMost(2.0));
            let own = &costs[index][position];
            row(&format!("{store}: {name}: CPU"), own, "us", None);
            let what = format!("{store}: {name}: CPU, ratio to the floor");
            row(&what, &ratios(own, &floors), "", bound);
            let plain = Grant::measured()
                .into_iter()
                .position(|grant_type| grant_type == Grant::ClientCredentials);
            if let Some(plain) = plain.filter(|_| grant_type == Grant::Bound) {
                let what = format!("{store}: {name}: CPU, ratio to that without a proof");
                let bound = Some(Bound::AtMost(2.0));
                row(&what, &ratios(own, &costs[index][plain]), "", bound);
            }
            if let Some(earlier) = earlier.as_ref().filter(|_| store == "redb") {
                let what = format!("{store}: {name}: CPU, ratio to before");
                row(&what, &ratios(own, &earlier[position]), "", None);
            }
            if subject.postgres.is_some() {
                let what = format!("{store}: {name}: CPU of the database");
                row(&what, &database[index][position], "us", None);
            }
        }
    }
}

/// Responses per second and latencies.
async fn rates(subject: &mut Fixture<'_>) {
    for connections in [1, 16, short::count(256)] {
        for grant_type in Grant::measured() {
            let (mut rates, mut p50, mut p99) = (vec![], vec![], vec![]);
            let mut scripts = subject.scripts(grant_type, connections).await;
            for _ in 0..short::count(RATE_ROUNDS) {
                if grant_type == Grant::JwtBearer {
                    scripts = subject.scripts(grant_type, connections).await;
                }
                let block = block(subject.server.address, &mut scripts, BLOCK).await;
                rates.push(block.per_second());
                p50.push(percentile(&block.times, 500));
                p99.push(percentile(&block.times, 990));
            }
            let what = format!(
                "{}: {connections} connections: {}",
                subject.name,
                grant_type.name()
            );
            row(&what, &rates, "1/s", None);
            row(&format!("{what}, p50"), &p50, "ms", None);
            row(&format!("{what}, p99"), &p99, "ms", None);
        }
    }
    if subject.postgres.is_none() && Grant::measured().contains(&Grant::Refresh) {
        let mut scripts = subject.scripts(Grant::Refresh, short::count(256)).await;
        let mut p99 = vec![];
        for _ in 0..short::count(RATE_ROUNDS) {
            let block = block(subject.server.address, &mut scripts, HALF).await;
            p99.push(percentile(&block.times, 990));
        }
        let what = format!("{}: refresh_token, 8,000 per second, p99", subject.name);
        row(&what, &p99, "ms", Some(Bound::AtMost(10.0)));
    }
    let after = [resident(subject.server.pid())];
    row(
        &format!("{}: resident memory, after the load", subject.name),
        &after,
        "MiB",
        None,
    );
}

/// A service with a large store.
struct Sized {
    name: String,
    server: Server,
    _demo: Demo,
    refreshing: Scripts,
    constant: Scripts,
    measured: [Measured; 2],
}

#[derive(Default)]
struct Measured {
    p50: Vec<f64>,
    p99: Vec<f64>,
    cpu: Vec<f64>,
}

/// Measures the cost of a large store: start, memory, and latency at one rate.
async fn compare_sizes(store: &str, sizes: &[usize], postgres: Option<&Postgres>) {
    let few = sizes.iter().copied().min().unwrap_or_default();
    let most = sizes.iter().copied().max().unwrap_or_default();
    let mut variants: Vec<Size> = sizes
        .iter()
        .map(|&size| Size {
            registered: size,
            grants: size,
        })
        .collect();
    variants.push(Size {
        registered: few,
        grants: most,
    });
    let mut all = Vec::new();
    for (number, size) in variants.into_iter().enumerate() {
        all.push(sized(store, size, number, postgres).await);
    }
    for _ in 0..short::count(ROUNDS) {
        for sized in &mut all {
            let address = sized.server.address;
            for (scripts, measured) in [&mut sized.refreshing, &mut sized.constant]
                .into_iter()
                .zip(&mut sized.measured)
            {
                let before = cpu(sized.server.pid());
                let block = block(address, scripts, STEADY).await;
                let after = cpu(sized.server.pid());
                measured
                    .cpu
                    .push(microseconds(before, after, block.times.len()));
                measured.p50.push(percentile(&block.times, 500));
                measured.p99.push(percentile(&block.times, 990));
            }
        }
    }
    let Some(least) = all.first() else { return };
    for sized in &all {
        let name = &sized.name;
        for (what, measured, least) in [
            ("refresh_token", &sized.measured[0], &least.measured[0]),
            ("client_credentials", &sized.measured[1], &least.measured[1]),
        ] {
            let what = format!("{name}: {what}, 200 per second");
            row(&format!("{what}: CPU"), &measured.cpu, "us", None);
            row(&format!("{what}: p50"), &measured.p50, "ms", None);
            row(&format!("{what}: p99"), &measured.p99, "ms", None);
            let Spread { median, .. } = spread(&least.p50);
            let base = vec![median; measured.p50.len()];
            let bound = Some(Bound::AtMost(1.5));
            row(
                &format!("{what}: p50, ratio to the least size"),
                &ratios(&measured.p50, &base),
                "",
                bound,
            );
        }
    }
}

async fn sized(store: &str, size: Size, number: usize, postgres: Option<&Postgres>) -> Sized {
    let demo = match postgres {
        None => Demo::on_redb(),
        Some(postgres) => Demo::on_postgres(postgres.database(&format!("sized_{number}"))),
    };
    let Size { registered, grants } = size;
    let name = format!("{store}, {registered} clients and users, {grants} grants");
    let tokens = seed(&demo, size).await;
    // The first start also writes the demo's registrations.
    demo.serve().stop();
    let milliseconds = |server: &Server| server.started_in.as_secs_f64() * 1000.0;
    let mut starts = vec![];
    for _ in 0..short::count(3) {
        let server = demo.serve();
        starts.push(milliseconds(&server));
        server.stop();
    }
    drop(demo.serve());
    let killed = demo.serve();
    let after_kill = [milliseconds(&killed)];
    killed.stop();
    let server = demo.serve();
    let memory = [resident(server.pid())];
    row(&format!("{name}: start"), &starts, "ms", None);
    let what = format!("{name}: start after being killed");
    row(&what, &after_kill, "ms", None);
    let bound = (registered < grants).then_some(Bound::AtMost(400.0));
    row(&format!("{name}: resident memory"), &memory, "MiB", bound);
    let share = tokens.len().div_ceil(CONNECTIONS);
    let refreshing = tokens
        .chunks(share)
        .map(|tokens| Box::new(Refreshes::new(Web::DEMO, tokens.to_vec())) as Box<dyn Script>)
        .collect();
    let constant = (0..CONNECTIONS)
        .map(|_| Box::new(InTurn::only(client_credentials())) as Box<dyn Script>)
        .collect();
    Sized {
        name,
        _demo: demo,
        server,
        refreshing,
        constant,
        measured: Default::default(),
    }
}
