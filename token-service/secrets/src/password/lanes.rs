//! Queues for password checks and for chosen passwords, bounded by work.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tracing::Instrument as _;
use zeroize::Zeroizing;

use super::budget::{BUDGET, memory, on_thread};
use super::choice::{Choice, Chosen};
use super::{Account, Checked, PasswordError, Task};
use domain::digest::Digest;

/// Places in the queues of the lanes for checks, for each hash that runs at the same time: about 5 s of work.
const QUEUE: usize = 128;

/// Longest time that a password waits for its check or its hash.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// A queue for passwords, one for the whole process. Known devices have their own queue, so that they neither wait for unknown
/// browsers nor find the queue full. So have people who set a password.
struct Lane {
    /// Number of checks that run or wait for memory: few, so that the other lanes soon get memory.
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

/// As many people may set a password at once as wait for [`LONGEST_WAIT`].
static CHOOSERS: LazyLock<Lane> = LazyLock::new(|| {
    let turns = BUDGET.hashes();
    Lane::new(turns, turns + queue() * 2)
});

/// Who waits for a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Queue {
    KnownDevice,
    Stranger,
    Chooser,
}

impl Queue {
    /// The lanes for these browsers, the preferred lane first. Unknown browsers never use the lane of known devices, or they
    /// could fill both lanes.
    fn lanes(self) -> impl Iterator<Item = &'static Lane> {
        let (preferred, other) = match self {
            Self::KnownDevice => (&*KNOWN_DEVICES, Some(&*STRANGERS)),
            Self::Stranger => (&*STRANGERS, None),
            Self::Chooser => (&*CHOOSERS, None),
        };
        [preferred].into_iter().chain(other)
    }
}

impl Lane {
    const fn new(turns: usize, places: usize) -> Self {
        Self {
            free_turns: Semaphore::const_new(turns),
            places,
            free_places: Semaphore::const_new(places),
        }
    }

    /// A hash that is larger than the lane waits until the lane is empty.
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

/// A password that waits for its check or its hash.
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

/// Number of passwords that wait for their check or their hash, in all lanes.
#[must_use]
pub fn waiting() -> usize {
    WAITING.load(Ordering::Relaxed)
}

/// What checks count for, so that no single person or network fills a lane. Right passwords are never slowed down, so the delays of
/// guesses do not prevent this.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Share {
    /// All known devices of this account, because a person can make any number of devices known.
    KnownDevices(String),
    /// This account in all unknown browsers.
    Account(String),
    /// All unknown browsers in this network.
    Network(Vec<u8>),
    /// This way to set the password of one person, such as a link.
    Choices([u8; 32]),
    /// All browsers in this network in which people set passwords.
    NetworkOfChoices(Vec<u8>),
}

impl Share {
    /// Maximum number of places at a time, including the places of waiting checks.
    fn most(&self) -> usize {
        let places = strangers_places();
        match self {
            Self::KnownDevices(_) | Self::Choices(_) => 2,
            // Half of the lane: after an import or a forced change a whole office may set passwords at once.
            Self::NetworkOfChoices(_) => queue(),
            // A second of work.
            Self::Account(_) => places / 4,
            // A whole office may sign in from one address: two seconds of work.
            Self::Network(_) => places / 2,
        }
    }

