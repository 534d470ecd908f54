//! Random values, always from the operating system.

use std::cell::RefCell;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use zeroize::Zeroize as _;

/// The operating system gave no random bytes. Nothing may be issued without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gave no random bytes")]
pub struct RandomError;

/// A source of unpredictable bytes. The service uses [`OsRandom`]; tests may pass a fixed sequence.
pub trait Random: Send + Sync + fmt::Debug {
    /// Fills `buffer`.
    ///
    /// # Errors
    /// [`RandomError`] when the source failed; the buffer must not be used then.
    fn fill(&self, buffer: &mut [u8]) -> Result<(), RandomError>;
}

/// The operating system's generator. Short values come from a supply that each thread fetches ahead: one system call does for
/// a dozen of them.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsRandom;

/// Bytes fetched at once: up to so many, `getrandom(2)` gives all or none.
const SUPPLY: usize = 256;

/// Random bytes that nobody has had yet, at the end of `bytes`; the others are zero.
struct Supply {
    bytes: [u8; SUPPLY],
    left: usize,
}

thread_local! {
    static OF_THREAD: RefCell<Supply> = const {
        RefCell::new(Supply {
            bytes: [0; SUPPLY],
            left: 0,
        })
    };
}

impl Supply {
    /// Hands bytes out, once: they are wiped here.
    fn hand_out(&mut self, buffer: &mut [u8]) -> Result<(), RandomError> {
        if self.left < buffer.len() {
            self.left = 0;
            fetch(&mut self.bytes)?;
            self.left = SUPPLY;
        }
        let fresh = self.bytes.iter_mut().skip(SUPPLY - self.left);
        for (place, byte) in buffer.iter_mut().zip(fresh) {
            *place = *byte;
            byte.zeroize();
        }
        self.left -= buffer.len();
        Ok(())
    }
}

fn fetch(buffer: &mut [u8]) -> Result<(), RandomError> {
    getrandom::fill(buffer).map_err(|_| RandomError)
}

impl Random for OsRandom {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), RandomError> {
        if buffer.len() > SUPPLY / 4 {
            return fetch(buffer);
        }
        OF_THREAD.with_borrow_mut(|supply| supply.hand_out(buffer))
    }
}

/// `N` random bytes.
///
/// # Errors
/// [`RandomError`] when the source failed.
pub fn bytes<const N: usize>(random: &dyn Random) -> Result<[u8; N], RandomError> {
    let mut buffer = [0; N];
    random.fill(&mut buffer)?;
    Ok(buffer)
}

/// `N` random bytes as base64url without padding: 22 characters for 16 bytes, 43 for 32.
///
/// # Errors
/// [`RandomError`] when the source failed.
pub fn text<const N: usize>(random: &dyn Random) -> Result<String, RandomError> {
    bytes::<N>(random).map(|bytes| URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_bytes_are_handed_out_twice_and_none_is_left_behind() {
        let mut supply = Supply {
            bytes: [0; SUPPLY],
            left: 0,
        };
        let mut seen = BTreeSet::new();
        for number in 0..1000 {
            let mut value = vec![0; 8 + number % 57];
            supply.hand_out(&mut value).unwrap();
            let used = SUPPLY - supply.left;
            assert!(supply.bytes.iter().take(used).all(|byte| *byte == 0));
            // Eight random bytes repeat once in more values than a machine can make.
            assert!(value.windows(8).all(|window| seen.insert(window.to_vec())));
        }
    }

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
}
