//! The clock, the random bytes, the memory limit and the names of host and user of the operating system: the only crate
//! that reads the wall clock.

mod memory;

pub use memory::memory_limit;

use domain::clock::{Clock, Timestamp};
use domain::random::{Random, RandomError};

#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one module that owns the wall clock"
    )]
    fn now(&self) -> Timestamp {
        let elapsed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        // A system time before 1970 counts as 1970. No token is accepted then.
        Timestamp::from_seconds(elapsed.map_or(0, |elapsed| elapsed.as_secs()))
    }
}

/// The operating system's generator. It keeps no bytes in the process: two machines that are resumed from one snapshot
/// would make the same values of them. The kernel notices such a resumption; a process cannot.
///
/// A value costs one system call: 0.3 us where a pool of 256 bytes in each thread takes 0.05 us. A refresh makes two
/// values.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsRandom;

impl Random for OsRandom {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), RandomError> {
        getrandom::fill(buffer).map_err(|_| RandomError)
    }
}

/// The name of this machine or container.
pub fn host_name() -> String {
    whoami::hostname().unwrap_or_else(|_| "unknown".to_owned())
}

/// The name of the user that runs this process.
pub fn user_name() -> String {
    whoami::username().unwrap_or_else(|_| "unknown".to_owned())
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
}
