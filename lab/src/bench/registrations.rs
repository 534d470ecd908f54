//! Many registered clients and users, on each store: the start, the memory, and the CPU time and the reads of a token for
//! the same clients again and again, for another client each time, and for unknown clients. On PostgreSQL also the time until
//! a second service follows a change.
//!
//! Also the starts with a registrations file of 27,000 users and 2,700 clients: the first start, starts with the
//! unchanged file, and starts with a file in which every thousandth user has changed.
//!
//! Run: `make bench-service`; only this one: `lab bench registrations`. CPU time is the CPU time of the
//! server process. Blocks of all variants alternate. PostgreSQL is measured if it is installed.
//!
//! - `SIZES=1000,10000000`: other numbers of clients and users. The least one is the base of the ratios.
//! - `FILE=27000`: another number of users in the file, or `FILE=0`: no file. A start applies at most 30,000 entries.
//! - `STORES=redb` or `STORES=postgres`: only this store.
//! - `SHORT=1`: for a moment each, to see that it works.

use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::interval;

use super::scripts::{Assertor, Bound as BoundClients, Unknown, bound_client};
use super::seed::{file, register};
use super::server::{Demo, Postgres, Server};
use crate::http::{Connection, Load, Script, Scripts, block, get, request, scripts};
use crate::measure::{Bound, cpu, heads, microseconds, peak, percentile, ratios, resident, row};
use crate::short;

/// Users in the registrations file.
const USERS_IN_FILE: usize = 27_000;

/// Blocks per variant.
const ROUNDS: usize = 7;
const BLOCK: Load = Load {
    time: Duration::from_secs(2),
    rate: None,
};
const CONNECTIONS: usize = 16;
/// JWT bearer requests before a kill. Each one writes, so the start after the kill finds a journal.
const WRITES: usize = 3000;

/// Changes whose effect on the second service is measured.
const CHANGES: usize = 20;
/// Time between two other changes meanwhile.
const BETWEEN_CHANGES: Duration = Duration::from_millis(50);
/// Time between two questions to the second service.
const LOOK: Duration = Duration::from_millis(5);

pub(crate) async fn measure() {
    let sizes = short::sizes();
    heads();
    let users = crate::number("FILE", short::objects(USERS_IN_FILE) as u64).unwrap();
    let users = users as usize;
    if short::is_wanted("redb") {
        apply_file("redb", Demo::on_redb(), users);
        compare("redb", &sizes, None).await;
    }
    if short::is_wanted("postgres") {
        match Postgres::start() {
            Some(postgres) => {
                let demo = Demo::on(Some(&postgres), "from_file");
                apply_file("PostgreSQL", demo, users);
                compare("PostgreSQL", &sizes, Some(&postgres)).await;
            }
            None => println!("PostgreSQL is not installed, and not measured"),
        }
    }
}

/// Measures starts with a registrations file of this number of users, and a tenth of clients.
fn apply_file(store: &str, mut demo: Demo, users: usize) {
    if users == 0 {
        return;
    }
    let clients = users / 10;
    let name = format!("{store}, a file of {users} users and {clients} clients");
    let later = short::count(ROUNDS);
    let organizations = ["majestic".to_owned()].into_iter();
    let changed = (0..later).map(|round| format!("minor-{round}"));
    let (mut first, mut unchanged, mut differing) = (vec![], vec![], vec![]);
    let (mut peaks, mut left) = (vec![], vec![]);
    for (round, organization) in organizations.chain(changed).enumerate() {
        demo.write_registrations(&file(users, clients, &organization));
        for start in 0..2 {
            let server = demo.serve();
            let times = match (round, start) {
                (_, 1) => &mut unchanged,
                (0, _) => &mut first,
                _ => &mut differing,
            };
            times.push(server.started_in);
            peaks.push(peak(server.pid()));
            if start == 0 {
                left.push(server.settled());
            }
            server.stop();
        }
    }
    let largest = [peaks.iter().copied().fold(0.0, f64::max)];
    for (what, values, unit, bound) in [
        ("first start", &first[..], "ms", None),
        (
            "start with the unchanged file",
            &unchanged,
            "ms",
            Some(1000.0),
        ),
        ("start with a changed file", &differing, "ms", Some(5000.0)),
        (
            "largest resident memory of a start",
            &largest,
            "MiB",
            Some(250.0),
        ),
        ("resident memory afterwards", &left, "MiB", Some(100.0)),
    ] {
        let bound = bound.map(Bound::AtMost);
        row(&format!("{name}: {what}"), values, unit, bound);
    }
}

