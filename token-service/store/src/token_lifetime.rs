//! How long entries of the revocation feed are kept.

use std::time::Duration;

use domain::clock::Timestamp;

/// How long a store goes on with a longer lifetime of tokens after every process issues shorter ones, beyond that
/// lifetime itself: processes that stop later than others have issued such tokens until then.
pub(crate) const LIFETIME_MARGIN: Duration = Duration::from_secs(300);

/// The lifetime of the longest-lived access tokens that may exist: what a store remembers of earlier configurations, so
/// that a shorter lifetime brings no revoked token back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TokenLifetime {
    /// The lifetime, in seconds.
    pub(crate) longest: u64,
    /// When the last of these tokens has expired, seconds since 1970; 0 while tokens of this lifetime are issued.
    pub(crate) until: u64,
}

impl TokenLifetime {
    /// What holds when a process opens the store that issues tokens of `configured` seconds.
    pub(crate) const fn opened(self, configured: u64) -> Self {
        if configured < self.longest {
            return self;
        }
        Self {
            longest: configured,
            until: 0,
        }
    }

    /// What holds at `now`, while a process issues tokens of `configured` seconds.
    pub(crate) fn at(self, configured: u64, now: Timestamp) -> Self {
        if configured >= self.longest || (self.until > 0 && self.until <= now.seconds()) {
            return Self {
                longest: configured,
                until: 0,
            };
        }
        let until = match self.until {
            0 => (now + Duration::from_secs(self.longest) + LIFETIME_MARGIN).seconds(),
            until => until,
        };
        Self { until, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Timestamp {
        Timestamp::from_seconds(1_700_000_000 + seconds)
    }

    #[test]
    fn a_longer_lifetime_is_remembered_until_its_last_token_has_expired() {
        let day = TokenLifetime::default().opened(86_400);
        assert_eq!(day.longest, 86_400);
        let shorter = day.opened(3600);
        assert_eq!(shorter.longest, 86_400);
        let ending = shorter.at(3600, at(0));
        let until = at(0) + Duration::from_secs(86_400) + LIFETIME_MARGIN;
        assert_eq!((ending.longest, ending.until), (86_400, until.seconds()));
        let last = Timestamp::from_seconds(until.seconds() - 1);
        assert_eq!(ending.at(3600, last), ending, "it does not begin anew");
        assert_eq!(
            ending.at(86_400, last).until,
            0,
            "tokens of it are issued again"
        );
        assert_eq!(ending.at(3600, until).longest, 3600);
    }
}
