//! The running service on each store: CPU per response compared with the floor, responses per second and latencies at
//! 1, 16 and 256 connections, and the cost of many clients, users and live grants.
//!
//! Run: `make bench-service`; only this one: `lab bench service`. The floor, measured in the same run, is an
//! empty actix POST with one Ed25519 signature by aws-lc-rs. CPU time is the CPU time of the server process. Blocks of
//! all variants alternate, so that other load on the machine affects all variants alike. PostgreSQL is measured if it
//! is installed.
//!
//! - `lab bench service costs rates held distance sizes`: only these parts.
//! - `SIZES=1000,100000,1000000`: other numbers of clients, users and grants.
//! - `GRANTS=refresh_token,jwt-bearer`: only these grants; `code` for the code, `proof` for client credentials with DPoP.
//! - `STORES=redb`: without PostgreSQL.
//! - `SHORT=1`: for a moment each, to see that it works.
//! - `BEFORE=path`: also measures the CPU per response of an earlier build on redb, and the ratio to it.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use actix_web::{App, HttpResponse, HttpServer, web};
use aws_lc_rs::signature::Ed25519KeyPair;
use tests::free_port;

use super::distance;
use super::scripts::{Clients, Grant, Refreshes, Web, client_credentials};
use super::seed::{Size, seed, signed_in};
use super::server::{Demo, Postgres, Server};
use crate::http::{Connection, InTurn, Load, Scripts, block, post, scripts};
use crate::measure::{
    Bound, Latencies, Spread, cpu, heads, microseconds, ratios, resident, row, spread,
};
use crate::{short, variable};

/// Blocks per variant in the comparison of CPU time.
const ROUNDS: usize = 7;
/// Blocks per variant and number of connections.
const RATE_ROUNDS: usize = 3;
const BLOCK: Load = Load {
    time: Duration::from_secs(1),
    rate: None,
};
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

/// The grants that `GRANTS` names, or all.
fn measured_grants() -> Vec<Grant> {
    let wanted = variable(
        "GRANTS",
        "client_credentials,proof,jwt-bearer,refresh_token,code",
    );
    let all = [
        Grant::ClientCredentials,
        Grant::Bound,
        Grant::JwtBearer,
        Grant::Refresh,
        Grant::Code,
    ];
    let is_wanted = |grant: &Grant| wanted.split(',').any(|name| grant.name().ends_with(name));
    all.into_iter().filter(is_wanted).collect()
}

/// A measured service, and its clients.
struct Fixture<'a> {
    name: &'static str,
    postgres: Option<&'a Postgres>,
    server: Server,
    clients: Clients,
    _demo: Demo,
}

impl<'a> Fixture<'a> {
    async fn start(name: &'static str, demo: Demo, postgres: Option<&'a Postgres>) -> Self {
        // The first start hashes the passwords of the demo, which takes memory that later starts do not need.
        demo.serve().stop();
        let sessions = signed_in(&demo, short::count(PERSONS)).await;
        let server = demo.serve();
        let idle = [resident(server.pid())];
        let what = format!("{name}: resident memory, idle");
        row(&what, &idle, "MiB", Some(Bound::AtMost(40.0)));
        Self {
            name,
            postgres,
            clients: Clients::of_demo(server.address, &sessions).await,
            server,
            _demo: demo,
        }
    }

    /// CPU time of the service and its database, in nanoseconds.
    fn cpu(&self) -> [u64; 2] {
        let database = self.postgres.map_or(0, Postgres::cpu);
        [cpu(self.server.pid()), database]
    }
}

/// Measures these parts, or all.
pub(crate) async fn measure(parts: &[String]) {
    let is_wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    let postgres = short::is_wanted("postgres").then(Postgres::start).flatten();
    heads();
    if postgres.is_none() {
        println!("PostgreSQL is not installed or not wanted, and not measured");
    }
    let [costs, rates, held] = ["costs", "rates", "held"].map(is_wanted);
    if costs || rates || held {
        load(postgres.as_ref(), [costs, rates, held]).await;
    }
    if let Some(postgres) = postgres.as_ref().filter(|_| is_wanted("distance")) {
        distance::measure(postgres).await;
    }
    if is_wanted("sizes") {
        compare_sizes("redb", None).await;
        if let Some(postgres) = &postgres {
            compare_sizes("PostgreSQL", Some(postgres)).await;
        }
    }
}

