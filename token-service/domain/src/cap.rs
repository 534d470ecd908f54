//! Limits on sessions, legacy codes and grants per user. They keep the store and the revocation feed small when somebody
//! with a password, or an application, signs in over and over.
//!
//! A new session, code or grant is never refused, because a refusal would lock the user out. Instead, the entry that
//! would expire first ends. Sessions and grants in use stay, because each use extends their expiry.

/// Sessions per user and stage. The stages are counted separately, so that somebody who knows only the password cannot
/// end the session of a signed-in browser. Of the sessions that owe the second factor, sessions from the network of the new
/// one end first: somebody with only the password cannot end the owner's sessions.
pub const SESSIONS: Cap = Cap(32);

/// Unredeemed legacy codes per user and client. Codes of the current flows take no room in the store.
pub const CODES: Cap = Cap(16);

/// Live grants per user and client.
pub const GRANTS: Cap = Cap(100);

/// How many excess entries one operation reads and ends. More can exist only in a store from a version without caps,
/// and several operations then remove them.
const TOO_MANY_AT_ONCE: usize = 8;

/// A limit on the entries of one user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap(usize);

impl Cap {
    pub const fn most(self) -> usize {
        self.0
    }

    /// How many entries to read to decide which entries end.
    pub const fn looked_at(self) -> usize {
        self.0 + TOO_MANY_AT_ONCE
    }

    /// The entries of `held` that must end before a new entry starts, least first. Entries begin with their time of
    /// expiry, unless something else decides before.
    pub fn to_end<T: Ord>(self, mut held: Vec<T>) -> Vec<T> {
        held.sort_unstable();
        let too_many = (held.len() + 1).saturating_sub(self.0);
        held.truncate(too_many);
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;

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
