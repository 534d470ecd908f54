//! The pauses of a reader whose feed does not settle. A cache that drops the query, or two stores behind one address, would
//! otherwise be asked as fast as they answer.

use keys::schedule::growing_pause;

/// The longest pause, in seconds.
const MAX_PAUSE: u64 = 30;

/// Pages that add nothing and are followed at once all the same: 10,000,000 entries of other issuers or of ended tokens, before
/// an entry that counts.
const FREE_PAGES: usize = 2000;

/// Of as many held entries, one page more may add nothing, because a feed that is read again has them all. Full pages have
/// far more entries ([`claims::revocation::MAX_PAGE_ENTRIES`]).
const ENTRIES_OF_A_PAGE: usize = 100;

/// Counts the starts from 0, and the pages that add nothing. Each method returns the pause before the next request, in
/// seconds.
#[derive(Debug)]
pub(super) struct Stalls {
    /// Since the feed last settled.
    count: u32,
    longest: u64,
    /// Pages that added nothing, since one that did.
    barren: usize,
}

impl Stalls {
    pub(super) fn new(poll_seconds: u64) -> Self {
        Self {
            count: 0,
            longest: poll_seconds.min(MAX_PAUSE),
            barren: 0,
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

    /// A page with a new position, and with more behind it, was applied. True if the feed has too many such pages that add
    /// nothing: it would continue without end. `held`: number of entries in the table.
    pub(super) fn is_barren(&mut self, added: bool, held: usize) -> bool {
        self.barren = match added {
            true => 0,
            false => self.barren.saturating_add(1),
        };
        self.barren > FREE_PAGES + held / ENTRIES_OF_A_PAGE
    }

    /// The reader reached the end of the feed from the position that it asked for.
    pub(super) fn settled(&mut self) {
        self.count = 0;
        self.barren = 0;
    }
}
