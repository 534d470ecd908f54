//! Passwords: argon2id with the parameters that OWASP recommends (19 MiB, 2 passes, 1 lane). Hashes from another server
//! are checked by their own scheme, and replaced when their password is right.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;

use argon2::password_hash::PasswordHasher as _;
use argon2::{Algorithm, Argon2, Params, Version};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::Instrument as _;
use zeroize::Zeroizing;

use domain::password_hash::{self, PasswordHash};

/// Algorithm, version and parameters of [`hash`], as in the PHC string.
const SCHEME: &str = "$argon2id$v=19$m=19456,t=2,p=1";

/// Random salt and hash that the service verifies when a user has no stored hash. No known password matches them.
const DECOY: &str = "$yDktG0K1Tk7h22spOXgPmA$GwMwFfwe0CGKrYdcHstP/5MtuYHf/9JfVYWUA0OXABc";

/// Maximum number of waiting passwords per core. Further passwords are refused at once.
const QUEUE: usize = 64;

/// Longest time that a password waits for its check.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// A queue for password checks, one for the whole process. Known devices have a queue of their own, so that they
/// neither wait for unknown browsers nor find the queue full.
pub(super) struct Lane {
    /// Number of hashes at the same time. Each takes one core and at least 19 MiB.
    free_turns: Semaphore,
    /// Maximum number of waiting passwords.
    queue: usize,
    /// Free places, for waiting checks and running checks together.
    free_places: Semaphore,
}

static STRANGERS: LazyLock<Lane> = LazyLock::new(|| Lane::new(cores(), strangers_queue()));

static KNOWN_DEVICES: LazyLock<Lane> =
    LazyLock::new(|| Lane::new(cores().div_ceil(2), queue() / 4));

impl Lane {
    const fn new(turns: usize, queue: usize) -> Self {
        Self {
            free_turns: Semaphore::const_new(turns),
            queue,
            free_places: Semaphore::const_new(turns + queue),
        }
    }

    /// The lanes for known devices or for unknown browsers, the preferred lane first. Unknown browsers never use the lane
    /// of known devices, or they could fill both lanes.
    fn of(known_device: bool) -> impl Iterator<Item = &'static Self> {
        let own = known_device.then(|| &*KNOWN_DEVICES);
        own.into_iter().chain([&*STRANGERS])
    }

    fn is_full(&self) -> bool {
        self.free_places.available_permits() == 0
    }

    fn waiting(&self) -> usize {
        (self.queue + self.free_turns.available_permits())
            .saturating_sub(self.free_places.available_permits())
    }
}

fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

fn queue() -> usize {
    cores() * QUEUE
}

fn strangers_queue() -> usize {
    queue() - queue() / 4
}

/// Number of passwords that wait for their check, in both lanes.
#[must_use]
pub fn waiting() -> usize {
    STRANGERS.waiting() + KNOWN_DEVICES.waiting()
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
}

fn argon2id() -> Argon2<'static> {
    Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::DEFAULT)
}

/// Hashes `password` with a random salt and returns an argon2id PHC string. Takes tens of milliseconds.
///
/// # Errors
/// [`PasswordError::Failed`] if the library fails.
pub fn hash(password: &str) -> Result<String, PasswordError> {
    argon2id()
        .hash_password(password.as_bytes())
        .map(|hash| hash.to_string())
        .map_err(|_| PasswordError::Failed)
}

/// True if `password` matches `hash`. Takes tens of milliseconds; compares in constant time.
///
/// # Errors
/// [`PasswordError::Failed`] if `hash` is unreadable.
pub fn verify(password: &str, hash: &str) -> Result<bool, PasswordError> {
    let hash = PasswordHash::read(hash).map_err(|_| PasswordError::Failed)?;
    Ok(hash.is_of(password))
}

/// True if `hash` is not argon2id or its parameters are weaker than those of [`hash`], and `password` is all of what its
/// owner chose, not its beginning with something else behind it.
fn is_outdated(hash: &str, password: &str) -> bool {
    let parameters = Params::DEFAULT;
    let least = u64::from(parameters.m_cost()) * u64::from(parameters.t_cost());
    PasswordHash::read(hash)
        .is_ok_and(|hash| !hash.is_argon2id_of(least) && hash.reads_all_of(password))
}