async fn load(postgres: Option<&Postgres>, [is_cost, is_rate, is_held]: [bool; 3]) {
    let mut subjects = vec![Fixture::start("redb", Demo::on_redb(), None).await];
    if let Some(postgres) = postgres {
        let demo = Demo::on(Some(postgres), "demo");
        subjects.push(Fixture::start("PostgreSQL", demo, Some(postgres)).await);
    }
    if is_cost {
        let before = std::env::var_os("BEFORE").map(|before| Demo::on_redb().served_by(before));
        let stores = subjects.len();
        if let Some(demo) = before {
            subjects.push(Fixture::start(BEFORE, demo, None).await);
        }
        costs(&mut subjects).await;
        subjects.truncate(stores);
    }
    for subject in subjects.iter_mut().filter(|_| is_rate) {
        rates(subject).await;
    }
    for subject in subjects.iter().filter(|_| is_held) {
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
        revocations.push(distance::revocation_of_new_token(&mut client).await);
    }
    let (told, mut answers) = tokio::sync::mpsc::unbounded_channel();
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..gateways {
        let told = told.clone();
        let tell = move |_| told.send(Instant::now()).is_ok();
        readers.spawn(distance::follow(subject.server.internal, tell));
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
            let at: Instant = answers.recv().await.unwrap();
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
    let request = post("/", "", "grant_type=client_credentials");
    let mut empty = scripts(CONNECTIONS, |_| InTurn::only(request.clone()));
    let grants = measured_grants();
    let mut floors = vec![];
    let mut costs = vec![vec![Vec::new(); grants.len()]; subjects.len()];
    let mut database = costs.clone();
    for _ in 0..short::count(ROUNDS) {
        let before = cpu(floor.pid());
        let answers = block(floor.address, &mut empty, BLOCK).await.times.len();
        floors.push(microseconds(before, cpu(floor.pid()), answers));
        for (index, subject) in subjects.iter_mut().enumerate() {
            for (position, grant) in grants.iter().enumerate() {
                let mut scripts = subject.clients.scripts(*grant, CONNECTIONS).await;
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
        for (position, grant) in grants.iter().enumerate() {
            let (store, name) = (subject.name, grant.name());
            let twice = Some(Bound::AtMost(2.0));
            let bound = twice.filter(|_| *grant == Grant::ClientCredentials);
            let own = &costs[index][position];
            row(&format!("{store}: {name}: CPU"), own, "us", None);
            let what = format!("{store}: {name}: CPU, ratio to the floor");
            row(&what, &ratios(own, &floors), "", bound);
            let mut plain = grants.iter().zip(&costs[index]);
            let plain = plain.find(|(grant, _)| **grant == Grant::ClientCredentials);
            if let Some((_, plain)) = plain.filter(|_| *grant == Grant::Bound) {
                let what = format!("{store}: {name}: CPU, ratio to that without a proof");
                row(&what, &ratios(own, plain), "", twice);
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
    let grants = measured_grants();
    let name = subject.name;
    let address = subject.server.address;
    for connections in [1, 16, short::count(256)] {
        for grant in &grants {
            let mut measured = Latencies::default();
            let mut scripts = subject.clients.scripts(*grant, connections).await;
            for _ in 0..short::count(RATE_ROUNDS) {
                if *grant == Grant::JwtBearer {
                    scripts = subject.clients.scripts(*grant, connections).await;
                }
                measured.add(&block(address, &mut scripts, BLOCK).await);
            }
            let what = format!("{name}: {connections} connections: {}", grant.name());
            row(&what, &measured.rates, "1/s", None);
            measured.print(&what);
        }
    }
    if subject.postgres.is_none() && grants.contains(&Grant::Refresh) {
        let connections = short::count(256);
        let mut scripts = subject.clients.scripts(Grant::Refresh, connections).await;
        let mut measured = Latencies::default();
        for _ in 0..short::count(RATE_ROUNDS) {
            measured.add(&block(address, &mut scripts, HALF).await);
        }
        let what = format!("{name}: refresh_token, 8,000 per second, p99");
        row(&what, &measured.p99, "ms", Some(Bound::AtMost(10.0)));
    }
    let after = [resident(subject.server.pid())];
    let what = format!("{name}: resident memory, after the load");
    row(&what, &after, "MiB", None);
}

/// A service with a large store.
struct Sized {
    name: String,
    server: Server,
    _demo: Demo,
    /// Refreshes, and client credentials.
    scripts: [Scripts; 2],
    measured: [(Latencies, Vec<f64>); 2],
}

/// Measures the cost of a large store: start, memory, and latency at one rate.
async fn compare_sizes(store: &str, postgres: Option<&Postgres>) {
    let sizes = short::sizes();
    let (Some(few), Some(most)) = (sizes.first(), sizes.last()) else {
        return;
    };
    let same = sizes.iter().map(|&size| [size, size]);
    let mut all = Vec::new();
    for (number, [registered, grants]) in same.chain([[*few, *most]]).enumerate() {
        let size = Size { registered, grants };
        let demo = Demo::on(postgres, &format!("sized_{number}"));
        all.push(sized(store, size, demo).await);
    }
    for _ in 0..short::count(ROUNDS) {
        for sized in &mut all {
            let (address, pid) = (sized.server.address, sized.server.pid());
            for (scripts, (latencies, costs)) in sized.scripts.iter_mut().zip(&mut sized.measured) {
                let before = cpu(pid);
                let block = block(address, scripts, STEADY).await;
                costs.push(microseconds(before, cpu(pid), block.times.len()));
                latencies.add(&block);
            }
        }
    }
    for sized in &all {
        for (place, grant) in [Grant::Refresh, Grant::ClientCredentials]
            .iter()
            .enumerate()
        {
            let what = format!("{}: {}, 200 per second", sized.name, grant.name());
            let (measured, costs) = &sized.measured[place];
            row(&format!("{what}: CPU"), costs, "us", None);
            measured.print(&what);
            let Spread { median, .. } = spread(&all[0].measured[place].0.p50);
            let base = vec![median; measured.p50.len()];
            let bound = Some(Bound::AtMost(1.5));
            let what = format!("{what}: p50, ratio to the least size");
            row(&what, &ratios(&measured.p50, &base), "", bound);
        }
    }
}

async fn sized(store: &str, size: Size, demo: Demo) -> Sized {
    let Size { registered, grants } = size;
    let name = format!("{store}, {registered} clients and users, {grants} grants");
    let tokens = seed(&demo, size).await;
    let starts = demo.starts();
    drop(demo.serve());
    let killed = demo.serve();
    let after_kill = [killed.started_in];
    killed.stop();
    let server = demo.serve();
    let memory = [resident(server.pid())];
    row(&format!("{name}: start"), &starts, "ms", None);
    let what = format!("{name}: start after being killed");
    row(&what, &after_kill, "ms", None);
    let bound = (registered < grants).then_some(Bound::AtMost(400.0));
    row(&format!("{name}: resident memory"), &memory, "MiB", bound);
    let shares: Vec<&[String]> = tokens.chunks(tokens.len().div_ceil(CONNECTIONS)).collect();
    let refreshing = |number: usize| Refreshes::new(Web::DEMO, shares[number].to_vec());
    let constant = |_| InTurn::only(client_credentials());
    Sized {
        name,
        _demo: demo,
        server,
        scripts: [
            scripts(shares.len(), refreshing),
            scripts(CONNECTIONS, constant),
        ],
        measured: Default::default(),
    }
}
