//! Requests that wait for a fetch, and the order in which they are resumed. The states of a request:
//!
//! - held: the guard needs a fetch first ([`hold`](Waiting::hold)). With [`MAX_WAITING`] requests held or released, the
//!   request is refused instead. Next: released or gone.
//! - released: the fetch has ended ([`fetch_ended`](Waiting::fetch_ended), [`fetch_failed`](Waiting::fetch_failed)), or
//!   the request was held for [`MAX_SECONDS`] ([`expire`](Waiting::expire)), or for longer while pages of its feed
//!   arrive ([`extend`](Waiting::extend)). Next: resumed or gone.
//! - resumed: the request's turn came, earliest arrival first ([`next_turn`](Waiting::next_turn)). The guard decides
//!   again: the request passes, is answered, or is held again ([`hold_again`](Waiting::hold_again)) with its old place,
//!   and with its old time unless it waits for another source. Next: as above.
//! - gone: the client reset the request, or its stream ended ([`forget`](Waiting::forget)).
//!
//! Releasing a request does not answer it. Envoy ends the stream of a request inside the call that answers it,
//! so each answer of one callback lies on the stack of the one before. About 315 of them overflow V8's stack
//! and end the VM. Therefore a callback resumes at most [`BATCH`] requests, and the next tick continues with
//! the rest.

mod held;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::decide::Patience;
use crate::fetch::FetchId;

pub use held::Held;

/// Most requests that wait at the same time; further requests are answered with 503.
pub(crate) const MAX_WAITING: usize = 1024;

/// Most requests that one callback resumes: a tenth of the number that overflowed the stack.
pub(crate) const BATCH: usize = 32;

/// Longest time that a request is held for one source, in seconds.
pub(crate) const MAX_SECONDS: u64 = keys::schedule::TIMEOUT_SECONDS;

/// Longest time that a request is held for several sources, or while pages of a feed arrive, in seconds.
pub(crate) const MAX_EXTENDED_SECONDS: u64 = 30;

type Ticket = u64;

#[derive(Debug)]
struct Wait {
    ticket: Ticket,
    source: FetchId,
    /// Time of arrival, in seconds of the steady clock.
    since: u64,
    /// Latest time of release, in seconds of the steady clock.
    until: u64,
    /// True if the next fetch to end started after the request came. Only the result of such a fetch is final
    /// for the request.
    fetch_started: bool,
}

#[derive(Debug)]
struct Place<R> {
    wait: Wait,
    /// `None` while the request is held.
    released: Option<Patience>,
    request: R,
}

#[derive(Debug)]
pub(crate) struct Turn<R> {
    pub(crate) context: u32,
    pub(crate) patience: Patience,
    pub(crate) request: R,
    wait: Wait,
}

/// The waiting requests of one VM.
#[derive(Debug)]
pub(crate) struct Waiting<R> {
    places: FxHashMap<u32, Place<R>>,
    /// Contexts of the released requests, in the order of arrival.
    released: BTreeMap<Ticket, u32>,
    arrived: Ticket,
}

impl<R> Default for Waiting<R> {
    fn default() -> Self {
        Self {
            places: FxHashMap::default(),
            released: BTreeMap::new(),
            arrived: 0,
        }
    }
}

impl<R> Waiting<R> {
    pub(crate) fn is_full(&self) -> bool {
        self.places.len() >= MAX_WAITING
    }

    /// Number of requests that are held or released.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// True if a released request has not been resumed yet.
    pub(crate) fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// Holds a new request until a fetch from `source` has ended. `now` in seconds of the steady clock. The
    /// caller must check [`is_full`](Self::is_full) first.
    pub(crate) fn hold(&mut self, context: u32, source: FetchId, now: u64, request: R) {
        self.arrived += 1;
        let wait = Wait {
            ticket: self.arrived,
            source,
            since: now,
            until: now + MAX_SECONDS,
            fetch_started: false,
        };
        self.hold_in_place(context, wait, request);
    }