/// The hashes to verify for a user with the hash `stored`, or without a hash: for each of `schemes` the stored hash or
/// a decoy. So the response time does not show whether a user is registered.
fn work_for(stored: Option<&str>, schemes: &[String]) -> Vec<String> {
    let own = stored.and_then(password_hash::scheme);
    let schemes = schemes.iter().map(String::as_str);
    // Ours is always there: people whose hash was just replaced have it.
    let ours =
        std::iter::once(SCHEME).filter(|ours| !schemes.clone().any(|scheme| scheme == *ours));
    let hashes = schemes.clone().chain(ours).map(|scheme| match stored {
        Some(stored) if own == Some(scheme) => stored.to_owned(),
        _ => format!("{scheme}{DECOY}"),
    });
    let mut hashes: Vec<String> = hashes.collect();
    // The user was registered a moment ago, or before the bounds on schemes existed.
    let unlisted = stored.filter(|stored| !hashes.iter().any(|hash| hash == stored));
    hashes.extend(unlisted.map(ToOwned::to_owned));
    hashes
}

/// Result of a password check.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Checked {
    pub(super) right: bool,
    /// A new hash of the right password, if the stored hash is outdated.
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
    /// Maximum number of checks at a time, waiting checks included.
    fn most(&self) -> usize {
        let places = cores() + strangers_queue();
        match self {
            Self::KnownDevices(_) => 2,
            Self::Account(_) => places / 4,
            // A whole office may sign in from one address.
            Self::Network(_) => places / 2,
        }
    }
}

/// Number of checks of each share.
static IN_FLIGHT: Mutex<BTreeMap<Share, usize>> = Mutex::new(BTreeMap::new());

/// A check of this share, counted until it is dropped.
struct Counted(Share);

impl Counted {
    fn begin(share: Share) -> Result<Self, PasswordError> {
        let mut counts = Self::counts();
        let count = counts.entry(share.clone()).or_default();
        if *count >= share.most() {
            return Err(PasswordError::Busy);
        }
        *count += 1;
        Ok(Self(share))
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
            Some(count) if *count > 1 => *count -= 1,
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
    counted: Vec<Counted>,
}

impl Request {
    /// Decides without a write whether there is room for `asker` and the account `username`.
    ///
    /// # Errors
    /// [`PasswordError::Busy`] if there is no room.
    pub(super) fn begin(username: &str, asker: Asker<'_>) -> Result<Self, PasswordError> {
        let username = username.to_owned();
        let (is_known_device, shares) = match asker {
            Asker::KnownDevice => (true, vec![Share::KnownDevices(username)]),
            Asker::Stranger(network) => {
                let network = Share::Network(network.to_vec());
                (false, vec![Share::Account(username), network])
            }
        };
        if Lane::of(is_known_device).all(Lane::is_full) {
            return Err(PasswordError::Busy);
        }
        let counted = shares.into_iter().map(Counted::begin);
        Ok(Self {
            is_known_device,
            counted: counted.collect::<Result<_, _>>()?,
        })
    }

    /// Takes a place in the first lane with room.
    ///
    /// # Errors
    /// [`PasswordError::Busy`] if all lanes are full.
    pub(super) fn queue(self) -> Result<Turn, PasswordError> {
        let mut lanes = Lane::of(self.is_known_device);
        let turn = lanes.find_map(|lane| Turn::queue(lane).ok());
        Ok(Turn {
            counted: self.counted,
            ..turn.ok_or(PasswordError::Busy)?
        })
    }
}

/// A place in the queue for password checks. Checks run outside the async workers, a limited number at a time.
#[must_use]
pub(super) struct Turn {
    lane: &'static Lane,
    place: SemaphorePermit<'static>,
    counted: Vec<Counted>,
}

impl Turn {
    /// Takes a place.
    ///
    /// # Errors
    /// [`PasswordError::Busy`] if the queue is full.
    fn queue(lane: &'static Lane) -> Result<Self, PasswordError> {
        let place = lane.free_places.try_acquire();
        let place = place.map_err(|_| PasswordError::Busy)?;
        Ok(Self {
            lane,
            place,
            counted: Vec::new(),
        })
    }

