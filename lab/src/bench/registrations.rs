//! Many registered clients and users, on each store: the start, the memory, and the CPU time and the reads of a token for
//! the same clients again and again, for another client each time, and for unknown clients. On PostgreSQL also the time until
//! a second service follows a change.
//!
//! Run: `make bench-service`; only this one: `lab bench registrations`. CPU time is the CPU time of the
//! server process. Blocks of all variants alternate. PostgreSQL is measured if it is installed.
//!
//! - `SIZES=1000,10000000`: other numbers of clients and users. The least one is the base of the ratios.
//! - `STORES=redb` or `STORES=postgres`: only this store.
//! - `SHORT=1`: for a moment each, to see that it works.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tests::visitor::Visitor;
use tokio::sync::oneshot;
use tokio::time::interval;

use super::http::{Connection, Load, Scripts, block, only, request, scripts};
use super::scripts::{Assertions, Unknown, bound_client, of_all_bound, of_bound_client};
use super::seed::register;
use super::server::{Demo, Postgres, Server};
use super::subject::{Subject, alternate};
use crate::measure::{Bound, heads, percentile, ratios, resident, row};
use crate::short;

/// Blocks per variant.
const ROUNDS: usize = 7;
const BLOCK: Load = Load::fastest(Duration::from_secs(2));
const CONNECTIONS: usize = 16;

/// Changes whose effect on the second service is measured.
const CHANGES: usize = 20;
/// Time between two other changes meanwhile.
const BETWEEN_CHANGES: Duration = Duration::from_millis(50);
/// Time between two questions to the second service.
const LOOK: Duration = Duration::from_millis(5);

pub(crate) async fn measure() {
    let sizes = short::sizes();
    heads();
    if short::is_wanted("redb") {
        compare("redb", &sizes, None).await;
    }
    if short::is_wanted("postgres") {
        match Postgres::start() {
            Some(postgres) => compare("PostgreSQL", &sizes, Some(&postgres)).await,
            None => println!("PostgreSQL is not installed, and not measured"),
        }
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
            Self::Known => scripts(CONNECTIONS, |number| only(of_bound_client(number % size))),
            Self::Another => scripts(CONNECTIONS, |number| {
                of_all_bound(number * size / CONNECTIONS, size)
            }),
            Self::Unknown => scripts(CONNECTIONS, Unknown::from),
        }
    }
}

/// A running service with many registrations.
struct Registered {
    name: String,
    size: usize,
    server: Server,
    demo: Demo,
    /// Counts CPU time and reads of registrations, of each kind of request.
    subjects: [Subject; 3],
}

impl Registered {
    async fn start(store: &str, size: usize, postgres: Option<&Postgres>) -> Self {
        let name = format!("{store}, {size} clients and users");
        let demo = Demo::on(postgres, &format!("registered_{size}"));
        register(&demo, size).await;
        let starts = demo.starts();
        let server = demo.serve();
        // Each assertion is a write, so the start after the kill finds a journal.
        let assertions = Assertions::new();
        let mut writes = scripts(CONNECTIONS, |_| assertions.clone());
        block(server.address, &mut writes, BLOCK).await;
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
        let internal = server.internal;
        let subjects = Asked::ALL.map(|asked| {
            let name = format!("{name}: {}", asked.name());
            Subject::new(&name, server.address, asked.scripts(size), BLOCK)
                .counting_cpu(server.pid())
                .counting(move || reads(internal))
        });
        Self {
            name,
            size,
            server,
            demo,
            subjects,
        }
    }

    fn report(&self, base: &Self) {
        let subjects = self.subjects.iter().zip(&base.subjects);
        for (asked, (subject, base)) in Asked::ALL.into_iter().zip(subjects) {
            let costs = subject.costs();
            subject.row("CPU", &costs, "us", None);
            if asked == Asked::Known {
                // Of blocks that ran one after the other.
                let ratios = ratios(&costs, &base.costs());
                let bound = Some(Bound::AtMost(1.05));
                subject.row("CPU, ratio to the least size", &ratios, "", bound);
            }
            let reads = subject.each(|block| block.cost(1));
            let most = Some(Bound::AtMost(asked.reads() + 0.01));
            subject.row("reads of registrations", &reads, "", most);
        }
    }
}

/// Reads of registrations of a service so far.
fn reads(internal: SocketAddr) -> f64 {
    let url = format!("http://{internal}/metrics");
    let metrics = Visitor::default().get(&url, &[]).unwrap();
    let reads = metrics.metric("token_service_store_registration_reads_total");
    reads.unwrap()
}

async fn compare(store: &str, sizes: &[usize], postgres: Option<&Postgres>) {
    let mut all = Vec::new();
    for &size in sizes {
        all.push(Registered::start(store, size, postgres).await);
    }
    let mut memory = vec![vec![]; all.len()];
    for index in 0..Asked::ALL.len() {
        let subjects = all.iter_mut().map(|one| &mut one.subjects[index]);
        alternate(subjects, short::count(ROUNDS)).await;
        for (memory, one) in memory.iter_mut().zip(&all) {
            memory.push(resident(one.server.pid()));
        }
    }
    let Some(base) = all.first() else { return };
    for (memory, one) in memory.iter().zip(&all) {
        one.report(base);
        let name = &one.name;
        let bound = Some(Bound::AtMost(200.0));
        let what = format!("{name}: resident memory, under load");
        row(&what, memory, "MiB", bound);
        let growth = [memory[2] - memory[1]];
        let what = format!("{name}: memory that unknown clients take");
        row(&what, &growth, "MiB", Some(Bound::AtMost(4.0)));
    }
    if postgres.is_some() {
        for one in &all {
            follow(one).await;
        }
    }
}

/// Disables clients at one service, and measures the time until a second service on the same database refuses them.
/// Meanwhile other registrations change.
async fn follow(one: &Registered) {
    let second = one.demo.serve();
    let token = one.demo.admin_token();
    let change = |number: usize, body: &str| {
        let path = format!("/admin/clients/{}", bound_client(number));
        let headers =
            format!("authorization: Bearer {token}\r\ncontent-type: application/json\r\n");
        request("PATCH", &path, &headers, body)
    };
    let half = one.size / 2;
    let (stop, mut stopped) = oneshot::channel::<()>();
    let internal = one.server.internal;
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
        let request = of_bound_client(number);
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
    let name = &one.name;
    let what = format!("{name}: other changes meanwhile");
    row(&what, &changes, "1/s", None);
    let milliseconds = [percentile(&times, 500), percentile(&times, 1000)];
    let what = format!("{name}: until the second service refuses a disabled client, p50");
    row(&what, &milliseconds[..1], "ms", None);
    let what = format!("{name}: until the second service refuses a disabled client, longest");
    row(&what, &milliseconds[1..], "ms", Some(Bound::AtMost(1000.0)));
}
