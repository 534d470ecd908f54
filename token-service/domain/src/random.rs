//! Random values from the operating system.

use std::cell::RefCell;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use zeroize::{Zeroize as _, Zeroizing};

/// The operating system returned no random bytes. Without them, the service must not issue anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gave no random bytes")]
pub struct RandomError;

/// A source of unpredictable bytes. The service uses [`OsRandom`]; tests may pass a fixed sequence.
pub trait Random: Send + Sync + fmt::Debug {
    /// Fills `buffer` with random bytes.
    ///
    /// # Errors
    /// [`RandomError`] if the source failed. Do not use the buffer then.
    fn fill(&self, buffer: &mut [u8]) -> Result<(), RandomError>;
}

/// The operating system's generator. Each thread fetches bytes for several values at once, because a system call takes
/// nearly the same time for 16 bytes as for 256.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsRandom;

impl Random for OsRandom {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), RandomError> {
        POOL.try_with(|pool| match pool.try_borrow_mut() {
            Ok(mut pool) if buffer.len() <= POOL_BYTES => pool.take(buffer),
            _ => from_system(buffer),
        })
        .unwrap_or_else(|_| from_system(buffer))
    }
}

/// Number of bytes per system call. The kernel gives so many without an interruption by a signal (`getrandom(2)`).
const POOL_BYTES: usize = 256;

thread_local! {
    static POOL: RefCell<Pool> = RefCell::new(Pool::empty());
}

/// Random bytes of which no value was made yet.
struct Pool {
    bytes: Zeroizing<[u8; POOL_BYTES]>,
    /// The bytes from here on are unused; those before are zero.
    unused_from: usize,
}

impl Pool {
    fn empty() -> Self {
        Self {
            bytes: Zeroizing::new([0; POOL_BYTES]),
            unused_from: POOL_BYTES,
        }
    }

    /// Moves bytes to `buffer`. If too few are left, the rest is thrown away.
    fn take(&mut self, buffer: &mut [u8]) -> Result<(), RandomError> {
        if POOL_BYTES - self.unused_from < buffer.len() {
            self.unused_from = POOL_BYTES;
            from_system(&mut self.bytes[..])?;
            self.unused_from = 0;
        }
        let end = self.unused_from + buffer.len();
        let taken = self
            .bytes
            .get_mut(self.unused_from..end)
            .ok_or(RandomError)?;
        buffer.copy_from_slice(taken);
        taken.zeroize();
        self.unused_from = end;
        Ok(())
    }
}

fn from_system(buffer: &mut [u8]) -> Result<(), RandomError> {
    getrandom::fill(buffer).map_err(|_| RandomError)
}

/// `N` random bytes.
///
/// # Errors
/// [`RandomError`] if the source failed.
pub fn bytes<const N: usize>(random: &dyn Random) -> Result<[u8; N], RandomError> {
    let mut buffer = [0; N];
    random.fill(&mut buffer)?;
    Ok(buffer)
}

/// `N` random bytes as base64url without padding: 22 characters for 16 bytes, 43 characters for 32 bytes.
///
/// # Errors
/// [`RandomError`] if the source failed.
pub fn text<const N: usize>(random: &dyn Random) -> Result<String, RandomError> {
    bytes::<N>(random).map(|bytes| URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_length_are_filled() {
        for length in [0, 1, 10, 16, 32, 64, 65, 1000] {
            let fill = || {
                let mut value = vec![0; length];
                OsRandom.fill(&mut value).unwrap();
                value
            };
            let fills: Vec<Vec<u8>> = (0..64).map(|_| fill()).collect();
            for place in 0..length {
                assert!(fills.iter().any(|value| value[place] != fills[0][place]));
            }
        }
    }

    #[test]
    fn no_byte_of_the_pool_is_used_twice_or_left_behind() {
        let mut pool = Pool::empty();
        let mut values = std::collections::BTreeSet::new();
        for _ in 0..1000 {
            let mut value = [0; 16];
            pool.take(&mut value).unwrap();
            assert!(values.insert(value));
            assert!(pool.bytes[..pool.unused_from].iter().all(|byte| *byte == 0));
        }
        let mut long = [0; POOL_BYTES - 8];
        pool.take(&mut long).unwrap();
        pool.take(&mut [0; 9]).unwrap();
        assert_eq!(pool.unused_from, 9, "too few bytes are thrown away");
        assert!(pool.bytes[..9].iter().all(|byte| *byte == 0));
    }
}
