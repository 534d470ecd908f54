//! Whether the entries of a feed suffice for decisions.

/// While pages arrive in order, but the end of the feed does not, the feed becomes stale after this multiple of
/// the configured age.
const PROGRESS_FACTOR: u64 = 10;

/// Times of the reader of a feed, in seconds of the steady clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Freshness {
    /// Last time when the reader was at the end of the feed; `None` if it never was.
    pub completed_at: Option<u64>,
    /// Last time when the reader received a page that was not the last.
    pub progressed_at: Option<u64>,
}

impl Freshness {
    /// True if the entries suffice for decisions: the reader was at the end of the feed within the last
    /// `max_staleness` seconds. If the reader received a page within that time, `PROGRESS_FACTOR` times that age
    /// suffices, because reading many entries takes time.
    pub fn suffices(self, max_staleness: u64, now: u64) -> bool {
        let within =
            |time: Option<u64>, age| time.is_some_and(|time| now <= time.saturating_add(age));
        within(self.completed_at, max_staleness)
            || (within(self.progressed_at, max_staleness)
                && within(
                    self.completed_at,
                    max_staleness.saturating_mul(PROGRESS_FACTOR),
                ))
    }
}
