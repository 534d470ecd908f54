//! The pauses of a reader whose feed does not settle. A cache that drops the query, or two stores behind one address, would
//! otherwise be asked as fast as they answer.

use crate::fetch::growing_pause;

/// The longest pause, in seconds.
const MAX_PAUSE: u64 = 30;

/// Counts the starts from 0, and the pages that add nothing. Each method returns the pause before the next request, in
/// seconds.
#[derive(Debug)]
pub(super) struct Stalls {
    /// Since the feed last settled.
    count: u32,
    longest: u64,
}

impl Stalls {
    pub(super) fn new(poll_seconds: u64) -> Self {
        Self {
            count: 0,
            longest: poll_seconds.min(MAX_PAUSE),
        }
    }

    /// The reader must start again. The first start has no pause, because a restored feed may contain revocations that
    /// the reader does not know yet.
    pub(super) fn started(&mut self) -> u64 {
        let earlier = self.count.checked_sub(1);
        self.count = self.count.saturating_add(1);
        earlier.map_or(0, |earlier| growing_pause(earlier, self.longest))
    }

    /// A page contained nothing new, and did not come at the end of a held request.
    pub(super) fn added_nothing(&mut self) -> u64 {
        let earlier = self.count;
        self.count = self.count.saturating_add(1);
        growing_pause(earlier, self.longest)
    }

    /// The reader reached the end of the feed from the position that it asked for.
    pub(super) fn settled(&mut self) {
        self.count = 0;
    }
}
