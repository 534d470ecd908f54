//! Queues for password checks, bounded by work.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tracing::Instrument as _;
use zeroize::Zeroizing;

use super::budget::{BUDGET, memory, on_thread};
use super::{Account, Checked, PasswordError, Task};

/// Places in the queues of both lanes, for each hash that runs at the same time: about 5 s of work.
const QUEUE: usize = 128;

/// Longest time that a password waits for its check.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// A queue for password checks, one for the whole process. Known devices have their own queue, so that they
/// neither wait for unknown browsers nor find the queue full.
struct Lane {
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
struct InQueue;

static WAITING: AtomicUsize = AtomicUsize::new(0);

impl InQueue {
    fn begin() -> Self {
        WAITING.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for InQueue {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Number of passwords that wait for their check, in both lanes.
#[must_use]
pub fn waiting() -> usize {
    WAITING.load(Ordering::Relaxed)
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
pub enum Asker<'a> {
    /// A known device of the account.
    KnownDevice,
    /// An unknown browser in this network.
    Stranger(&'a [u8]),
}

/// A check that may be queued once the attempt is admitted.
#[must_use]
pub struct Request {
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
    pub fn begin(
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
    pub fn queue(self) -> Result<Turn, PasswordError> {
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
            waiting: InQueue::begin(),
        })
    }
}

/// Places in the queue for password checks. Checks run outside the async workers, as many at a time as there is memory.
#[must_use]
pub struct Turn {
    request: Request,
    lane: &'static Lane,
    places: SemaphorePermit<'static>,
    waiting: InQueue,
}

impl Turn {
    /// Checks the password.
    ///
    /// # Errors
    /// [`PasswordError::Busy`] if no turn came in time, [`PasswordError::Failed`] if the library fails.
    pub async fn check(self) -> Result<Checked, PasswordError> {
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
    use super::super::budget::MEMORY;
    use super::super::decoy;
    use super::super::tests::begin;
    use super::*;

    #[test]
    fn strangers_never_use_the_lane_of_known_devices() {
        assert!(Lane::of(false).all(|lane| std::ptr::eq(lane, &raw const *STRANGERS)));
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
