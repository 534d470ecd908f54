//! Passwords: argon2id with the parameters that OWASP recommends (19 MiB, 2 passes, 1 lane). Hashes from another server
//! are checked by their own scheme, and replaced when their password is right.
//!
//! All hashes of the process share a budget of memory (D-53), and their queues are bounded by work.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::available_parallelism;
use std::time::Duration;

use argon2::Params;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tracing::Instrument as _;
use unicode_normalization::{UnicodeNormalization as _, is_nfkc};
use zeroize::Zeroizing;

use super::throttle::Account;
use crate::sealing::EncryptionKey;
use domain::password_hash::{self, PasswordHash, UsedScheme};
use domain::random;
use system::OsRandom;

/// Algorithm, version and parameters of [`hash`], as in the PHC string.
const SCHEME: &str = "$argon2id$v=19$m=19456,t=2,p=1";

/// Random salt and hash that the service verifies when a user has no stored hash. No known password matches them.
const DECOY: &str = "$yDktG0K1Tk7h22spOXgPmA$GwMwFfwe0CGKrYdcHstP/5MtuYHf/9JfVYWUA0OXABc";

/// Memory of a new hash, in MiB.
const NEW_MEMORY: u32 = Params::DEFAULT_M_COST / 1024;

/// [Work](PasswordHash::work) of a new hash, about 40 ms: one place in a lane.
const NEW_WORK: u64 = Params::DEFAULT_M_COST as u64 * Params::DEFAULT_T_COST as u64;

/// Places in the queues of both lanes, for each hash that runs at the same time: about 5 s of work.
const QUEUE: usize = 128;

/// Length of a new salt, in bytes.
const SALT: usize = 16;

/// Longest time that a password waits for its check.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The memory for password hashes, in MiB (D-53).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Budget {
    /// For all hashes at the same time.
    all: u32,
    /// For a single hash. A hash that needs more than `all` runs alone.
    one: u32,
}

static BUDGET: LazyLock<Budget> = LazyLock::new(|| {
    let cores = available_parallelism().map_or(1, usize::from);
    Budget::of(cores, system::memory_limit())
});

impl Budget {
    /// `limit`: the memory limit of the process, in bytes.
    fn of(cores: usize, limit: Option<u64>) -> Self {
        let cores = u32::try_from(cores).unwrap_or(u32::MAX);
        let quarter = limit.and_then(|limit| u32::try_from((limit / 4) >> 20).ok());
        let one = quarter.unwrap_or(u32::MAX).max(NEW_MEMORY);
        Self {
            all: cores.saturating_mul(NEW_MEMORY).min(one),
            one,
        }
    }

    /// Number of hashes with the parameters of [`hash`] at the same time.
    const fn hashes(self) -> usize {
        (self.all / NEW_MEMORY) as usize
    }

    /// The permits of [`MEMORY`] for a check of `hash`. A right password may need a new hash.
    ///
    /// # Errors
    /// [`PasswordError::TooLarge`] if a single hash may not take as much.
    fn permits(self, hash: &PasswordHash) -> Result<u32, PasswordError> {
        let needed = u32::try_from(hash.memory().div_ceil(1024)).unwrap_or(u32::MAX);
        if needed > self.one {
            return Err(PasswordError::TooLarge {
                needed,
                most: self.one,
            });
        }
        Ok(needed.max(NEW_MEMORY).min(self.all))
    }

    fn registered(self, text: &str) -> Result<String, String> {
        let normal = password_hash::normal(text)?;
        let fits = read(&normal).and_then(|hash| self.permits(&hash));
        fits.map_err(|error| error.to_string())?;
        Ok(normal)
    }

    fn unfit(self, schemes: &[UsedScheme]) -> Option<(&UsedScheme, PasswordError)> {
        schemes.iter().find_map(|used| {
            let fits = read(&decoy(&used.scheme)).and_then(|hash| self.permits(&hash));
            Some((used, fits.err()?))
        })
    }
}