    /// Like [`verify`]. Hashes for all `schemes` ([`domain::RegistrySummary::password_schemes`]), so the work is the same with
    /// and without a stored hash.
    ///
    /// # Errors
    /// [`PasswordError::Busy`] if no turn came in time, [`PasswordError::Failed`] as for [`verify`].
    pub(super) async fn check(
        self,
        stored: Option<String>,
        password: Zeroizing<String>,
        schemes: Arc<[String]>,
    ) -> Result<Checked, PasswordError> {
        let turn = timeout(LONGEST_WAIT, self.lane.free_turns.acquire())
            .await
            .map_err(|_| PasswordError::Busy)?
            .map_err(|_| PasswordError::Failed)?;
        spawn_blocking(move || {
            // Held until the work is done, even if the client has disconnected.
            let _held = (self.place, self.counted, turn);
            let mut right = Ok(false);
            for hash in work_for(stored.as_deref(), &schemes) {
                let verified = verify(&password, &hash);
                if stored.as_ref() == Some(&hash) {
                    right = verified;
                }
            }
            let right = right?;
            let Some(stored) = stored.filter(|_| right) else {
                return Ok(Checked {
                    right: false,
                    stronger: None,
                });
            };
            let stronger = is_outdated(&stored, &password)
                .then(|| hash(&password))
                .transpose()?;
            Ok(Checked {
                right: true,
                stronger,
            })
        })
        .instrument(tracing::info_span!("hash password", otel.kind = "internal"))
        .await
        .map_err(|_| PasswordError::Failed)?
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

    /// A user without a password gets the same answer after the same work, because of the decoy's parameters.
    #[tokio::test]
    async fn without_a_stored_hash_nothing_is_right() {
        assert_eq!(password_hash::scheme(&hash("x").unwrap()), Some(SCHEME));
        let decoy = format!("{SCHEME}{DECOY}");
        assert_eq!(verify("x", &decoy), Ok(false), "the decoy is readable");
        let check = async |stored| {
            let turn = Turn::queue(&STRANGERS).unwrap();
            let checked = turn.check(stored, "x".to_owned().into(), [].into()).await;
            checked.map(|checked| checked.right)
        };
        assert_eq!(check(None).await, Ok(false));
        assert_eq!(check(Some(hash("x").unwrap())).await, Ok(true));
    }

    /// For every username, the service computes one hash of each scheme.
    #[test]
    fn every_check_does_the_same_work() {
        let of =
            |scheme: &str| format!("{scheme}$c2FsdHNhbHRzYWx0c2FsdA$GwMwFfwe0CGKrYdcHstP/5MtuYHf");
        let registered = [
            "$argon2id$v=19$m=65536,t=4,p=1",
            "$scrypt$ln=14,r=8,p=1",
            "$bcrypt$r=10",
            SCHEME,
            "$pbkdf2-sha512$i=210000",
            "$bcrypt-sha256-hex$r=4",
            "$pbkdf2-sha1$i=1000",
            "$argon2i$v=19$m=4096,t=1,p=1",
        ];
        let schemes = registered.map(ToOwned::to_owned);
        let work = |stored: Option<&str>| -> Vec<String> {
            let hashes = work_for(stored, &schemes);
            let schemes = hashes
                .iter()
                .map(|hash| password_hash::scheme(hash).unwrap());
            schemes.map(ToOwned::to_owned).collect()
        };
        assert_eq!(work(None), registered);
        for scheme in registered {
            let stored = of(scheme);
            assert_eq!(work(Some(&stored)), registered);
            assert!(work_for(Some(&stored), &schemes).contains(&stored));
        }
        assert_eq!(work_for(None, &[]), [format!("{SCHEME}{DECOY}")]);
        let unlisted = of("$argon2id$v=19$m=8192,t=1,p=1");
        assert_eq!(work_for(Some(&unlisted), &schemes).last(), Some(&unlisted));
        // The decoy of each scheme does all of the work.
        for scheme in registered {
            let decoy = PasswordHash::read(&format!("{scheme}{DECOY}")).map(|hash| hash.work());
            let stored = PasswordHash::read(&of(scheme)).map(|hash| hash.work());
            assert_eq!(decoy, stored);
            assert!(stored.is_ok_and(|work| work > 0));
        }
    }

    #[tokio::test]
    async fn the_right_password_gets_our_hash_where_the_stored_one_is_weak_or_of_another_scheme() {
        let check = async |stored: &str, password: &str| {
            let turn = Turn::queue(&STRANGERS).unwrap();
            let password = password.to_owned().into();
            let checked = turn.check(Some(stored.to_owned()), password, [].into());
            checked.await.unwrap()
        };
        let weak = Params::new(8 * 1024, 1, 1, None).unwrap();
        let weak = Argon2::new(Algorithm::Argon2id, Version::V0x13, weak)
            .hash_password(b"x")
            .unwrap()
            .to_string();
        let stronger = check(&weak, "x").await.stronger.unwrap();
        assert_eq!(verify("x", &stronger), Ok(true));
        assert!(check(&stronger, "x").await.stronger.is_none());
        let wrong = Checked {
            right: false,
            stronger: None,
        };
        assert_eq!(check(&weak, "y").await, wrong);
        let bcrypt = "bcrypt$$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
        let imported = password_hash::normal(bcrypt).unwrap();
        assert_eq!(check(&imported, "y").await, wrong);
        let ours = check(&imported, "U*U").await.stronger.unwrap();
        assert_eq!(password_hash::scheme(&ours), Some(SCHEME));
        assert_eq!(verify("U*U", &ours), Ok(true));
    }

    /// One account fills no lane, and known devices use the other lane when theirs is full.
    #[tokio::test]
    async fn known_devices_of_one_account_leave_room_for_others() {
        let queue = |username| Request::begin(username, Asker::KnownDevice)?.queue();
        let turns = [queue("mallory"), queue("mallory")];
        assert!(turns.iter().all(Result::is_ok));
        assert_eq!(queue("mallory").err(), Some(PasswordError::Busy));
        drop(turns);
        assert!(queue("mallory").is_ok());

        let places = KNOWN_DEVICES.queue + KNOWN_DEVICES.free_turns.available_permits();
        let all = KNOWN_DEVICES
            .free_places
            .try_acquire_many(u32::try_from(places).unwrap());
        let turn = queue("ada").unwrap();
        assert!(std::ptr::eq(turn.lane, &raw const *STRANGERS));
        drop(all.unwrap());
        let turn = queue("ada").unwrap();
        assert!(std::ptr::eq(turn.lane, &raw const *KNOWN_DEVICES));
    }

    /// Neither one account in many networks nor one network with many accounts fills the lane of unknown browsers.
    #[tokio::test]
    async fn strangers_of_one_account_or_network_leave_room_for_others() {
        let queue = |username: String, network: u32| {
            let network = network.to_be_bytes();
            Request::begin(&username, Asker::Stranger(&network))?.queue()
        };
        let places = cores() + strangers_queue();
        let of_one_account = (0..1000).map(|network| queue("mallory".into(), network));
        let of_one_network = (0..1000).map(|number| queue(format!("m{number}"), 1001));
        let taken: Vec<Turn> = of_one_account.map_while(Result::ok).collect();
        assert_eq!(taken.len(), places / 4);
        assert!(queue("ada".into(), 1).is_ok());
        drop(taken);
        let taken: Vec<Turn> = of_one_network.map_while(Result::ok).collect();
        assert_eq!(taken.len(), places / 2);
        assert!(queue("ada".into(), 1).is_ok());
        drop(taken);
        assert!(queue("mallory".into(), 1001).is_ok(), "given back");
    }

    #[tokio::test]
    async fn the_queue_is_bounded_and_moves_on() {
        static TWO: Lane = Lane::new(1, 1);
        let first = Turn::queue(&TWO).unwrap();
        let _second = Turn::queue(&TWO).unwrap();
        let third = Turn::queue(&TWO).err();
        assert_eq!(third, Some(PasswordError::Busy));
        assert_eq!(TWO.waiting(), 2);
        let checked = first.check(None, "x".to_owned().into(), [].into()).await;
        assert!(checked.is_ok_and(|checked| !checked.right));
        assert!(Turn::queue(&TWO).is_ok());
    }
}