    fn hold_in_place(&mut self, context: u32, wait: Wait, request: R) {
        let place = Place {
            wait,
            released: None,
            request,
        };
        self.places.insert(context, place);
    }

    /// Holds a resumed request again, with its old place and time of arrival. `now` in seconds of the steady clock.
    pub(crate) fn hold_again(&mut self, turn: Turn<R>, source: FetchId, now: u64) {
        let mut wait = turn.wait;
        // The wait for another source begins now, and a fetch from another source is not final for this one.
        if wait.source != source {
            wait.source = source;
            wait.until = latest(wait.since, now);
            wait.fetch_started = false;
        }
        self.hold_in_place(turn.context, wait, turn.request);
    }

    /// A fetch starts. Its result is final for the requests that already wait for it.
    pub(crate) fn fetch_started(&mut self, source: FetchId) {
        for Place { wait, .. } in self.places.values_mut() {
            wait.fetch_started |= wait.source == source;
        }
    }

    /// A fetch has ended. Requests that came after its start may be held again, because its result may lack a
    /// newer key.
    pub(crate) fn fetch_ended(&mut self, source: FetchId) {
        self.release(|wait| {
            let patience = match wait.fetch_started {
                true => Patience::Over(source.1),
                false => Patience::Left,
            };
            (wait.source == source).then_some(patience)
        });
    }

    /// A fetch has failed. Releases its requests without another wait.
    pub(crate) fn fetch_failed(&mut self, source: FetchId) {
        self.release(|wait| (wait.source == source).then_some(Patience::Over(source.1)));
    }

    /// A page of a feed has come, and more follow. Requests that wait for the feed wait for the next page as
    /// long as for the first one.
    pub(crate) fn extend(&mut self, source: FetchId, now: u64) {
        for Place { wait, .. } in self.places.values_mut() {
            if wait.source == source {
                wait.until = latest(wait.since, now);
            }
        }
    }

    /// Releases the requests whose time is over.
    pub(crate) fn expire(&mut self, now: u64) {
        self.release(|wait| (now >= wait.until).then_some(Patience::Over(wait.source.1)));
    }

    fn release(&mut self, patience: impl Fn(&Wait) -> Option<Patience>) {
        for (context, place) in &mut self.places {
            let Some(patience) = patience(&place.wait) else {
                continue;
            };
            // A request whose wait is over stays so.
            if !matches!(place.released, Some(Patience::Over(_))) {
                place.released = Some(patience);
            }
            self.released.insert(place.wait.ticket, *context);
        }
    }

    /// Removes and returns the released request that arrived first.
    pub(crate) fn next_turn(&mut self) -> Option<Turn<R>> {
        loop {
            let (_, context) = self.released.pop_first()?;
            let Some(place) = self.places.remove(&context) else {
                continue;
            };
            let source = place.wait.source;
            return Some(Turn {
                context,
                patience: place.released.unwrap_or(Patience::Over(source.1)),
                request: place.request,
                wait: place.wait,
            });
        }
    }

    /// Removes a request that has ended.
    pub(crate) fn forget(&mut self, context: u32) {
        if let Some(place) = self.places.remove(&context) {
            self.released.remove(&place.wait.ticket);
        }
    }
}