static MEMORY: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(BUDGET.all as usize));

/// The threads that hash, and one that hands out the work. They never end: allocators keep freed memory for its thread, so
/// the number of threads bounds this memory too.
static THREADS: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
    Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(BUDGET.hashes())
        .thread_keep_alive(Duration::MAX)
        .thread_name("password")
        .build()
});

fn threads() -> Result<&'static Runtime, PasswordError> {
    THREADS.as_ref().map_err(|_| PasswordError::Failed)
}

async fn memory(permits: u32) -> Result<SemaphorePermit<'static>, PasswordError> {
    let memory = MEMORY.acquire_many(permits).await;
    memory.map_err(|_| PasswordError::Failed)
}

/// Does `work` on a thread of [`THREADS`]. The thread holds `memory` until the work is done, even if the caller is gone.
async fn on_thread<T: Send + 'static>(
    memory: SemaphorePermit<'static>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, PasswordError> {
    let done = threads()?.spawn_blocking(move || {
        let _held = memory;
        work()
    });
    done.await.map_err(|_| PasswordError::Failed)
}

/// Like [`on_thread`], for a caller that may block.
fn blocking_on_thread<T: Send + 'static>(
    permits: u32,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, PasswordError> {
    let (sender, receiver) = mpsc::channel();
    threads()?.spawn(async move {
        let done = match memory(permits).await {
            Ok(memory) => on_thread(memory, work).await,
            Err(error) => Err(error),
        };
        // The receiver waits.
        drop(sender.send(done));
    });
    receiver.recv().map_err(|_| PasswordError::Failed)?
}

/// A queue for password checks, one for the whole process. Known devices have a queue of their own, so that they
/// neither wait for unknown browsers nor find the queue full.
pub(super) struct Lane {
    /// Number of checks that run or wait for memory: few, so that the other lane soon gets memory.
    free_turns: Semaphore,
    /// All places, for waiting checks and running checks together.
    places: usize,
    free_places: Semaphore,
}

static STRANGERS: LazyLock<Lane> = LazyLock::new(|| {
    let turns = BUDGET.hashes();
    Lane::new(turns, strangers_places())
});

static KNOWN_DEVICES: LazyLock<Lane> = LazyLock::new(|| {
    let turns = BUDGET.hashes().div_ceil(2);
    Lane::new(turns, turns + queue() / 4)
});

impl Lane {
    const fn new(turns: usize, places: usize) -> Self {
        Self {
            free_turns: Semaphore::const_new(turns),
            places,
            free_places: Semaphore::const_new(places),
        }
    }

    /// The lanes for known devices or for unknown browsers, the preferred lane first. Unknown browsers never use the lane
    /// of known devices, or they could fill both lanes.
    fn of(known_device: bool) -> impl Iterator<Item = &'static Self> {
        let own = known_device.then(|| &*KNOWN_DEVICES);
        own.into_iter().chain([&*STRANGERS])
    }

    /// An expensive hash alone in the lane always has room.
    fn fitting(&self, places: u32) -> u32 {
        u32::try_from(self.places).map_or(places, |all| places.min(all))
    }

    fn has_room(&self, places: u32) -> bool {
        self.free_places.available_permits() >= self.fitting(places) as usize
    }
}

fn queue() -> usize {
    BUDGET.hashes() * QUEUE
}

fn strangers_places() -> usize {
    BUDGET.hashes() + queue() - queue() / 4
}

/// A password that waits for its check.
struct Waiting;

static WAITING: AtomicUsize = AtomicUsize::new(0);

impl Waiting {
    fn begin() -> Self {
        WAITING.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Number of passwords that wait for their check, in both lanes.
#[must_use]
pub fn waiting() -> usize {
    WAITING.load(Ordering::Relaxed)
}

/// Reason why the service could not hash or check a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    /// The queue is full, or no turn came in time.
    #[error("too many passwords wait to be checked")]
    Busy,
    /// The library failed, or a stored hash is unreadable.
    #[error("hashing a password failed, or a stored hash is unreadable")]
    Failed,
    #[error(
        "needs {needed} MiB of memory: a hash may take a quarter of the memory limit, here {most} MiB (D-53). Raise the limit of the service, or set a new password"
    )]
    TooLarge { needed: u32, most: u32 },
}

