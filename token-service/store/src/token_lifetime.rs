//! How long entries stay in the revocation feed.

use std::time::Duration;

use crate::fault::Fault;
use crate::tx::tables::{META, SWEPT_AT, TOKEN_LIFETIME, TOKEN_LIFETIME_UNTIL};
use crate::tx::{Read, Tx, Want};
use domain::clock::Timestamp;

/// When the configured lifetime of tokens becomes shorter, the store keeps the longer lifetime for that lifetime plus
/// this margin. Other processes may still issue longer-lived tokens during the margin.
pub(crate) const LIFETIME_MARGIN: Duration = Duration::from_secs(300);

/// The longest lifetime of access tokens that may still be valid. The store remembers it from earlier configurations,
/// so that shortening the lifetime does not make revoked tokens valid again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TokenLifetime {
    /// In seconds.
    pub(crate) longest: u64,
    /// When the last of these tokens has expired, in seconds since 1970; 0 while tokens of this lifetime are issued.
    pub(crate) until: u64,
}

impl TokenLifetime {
    /// The value after a process that issues tokens of `configured` seconds opens the store.
    pub(crate) const fn opened(self, configured: u64) -> Self {
        if configured < self.longest {
            return self;
        }
        Self {
            longest: configured,
            until: 0,
        }
    }

    /// The value while a process issues tokens of `configured` seconds. What ended before `due` is forgotten; `now` is the
    /// clock, which may be ahead.
    pub(crate) fn at(self, configured: u64, due: Timestamp, now: Timestamp) -> Self {
        if configured >= self.longest || (self.until > 0 && self.until <= due.seconds()) {
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

/// Records that a process opens the store, which issues tokens of `configured` seconds.
pub(crate) fn note_opened(
    tx: &mut impl Tx,
    configured: u64,
    now: Timestamp,
) -> Result<TokenLifetime, Fault> {
    tx.ahead(wants);
    let remembered = remembered(tx)?;
    if remembered == TokenLifetime::default() {
        // A new store has nothing to sweep.
        META.put(tx, SWEPT_AT, &now.seconds())?;
    }
    let lifetime = remembered.opened(configured);
    put(tx, lifetime)?;
    Ok(lifetime)
}

/// Records a sweep of what expired before `due`.
pub(crate) fn note_swept(
    tx: &mut impl Tx,
    configured: u64,
    due: Timestamp,
    now: Timestamp,
) -> Result<TokenLifetime, Fault> {
    tx.ahead(wants);
    let remembered = remembered(tx)?;
    let next = remembered.at(configured, due, now);
    if next != remembered {
        put(tx, next)?;
    }
    META.put(tx, SWEPT_AT, &due.seconds())?;
    Ok(next)
}

fn wants() -> [Want; 3] {
    [TOKEN_LIFETIME, TOKEN_LIFETIME_UNTIL, SWEPT_AT].map(|key| META.lock(key))
}

fn remembered(tx: &mut impl Read) -> Result<TokenLifetime, Fault> {
    Ok(TokenLifetime {
        longest: META.get(tx, TOKEN_LIFETIME)?.unwrap_or_default(),
        until: META.get(tx, TOKEN_LIFETIME_UNTIL)?.unwrap_or_default(),
    })
}

fn put(tx: &mut impl Tx, lifetime: TokenLifetime) -> Result<(), Fault> {
    META.put(tx, TOKEN_LIFETIME, &lifetime.longest)?;
    META.put(tx, TOKEN_LIFETIME_UNTIL, &lifetime.until)
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
        let ending = shorter.at(3600, at(0), at(0));
        let until = at(0) + Duration::from_secs(86_400) + LIFETIME_MARGIN;
        assert_eq!((ending.longest, ending.until), (86_400, until.seconds()));
        let last = Timestamp::from_seconds(until.seconds() - 1);
        assert_eq!(
            ending.at(3600, last, last),
            ending,
            "it does not begin anew"
        );
        assert_eq!(
            ending.at(86_400, last, last).until,
            0,
            "tokens of it are issued again"
        );
        assert_eq!(ending.at(3600, until, until).longest, 3600);
        // The clock is ahead of the time that the store knows, by mistake or after a stop.
        assert_eq!(ending.at(3600, last, until), ending);
        assert_eq!(
            shorter.at(3600, at(0), at(4000)).until,
            until.seconds() + 4000
        );
    }
}
