//! Limits the number of refusals in the audit log, so that attackers cannot fill the log.

use std::time::Duration;

use super::most_entries;
use domain::clock::Timestamp;
use domain::{AuditAction, AuditKind};

/// Maximum number of entries of one action that is a [refusal](domain::AuditAction::is_refusal) in the store during the
/// retention. Together, these actions leave room for the other entries of their kind. The log records the number of
/// further refusals.
pub(super) const REFUSALS_OF_A_KIND: u64 = most_entries(AuditKind::Refusal) / (actions() + 1);

/// Number of the actions that are refusals.
const fn actions() -> u64 {
    let (mut rest, mut count) = (AuditAction::ALL, 0);
    while let [action, others @ ..] = rest {
        if action.is_refusal() {
            count += 1;
        }
        rest = others;
    }
    count
}

/// Maximum burst of refusals of one kind.
pub(super) const REFUSALS_AT_ONCE: u64 = 10_000;

/// The remaining quota of one kind of refusal.
#[derive(Debug)]
pub(super) struct Quota {
    /// Remaining entries, multiplied by the retention in seconds.
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

    /// Uses up one entry of the quota and returns true, or counts an omitted entry and returns false.
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
