//! Password hashes: our own (argon2id), and hashes that came from another server.
//!
//! The store contains one spelling of each algorithm, in the form of a PHC string: `$algorithm$parameters$salt$hash`
//! ([`normal`]).
//!
//! Checks with different schemes take different times, which would reveal who is registered. Therefore the check of an
//! unknown name has the scheme of some users ([`scheme_of`]), and no scheme may exceed the bounds in this module.

mod spelling;
#[cfg(test)]
mod tests;

use std::fmt;
use std::num::NonZeroU32;

use aws_lc_rs::pbkdf2;
use base64::Engine as _;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use domain::password_scheme::UsedScheme;
use spelling::BASE64;

/// Maximum memory of a password hash, in KiB: 128 MiB.
const MAX_MEMORY: u64 = 128 * 1024;

/// The allocator of glibc keeps freed memory for later, in pieces that soon fit nothing, unless an allocation has more than
/// 32 MiB. So allocations have at least so many KiB; what a hash does not touch takes no memory.
const LEAST_ALLOCATION: usize = 33 * 1024;

/// Maximum passes of argon2.
const MAX_PASSES: u32 = 16;

/// Maximum [work](PasswordHash::work) of argon2: about 13 times the work of a new hash.
const MAX_WORK: u64 = 512 * 1024;

/// Maximum cost of bcrypt.
const MAX_BCRYPT_COST: u32 = 13;

/// Maximum iterations of PBKDF2.
const MAX_ITERATIONS: u32 = 2_000_000;

/// Work of bcrypt with cost 0, of scrypt for each 2 KiB of its memory, and of 128 iterations of PBKDF2, as measured: processor
/// time of optimized code.
const BCRYPT_WORK: u64 = 64;
const SCRYPT_WORK: u64 = 5;
const SHA1_WORK: u64 = 39;
const SHA256_WORK: u64 = 49;
const SHA512_WORK: u64 = 116;

/// Random salt and hash that the service verifies when a user has no stored hash. No known password matches them.
pub(crate) const DECOY: &str =
    "$yDktG0K1Tk7h22spOXgPmA$GwMwFfwe0CGKrYdcHstP/5MtuYHf/9JfVYWUA0OXABc";

/// The lengths of a salt, in bytes.
const SALT_LENGTH: std::ops::RangeInclusive<usize> = 1..=64;

/// The lengths of a hash, in bytes. A wrong password may match a shorter hash.
const HASH_LENGTH: std::ops::RangeInclusive<usize> = 10..=64;

/// How a password becomes a hash.
enum Algorithm {
    Argon2 {
        kind: argon2::Algorithm,
        version: argon2::Version,
        parameters: argon2::Params,
        /// The text before salt and hash.
        scheme: String,
    },
    Bcrypt {
        cost: u32,
        /// Django: the password is the hexadecimal SHA-256 digest of the typed password, because bcrypt reads 72 bytes.
        is_sha256: bool,
    },
    Pbkdf2 {
        digest: pbkdf2::Algorithm,
        /// Length of the digest, in bytes.
        length: usize,
        iterations: NonZeroU32,
    },
    Scrypt(scrypt::Params),
}

/// A password hash in its parts. The type has no `Debug`, because it contains secrets.
pub(crate) struct PasswordHash {
    algorithm: Algorithm,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

impl PasswordHash {
    fn new(algorithm: Algorithm, salt: Vec<u8>, mut hash: Vec<u8>) -> Result<Self, &'static str> {
        if let Algorithm::Pbkdf2 { length, .. } = algorithm {
            // Each further block costs as much as the first, and makes no guess harder.
            hash.truncate(length);
        }
        if !SALT_LENGTH.contains(&salt.len()) {
            return Err("has a salt of less than 1 or more than 64 bytes");
        }
        if matches!(algorithm, Algorithm::Bcrypt { .. }) && salt.len() != 16 {
            return Err("has a salt that is not the 16 bytes of bcrypt");
        }
        if !HASH_LENGTH.contains(&hash.len()) {
            return Err("has a hash of less than 10 or more than 64 bytes");
        }
        Ok(Self {
            algorithm,
            salt,
            hash,
        })
    }