/// The form of a password that the service hashes: NFKC, because keyboards and systems differ in what they send for a
/// letter with an accent. `None` if `password` is in this form.
fn normal(password: &str) -> Option<Zeroizing<String>> {
    (!is_nfkc(password)).then(|| Zeroizing::new(password.nfkc().collect()))
}

fn new_hash(password: &str) -> Result<String, PasswordError> {
    let normal = normal(password);
    let password = normal.as_ref().map_or(password, |normal| normal);
    let salt = random::bytes::<SALT>(&OsRandom).map_err(|_| PasswordError::Failed)?;
    let hash = read(&decoy(SCHEME))?.of(password, salt.to_vec());
    hash.map(|hash| hash.to_string())
        .ok_or(PasswordError::Failed)
}

/// Hashes `password` with a random salt and returns an argon2id PHC string. Takes tens of milliseconds, and waits for
/// memory.
///
/// # Errors
/// [`PasswordError::Failed`] if the library fails.
pub fn hash(password: &str) -> Result<String, PasswordError> {
    let password = Zeroizing::new(password.to_owned());
    blocking_on_thread(NEW_MEMORY, move || new_hash(&password))?
}

/// True if `password` matches `hash`. Takes tens of milliseconds, and waits for memory; compares in constant time.
///
/// # Errors
/// [`PasswordError::Failed`] if `hash` is unreadable, [`PasswordError::TooLarge`] if it needs too much memory.
pub fn verify(password: &str, hash: &str) -> Result<bool, PasswordError> {
    let hash = read(hash)?;
    let password = Zeroizing::new(password.to_owned());
    blocking_on_thread(BUDGET.permits(&hash)?, move || {
        Match::of(&hash, &password) != Match::None
    })
}

fn read(hash: &str) -> Result<PasswordHash, PasswordError> {
    PasswordHash::read(hash).map_err(|_| PasswordError::Failed)
}

/// The stored spelling of a registered hash: see [`password_hash::normal`].
///
/// # Errors
/// A problem that does not repeat the hash: also that this service has too little memory for the hash (D-53).
pub fn registered(text: &str) -> Result<String, String> {
    BUDGET.registered(text)
}

/// The first of the schemes for which this service has too little memory (D-53), with the reason.
#[must_use]
pub fn unfit(schemes: &[UsedScheme]) -> Option<(&UsedScheme, PasswordError)> {
    BUDGET.unfit(schemes)
}

fn decoy(scheme: &str) -> String {
    format!("{scheme}{DECOY}")
}

/// Which spelling of a password a hash belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Match {
    None,
    /// The [`normal`] form.
    Normal,
    /// What was typed, which is not in normal form: hashes from another server, and of earlier versions.
    AsTyped,
}

impl Match {
    fn of(hash: &PasswordHash, password: &str) -> Self {
        let normal = normal(password);
        match &normal {
            None if hash.is_of(password) => Self::Normal,
            Some(normal) if hash.is_of(normal) => Self::Normal,
            Some(_) if hash.is_of(password) => Self::AsTyped,
            None | Some(_) => Self::None,
        }
    }
}

/// True if `hash` is not argon2id or its parameters are weaker than those of [`hash`].
fn is_outdated(hash: &PasswordHash) -> bool {
    !hash.is_argon2id_of(NEW_WORK)
}

/// The one hash that a check computes: the stored hash, or a decoy for a name without a hash. The scheme of a decoy
/// depends on the name, and each scheme has the same share of the names as it has of the users: so the response time
/// does not show whether a name is registered.
pub(super) struct Task {
    hash: PasswordHash,
    /// False for a decoy.
    is_stored: bool,
}

