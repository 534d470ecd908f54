//! The memory for password hashes (D-53), and the threads that hash.

use std::io;
use std::sync::{LazyLock, mpsc};
use std::thread::available_parallelism;
use std::time::Duration;

use argon2::Params;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{PasswordError, decoy, read};
use crate::password_hash::{self, PasswordHash, is_within_bounds};
use domain::password_scheme::UsedScheme;

/// Memory of a new hash, in MiB.
pub(super) const NEW_MEMORY: u32 = Params::DEFAULT_M_COST / 1024;

/// The memory for password hashes, in MiB (D-53).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Budget {
    /// For all hashes at the same time.
    pub(super) all: u32,
    /// For a single hash. While a hash that needs more than `all` runs, no other runs.
    one: u32,
}

pub(super) static BUDGET: LazyLock<Budget> = LazyLock::new(|| {
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

    /// Number of hashes with the parameters of [`hash`](super::hash) at the same time.
    pub(super) const fn hashes(self) -> usize {
        (self.all / NEW_MEMORY) as usize
    }

    /// The permits of [`MEMORY`] for a check of `hash`. A right password may need a new hash.
    ///
    /// # Errors
    /// [`PasswordError::TooLarge`] if a single hash may not take as much.
    pub(super) fn permits(self, hash: &PasswordHash) -> Result<u32, PasswordError> {
        let needed = u32::try_from(hash.memory().div_ceil(1024)).unwrap_or(u32::MAX);
        if needed > self.one {
            return Err(PasswordError::TooLarge {
                needed,
                most: self.one,
            });
        }
        Ok(needed.max(NEW_MEMORY).min(self.all))
    }

    pub(super) fn registered(self, text: &str) -> Result<String, String> {
        let normal = password_hash::normal(text)?;
        let fits = read(&normal).and_then(|hash| self.permits(&hash));
        fits.map_err(|error| error.to_string())?;
        Ok(normal)
    }

    pub(super) fn unfit(self, schemes: &[UsedScheme]) -> Option<(&UsedScheme, PasswordError)> {
        let mut known = schemes.iter().filter(|used| is_within_bounds(&used.scheme));
        known.find_map(|used| {
            let fits = read(&decoy(&used.scheme)).and_then(|hash| self.permits(&hash));
            Some((used, fits.err()?))
        })
    }
}

pub(super) static MEMORY: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(BUDGET.all as usize));

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

pub(super) async fn memory(permits: u32) -> Result<SemaphorePermit<'static>, PasswordError> {
    let memory = MEMORY.acquire_many(permits).await;
    memory.map_err(|_| PasswordError::Failed)
}

/// Does `work` on a thread of [`THREADS`]. The thread holds `memory` until the work is done, even if the caller is gone.
pub(super) async fn on_thread<T: Send + 'static>(
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
pub(super) fn blocking_on_thread<T: Send + 'static>(
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

#[cfg(test)]
mod tests {
    use super::super::{SCHEME, tests::used};
    use super::*;

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
}
