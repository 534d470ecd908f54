//! Rate limits for clients, within one process.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock as _, MonotonicClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};

use crate::config::Limits;
use domain::ClientId;

type Limiter = RateLimiter<
    ClientId,
    DashMapStateStore<ClientId>,
    MonotonicClock,
    NoOpMiddleware<std::time::Instant>,
>;

/// Minimum interval between log and audit entries about a refused client.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// Limit of access tokens that a client revokes at `/auth/revoke` (RFC 7009). Only authenticated clients are counted, and
/// [`RevocationLimit::forget_idle`] removes clients whose full allowance is available again.
pub struct RevocationLimit {
    limiter: Limiter,
    told: Limiter,
}

impl RevocationLimit {
    pub fn new(limits: &Limits) -> Self {
        let quota =
            Quota::per_second(limits.revocations_per_second).allow_burst(limits.revocations_burst);
        let once = Quota::with_period(TELL_EVERY)
            .unwrap_or(Quota::per_minute(NonZeroU32::MIN))
            .allow_burst(NonZeroU32::MIN);
        Self {
            limiter: RateLimiter::dashmap_with_clock(quota, MonotonicClock),
            told: RateLimiter::dashmap_with_clock(once, MonotonicClock),
        }
    }

    /// Counts a revocation by this client.
    ///
    /// # Errors
    /// The time until the next revocation is allowed; nothing was counted.
    pub fn admit(&self, client_id: &ClientId) -> Result<(), Duration> {
        let admitted = self.limiter.check_key(client_id);
        admitted.map_err(|refused| refused.wait_time_from(MonotonicClock.now()))
    }

    /// True if a refusal of this client must be logged: the first within a minute.
    pub fn is_to_be_told(&self, client_id: &ClientId) -> bool {
        self.told.check_key(client_id).is_ok()
    }

    pub fn forget_idle(&self) {
        for limiter in [&self.limiter, &self.told] {
            limiter.retain_recent();
            limiter.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_an_allowance_of_its_own() {
        let limit = RevocationLimit::new(&Limits {
            revocations_per_second: NonZeroU32::MIN,
            revocations_burst: NonZeroU32::new(3).unwrap(),
        });
        let [one, other] = ["one", "other"].map(|id| ClientId::parse(id).unwrap());
        for _ in 0..3 {
            assert_eq!(limit.admit(&one), Ok(()));
        }
        let wait = limit.admit(&one).unwrap_err();
        assert!(
            !wait.is_zero() && wait <= Duration::from_secs(1),
            "{wait:?}"
        );
        assert_eq!(limit.admit(&other), Ok(()));
        assert!(limit.is_to_be_told(&one));
        assert!(!limit.is_to_be_told(&one));
        limit.forget_idle();
        assert!(
            limit.admit(&one).is_err(),
            "who revoked lately is not forgotten"
        );
    }
}