impl Task {
    /// `schemes`: see [`domain::RegistrySummary::password_schemes`].
    ///
    /// # Errors
    /// [`PasswordError::Failed`] if the stored hash is unreadable.
    pub(super) fn of(
        stored: Option<&str>,
        account: &Account,
        schemes: &[UsedScheme],
        key: &EncryptionKey,
    ) -> Result<Self, PasswordError> {
        let point = |scheme: &str| {
            let (name, scheme) = (account.as_str().as_bytes(), scheme.as_bytes());
            let [a, b, c, d, e, f, g, h, ..] = key.tag(&[b"scheme of a name", name, scheme]);
            u64::from_be_bytes([a, b, c, d, e, f, g, h])
        };
        // For names with a hash too: the same work.
        let scheme = password_hash::scheme_of(schemes, point).unwrap_or(SCHEME);
        let hash = match stored {
            Some(stored) => read(stored)?,
            None => read(&decoy(scheme))?,
        };
        let is_stored = stored.is_some();
        Ok(Self { hash, is_stored })
    }

    /// The places that the check takes in a lane.
    fn places(&self, password: &str) -> u32 {
        let hashes = if is_nfkc(password) { 1 } else { 2 };
        let places = self.hash.work().div_ceil(NEW_WORK).max(1) * hashes;
        u32::try_from(places).unwrap_or(u32::MAX)
    }

    fn check(&self, password: &str) -> Result<Checked, PasswordError> {
        let found = Match::of(&self.hash, password);
        let right = self.is_stored && found != Match::None;
        // A hash that reads the beginning of the password alone stays: the rest is not what its owner chose.
        let is_replaced = right
            && (found == Match::AsTyped || is_outdated(&self.hash))
            && self.hash.reads_all_of(password);
        let stronger = is_replaced.then(|| new_hash(password)).transpose()?;
        Ok(Checked { right, stronger })
    }
}

/// Result of a password check.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Checked {
    pub(super) right: bool,
    /// A new hash of the right password, if the stored hash is outdated, or of another spelling of the password.
    pub(super) stronger: Option<String>,
}

/// What checks count for, so that nobody fills a lane alone. Right passwords are never slowed down, so the delays of
/// guesses do not prevent this.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Share {
    /// All known devices of this account, because a person can make any number of devices known.
    KnownDevices(String),
    /// This account in all unknown browsers.
    Account(String),
    /// All unknown browsers in this network.
    Network(Vec<u8>),
}

impl Share {
    /// Maximum number of places at a time, those of waiting checks included.
    fn most(&self) -> usize {
        let places = strangers_places();
        match self {
            Self::KnownDevices(_) => 2,
            // A second of work.
            Self::Account(_) => places / 4,
            // A whole office may sign in from one address: two seconds of work.
            Self::Network(_) => places / 2,
        }
    }

    /// The places that count: of known devices, the number of checks.
    const fn counted(&self, places: u32) -> usize {
        match self {
            Self::KnownDevices(_) => 1,
            Self::Account(_) | Self::Network(_) => places as usize,
        }
    }
}

/// Number of places of each share.
static IN_FLIGHT: Mutex<BTreeMap<Share, usize>> = Mutex::new(BTreeMap::new());

/// Places of a share, counted until this is dropped.
struct Counted(Share, usize);

impl Counted {
    fn begin(share: Share, places: u32) -> Result<Self, PasswordError> {
        let places = share.counted(places);
        let mut counts = Self::counts();
        let count = counts.entry(share.clone()).or_default();
        // The first check always has room, however expensive it is.
        if *count > 0 && *count + places > share.most() {
            return Err(PasswordError::Busy);
        }
        *count += places;
        Ok(Self(share, places))
    }

