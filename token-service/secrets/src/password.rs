//! Passwords: argon2id with the parameters that OWASP recommends (19 MiB, 2 passes, 1 lane). Hashes from another server
//! are checked by their own scheme, and replaced when their password is right.
//!
//! All hashes of the process share a budget of memory (D-53), and their queues are bounded by work.

mod budget;
mod choice;
mod lanes;

use argon2::Params;
use unicode_normalization::{UnicodeNormalization as _, is_nfkc};
use zeroize::Zeroizing;

use crate::password_hash::{self, DECOY, PasswordHash, is_within_bounds};
use crate::sealing::EncryptionKey;
use domain::Username;
use domain::password_scheme::UsedScheme;
use domain::random;
use system::OsRandom;

use budget::{BUDGET, NEW_MEMORY, blocking_on_thread};
pub use choice::{Choice, Chosen};
pub use lanes::{Asker, Request, Turn, waiting};

/// Algorithm, version and parameters of [`hash`], as in the PHC string.
const SCHEME: &str = "$argon2id$v=19$m=19456,t=2,p=1";

/// [Work](PasswordHash::work) of a new hash, about 40 ms: one place in a lane.
const NEW_WORK: u64 = Params::DEFAULT_M_COST as u64 * Params::DEFAULT_T_COST as u64;

/// Length of a new salt, in bytes.
const SALT: usize = 16;

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
pub(crate) fn hash(password: &str) -> Result<String, PasswordError> {
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

/// The places in a lane that a comparison of this password with `hash` takes.
fn places(hash: &PasswordHash, password: &str) -> u32 {
    let hashes = if is_nfkc(password) { 1 } else { 2 };
    let places = hash.work().div_ceil(NEW_WORK).max(1) * hashes;
    u32::try_from(places).unwrap_or(u32::MAX)
}

/// Which spelling of a password a hash belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Match {
    None,
    /// The [`normal`] form.
    Normal,
    /// What was typed, which is not in normal form: hashes from another server.
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

/// True if `hash` is not argon2id or its parameters are weaker than the parameters of [`hash`].
fn is_outdated(hash: &PasswordHash) -> bool {
    !hash.is_argon2id_of(NEW_WORK)
}

/// The account of a username as its passwords are counted: all spellings of the name share one count, because all of them
/// sign in (D-43). The username may be unregistered, or no username at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account(String);

impl Account {
    pub fn of(username: &str) -> Self {
        let parsed = Username::parse(username);
        Self(parsed.map_or_else(|| username.to_owned(), |name| name.folded().into_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The one hash that a check computes: the stored hash, or a decoy for a name without a hash. The scheme of a decoy
/// depends on the name, and each scheme has the same share of the names as it has of the users: so the response time
/// does not show whether a name is registered.
pub struct Task {
    hash: PasswordHash,
    /// False for a decoy.
    is_stored: bool,
}

impl Task {
    /// `schemes`: see [`domain::RegistrySummary::password_schemes`].
    ///
    /// # Errors
    /// [`PasswordError::Failed`] if the stored hash is unreadable.
    pub fn of(
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
        // Rows of a store may be of another version, which had other bounds.
        let scheme =
            password_hash::scheme_of(schemes, point).filter(|scheme| is_within_bounds(scheme));
        let scheme = scheme.unwrap_or(SCHEME);
        let hash = match stored {
            Some(stored) => read(stored)?,
            None => read(&decoy(scheme))?,
        };
        let is_stored = stored.is_some();
        Ok(Self { hash, is_stored })
    }

    /// The places that the check takes in a lane.
    fn places(&self, password: &str) -> u32 {
        places(&self.hash, password)
    }

    fn check(&self, password: &str) -> Result<Checked, PasswordError> {
        let found = Match::of(&self.hash, password);
        let right = self.is_stored && found != Match::None;
        // A hash that reads only the beginning of the password stays: the rest is not what its owner chose.
        let is_replaced = right
            && (found == Match::AsTyped || is_outdated(&self.hash))
            && self.hash.reads_all_of(password);
        let stronger = is_replaced.then(|| new_hash(password)).transpose()?;
        Ok(Checked { right, stronger })
    }
}

/// Result of a password check.
#[derive(Debug, PartialEq, Eq)]
pub struct Checked {
    pub right: bool,
    /// A new hash of the right password, if the stored hash is outdated, or of another spelling of the password.
    pub stronger: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::password_scheme;

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

    pub(super) fn begin(
        username: &str,
        asker: Asker<'_>,
        stored: Option<&str>,
    ) -> Result<Request<Checked>, PasswordError> {
        let (account, task) = (Account::of(username), task(stored, username, &[]));
        Request::begin(&account, asker, task, "x".to_owned().into())
    }

    pub(super) fn used(scheme: &str, users: u64) -> UsedScheme {
        UsedScheme {
            scheme: scheme.to_owned(),
            users,
        }
    }

    /// Every check computes one hash. Names without a hash get each scheme as often as users have it.
    #[test]
    fn the_work_of_a_check_does_not_show_whether_a_name_is_registered() {
        let (dear, cheap) = ("$argon2id$v=19$m=65536,t=4,p=1", "$pbkdf2-sha1$i=1000");
        let schemes = [used(dear, 100), used(SCHEME, 300), used(cheap, 100)];
        let of = |username: &str| {
            let task = task(None, username, &schemes);
            assert!(!task.is_stored);
            let text = task.hash.to_string();
            password_scheme::scheme(&text)
                .map(ToOwned::to_owned)
                .unwrap()
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
        // A check of a name without a hash never exceeds the bounds, whatever the store says.
        for scheme in ["$argon2id$v=19$m=1048576,t=1,p=1", "$unknown$x=1"] {
            let task = task(None, "ada", &[used(scheme, 1)]);
            assert_eq!(task.hash.to_string(), decoy(SCHEME));
        }
    }

    /// A user without a password gets the same answer, because no password matches a decoy.
    #[tokio::test]
    async fn without_a_stored_hash_nothing_is_right() {
        assert_eq!(password_scheme::scheme(&hash("x").unwrap()), Some(SCHEME));
        assert_eq!(verify("x", &decoy(SCHEME)), Ok(false), "readable");
        let check = async |stored: Option<&str>| {
            let turn = begin("ada", Asker::KnownDevice, stored)?.queue()?;
            turn.run().await.map(|checked| checked.right)
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
        assert_eq!(password_scheme::scheme(&ours), Some(SCHEME));
        assert_eq!(verify("U*U", &ours), Ok(true));
        // bcrypt ignores what follows 72 bytes.
        let long =
            "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 and more";
        let hash = "$2a$05$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui";
        let kept = Checked {
            right: true,
            stronger: None,
        };
        assert_eq!(check(&password_hash::normal(hash).unwrap(), long), Ok(kept));
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
}
