//! The redb store: CPU per durable rotation, group commit compared with one commit per request, and the cost of a
//! million grants.
//!
//! Run: `make bench-service`; only this one: `lab bench store`. `SHORT=1` measures for a moment, to see that it works.

use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use claims::Confirmation;
use domain::clock::Clock as _;
use domain::{Client, Grant, RefreshRotation, RegistryChange, Rotation, TokenId, User, testing};
use redb::StorageBackend;
use redb::backends::FileBackend;
use store::Store;
use store::redb::RedbStore;
use system::{OsRandom, SystemClock};
use tokio::task::JoinSet;

use super::seed::{self, REDIRECT_URI};
use crate::measure::{Bound, cpu, heads, microseconds, resident, row};
use crate::short;

const HOUR: Duration = Duration::from_secs(3600);
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
/// Concurrent callers: the connections of a busy service.
const CONNECTIONS: usize = 256;
const ROUNDS: usize = 5;

/// A file on a busy disk: each fsync takes an additional `delay`.
struct SlowDisk {
    file: FileBackend,
    delay: Duration,
}

impl fmt::Debug for SlowDisk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SlowDisk")
    }
}

impl StorageBackend for SlowDisk {
    fn len(&self) -> Result<u64, io::Error> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.file.set_len(len)
    }

    #[expect(clippy::disallowed_methods, reason = "the disk that is slow")]
    fn sync_data(&self) -> Result<(), io::Error> {
        self.file.sync_data()?;
        if !self.delay.is_zero() {
            std::thread::sleep(self.delay);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.file.write(offset, data)
    }
}

fn open(path: &Path, delay: Duration) -> Arc<dyn Store> {
    let path = path.to_owned();
    let backend = move |path: &Path| {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let file = FileBackend::new(file).map_err(io::Error::other)?;
        Ok::<_, io::Error>(SlowDisk { file, delay })
    };
    let backends = move || Ok([backend(&path)?, backend(&path.with_extension("journal"))?]);
    Arc::new(RedbStore::open_on(backends, HOUR).unwrap())
}

/// Users who own the grants.
const USERS: usize = 100_000;

fn user(number: usize) -> User {
    let name = format!("user-{number}@example.com");
    testing::user(&name, &[&number.to_string()])
}

fn client() -> Client {
    testing::web_server("client", &[], &[REDIRECT_URI]).with_scopes("projects")
}

/// Live grants of as many users, or of [`USERS`].
async fn grants(store: &Arc<dyn Store>, count: usize) -> Vec<Grant> {
    let change = RegistryChange {
        put_clients: vec![client()],
        put_users: (0..count.min(USERS)).map(user).collect(),
        ..RegistryChange::default()
    };
    store
        .change_registry(change, SystemClock.now())
        .await
        .unwrap();
    let owner = |number| user(number % USERS);
    seed::grants(store, &client().client_id, owner, count).await
}

async fn rotate(store: &dyn Store, grant: &mut Grant) {
    let rotation = RefreshRotation {
        grant_id: grant.grant_id,
        refresh_id: grant.current.refresh_id,
        client_id: grant.client_id.clone(),
        username: Some(grant.username.clone()),
        proven: Confirmation::default(),
        scope: None,
        second_factor: Arc::default(),
        next_refresh_id: TokenId::generate(&OsRandom).unwrap(),
        next_access_id: TokenId::generate(&OsRandom).unwrap(),
        now: SystemClock.now(),
        lifetime: WEEK,
        grace: Duration::from_secs(10),
    };
    match store.rotate_refresh(rotation).await.unwrap() {
        Rotation::Rotated { grant: rotated, .. } => *grant = *rotated,
        other => unreachable!("{other:?}"),
    }
}

/// Rotations by `connections` callers for `time`. Returns their number and the elapsed time.
async fn rotations(
    store: &Arc<dyn Store>,
    grants: &mut Vec<Grant>,
    connections: usize,
    time: Duration,
) -> (usize, Duration) {
    let time = short::time(time);
    let start = Instant::now();
    let share = grants.len() / connections;
    let mut workers = JoinSet::new();
    for _ in 0..connections {
        let store = Arc::clone(store);
        let mut own: Vec<Grant> = grants.split_off(grants.len() - share);
        workers.spawn(async move {
            let mut done = 0;
            // A large step, because real users are unrelated: no row is cached because of a recent use.
            let step = own.len() / 7 * 3 + 1;
            while start.elapsed() < time {
                let index = done * step % own.len();
                rotate(&*store, &mut own[index]).await;
                done += 1;
            }
            (done, own)
        });
    }
    let mut total = 0;
    for (done, own) in workers.join_all().await {
        total += done;
        grants.extend(own);
    }
    (total, start.elapsed())
}