    fn counts() -> MutexGuard<'static, BTreeMap<Share, usize>> {
        let counts = IN_FLIGHT.lock();
        counts.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = Self::counts();
        match counts.get_mut(&self.0) {
            Some(count) if *count > self.1 => *count -= self.1,
            _ => drop(counts.remove(&self.0)),
        }
    }
}

/// The browser in which a password is typed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Asker<'a> {
    /// A known device of the account.
    KnownDevice,
    /// An unknown browser in this network.
    Stranger(&'a [u8]),
}

/// A check that may be queued once the attempt is admitted.
#[must_use]
pub(super) struct Request {
    is_known_device: bool,
    task: Task,
    password: Zeroizing<String>,
    memory: u32,
    places: u32,
    counted: Vec<Counted>,
}

impl Request {
    /// Decides without a write whether there is room for `asker` and the account.
    ///
    /// # Errors
    /// [`PasswordError::Busy`] if there is no room, [`PasswordError::TooLarge`] if there never is.
    pub(super) fn begin(
        account: &Account,
        asker: Asker<'_>,
        task: Task,
        password: Zeroizing<String>,
    ) -> Result<Self, PasswordError> {
        let (memory, places) = (BUDGET.permits(&task.hash)?, task.places(&password));
        let username = account.as_str().to_owned();
        let (is_known_device, shares) = match asker {
            Asker::KnownDevice => (true, vec![Share::KnownDevices(username)]),
            Asker::Stranger(network) => {
                let network = Share::Network(network.to_vec());
                (false, vec![Share::Account(username), network])
            }
        };
        if !Lane::of(is_known_device).any(|lane| lane.has_room(places)) {
            return Err(PasswordError::Busy);
        }
        let shares = shares.into_iter();
        let counted = shares.map(|share| Counted::begin(share, places));
        Ok(Self {
            is_known_device,
            counted: counted.collect::<Result<_, _>>()?,
            task,
            password,
            memory,
            places,
        })
    }

    /// Takes places in the first lane with room.
    ///
    /// # Errors
    /// [`PasswordError::Busy`] if all lanes are full.
    pub(super) fn queue(self) -> Result<Turn, PasswordError> {
        let mut lanes = Lane::of(self.is_known_device);
        let found = lanes.find_map(|lane| {
            let places = lane.free_places.try_acquire_many(lane.fitting(self.places));
            Some((lane, places.ok()?))
        });
        let (lane, places) = found.ok_or(PasswordError::Busy)?;
        Ok(Turn {
            request: self,
            lane,
            places,
            waiting: Waiting::begin(),
        })
    }
}

/// Places in the queue for password checks. Checks run outside the async workers, as many at a time as there is memory.
#[must_use]
pub(super) struct Turn {
    request: Request,
    lane: &'static Lane,
    places: SemaphorePermit<'static>,
    waiting: Waiting,
}