/// The latest time of release of a request that came at `since` and waits for a fetch from `now` on.
fn latest(since: u64, now: u64) -> u64 {
    (now + MAX_SECONDS).min(since + MAX_EXTENDED_SECONDS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fetch::FetchKind;

    const KEYS: FetchId = (0, FetchKind::Keys);
    const FEED: FetchId = (0, FetchKind::Revocations);
    const OVER: Patience = Patience::Over(KEYS.1);
    const NOW: u64 = 1_800_000_000;

    fn waiting(contexts: impl IntoIterator<Item = u32>) -> Waiting<()> {
        let mut waiting = Waiting::default();
        for context in contexts {
            waiting.hold(context, KEYS, NOW, ());
        }
        waiting
    }

    /// Returns the contexts of the resumed requests, in order.
    fn turns(waiting: &mut Waiting<()>) -> Vec<(u32, Patience)> {
        std::iter::from_fn(|| waiting.next_turn())
            .map(|turn| (turn.context, turn.patience))
            .collect()
    }

    #[test]
    fn first_come_first_served_whatever_released_them() {
        let mut waiting = waiting([5, 3]);
        waiting.hold(4, FEED, NOW, ());
        waiting.hold(1, KEYS, NOW + 1, ());
        waiting.fetch_failed(FEED);
        waiting.fetch_started(KEYS);
        waiting.fetch_ended(KEYS);
        let contexts: Vec<u32> = turns(&mut waiting).into_iter().map(|turn| turn.0).collect();
        assert_eq!(contexts, [5, 3, 4, 1]);
        assert!(waiting.len() == 0 && !waiting.has_released());
    }

    #[test]
    fn the_end_of_a_fetch_concerns_only_who_waits_for_it() {
        let mut waiting = waiting([1]);
        waiting.hold(2, FEED, NOW, ());
        waiting.hold(3, (1, FetchKind::Keys), NOW, ());
        waiting.fetch_ended(KEYS);
        assert_eq!(turns(&mut waiting), [(1, Patience::Left)]);
        assert_eq!(waiting.len(), 2);
    }

    #[test]
    fn only_a_fetch_that_started_later_has_the_last_word() {
        let mut waiting = waiting([1]);
        waiting.fetch_started(KEYS);
        waiting.hold(2, KEYS, NOW, ());
        waiting.fetch_ended(KEYS);
        assert_eq!(waiting.next_turn().unwrap().patience, OVER);
        let late = waiting.next_turn().unwrap();
        assert_eq!(late.patience, Patience::Left);
        waiting.hold_again(late, KEYS, NOW);
        waiting.fetch_started(KEYS);
        waiting.fetch_ended(KEYS);
        assert_eq!(turns(&mut waiting), [(2, OVER)]);
    }

    /// While a request waits for its turn, the next fetch may start and end.
    #[test]
    fn a_fetch_that_runs_while_a_request_waits_for_its_turn_counts() {
        let mut waiting = waiting([1, 2]);
        waiting.fetch_ended(KEYS);
        waiting.fetch_started(KEYS);
        let turn = waiting.next_turn().unwrap();
        assert_eq!(turn.patience, Patience::Left);
        waiting.hold_again(turn, KEYS, NOW);
        waiting.fetch_ended(KEYS);
        let over = |context| (context, OVER);
        assert_eq!(turns(&mut waiting), [over(1), over(2)]);
    }

    #[test]
    fn a_fetch_of_the_keys_says_nothing_about_the_feed() {
        let mut waiting = waiting([1]);
        waiting.fetch_started(KEYS);
        waiting.fetch_ended(KEYS);
        let turn = waiting.next_turn().unwrap();
        waiting.hold_again(turn, FEED, NOW);
        waiting.fetch_ended(FEED);
        assert_eq!(turns(&mut waiting), [(1, Patience::Left)]);
    }

    #[test]
    fn nobody_waits_longer_than_allowed_however_often() {
        let mut waiting = waiting([1]);
        waiting.fetch_ended(KEYS);
        let turn = waiting.next_turn().unwrap();
        waiting.hold_again(turn, KEYS, NOW);
        waiting.expire(NOW + MAX_SECONDS - 1);
        assert!(!waiting.has_released());
        waiting.expire(NOW + MAX_SECONDS);
        assert_eq!(turns(&mut waiting), [(1, OVER)]);
    }

    #[test]
    fn each_source_has_its_own_wait_but_not_for_good() {
        let mut waiting = waiting([1]);
        waiting.expire(NOW + MAX_SECONDS);
        let mut now = NOW + MAX_SECONDS;
        for source in [FEED, KEYS, FEED, KEYS, FEED] {
            let turn = waiting.next_turn().unwrap();
            waiting.hold_again(turn, source, now);
            now += MAX_SECONDS;
            waiting.expire(now - 1);
            assert!(!waiting.has_released());
            waiting.expire(now);
        }
        assert_eq!(now, NOW + MAX_EXTENDED_SECONDS);
        let turn = waiting.next_turn().unwrap();
        assert_eq!(turn.patience, Patience::Over(FEED.1));
        waiting.hold_again(turn, KEYS, now);
        waiting.expire(now);
        assert_eq!(turns(&mut waiting), [(1, OVER)]);
    }

    #[test]
    fn pages_of_a_feed_extend_the_wait_but_not_for_good() {
        let mut waiting = waiting([1]);
        waiting.hold(2, FEED, NOW, ());
        for page in 1..=7 {
            let now = NOW + page * (MAX_SECONDS - 1);
            waiting.extend(FEED, now);
            waiting.expire(now);
            let others = (page == 2).then_some((1, OVER));
            assert_eq!(turns(&mut waiting), Vec::from_iter(others));
        }
        waiting.expire(NOW + MAX_EXTENDED_SECONDS - 1);
        assert!(!waiting.has_released());
        waiting.expire(NOW + MAX_EXTENDED_SECONDS);
        assert_eq!(turns(&mut waiting), [(2, Patience::Over(FEED.1))]);
    }

    #[test]
    fn who_has_gone_is_forgotten_in_every_state() {
        let mut waiting = waiting([1, 2, 3]);
        waiting.forget(1);
        waiting.fetch_failed(KEYS);
        waiting.forget(2);
        waiting.forget(99);
        assert_eq!(turns(&mut waiting), [(3, OVER)]);
        waiting.forget(3);
        assert_eq!(waiting.len(), 0);
    }

    #[test]
    fn the_number_of_those_who_wait_is_bounded() {
        let most = u32::try_from(MAX_WAITING).unwrap();
        let mut waiting = waiting(0..most);
        assert!(waiting.is_full());
        waiting.fetch_failed(KEYS);
        assert!(waiting.is_full(), "released requests take memory too");
        assert!(waiting.next_turn().is_some());
        assert!(!waiting.is_full());
    }

    proptest! {
        /// In every sequence of events, each request waits, had one turn, or is gone, and turns come in order.
        #[test]
        fn nobody_is_lost_and_nobody_served_twice(events in prop::collection::vec((0..6_u8, 0..20_u32), 0..200)) {
            let mut waiting = Waiting::<()>::default();
            let mut present = Vec::new();
            let mut next_context = 0;
            for (event, choice) in events {
                let source = if choice % 2 == 0 { KEYS } else { FEED };
                match event {
                    0 | 1 => {
                        next_context += 1;
                        waiting.hold(next_context, source, NOW + u64::from(choice), ());
                        present.push(next_context);
                    }
                    2 => waiting.fetch_started(source),
                    3 => waiting.fetch_ended(source),
                    4 => {
                        if let Some(turn) = waiting.next_turn() {
                            prop_assert!(present.contains(&turn.context));
                            if turn.patience == Patience::Left {
                                waiting.hold_again(turn, source, NOW);
                            } else {
                                present.retain(|context| *context != turn.context);
                            }
                        }
                    }
                    _ => {
                        waiting.forget(choice);
                        present.retain(|context| *context != choice);
                    }
                }
                prop_assert_eq!(waiting.len(), present.len());
            }
            waiting.expire(NOW + 3600);
            let order: Vec<u32> = turns(&mut waiting).into_iter().map(|turn| turn.0).collect();
            prop_assert_eq!(order, present);
        }
    }
}
