//! What a VM does with the data that other VMs share.

use keys::schedule::TIMEOUT_SECONDS;

use super::Feed;
use super::sharing::{News, Role};
use super::wire::Snapshot;
use crate::clock::Time;
use crate::shared_data::SharedData;

impl Feed {
    /// Takes part in the sharing among VMs: elects the leader and applies shared pages. Followers call this
    /// twenty times a second. Returns true if there was news.
    pub fn keep_in_step(&mut self, data: &dyn SharedData, time: Time) -> bool {
        let now = time.steady;
        let patience = self.asked.wait + 3 * TIMEOUT_SECONDS;
        let role = self.sharing.role;
        self.sharing
            .elect(data, self.caught_up, self.completed_at, patience, now);
        if self.sharing.role != Role::Follower && role == Role::Follower {
            self.schedule.continues(now);
        }
        let inherited = self.inherit(data, time);
        if !self.follows() {
            return false;
        }
        let has_news = self.follow(data, time);
        match inherited.filter(|_| self.caught_up) {
            Some(answered_at) => {
                self.progressed_at = None;
                self.completed_at = self.completed_at.max(Some(answered_at));
                true
            }
            None => has_news,
        }
    }

    /// Takes over what an earlier VM knew, if this VM knows nothing yet: after a change of the configuration, new VMs decide
    /// at once, even while the token service is away. Returns the time of the last complete answer, if that is not stale.
    fn inherit(&mut self, data: &dyn SharedData, time: Time) -> Option<u64> {
        let knows = self.identity.is_some() || self.completed_at.is_some() || self.position > 0;
        if knows || self.sharing.role != Role::Follower {
            return None;
        }
        let (head, snapshot) = self.sharing.inherit(data)?;
        let Snapshot {
            position,
            missing_until,
            entries,
            ..
        } = snapshot;
        self.revocations.inherit(&entries, missing_until, time.wall);
        self.identity = Some(head.feed);
        self.position = position;
        // If what this VM took over is stale, it reads the feed itself: there may be no other VM. A future time means that this
        // host's VMs do not share a clock.
        let age = time.steady.checked_sub(head.answered_at);
        self.caught_up = age.is_some_and(|age| age <= self.config.max_staleness_seconds);
        self.caught_up.then_some(head.answered_at)
    }

    /// Applies the news in the ring. Returns true if there was news.
    fn follow(&mut self, data: &dyn SharedData, time: Time) -> bool {
        let now = time.steady;
        let feed = self.identity.as_deref().unwrap_or_default();
        match self.sharing.look(data, feed, self.position) {
            News::None => false,
            News::Pages { pages, is_fresh } => {
                for page in &pages {
                    self.revocations.add(&page.entries, time.wall);
                    self.position = page.position;
                }
                self.note_folding();
                self.stalls.settled();
                if is_fresh {
                    self.completed(now);
                } else {
                    self.progressed_at = Some(now);
                }
                true
            }
            News::Gap => {
                self.caught_up = false;
                self.schedule.pauses(now, self.stalls.started());
                false
            }
            News::Anew => {
                self.start_over();
                self.schedule.pauses(now, self.stalls.started());
                false
            }
        }
    }
}
