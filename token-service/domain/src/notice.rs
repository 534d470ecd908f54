//! Messages about changes of a person's credentials (D-64).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Username;
use crate::clock::Timestamp;

/// A message to a person about a change of the password, the second factor or an identity. The service owes the notice from the transaction
/// of the change until the mail server takes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    pub username: Username,
    /// The registered e-mail address at the time of the change.
    pub email: String,
    pub subject: String,
    pub text: String,
    /// The time of the change.
    pub at: Timestamp,
}

/// Most notices that the service owes to one person: somebody with a password must not fill the store.
pub const MOST_OWED: usize = 20;

/// Pause after the first failed attempt. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(5);

const LONGEST_PAUSE: Duration = Duration::from_mins(15);

/// Time from the change after which a failed attempt is the last one. With [`LONGEST_PAUSE`], a notice has at most 300 attempts.
pub const GIVE_UP_AFTER: Duration = Duration::from_hours(72);

impl Notice {
    /// Adds this notice to those that the service owes to the same person, in the order in which they are sent: those to the present
    /// address first, because an earlier one may take no messages, and of these the oldest first. If they are too many, the last one
    /// gives way: the first notices tell the person of a takeover, and the newest one of how it is now. Returns `true` if this notice is
    /// the next to be sent.
    pub fn owe(self, owed: &mut Vec<Self>) -> bool {
        owed.truncate(MOST_OWED - 1);
        let ahead = owed.iter().take_while(|one| one.email == self.email);
        let position = ahead.count();
        owed.insert(position, self);
        position == 0
    }

    /// The time of the oldest of these notices.
    pub fn since(owed: &[Self]) -> Timestamp {
        let times = owed.iter().map(|notice| notice.at);
        times.min().unwrap_or_default()
    }

    /// The time of the next attempt after failed attempt number `attempt` (from 1) at `now`; `None` to give up.
    pub fn next_attempt(&self, attempt: u64, now: Timestamp) -> Option<Timestamp> {
        let doublings = u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        let pause = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(doublings));
        (now < self.at + GIVE_UP_AFTER).then(|| now + pause.min(LONGEST_PAUSE))
    }
}

/// A notice that one process sends now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedNotice {
    pub notice: Notice,
    /// Number of this attempt, from 1.
    pub attempt: u64,
    /// The end of the claim: from then on, another process may claim the notice.
    pub until: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::username;

    fn notice(number: usize) -> Notice {
        Notice {
            username: username("ada"),
            email: "ada@example.com".to_owned(),
            subject: number.to_string(),
            text: String::new(),
            at: Timestamp::from_seconds(1_800_000_000),
        }
    }

    #[test]
    fn a_server_that_is_away_gets_a_bounded_number_of_attempts() {
        let notice = notice(0);
        let mut tried_at = vec![notice.at];
        while let Some(next) = notice.next_attempt(tried_at.len() as u64, *tried_at.last().unwrap())
        {
            tried_at.push(next);
        }
        let pauses = |range: std::ops::Range<usize>| -> Vec<u64> {
            let at = tried_at.get(range).unwrap();
            let pairs = at.windows(2);
            pairs
                .map(|pair| pair[1].seconds() - pair[0].seconds())
                .collect()
        };
        assert_eq!(pauses(0..10), [5, 10, 20, 40, 80, 160, 320, 640, 900]);
        assert!(tried_at.len() < 300, "{}", tried_at.len());
        assert!(*tried_at.last().unwrap() >= notice.at + GIVE_UP_AFTER);
        assert_eq!(
            notice.next_attempt(u64::MAX, notice.at),
            Some(notice.at + LONGEST_PAUSE)
        );
    }

    #[test]
    fn of_too_many_changes_a_person_learns_the_first_and_the_last() {
        let mut owed = Vec::new();
        for number in 0..MOST_OWED + 5 {
            notice(number).owe(&mut owed);
        }
        let subjects: Vec<&str> = owed.iter().map(|notice| notice.subject.as_str()).collect();
        assert_eq!((subjects.len(), subjects[0]), (MOST_OWED, "0"));
        assert_eq!(subjects[MOST_OWED - 2..], ["18", "24"]);
    }

    /// The operator has corrected an address that takes no messages.
    #[test]
    fn notices_to_the_present_address_wait_for_no_other_one() {
        let to = |email: &str, number| Notice {
            email: email.to_owned(),
            ..notice(number)
        };
        let mut owed = Vec::new();
        let is_next = [("old", 0), ("old", 1), ("new", 2), ("new", 3)]
            .map(|(email, number)| to(email, number).owe(&mut owed));
        assert_eq!(is_next, [true, false, true, false]);
        let subjects: Vec<&str> = owed.iter().map(|notice| notice.subject.as_str()).collect();
        assert_eq!(subjects, ["2", "3", "0", "1"]);
        assert_eq!(Notice::since(&owed), notice(0).at);
    }
}