/// The client of each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// One of a few.
    Known,
    /// Another one each time.
    Another,
    /// Not registered, and another one each time.
    Unknown,
}

impl Asked {
    const ALL: [Self; 3] = [Self::Known, Self::Another, Self::Unknown];

    const fn name(self) -> &'static str {
        match self {
            Self::Known => "the same clients",
            Self::Another => "another client each time",
            Self::Unknown => "an unknown client each time",
        }
    }

    /// Maximum reads of registrations for each response.
    const fn reads(self) -> f64 {
        match self {
            Self::Known => 0.0,
            // The store reads the bound user together with the client.
            Self::Another | Self::Unknown => 1.0,
        }
    }

    fn scripts(self, size: usize) -> Scripts {
        match self {
            Self::Known => scripts(CONNECTIONS, |number| BoundClients::only(number % size)),
            Self::Another => scripts(CONNECTIONS, |number| {
                BoundClients::all(number * size / CONNECTIONS, size)
            }),
            Self::Unknown => scripts(CONNECTIONS, Unknown::from),
        }
    }
}

/// Writes as one does under load.
async fn write(server: &Server) {
    let assertions = Assertor::new().sign(short::count(WRITES));
    let mut scripts = scripts(CONNECTIONS, |_| assertions.clone());
    block(server.address, &mut scripts, BLOCK).await;
}

/// A running service with many registrations.
struct Subject {
    name: String,
    size: usize,
    server: Server,
    demo: Demo,
    scripts: [Scripts; 3],
    /// CPU time for each response, in microseconds.
    costs: [Vec<f64>; 3],
    /// Reads of registrations for each response.
    reads: [Vec<f64>; 3],
}

impl Subject {
    async fn start(store: &str, size: usize, postgres: Option<&Postgres>) -> Self {
        let name = format!("{store}, {size} clients and users");
        let demo = Demo::on(postgres, &format!("registered_{size}"));
        register(&demo, size).await;
        let starts = demo.starts();
        let server = demo.serve();
        write(&server).await;
        drop(server);
        let server = demo.serve();
        let ready = Some(Bound::AtMost(2000.0));
        row(&format!("{name}: start"), &starts, "ms", ready);
        let after_kill = [server.started_in];
        let what = format!("{name}: start after being killed");
        row(&what, &after_kill, "ms", ready);
        let idle = [resident(server.pid())];
        let what = format!("{name}: resident memory, idle");
        row(&what, &idle, "MiB", None);
        Self {
            scripts: Asked::ALL.map(|asked| asked.scripts(size)),
            name,
            size,
            server,
            demo,
            costs: Default::default(),
            reads: Default::default(),
        }
    }

    async fn measure(&mut self, asked: usize) {
        let read = self.reads().await;
        let before = cpu(self.server.pid());
        let block = block(self.server.address, &mut self.scripts[asked], BLOCK).await;
        let after = cpu(self.server.pid());
        let answers = block.times.len();
        self.costs[asked].push(microseconds(before, after, answers));
        let reads = (self.reads().await - read) / answers as f64;
        self.reads[asked].push(reads);
    }

    /// Reads of registrations so far.
    async fn reads(&self) -> f64 {
        let mut connection = Connection::open(self.server.internal).await;
        let reply = connection.ask(&get("/metrics", "")).await;
        let metrics = String::from_utf8(reply.body).unwrap();
        let name = "token_service_store_registration_reads_total ";
        let count = metrics.lines().find_map(|line| line.strip_prefix(name));
        count.unwrap().parse().unwrap()
    }

    fn report(&self, base: &Self) {
        for (index, asked) in Asked::ALL.into_iter().enumerate() {
            let what = format!("{}: {}", self.name, asked.name());
            let costs = &self.costs[index];
            row(&format!("{what}: CPU"), costs, "us", None);
            if asked == Asked::Known {
                // Of blocks that ran one after the other.
                let ratios = ratios(costs, &base.costs[index]);
                let what = format!("{what}: CPU, ratio to the least size");
                row(&what, &ratios, "", Some(Bound::AtMost(1.05)));
            }
            let most = Some(Bound::AtMost(asked.reads() + 0.01));
            let what = format!("{what}: reads of registrations");
            row(&what, &self.reads[index], "", most);
        }
    }
}