    /// Reads a hash in any known spelling.
    ///
    /// # Errors
    /// A problem that does not repeat the hash.
    pub(crate) fn read(text: &str) -> Result<Self, &'static str> {
        spelling::read(text)
    }

    /// True for argon2id with at least the work of a new hash, `least`.
    #[must_use]
    pub(crate) fn is_argon2id_of(&self, least: u64) -> bool {
        let id = argon2::Algorithm::Argon2id;
        let is_id = matches!(self.algorithm, Algorithm::Argon2 { kind, .. } if kind == id);
        is_id && self.work() >= least
    }

    /// The processor time of a check, in KiB that argon2 fills in this time: memory times passes of argon2.
    #[must_use]
    pub(crate) fn work(&self) -> u64 {
        match &self.algorithm {
            Algorithm::Argon2 { parameters, .. } => {
                u64::from(parameters.m_cost()) * u64::from(parameters.t_cost())
            }
            Algorithm::Bcrypt { cost, .. } => BCRYPT_WORK << cost,
            Algorithm::Pbkdf2 {
                length, iterations, ..
            } => {
                let work = match length {
                    32 => SHA256_WORK,
                    64 => SHA512_WORK,
                    _ => SHA1_WORK,
                };
                u64::from(iterations.get()) * work / 128
            }
            Algorithm::Scrypt(parameters) => {
                SCRYPT_WORK * self.memory() * u64::from(parameters.p()) / 2
            }
        }
    }

    /// The memory of a check, in KiB.
    #[must_use]
    pub(crate) fn memory(&self) -> u64 {
        match &self.algorithm {
            Algorithm::Argon2 { parameters, .. } => u64::from(parameters.m_cost()),
            Algorithm::Scrypt(parameters) => (u64::from(parameters.r()) << parameters.log_n()) / 8,
            Algorithm::Bcrypt { .. } | Algorithm::Pbkdf2 { .. } => 0,
        }
    }

    /// # Errors
    /// The bound that a check would exceed.
    fn check_bounds(&self) -> Result<(), &'static str> {
        match &self.algorithm {
            Algorithm::Argon2 { parameters, .. }
                if self.memory() > MAX_MEMORY
                    || parameters.t_cost() > MAX_PASSES
                    || self.work() > MAX_WORK =>
            {
                Err(
                    "costs too much: m is at most 131072 (128 MiB), t at most 16, and m times t at most 524288",
                )
            }
            Algorithm::Bcrypt { cost, .. } if *cost > MAX_BCRYPT_COST => {
                Err("costs too much: the cost of bcrypt is at most 13")
            }
            Algorithm::Pbkdf2 { iterations, .. } if iterations.get() > MAX_ITERATIONS => {
                Err("costs too much: PBKDF2 has at most 2000000 iterations")
            }
            Algorithm::Scrypt(parameters)
                if self.memory() * u64::from(parameters.p()) > MAX_MEMORY =>
            {
                Err("costs too much: N times r times p of scrypt is at most 1048576")
            }
            _ => Ok(()),
        }
    }

    /// True if the hash depends on all of `password`. bcrypt reads 72 bytes.
    #[must_use]
    pub(crate) const fn reads_all_of(&self, password: &str) -> bool {
        !self.is_bcrypt() || password.len() < 72
    }

    /// True for bcrypt of the password itself.
    const fn is_bcrypt(&self) -> bool {
        matches!(
            self.algorithm,
            Algorithm::Bcrypt {
                is_sha256: false,
                ..
            }
        )
    }

    /// True if this is a hash of `password`. Takes tens of milliseconds; compares in constant time.
    #[must_use]
    pub(crate) fn is_of(&self, password: &str) -> bool {
        // bcrypt repeats a short password behind a null byte, so that several passwords with null bytes have one hash.
        let is_one_of_many = self.is_bcrypt() && password.contains('\0');
        let derived = self.derive(password.as_bytes());
        let derived = derived.filter(|_| !is_one_of_many);
        let derived = derived
            .as_ref()
            .and_then(|derived| derived.get(..self.hash.len()));
        derived.is_some_and(|derived| derived.ct_eq(&self.hash).into())
    }

    /// A hash of `password` with `salt`, of the same scheme and length.
    #[must_use]
    pub(crate) fn of(self, password: &str, salt: Vec<u8>) -> Option<Self> {
        let unhashed = Self { salt, ..self };
        let hash = unhashed.derive(password.as_bytes())?;
        Some(Self { hash, ..unhashed })
    }

    fn derive(&self, password: &[u8]) -> Option<Vec<u8>> {
        let mut derived = vec![0; self.hash.len()];
        match &self.algorithm {
            Algorithm::Argon2 {
                kind,
                version,
                parameters,
                ..
            } => {
                let argon2 = argon2::Argon2::new(*kind, *version, parameters.clone());
                let blocks = parameters.block_count();
                let mut memory = Vec::with_capacity(blocks.max(LEAST_ALLOCATION));
                memory.resize(blocks, argon2::Block::default());
                argon2
                    .hash_password_into_with_memory(password, &self.salt, &mut derived, memory)
                    .ok()?;
            }
            Algorithm::Bcrypt { cost, is_sha256 } => {
                let mut password = Zeroizing::new(match is_sha256 {
                    true => {
                        let digest = Sha256::digest(password);
                        digest
                            .iter()
                            .flat_map(|byte| format!("{byte:02x}").into_bytes())
                            .collect()
                    }
                    false => password.to_vec(),
                });
                password.push(0);
                password.truncate(72);
                let salt = self.salt.as_slice().try_into().ok()?;
                derived = bcrypt::bcrypt(*cost, salt, &password).to_vec();
            }
            Algorithm::Pbkdf2 {
                digest, iterations, ..
            } => pbkdf2::derive(*digest, *iterations, &self.salt, password, &mut derived),
            Algorithm::Scrypt(parameters) => {
                scrypt::scrypt(password, &self.salt, parameters, &mut derived).ok()?;
            }
        }
        Some(derived)
    }
}

