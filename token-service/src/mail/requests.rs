//! Messages for which strangers ask. Each network has a share of the queue, and the networks take turns, so that nobody can keep the
//! messages of others back.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Most requests that wait.
pub(super) const MOST_WAITING: usize = 1_000;

/// Most requests of one network that wait.
pub(super) const SHARE: usize = 50;

pub(super) struct Requests<T> {
    queue: Mutex<Queue<T>>,
    arrived: Notify,
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Added {
    Waits,
    /// It waits in the place of one of the network that has the most.
    InPlaceOfAnother,
    NoRoom,
}

impl<T> Requests<T> {
    pub(super) fn new() -> Self {
        Self {
            queue: Mutex::new(Queue::new()),
            arrived: Notify::new(),
        }
    }

    /// Adds a request of `network`, to be answered from `at` on.
    pub(super) fn add(&self, network: &[u8], at: Instant, request: T) -> Added {
        let added = self.locked(|queue| queue.add(network, at, request));
        self.arrived.notify_one();
        added
    }

    /// The next request, when its time has come.
    pub(super) async fn next(&self) -> T {
        loop {
            let at = match self.locked(|queue| queue.next(Instant::now())) {
                Ok(request) => return request,
                Err(at) => at,
            };
            match at {
                Some(at) => drop(timeout_at(at, self.arrived.notified()).await),
                None => self.arrived.notified().await,
            }
        }
    }

    fn locked<R>(&self, action: impl FnOnce(&mut Queue<T>) -> R) -> R {
        action(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Requests of one network, each with the time when it came.
type Waiting<T> = VecDeque<(Instant, T)>;

struct Queue<T> {
    /// The networks with requests, the one whose turn is next first.
    networks: VecDeque<(Vec<u8>, Waiting<T>)>,
    waiting: usize,
}

impl<T> Queue<T> {
    const fn new() -> Self {
        Self {
            networks: VecDeque::new(),
            waiting: 0,
        }
    }

    fn add(&mut self, network: &[u8], at: Instant, request: T) -> Added {
        let mut networks = self.networks.iter();
        let held = networks.find(|(other, _)| other == network);
        let held = held.map_or(0, |(_, requests)| requests.len());
        if held >= SHARE {
            return Added::NoRoom;
        }
        let mut added = Added::Waits;
        if self.waiting >= MOST_WAITING {
            let requests = self.networks.iter_mut().map(|(_, requests)| requests);
            let most = requests.max_by_key(|requests| requests.len());
            let Some(most) = most.filter(|most| most.len() > held + 1) else {
                return Added::NoRoom;
            };
            most.pop_back();
            self.waiting -= 1;
            added = Added::InPlaceOfAnother;
        }
        self.waiting += 1;
        let mut networks = self.networks.iter_mut();
        match networks.find(|(other, _)| other == network) {
            Some((_, requests)) => requests.push_back((at, request)),
            None => self
                .networks
                .push_back((network.to_vec(), VecDeque::from([(at, request)]))),
        }
        added
    }

    /// The next request whose time has come; otherwise the time of the first.
    fn next(&mut self, now: Instant) -> Result<T, Option<Instant>> {
        let first =
            |(_, requests): &(_, VecDeque<(Instant, T)>)| requests.front().map(|(at, _)| *at);
        let mut times = self.networks.iter().map(first);
        let ready = times.position(|at| at.is_some_and(|at| at <= now));
        let found = ready.and_then(|place| self.networks.remove(place));
        let Some((network, mut requests)) = found else {
            return Err(self.networks.iter().filter_map(first).min());
        };
        let request = requests.pop_front();
        if !requests.is_empty() {
            self.networks.push_back((network, requests));
        }
        let (_, request) = request.ok_or(None)?;
        self.waiting -= 1;
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Somebody who asks for very many links fills neither the memory nor the places of others.
    #[test]
    fn no_network_fills_the_queue_for_others() {
        let (mut queue, now) = (Queue::new(), Instant::now());
        let mut add = |network: u8| queue.add(&[network], now, network);
        let mut from_one = (0..MOST_WAITING).map(|_| add(0));
        assert!(
            from_one
                .by_ref()
                .take(SHARE)
                .all(|added| added == Added::Waits)
        );
        assert!(from_one.all(|added| added == Added::NoRoom));
        // Many networks of one party.
        let full = u8::try_from(MOST_WAITING / SHARE).unwrap();
        for network in 1..=full {
            for _ in 0..SHARE {
                add(network);
            }
        }
        assert_eq!(add(250), Added::InPlaceOfAnother);
        assert_eq!(queue.waiting, MOST_WAITING);
        let turns = std::iter::from_fn(|| queue.next(now).ok());
        let turns: Vec<u8> = turns.take(usize::from(full) + 2).collect();
        assert_eq!(
            turns.iter().filter(|network| **network == 250).count(),
            1,
            "{turns:?}"
        );
    }

    #[test]
    fn a_request_waits_for_its_time_alone() {
        let (mut queue, now) = (Queue::new(), Instant::now());
        let later = now + Duration::from_secs(1);
        assert_eq!(queue.next(now), Err(None));
        queue.add(b"a", later, 1);
        queue.add(b"b", now, 2);
        assert_eq!(queue.next(now), Ok(2));
        assert_eq!(queue.next(now), Err(Some(later)));
        assert_eq!(queue.next(later), Ok(1));
        assert_eq!(queue.waiting, 0);
    }
}
