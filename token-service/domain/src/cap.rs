//! How much one person holds at a time: sessions, codes and grants. Whoever knows a password, and an application that signs in
//! over and over, fill neither the store nor the revocation feed.
//!
//! One more is never refused, because then whoever holds the most would keep the person out. What would expire first ends
//! instead: a session or grant that is in use stays, because each use makes it expire later.

use crate::clock::Timestamp;

/// Sessions of one stage of one person. The stages are apart, so that somebody who knows only the password ends no session of
/// a browser that is signed in.
pub const SESSIONS: Cap = Cap(32);

/// Codes of one person for one client that are not redeemed.
pub const CODES: Cap = Cap(16);

/// Live grants of one person for one client.
pub const GRANTS: Cap = Cap(100);

/// How many too many are looked at, and end, at once. There are too many only where an earlier version knew no cap, and then
/// not one operation ends all of them.
const TOO_MANY_AT_ONCE: usize = 8;

/// How many one person holds at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap(usize);

impl Cap {
    /// How many there are at most.
    #[must_use]
    pub const fn most(self) -> usize {
        self.0
    }

    /// How many have to be read to decide which end.
    #[must_use]
    pub const fn looked_at(self) -> usize {
        self.0 + TOO_MANY_AT_ONCE
    }

    /// Which of those that are `held`, each with the time of its expiry, end before one more begins.
    #[must_use]
    pub fn to_end<T: Ord>(self, mut held: Vec<(Timestamp, T)>) -> Vec<(Timestamp, T)> {
        held.sort_unstable();
        let too_many = (held.len() + 1).saturating_sub(self.0);
        held.truncate(too_many);
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_expire_first_ends_once_there_is_no_room() {
        let held = |expiries: &[u64]| -> Vec<(Timestamp, char)> {
            let expiries = expiries.iter().copied().map(Timestamp::from_seconds);
            expiries.zip('a'..).collect()
        };
        let ends = |expiries: &[u64]| -> String {
            let ended = Cap(3).to_end(held(expiries)).into_iter();
            ended.map(|(_, name)| name).collect()
        };
        assert_eq!(ends(&[]), "");
        assert_eq!(ends(&[7, 5]), "");
        assert_eq!(ends(&[7, 5, 6]), "b");
        assert_eq!(ends(&[7, 5, 6, 4, 8]), "dbc");
    }
}