/// The stored spelling.
impl fmt::Display for PasswordHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.algorithm {
            Algorithm::Argon2 { scheme, .. } => formatter.write_str(scheme)?,
            Algorithm::Bcrypt { cost, is_sha256 } => {
                let more = if *is_sha256 { "-sha256-hex" } else { "" };
                write!(formatter, "$bcrypt{more}$r={cost}")?;
            }
            Algorithm::Pbkdf2 {
                length, iterations, ..
            } => {
                let digest = match length {
                    32 => "sha256",
                    64 => "sha512",
                    _ => "sha1",
                };
                write!(formatter, "$pbkdf2-{digest}$i={iterations}")?;
            }
            Algorithm::Scrypt(parameters) => {
                let (log_n, r, p) = (parameters.log_n(), parameters.r(), parameters.p());
                write!(formatter, "$scrypt$ln={log_n},r={r},p={p}")?;
            }
        }
        let (salt, hash) = (BASE64.encode(&self.salt), BASE64.encode(&self.hash));
        write!(formatter, "${salt}${hash}")
    }
}

/// The stored spelling of a hash in any known spelling.
///
/// # Errors
/// A problem that does not repeat the hash, such as a bound that a check would exceed.
pub(crate) fn normal(text: &str) -> Result<String, &'static str> {
    let hash = PasswordHash::read(text)?;
    hash.check_bounds()?;
    Ok(hash.to_string())
}

/// True if a check of a hash with this scheme stays within the bounds.
pub(crate) fn is_within_bounds(scheme: &str) -> bool {
    let hash = PasswordHash::read(&format!("{scheme}{DECOY}"));
    hash.and_then(|hash| hash.check_bounds()).is_ok()
}

/// The scheme of a name: each scheme has the same share of the names as it has of the users. `point` returns the point of a
/// scheme for the name: all points are equally likely. `None` without schemes.
///
/// A scheme that is new, or gets more users, takes names from the others, and no name moves between these (weighted rendezvous
/// hashing).
pub(crate) fn scheme_of(schemes: &[UsedScheme], point: impl Fn(&str) -> u64) -> Option<&str> {
    const POINTS: f64 = (1_u64 << 52) as f64;
    let scores = schemes.iter().map(|used| {
        // Between 0 and 1, and neither of the two.
        let point = ((point(&used.scheme) >> 12) as f64 + 0.5) / POINTS;
        (used.users as f64 / -point.ln(), &*used.scheme)
    });
    let best = scores.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.map(|(_, scheme)| scheme)
}