impl Turn {
    /// Checks the password.
    ///
    /// # Errors
    /// [`PasswordError::Busy`] if no turn came in time, [`PasswordError::Failed`] if the library fails.
    pub(super) async fn check(self) -> Result<Checked, PasswordError> {
        let Self {
            request,
            lane,
            places,
            waiting,
        } = self;
        let turn = async {
            let turn = lane.free_turns.acquire().await;
            let turn = turn.map_err(|_| PasswordError::Failed)?;
            Ok((turn, memory(request.memory).await?))
        };
        let turn = timeout(LONGEST_WAIT, turn).await;
        let (turn, memory) = turn.map_err(|_| PasswordError::Busy)??;
        drop(waiting);
        let checked = on_thread(memory, move || {
            // Held until the work is done, even if the client has disconnected.
            let _held = (places, request.counted, turn);
            request.task.check(&request.password)
        });
        let span = tracing::info_span!("hash password", otel.kind = "internal");
        checked.instrument(span).await?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_verifies_its_password_alone() {
        let hashed = hash("correct horse").unwrap();
        assert!(hashed.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
        assert_eq!(verify("correct horse", &hashed), Ok(true));
        assert_eq!(verify("correct horse ", &hashed), Ok(false));
        assert_eq!(verify("", &hashed), Ok(false));
        assert_eq!(verify("correct horse", "plain"), Err(PasswordError::Failed));
        assert_ne!(hash("correct horse").unwrap(), hashed, "salts are random");
    }

    fn key() -> EncryptionKey {
        EncryptionKey::new(&[7; 32]).unwrap()
    }

    fn task(stored: Option<&str>, username: &str, schemes: &[UsedScheme]) -> Task {
        let task = Task::of(stored, &Account::of(username), schemes, &key());
        task.ok().unwrap()
    }

    fn begin(
        username: &str,
        asker: Asker<'_>,
        stored: Option<&str>,
    ) -> Result<Request, PasswordError> {
        let (account, task) = (Account::of(username), task(stored, username, &[]));
        Request::begin(&account, asker, task, "x".to_owned().into())
    }

    fn used(scheme: &str, users: u64) -> UsedScheme {
        UsedScheme {
            scheme: scheme.to_owned(),
            users,
        }
    }

    #[test]
    fn the_budget_of_memory_follows_cores_and_limit() {
        let mib = |mib: u64| Some(mib << 20);
        let budget = |all, one| Budget { all, one };
        assert_eq!(Budget::of(2, mib(512)), budget(38, 128));
        assert_eq!(Budget::of(32, mib(512)), budget(128, 128));
        assert_eq!(Budget::of(32, mib(512)).hashes(), 6);
        assert_eq!(Budget::of(32, mib(64 * 1024)), budget(608, 16 * 1024));
        assert_eq!(Budget::of(8, mib(32)), budget(19, 19), "one check");
        assert_eq!(Budget::of(1, None), budget(19, u32::MAX));

        let of = |scheme: &str| read(&decoy(scheme)).unwrap_or_else(|_| panic!("{scheme}"));
        let (own, large) = (of(SCHEME), of("$argon2id$v=19$m=65536,t=4,p=1"));
        let cheap = of("$bcrypt$r=10");
        let two_cores = Budget::of(2, mib(512));
        assert_eq!(two_cores.permits(&own), Ok(19));
        assert_eq!(two_cores.permits(&cheap), Ok(19), "a new hash may follow");
        assert_eq!(two_cores.permits(&large), Ok(38), "alone");
        assert_eq!(Budget::of(8, mib(512)).permits(&large), Ok(64));
        let small = Budget::of(8, mib(192));
        let too_large = PasswordError::TooLarge {
            needed: 64,
            most: 48,
        };
        assert_eq!(small.permits(&large), Err(too_large));
        let problem = too_large.to_string();
        assert!(problem.starts_with("needs 64 MiB of memory: "), "{problem}");
        let scheme = "$argon2id$v=19$m=65536,t=4,p=1";
        assert_eq!(small.registered(&decoy(scheme)), Err(problem));
        assert_eq!(two_cores.registered(&decoy(scheme)), Ok(decoy(scheme)));
        let stored = [used(SCHEME, 3), used(scheme, 1)];
        assert_eq!(small.unfit(&stored), Some((&stored[1], too_large)));
        assert_eq!(two_cores.unfit(&stored), None);
    }

    /// Every check computes one hash. The schemes of names without a hash have the same shares as those of the users.
    #[test]
    fn the_work_of_a_check_does_not_show_whether_a_name_is_registered() {
        let (dear, cheap) = ("$argon2id$v=19$m=65536,t=4,p=1", "$pbkdf2-sha1$i=1000");
        let schemes = [used(dear, 100), used(SCHEME, 300), used(cheap, 100)];
        let of = |username: &str| {
            let task = task(None, username, &schemes);
            assert!(!task.is_stored);
            let text = task.hash.to_string();
            password_hash::scheme(&text).map(ToOwned::to_owned).unwrap()
        };
        let names: Vec<String> = (0..1000).map(|number| format!("nobody{number}")).collect();
        for (scheme, share) in [(dear, 200), (SCHEME, 600), (cheap, 200)] {
            let found = names.iter().filter(|name| of(name) == scheme).count();
            assert!(found.abs_diff(share) < 60, "{found} names with {scheme}");
        }
        assert_eq!(of("Nobody"), of(" nobody "), "one account, one scheme");
        assert_eq!(of("nobody"), of("NOBODY"), "one account, one scheme");
        let stored = hash("x").unwrap();
        let known = task(Some(&stored), "ada", &schemes);
        assert!(known.is_stored && known.hash.to_string() == stored);
        assert_eq!(task(None, "ada", &[]).hash.to_string(), decoy(SCHEME));
    }

    /// A user without a password gets the same answer, because no password matches a decoy.
    #[tokio::test]
    async fn without_a_stored_hash_nothing_is_right() {
        assert_eq!(password_hash::scheme(&hash("x").unwrap()), Some(SCHEME));
        assert_eq!(verify("x", &decoy(SCHEME)), Ok(false), "readable");
        let check = async |stored: Option<&str>| {
            let turn = begin("ada", Asker::KnownDevice, stored)?.queue()?;
            turn.check().await.map(|checked| checked.right)
        };
        assert_eq!(check(None).await, Ok(false));
        assert_eq!(check(Some(&hash("x").unwrap())).await, Ok(true));
        // Nor does the account whose password the decoy would have.
        let known = Task {
            hash: read(&hash("x").unwrap()).ok().unwrap(),
            is_stored: false,
        };
        assert_eq!(known.check("x").map(|checked| checked.right), Ok(false));
    }

    #[test]
    fn the_right_password_gets_our_hash_where_the_stored_one_is_weak_or_of_another_scheme() {
        let check = |stored: &str, password: &str| task(Some(stored), "ada", &[]).check(password);
        let of = |scheme: &str, password: &str| {
            let hash = read(&decoy(scheme))
                .ok()?
                .of(password, b"0123456789abcdef".to_vec());
            hash.map(|hash| hash.to_string())
        };
        let weak = of("$argon2id$v=19$m=8192,t=1,p=1", "x").unwrap();
        let stronger = check(&weak, "x").unwrap().stronger.unwrap();
        assert_eq!(verify("x", &stronger), Ok(true));
        assert!(check(&stronger, "x").unwrap().stronger.is_none());
        let wrong = Ok(Checked {
            right: false,
            stronger: None,
        });
        assert_eq!(check(&weak, "y"), wrong);
        let bcrypt = "bcrypt$$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
        let imported = password_hash::normal(bcrypt).unwrap();
        assert_eq!(check(&imported, "y"), wrong);
        let ours = check(&imported, "U*U").unwrap().stronger.unwrap();
        assert_eq!(password_hash::scheme(&ours), Some(SCHEME));
        assert_eq!(verify("U*U", &ours), Ok(true));
    }

    /// One keyboard sends "é" as one character, another as two; and full-width letters come from Asian keyboards.
    #[test]
    fn a_password_is_right_in_every_spelling_of_its_letters() {
        let (composed, decomposed) = ("caf\u{e9}-5", "cafe\u{301}-\u{ff15}");
        for registered in [composed, decomposed] {
            let hashed = hash(registered).unwrap();
            for typed in [composed, decomposed] {
                let checked = task(Some(&hashed), "ada", &[]).check(typed).unwrap();
                assert!(checked.right && checked.stronger.is_none());
                assert_eq!(verify(typed, &hashed), Ok(true));
            }
            assert_eq!(verify("cafe-5", &hashed), Ok(false));
        }
        // Another server hashed what was typed. The first sign-in replaces the hash by that of the normal spelling.
        let imported = read(&decoy(SCHEME)).ok().unwrap();
        let imported = imported.of(decomposed, vec![0; SALT]).unwrap();
        let imported = task(Some(&imported.to_string()), "ada", &[]);
        assert!(!imported.check(composed).unwrap().right);
        let ours = imported.check(decomposed).unwrap().stronger.unwrap();
        assert_eq!(verify(composed, &ours), Ok(true));
        let places = |password| task(None, "ada", &[]).places(password);
        assert_eq!((places(composed), places(decomposed)), (1, 2));
    }

    /// One account fills no lane, and known devices use the other lane when theirs is full.
    #[tokio::test]
    async fn known_devices_of_one_account_leave_room_for_others() {
        let queue = |username| begin(username, Asker::KnownDevice, None)?.queue();
        let turns = [queue("mallory"), queue("mallory")];
        assert!(turns.iter().all(Result::is_ok));
        assert_eq!(queue("mallory").err(), Some(PasswordError::Busy));
        drop(turns);
        assert!(queue("mallory").is_ok());

        let places = u32::try_from(KNOWN_DEVICES.places).unwrap();
        // Other tests use the lane at the same time.
        let all = KNOWN_DEVICES.free_places.acquire_many(places).await;
        let turn = queue("ada").unwrap();
        assert!(std::ptr::eq(turn.lane, &raw const *STRANGERS));
        drop(all.unwrap());
        let turn = queue("ada").unwrap();
        assert!(std::ptr::eq(turn.lane, &raw const *KNOWN_DEVICES));
    }

    /// Neither one account in many networks nor one network with many accounts fills the lane of unknown browsers. What
    /// counts is the work: a hash that takes twelve times as long takes as many places.
    #[tokio::test]
    async fn strangers_of_one_account_or_network_leave_room_for_others() {
        let dear = decoy("$pbkdf2-sha256$i=1219000");
        for (stored, weight) in [(None, 1), (Some(&*dear), 12)] {
            let queue = |username: String, network: u32| {
                begin(&username, Asker::Stranger(&network.to_be_bytes()), stored)?.queue()
            };
            let places = strangers_places();
            let of_one_account = (0..1000).map(|network| queue("mallory".into(), network));
            let of_one_network = (0..1000).map(|number| queue(format!("m{number}"), 1001));
            let taken: Vec<Turn> = of_one_account.map_while(Result::ok).collect();
            assert_eq!(taken.len(), places / 4 / weight);
            assert!(queue("ada".into(), 1).is_ok());
            drop(taken);
            let taken: Vec<Turn> = of_one_network.map_while(Result::ok).collect();
            assert_eq!(taken.len(), places / 2 / weight);
            let seconds = taken.len() * weight * 40 / BUDGET.hashes();
            assert!(seconds <= 2000, "{seconds} ms of work");
            assert!(queue("ada".into(), 1).is_ok());
            drop(taken);
            assert!(queue("mallory".into(), 1001).is_ok(), "given back");
        }
    }

    /// The most expensive hash has more places than an account on a single core, and is checked all the same.
    #[test]
    fn the_first_check_always_has_room() {
        let share = || Share::Account("of the first check".into());
        let first = Counted::begin(share(), u32::MAX).unwrap();
        assert!(Counted::begin(share(), 1).is_err());
        drop(first);
        assert!(Counted::begin(share(), 1).is_ok());
        let lane = Lane::new(1, 2);
        assert_eq!(lane.fitting(u32::MAX), 2);
        let _taken = lane.free_places.try_acquire().unwrap();
        assert!(!lane.has_room(u32::MAX) && lane.has_room(1));
    }

    /// However many checks there are, they hold no more memory than the budget.
    #[tokio::test]
    async fn checks_wait_for_memory() {
        let all = MEMORY.acquire_many(BUDGET.all).await.unwrap();
        let turn = begin("memory", Asker::KnownDevice, None).unwrap();
        let mut check = std::pin::pin!(turn.queue().unwrap().check());
        tokio::select! {
            biased;
            _ = &mut check => panic!("there is no memory"),
            () = std::future::ready(()) => assert!(waiting() > 0),
        }
        drop(all);
        assert!(check.await.is_ok());
    }
}
