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
use std::rc::Rc;
use std::time::{Duration, Instant};

use actix_web::{App, HttpResponse, HttpServer, web};
use aws_lc_rs::signature::Ed25519KeyPair;
use tests::free_port;

use super::distance;
use super::http::{Connection, Load, only, post, scripts};
use super::scripts::{Clients, Grant, Refreshes, Web, client_credentials};
use super::seed::{Size, seed, signed_in};
use super::server::{Demo, Postgres, Server};
use super::subject::{Subject, alternate};
use crate::measure::{Bound, Spread, cpu, heads, microseconds, ratios, resident, row, spread};
use crate::{short, variable};

/// Blocks per variant in the comparison of CPU time.
const ROUNDS: usize = 7;
/// Blocks per variant and number of connections.
const RATE_ROUNDS: usize = 3;
const BLOCK: Load = Load::fastest(Duration::from_secs(1));
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
const HALF: Load = Load::paced(Duration::from_secs(2), 8000.0);

/// Requests per second for the comparison of sizes: far below saturation.
const STEADY: Load = Load::paced(Duration::from_secs(2), 200.0);

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
struct Fixture {
    name: &'static str,
    postgres: Option<Rc<Postgres>>,
    server: Server,
    clients: Clients,
    _demo: Demo,
}

impl Fixture {
    async fn start(name: &'static str, demo: Demo, postgres: Option<Rc<Postgres>>) -> Self {
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

    /// Clients that get tokens. Counts the CPU time of the service, and that of its database.
    async fn subject(&self, what: &str, grant: Grant, connections: usize, load: Load) -> Subject {
        let scripts = self.clients.scripts(grant, connections).await;
        let name = format!("{}: {what}", self.name);
        let subject =
            Subject::new(&name, self.server.address, scripts, load).counting_cpu(self.server.pid());
        match self.postgres.clone() {
            Some(postgres) => subject.counting(move || postgres.cpu() as f64 / 1000.0),
            None => subject,
        }
    }
}

/// Measures these parts, or all.
pub(crate) async fn measure(parts: &[String]) {
    let is_wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    let postgres = short::is_wanted("postgres").then(Postgres::start).flatten();
    let postgres = postgres.map(Rc::new);
    heads();
    if postgres.is_none() {
        println!("PostgreSQL is not installed or not wanted, and not measured");
    }
    let [costs, rates, held] = ["costs", "rates", "held"].map(is_wanted);
    if costs || rates || held {
        load(postgres.clone(), [costs, rates, held]).await;
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

async fn load(postgres: Option<Rc<Postgres>>, [is_cost, is_rate, is_held]: [bool; 3]) {
    let mut fixtures = vec![Fixture::start("redb", Demo::on_redb(), None).await];
    if let Some(postgres) = postgres {
        let demo = Demo::on(Some(&postgres), "demo");
        fixtures.push(Fixture::start("PostgreSQL", demo, Some(postgres)).await);
    }
    if is_cost {
        let before = std::env::var_os("BEFORE").map(|before| Demo::on_redb().served_by(before));
        let stores = fixtures.len();
        if let Some(demo) = before {
            fixtures.push(Fixture::start(BEFORE, demo, None).await);
        }
        costs(&fixtures).await;
        fixtures.truncate(stores);
    }
    for fixture in fixtures.iter().filter(|_| is_rate) {
        rates(fixture).await;
    }
    for fixture in fixtures.iter().filter(|_| is_held) {
        for gateways in HELD {
            held(fixture, short::count(gateways)).await;
        }
    }
}

/// Measures the cost of announcing a revocation to gateways with held requests, and the time until the last gateway
/// receives it.
async fn held(fixture: &Fixture, gateways: usize) {
    let mut client = Connection::open(fixture.server.address).await;
    let mut revocations = Vec::new();
    for _ in 0..short::count(WAKE_UPS) {
        revocations.push(distance::revocation_of_new_token(&mut client).await);
    }
    let (told, mut answers) = tokio::sync::mpsc::unbounded_channel();
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..gateways {
        let told = told.clone();
        let tell = move |_| told.send(Instant::now()).is_ok();
        readers.spawn(distance::follow(fixture.server.internal, tell));
    }
    let (mut times, mut costs) = (vec![], vec![]);
    for request in revocations {
        // All requests are held again before the next revocation.
        tokio::time::sleep_until(tokio::time::Instant::now() + BETWEEN_WAKE_UPS).await;
        while answers.try_recv().is_ok() {}
        let before = cpu(fixture.server.pid());
        assert_eq!(client.ask(&request).await.status, 200);
        let revoked = Instant::now();
        let mut last = Duration::ZERO;
        for _ in 0..gateways {
            let at: Instant = answers.recv().await.unwrap();
            last = last.max(at.saturating_duration_since(revoked));
        }
        times.push(last.as_secs_f64() * 1000.0);
        tokio::time::sleep_until(tokio::time::Instant::now() + BETWEEN_WAKE_UPS).await;
        let after = cpu(fixture.server.pid());
        costs.push(microseconds(before, after, gateways));
    }
    readers.shutdown().await;
    let name = fixture.name;
    let what = format!("{name}: {gateways} gateways held, told of a revocation");
    row(&format!("{what}: CPU for each"), &costs, "us", None);
    row(&format!("{what}: the last one after"), &times, "ms", None);
}

/// CPU per response of each grant type, compared with the floor.
async fn costs(fixtures: &[Fixture]) {
    let port = free_port().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["bench", "floor", &port.to_string()])
        .stdout(Stdio::null());
    let floor = Server::start(&mut command, port);
    let request = post("/", "", "grant_type=client_credentials");
    let empty = scripts(CONNECTIONS, |_| only(request.clone()));
    let what = "floor: empty actix POST and one Ed25519 signature, CPU";
    let mut subjects =
        vec![Subject::new(what, floor.address, empty, BLOCK).counting_cpu(floor.pid())];
    let grants = measured_grants();
    for fixture in fixtures {
        for grant in &grants {
            let subject = fixture.subject(grant.name(), *grant, CONNECTIONS, BLOCK);
            subjects.push(subject.await);
        }
    }
    alternate(&mut subjects, short::count(ROUNDS)).await;
    let floors = subjects.remove(0).costs();
    row(what, &floors, "us", None);
    let measured: Vec<&[Subject]> = subjects.chunks(grants.len().max(1)).collect();
    let earlier = fixtures.iter().position(|fixture| fixture.name == BEFORE);
    let is_plain = |grant: &Grant| *grant == Grant::ClientCredentials;
    let plain = grants.iter().position(is_plain);
    for (fixture, subjects) in fixtures.iter().zip(&measured) {
        for (position, (grant, subject)) in grants.iter().zip(*subjects).enumerate() {
            let own = subject.costs();
            let twice = Some(Bound::AtMost(2.0));
            let bound = twice.filter(|_| is_plain(grant));
            subject.row("CPU", &own, "us", None);
            subject.row("CPU, ratio to the floor", &ratios(&own, &floors), "", bound);
            if let Some(plain) = plain.filter(|_| *grant == Grant::Bound) {
                let plain = ratios(&own, &subjects[plain].costs());
                subject.row("CPU, ratio to that without a proof", &plain, "", twice);
            }
            if let Some(earlier) = earlier.filter(|_| fixture.name == "redb") {
                let earlier = ratios(&own, &measured[earlier][position].costs());
                subject.row("CPU, ratio to before", &earlier, "", None);
            }
            if fixture.postgres.is_some() {
                let database = subject.each(|block| block.cost(1));
                subject.row("CPU of the database", &database, "us", None);
            }
        }
    }
}

/// Responses per second and latencies.
async fn rates(fixture: &Fixture) {
    let (grants, rounds) = (measured_grants(), short::count(RATE_ROUNDS));
    for connections in [1, 16, short::count(256)] {
        for grant in &grants {
            let what = format!("{connections} connections: {}", grant.name());
            let subject = fixture.subject(&what, *grant, connections, BLOCK);
            let mut subject = subject.await;
            alternate([&mut subject], rounds).await;
            subject.print_rates(None);
            subject.print_latencies();
        }
    }
    if fixture.postgres.is_none() && grants.contains(&Grant::Refresh) {
        let what = "refresh_token, 8,000 per second, p99";
        let subject = fixture.subject(what, Grant::Refresh, short::count(256), HALF);
        let mut subject = subject.await;
        alternate([&mut subject], rounds).await;
        let p99 = subject.each(|block| block.percentile(990));
        row(&subject.name, &p99, "ms", Some(Bound::AtMost(10.0)));
    }
    let after = [resident(fixture.server.pid())];
    let what = format!("{}: resident memory, after the load", fixture.name);
    row(&what, &after, "MiB", None);
}

/// Measures the cost of a large store: start, memory, and latency at one rate.
async fn compare_sizes(store: &str, postgres: Option<&Postgres>) {
    let sizes = short::sizes();
    let (Some(few), Some(most)) = (sizes.first(), sizes.last()) else {
        return;
    };
    let same = sizes.iter().map(|&size| [size, size]);
    let (mut running, mut subjects) = (vec![], vec![]);
    for (number, [registered, grants]) in same.chain([[*few, *most]]).enumerate() {
        let size = Size { registered, grants };
        let demo = Demo::on(postgres, &format!("sized_{number}"));
        let (server, own) = sized(store, size, &demo).await;
        running.push((server, demo));
        subjects.extend(own);
    }
    alternate(&mut subjects, short::count(ROUNDS)).await;
    for (number, subject) in subjects.iter().enumerate() {
        subject.row("CPU", &subject.costs(), "us", None);
        subject.print_latencies();
        let p50 = |subject: &Subject| subject.each(|block| block.percentile(500));
        let Spread { median, .. } = spread(&p50(&subjects[number % 2]));
        let own = p50(subject);
        let own = ratios(&own, &vec![median; own.len()]);
        let bound = Some(Bound::AtMost(1.5));
        subject.row("p50, ratio to the least size", &own, "", bound);
    }
}

/// A service with a store of this size. Its clients refresh, and get tokens by client credentials.
async fn sized(store: &str, size: Size, demo: &Demo) -> (Server, [Subject; 2]) {
    let Size { registered, grants } = size;
    let name = format!("{store}, {registered} clients and users, {grants} grants");
    let tokens = seed(demo, size).await;
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
    let subjects = [
        (Grant::Refresh, scripts(shares.len(), refreshing)),
        (
            Grant::ClientCredentials,
            scripts(CONNECTIONS, |_| only(client_credentials())),
        ),
    ];
    let subjects = subjects.map(|(grant, scripts)| {
        let what = format!("{name}: {}, 200 per second", grant.name());
        Subject::new(&what, server.address, scripts, STEADY).counting_cpu(server.pid())
    });
    (server, subjects)
}
