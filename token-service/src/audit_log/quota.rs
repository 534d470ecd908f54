//! How many refusals the log takes, so that nobody can fill it.

use std::time::Duration;

use super::MOST_ENTRIES;
use domain::clock::Timestamp;

/// Entries of one kind of [refusal](AuditAction::is_refusal) that the store keeps, for as long as entries are kept:
/// there are five kinds, so that no number of refused requests turns the log over. Of what is more, the number is told.
pub(super) const REFUSALS_OF_A_KIND: u64 = MOST_ENTRIES / 20;

/// Refusals of one kind that are taken at once, when there were few before.
pub(super) const REFUSALS_AT_ONCE: u64 = 10_000;

/// What is left of the entries of a kind.
#[derive(Debug)]
pub(super) struct Quota {
    /// What may be taken now, in entries times the seconds for which entries are kept.
    credit: u64,
    counted_at: Timestamp,
    pub(super) left_out: u64,
    pub(super) left_out_since: Timestamp,
}

impl Quota {
    pub(super) const fn full(keep_for: Duration, now: Timestamp) -> Self {
        Self {
            credit: Self::most(keep_for),
            counted_at: now,
            left_out: 0,
            left_out_since: now,
        }
    }

    const fn most(keep_for: Duration) -> u64 {
        REFUSALS_AT_ONCE.saturating_mul(keep_for.as_secs())
    }

    /// Takes an entry, or counts it as left out.
    pub(super) fn take(&mut self, keep_for: Duration, now: Timestamp) -> bool {
        let passed = now.since(self.counted_at).as_secs();
        let earned = passed.saturating_mul(REFUSALS_OF_A_KIND);
        self.credit = self.credit.saturating_add(earned).min(Self::most(keep_for));
        self.counted_at = self.counted_at.max(now);
        if let Some(credit) = self.credit.checked_sub(keep_for.as_secs()) {
            self.credit = credit;
            return true;
        }
        if self.left_out == 0 {
            self.left_out_since = now;
        }
        self.left_out += 1;
        false
    }
}
