//! Passwords: argon2id with the parameters that OWASP recommends (19 MiB, 2 passes, 1 lane).

use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;
use std::time::Duration;

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{Error, PasswordHasher as _, PasswordVerifier as _};
use argon2::{Algorithm, Argon2, Params, Version};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use zeroize::Zeroizing;

use domain::password_hash;

/// The scheme of [`hash`].
const SCHEME: &str = "$argon2id$v=19$m=19456,t=2,p=1";

/// Salt and hash, random bytes, of what is verified in place of a hash that a user does not have. No password is known to
/// fit.
const DECOY: &str = "$yDktG0K1Tk7h22spOXgPmA$GwMwFfwe0CGKrYdcHstP/5MtuYHf/9JfVYWUA0OXABc";

/// Passwords that may wait for their turn, for each core; the next is refused at once.
const QUEUE: usize = 64;

/// How long a password may wait for its turn.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Those who have a password checked, in the whole process: however many strangers come, devices that are known neither wait
/// for them nor find the places taken.
pub(super) struct Lane {
    /// Hashes at a time: each takes one core and 19 MiB or more.
    free_turns: Semaphore,
    /// Passwords that may wait for their turn.
    queue: usize,
    /// The places of those who wait and of those whose turn it is.
    free_places: Semaphore,
}

static STRANGERS: LazyLock<Lane> = LazyLock::new(|| Lane::new(cores(), queue() - queue() / 4));

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

    /// The lane of a browser that is or is not known.
    pub(super) fn of(known_device: bool) -> &'static Self {
        if known_device {
            &KNOWN_DEVICES
        } else {
            &STRANGERS
        }
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

/// How many passwords wait for their turn to be checked.
#[must_use]
pub fn waiting() -> usize {
    STRANGERS.waiting() + KNOWN_DEVICES.waiting()
}

/// Why a password was neither hashed nor checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    /// Too many others wait.
    #[error("too many passwords wait to be checked")]
    Busy,
    /// The library failed, or a stored hash is not an argon2 PHC string.
    #[error("hashing a password failed, or a stored hash is unreadable")]
    Failed,
}

fn argon2id() -> Argon2<'static> {
    Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::DEFAULT)
}

/// Hashes `password` with a random salt: an argon2id PHC string. Takes tens of milliseconds.
///
/// # Errors
/// [`PasswordError::Failed`] when the library fails.
pub fn hash(password: &str) -> Result<String, PasswordError> {
    argon2id()
        .hash_password(password.as_bytes())
        .map(|hash| hash.to_string())
        .map_err(|_| PasswordError::Failed)
}

/// Whether `password` is the one of `hash`, an argon2 PHC string whose own parameters count. Takes tens of
/// milliseconds; compares in constant time.
///
/// # Errors
/// [`PasswordError::Failed`] when `hash` is no such string.
pub fn verify(password: &str, hash: &str) -> Result<bool, PasswordError> {
    match argon2id().verify_password(password.as_bytes(), hash) {
        Ok(()) => Ok(true),
        Err(Error::PasswordInvalid) => Ok(false),
        Err(_) => Err(PasswordError::Failed),
    }
}

/// Whether `hash` took less work than [`hash`] spends now, or is not argon2id.
fn is_outdated(hash: &str) -> bool {
    let Ok(hash) = PasswordHash::new(hash) else {
        return false;
    };
    let Some(work) = password_hash::work(&hash) else {
        return false;
    };
    let parameters = Params::DEFAULT;
    hash.algorithm.as_str() != Algorithm::Argon2id.as_str()
        || work < u64::from(parameters.m_cost()) * u64::from(parameters.t_cost())
}

/// What is verified for a user with the hash `stored`, or without one: a hash of each of `schemes`, the stored one or a
/// decoy. So the answer takes as long for everybody, whether registered or not.
fn work_for(stored: Option<&str>, schemes: &[String]) -> Vec<String> {
    let own = stored.and_then(password_hash::scheme);
    let default = [SCHEME.to_owned()];
    let schemes = if schemes.is_empty() {
        &default
    } else {
        schemes
    };
    let hashes = schemes.iter().map(|scheme| match stored {
        Some(stored) if own == Some(scheme.as_str()) => stored.to_owned(),
        _ => format!("{scheme}{DECOY}"),
    });
    let mut hashes: Vec<String> = hashes.collect();
    // Registered this moment, or before there were bounds.
    let unlisted = stored.filter(|stored| !hashes.iter().any(|hash| hash == stored));
    hashes.extend(unlisted.map(ToOwned::to_owned));
    hashes
}

/// What a check found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Checked {
    /// Whether the password is the right one.
    pub(super) right: bool,
    /// A stronger hash of the right password, where the stored one is weaker than new ones.
    pub(super) stronger: Option<String>,
}

/// A place in the queue of those who want a password checked, away from the async workers and only so many at a time.
#[must_use]
pub(super) struct Turn {
    lane: &'static Lane,
    place: SemaphorePermit<'static>,
}

impl Turn {
    /// Takes a place.
    ///
    /// # Errors
    /// [`PasswordError::Busy`] when the queue is full.
    pub(super) fn queue(lane: &'static Lane) -> Result<Self, PasswordError> {
        let place = lane.free_places.try_acquire();
        let place = place.map_err(|_| PasswordError::Busy)?;
        Ok(Self { lane, place })
    }

    /// Like [`verify`]. The same work is done for all, with and without a stored hash: that of all `schemes`
    /// ([`domain::Registry::password_schemes`]).
    ///
    /// # Errors
    /// [`PasswordError::Busy`] when no turn came up in time, [`PasswordError::Failed`] as for [`verify`].
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
            // Held until the work is done, even when the request is gone.
            let _held = (self.place, turn);
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
            let stronger = is_outdated(&stored).then(|| hash(&password)).transpose()?;
            Ok(Checked {
                right: true,
                stronger,
            })
        })
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

    /// The same answer, and by the decoy's parameters the same work, for a user without a password.
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

    /// Whoever is asked for, a hash of each scheme is computed.
    #[test]
    fn every_check_does_the_same_work() {
        let of = |scheme: &str| format!("{scheme}$c2FsdHNhbHQ$GwMwFfwe0CGKrYdcHstP/5MtuYHf");
        let registered = [
            "$argon2id$v=19$m=65536,t=4,p=1",
            SCHEME,
            "$argon2id$v=19$m=4096,t=1,p=1",
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
    }

    #[tokio::test]
    async fn the_right_password_gets_a_stronger_hash_where_the_stored_one_is_weak() {
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