/// Checks that the file reuses the space of replaced rows: measures the file after more and more rotations of the same
/// grants.
async fn reuse(path: &Path) {
    let rotated = short::objects(2_000_000);
    let store = open(path, Duration::ZERO);
    let count = short::count(10_000);
    let mut live = grants(&store, count).await;
    let size = |what: &str| {
        let bytes = std::fs::metadata(path).unwrap().len() as f64;
        row(
            &format!("{count} live grants: file {what}"),
            &[bytes / 1024.0 / 1024.0],
            "MiB",
            None,
        );
    };
    size("at first");
    let mut done = 0;
    for quarter in 1..=4 {
        let goal = rotated / 4 * quarter;
        while done < goal {
            let time = Duration::from_secs(1);
            done += rotations(&store, &mut live, CONNECTIONS, time).await.0;
        }
        size(&format!("after {done} rotations"));
    }
}

pub(crate) async fn measure() {
    let million = short::objects(1_000_000);
    let folder = tempfile::tempdir().unwrap();
    let pid = std::process::id();
    heads();

    let slow = open(&folder.path().join("slow.redb"), Duration::from_millis(4));
    let least = short::count(2048).max(CONNECTIONS);
    let mut few = grants(&slow, least).await;
    let (mut alone, mut together, mut ratios) = (vec![], vec![], vec![]);
    for _ in 0..short::count(ROUNDS) {
        let (done, took) = rotations(&slow, &mut few, 1, Duration::from_secs(1)).await;
        let one = done as f64 / took.as_secs_f64();
        let (done, took) = rotations(&slow, &mut few, CONNECTIONS, Duration::from_secs(2)).await;
        let many = done as f64 / took.as_secs_f64();
        alone.push(one);
        together.push(many);
        ratios.push(many / one);
    }
    let what = "durable rotations, one commit each, fsync + 4 ms";
    row(what, &alone, "1/s", None);
    let what = "durable rotations, 256 callers, fsync + 4 ms";
    row(what, &together, "1/s", None);
    row("... ratio", &ratios, "", Some(Bound::AtLeast(20.0)));
    drop((slow, few));

    reuse(&folder.path().join("reuse.redb")).await;

    for count in [(million / 100).max(least), million] {
        let path = folder.path().join(format!("{count}.redb"));
        let store = open(&path, Duration::ZERO);
        let filling = Instant::now();
        let mut live = grants(&store, count).await;
        let filled = filling.elapsed().as_secs_f64();
        let (mut costs, mut rates) = (vec![], vec![]);
        for _ in 0..short::count(ROUNDS) {
            let before = cpu(pid);
            let (done, took) =
                rotations(&store, &mut live, CONNECTIONS, Duration::from_secs(3)).await;
            costs.push(microseconds(before, cpu(pid), done));
            rates.push(done as f64 / took.as_secs_f64());
        }
        let size = std::fs::metadata(&path).unwrap().len() as f64 / count as f64;
        drop(store);
        let opening = Instant::now();
        drop(open(&path, Duration::ZERO));
        let opened = opening.elapsed().as_secs_f64() * 1000.0;
        let bound = (count == million).then_some(Bound::AtMost(90.0));
        for (what, values, unit, bound) in [
            ("CPU per durable rotation", &costs[..], "us", bound),
            ("rotations by 256 callers", &rates, "1/s", None),
            ("made in", &[filled], "s", None),
            ("file, per grant", &[size], "bytes", None),
            ("opened again in", &[opened], "ms", None),
        ] {
            row(&format!("{count} live grants: {what}"), values, unit, bound);
        }
    }
    row(
        "resident memory of the benchmark, which holds the grants too",
        &[resident(pid)],
        "MiB",
        None,
    );
}
