//! Time. Each request reads the clock once, on arrival, and passes the time on.

use std::fmt;
use std::ops::Add;
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A moment in whole seconds since 1970-01-01T00:00:00Z (RFC 7519 NumericDate).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    pub const fn from_seconds(seconds: u64) -> Self {
        Self(seconds)
    }

    pub const fn seconds(self) -> u64 {
        self.0
    }

    /// The timestamp in RFC 3339 form, in UTC.
    pub fn rfc3339(self) -> String {
        humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(self.0)).to_string()
    }

    #[must_use]
    pub const fn next_second(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// This long before.
    #[must_use]
    pub const fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(duration.as_secs()))
    }

    /// Time since `earlier`; zero if `earlier` is in the future.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_secs(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration.as_secs()))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

pub trait Clock: Send + Sync + fmt::Debug {
    fn now(&self) -> Timestamp;
}

/// A clock for tests. It changes only when a test sets it.
#[derive(Debug, Default)]
pub struct ManualClock(std::sync::atomic::AtomicU64);

impl ManualClock {
    pub const fn new(now: Timestamp) -> Self {
        Self(std::sync::atomic::AtomicU64::new(now.0))
    }

    /// Sets the clock, forward or backward.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.0, std::sync::atomic::Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(std::sync::atomic::Ordering::SeqCst))
    }
}
