//! Rate limits for clients, within one process.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use domain::ClientId;

/// After a pause, a client may revoke the access tokens of this number of seconds at once: enough for an integrator that signs
/// out all its users.
const BURST_SECONDS: u32 = 50;

/// Minimum interval between log and audit entries about a refused client.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// Limit of access tokens that a client revokes at `/auth/revoke` (RFC 7009). Only authenticated clients are counted, and
/// [`RevocationLimit::forget_idle`] removes clients whose full allowance is available again.
pub(crate) struct RevocationLimit {
    limiter: Limiter,
    told: Limiter,
}

impl RevocationLimit {
    /// `per_second` is the average of one client in the long run.
    pub(crate) fn new(per_second: NonZeroU32) -> Self {
        let each = Duration::from_secs(1) / per_second.get();
        Self {
            limiter: Limiter::new(each, per_second.get().saturating_mul(BURST_SECONDS)),
            told: Limiter::new(TELL_EVERY, 1),
        }
    }

    /// Counts a revocation by this client.
    ///
    /// # Errors
    /// The time until the next revocation is allowed; nothing was counted.
    pub(crate) fn admit(&self, client_id: &ClientId, now: Instant) -> Result<(), Duration> {
        self.limiter.admit(client_id, now)
    }

    /// True if a refusal of this client must be logged: the first within a minute.
    pub(crate) fn is_to_be_told(&self, client_id: &ClientId, now: Instant) -> bool {
        self.told.admit(client_id, now).is_ok()
    }

    pub(crate) fn forget_idle(&self, now: Instant) {
        self.limiter.forget_idle(now);
        self.told.forget_idle(now);
    }
}

/// Counts by the generic cell rate algorithm.
struct Limiter {
    /// Time after which one more event is allowed.
    each: Duration,
    /// Time after which the full allowance is available again.
    all: Duration,
    /// When the full allowance of a client is available again.
    full_at: Mutex<HashMap<ClientId, Instant>>,
}

impl Limiter {
    fn new(each: Duration, burst: u32) -> Self {
        Self {
            each,
            all: each * burst,
            full_at: Mutex::default(),
        }
    }

    fn admit(&self, client_id: &ClientId, now: Instant) -> Result<(), Duration> {
        let mut all_clients = self.full_at();
        let before = all_clients.get(client_id).copied();
        let full_at = before.map_or(now, |before| before.max(now)) + self.each;
        let wait = full_at.duration_since(now).saturating_sub(self.all);
        if !wait.is_zero() {
            return Err(wait);
        }
        all_clients.insert(client_id.clone(), full_at);
        Ok(())
    }

    fn forget_idle(&self, now: Instant) {
        let mut all_clients = self.full_at();
        all_clients.retain(|_, full_at| *full_at > now);
        all_clients.shrink_to_fit();
    }

    fn full_at(&self) -> MutexGuard<'_, HashMap<ClientId, Instant>> {
        self.full_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_an_allowance_of_its_own() {
        let limit = Limiter::new(Duration::from_millis(500), 3);
        let [one, other] = ["one", "other"].map(|id| ClientId::parse(id).unwrap());
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        for _ in 0..3 {
            assert_eq!(limit.admit(&one, at(0)), Ok(()));
        }
        let wait = Duration::from_millis;
        assert_eq!(limit.admit(&one, at(0)), Err(wait(500)));
        assert_eq!(limit.admit(&other, at(0)), Ok(()));
        limit.forget_idle(at(499));
        let remembered = limit.admit(&one, at(499));
        assert_eq!(remembered, Err(wait(1)), "a refusal counts nothing");
        assert_eq!(limit.admit(&one, at(500)), Ok(()));
        assert_eq!(limit.admit(&one, at(500)), Err(wait(500)));

        for _ in 0..3 {
            assert_eq!(limit.admit(&one, at(60_000)), Ok(()), "the burst is back");
        }
        assert_eq!(limit.admit(&one, at(60_000)), Err(wait(500)));
    }

    #[test]
    fn a_refused_client_is_told_of_once_a_minute() {
        let limit = RevocationLimit::new(NonZeroU32::MIN);
        let one = ClientId::parse("one").unwrap();
        let start = Instant::now();
        let told = [0, 1, 59, 60, 61].map(|seconds| {
            let now = start + Duration::from_secs(seconds);
            limit.forget_idle(now);
            limit.is_to_be_told(&one, now)
        });
        assert_eq!(told, [true, false, false, true, false]);
        limit.forget_idle(start + Duration::from_secs(120));
        assert!(limit.told.full_at().is_empty(), "idle clients take memory");
    }
}