async fn compare(store: &str, sizes: &[usize], postgres: Option<&Postgres>) {
    let mut subjects = Vec::new();
    for &size in sizes {
        subjects.push(Subject::start(store, size, postgres).await);
    }
    let mut memory = vec![vec![]; subjects.len()];
    for (index, _) in Asked::ALL.iter().enumerate() {
        for _ in 0..short::count(ROUNDS) {
            for subject in &mut subjects {
                subject.measure(index).await;
            }
        }
        for (memory, subject) in memory.iter_mut().zip(&subjects) {
            memory.push(resident(subject.server.pid()));
        }
    }
    let Some(base) = subjects.first() else { return };
    for (memory, subject) in memory.iter().zip(&subjects) {
        subject.report(base);
        let name = &subject.name;
        let bound = Some(Bound::AtMost(200.0));
        let what = format!("{name}: resident memory, under load");
        row(&what, memory, "MiB", bound);
        let growth = [memory[2] - memory[1]];
        let what = format!("{name}: memory that unknown clients take");
        row(&what, &growth, "MiB", Some(Bound::AtMost(4.0)));
    }
    if postgres.is_some() {
        for subject in &subjects {
            follow(subject).await;
        }
    }
}

/// Disables clients at one service, and measures the time until a second service on the same database refuses them.
/// Meanwhile other registrations change.
async fn follow(subject: &Subject) {
    let second = subject.demo.serve();
    let token = subject.demo.admin_token();
    let change = |number: usize, body: &str| {
        let path = format!("/admin/clients/{}", bound_client(number));
        let headers =
            format!("authorization: Bearer {token}\r\ncontent-type: application/json\r\n");
        request("PATCH", &path, &headers, body)
    };
    let half = subject.size / 2;
    let (stop, mut stopped) = oneshot::channel::<()>();
    let internal = subject.server.internal;
    let others: Vec<Vec<u8>> = (0..half.min(1000))
        .map(|number| change(half + number, &format!(r#"{{"name": "Changed {number}"}}"#)))
        .collect();
    let load = tokio::spawn(async move {
        let mut connection = Connection::open(internal).await;
        let mut pace = interval(BETWEEN_CHANGES);
        let mut changes = 0;
        for other in others.iter().cycle() {
            tokio::select! {
                _ = pace.tick() => {}
                _ = &mut stopped => break,
            }
            assert_eq!(connection.ask(other).await.status, 200);
            changes += 1;
        }
        changes
    });
    let mut admin = Connection::open(internal).await;
    let mut client = Connection::open(second.address).await;
    let start = Instant::now();
    let mut times = Vec::new();
    for number in 0..short::count(CHANGES).min(half) {
        let mut ask = BoundClients::only(number);
        let request = ask.request().unwrap();
        assert_eq!(client.ask(&request).await.status, 200);
        let disabled = change(number, r#"{"enabled": false}"#);
        assert_eq!(admin.ask(&disabled).await.status, 200);
        let answered = Instant::now();
        let mut pace = interval(LOOK);
        while client.ask(&request).await.status == 200 {
            pace.tick().await;
        }
        times.push(answered.elapsed());
        let enabled = change(number, r#"{"enabled": true}"#);
        assert_eq!(admin.ask(&enabled).await.status, 200);
    }
    let elapsed = start.elapsed().as_secs_f64();
    drop(stop);
    let changes = [f64::from(load.await.unwrap()) / elapsed];
    let name = &subject.name;
    let what = format!("{name}: other changes meanwhile");
    row(&what, &changes, "1/s", None);
    let milliseconds = [percentile(&times, 500), percentile(&times, 1000)];
    let what = format!("{name}: until the second service refuses a disabled client, p50");
    row(&what, &milliseconds[..1], "ms", None);
    let what = format!("{name}: until the second service refuses a disabled client, longest");
    row(&what, &milliseconds[1..], "ms", Some(Bound::AtMost(1000.0)));
}