    /// The places that count: of known devices and choices, their number.
    const fn counted(&self, places: u32) -> usize {
        match self {
            Self::KnownDevices(_) | Self::Choices(_) => 1,
            Self::Account(_) | Self::Network(_) | Self::NetworkOfChoices(_) => places as usize,
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

type Work<T> = Box<dyn FnOnce() -> Result<T, PasswordError> + Send>;

/// Work with a password that may be queued once the attempt is admitted.
#[must_use]
pub struct Request<T> {
    queue: Queue,
    work: Work<T>,
    memory: u32,
    places: u32,
    counted: Vec<Counted>,
}

impl Request<Checked> {
    /// Decides without a write whether there is room for a check for `asker` and the account.
    ///
    /// # Errors
    /// [`PasswordError::Busy`] if there is no room, [`PasswordError::TooLarge`] if there never is.
    pub fn begin(
        account: &Account,
        asker: Asker<'_>,
        task: Task,
        password: Zeroizing<String>,
    ) -> Result<Self, PasswordError> {
        let username = account.as_str().to_owned();
        let (queue, shares) = match asker {
            Asker::KnownDevice => (Queue::KnownDevice, vec![Share::KnownDevices(username)]),
            Asker::Stranger(network) => {
                let network = Share::Network(network.to_vec());
                (Queue::Stranger, vec![Share::Account(username), network])
            }
        };
        let (memory, places) = (BUDGET.permits(&task.hash)?, task.places(&password));
        let work = Box::new(move || task.check(&password));
        Self::of(queue, shares, memory, places, work)
    }
}

impl Request<Chosen> {
    /// Decides without a write whether there is room for a chosen password. `way`: the link, or the browser, with which the person
    /// sets the password; nobody else waits for its turn.
    ///
    /// # Errors
    /// As for [`Request::begin`].
    pub fn choose(way: Digest, network: &[u8], choice: Choice) -> Result<Self, PasswordError> {
        let network = Share::NetworkOfChoices(network.to_vec());
        let shares = vec![Share::Choices(*way.as_bytes()), network];
        let (memory, places) = choice.needs()?;
        let work = Box::new(move || choice.decide());
        Self::of(Queue::Chooser, shares, memory, places, work)
    }
}

impl<T: Send + 'static> Request<T> {
    fn of(
        queue: Queue,
        shares: Vec<Share>,
        memory: u32,
        places: u32,
        work: Work<T>,
    ) -> Result<Self, PasswordError> {
        if !queue.lanes().any(|lane| lane.has_room(places)) {
            return Err(PasswordError::Busy);
        }
        let shares = shares.into_iter();
        let counted = shares.map(|share| Counted::begin(share, places));
        Ok(Self {
            queue,
            counted: counted.collect::<Result<_, _>>()?,
            work,
            memory,
            places,
        })
    }

    /// Takes places in the first lane with room.
    ///
    /// # Errors
    /// [`PasswordError::Busy`] if all lanes are full.
    pub fn queue(self) -> Result<Turn<T>, PasswordError> {
        let found = self.queue.lanes().find_map(|lane| {
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

/// Places in the queue for passwords. The work runs outside the async workers, as much at a time as there is memory.
#[must_use]
pub struct Turn<T> {
    request: Request<T>,
    lane: &'static Lane,
    places: SemaphorePermit<'static>,
    waiting: InQueue,
}

impl<T: Send + 'static> Turn<T> {
    /// Does the work.
    ///
    /// # Errors
    /// [`PasswordError::Busy`] if no turn came in time, [`PasswordError::Failed`] if the library fails.
    pub async fn run(self) -> Result<T, PasswordError> {
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
        let done = on_thread(memory, move || {
            // Held until the work is done, even if the client has disconnected.
            let _held = (places, request.counted, turn);
            (request.work)()
        });
        let span = tracing::info_span!("hash password", otel.kind = "internal");
        done.instrument(span).await?
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
        let mut lanes = Queue::Stranger.lanes();
        assert!(lanes.all(|lane| std::ptr::eq(lane, &raw const *STRANGERS)));
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
            let taken: Vec<Turn<_>> = of_one_account.map_while(Result::ok).collect();
            assert_eq!(taken.len(), places / 4 / weight);
            assert!(queue("ada".into(), 1).is_ok());
            drop(taken);
            let taken: Vec<Turn<_>> = of_one_network.map_while(Result::ok).collect();
            assert_eq!(taken.len(), places / 2 / weight);
            let seconds = taken.len() * weight * 40 / BUDGET.hashes();
            assert!(seconds <= 2000, "{seconds} ms of work");
            assert!(queue("ada".into(), 1).is_ok());
            drop(taken);
            assert!(queue("mallory".into(), 1001).is_ok(), "given back");
        }
    }

    /// Neither one link nor one network keeps others from setting a password, and none of them takes a place of those who sign in.
    #[tokio::test]
    async fn choices_of_one_link_or_network_leave_room_for_others() {
        let choose = |link: u32, network: u32| {
            let way = Digest::of(&link.to_be_bytes());
            let choice = Choice {
                password: "rope under eleven moons".to_owned().into(),
                present: None,
            };
            Request::choose(way, &network.to_be_bytes(), choice)?.queue()
        };
        let of_one_link = (0..1000).map(|network| choose(0, network));
        let taken: Vec<Turn<_>> = of_one_link.map_while(Result::ok).collect();
        assert_eq!(taken.len(), 2);
        let of_one_network = (1..10_000).map(|link| choose(link, 1001));
        let office: Vec<Turn<_>> = of_one_network.map_while(Result::ok).collect();
        assert_eq!(office.len(), queue());
        let strangers = Queue::Stranger.lanes().chain(Queue::KnownDevice.lanes());
        let mut places = strangers.map(std::ptr::from_ref);
        assert!(places.all(|lane| lane != &raw const *CHOOSERS));
        assert_eq!(
            CHOOSERS.free_places.available_permits(),
            CHOOSERS.places - 2 - queue()
        );
        let elsewhere = choose(10_000, 1).unwrap();
        drop((taken, office));
        let chosen = elsewhere.run().await;
        assert!(matches!(chosen, Ok(Chosen::Hash(_))));
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
        let mut check = std::pin::pin!(turn.queue().unwrap().run());
        tokio::select! {
            biased;
            _ = &mut check => panic!("there is no memory"),
            () = std::future::ready(()) => assert!(waiting() > 0),
        }
        drop(all);
        assert!(check.await.is_ok());
    }
}
