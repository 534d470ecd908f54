//! The revocation feed in a real Envoy with several workers: one worker reads the feed for all.

use tests::wire;

use crate::api::until;
use crate::support::{FeedService, OwnPair};
use crate::token::claims;

pub(crate) const WORKERS: u16 = 3;

/// Enough connections to reach every worker: the kernel distributes them.
const CONNECTIONS: usize = 40;

pub(crate) fn revoke(feed: &FeedService, token: &str) {
    feed.revoke(claims(token)["jti"].as_str().unwrap());
}

/// The statuses of the API on many new connections.
pub(crate) fn statuses(pair: &OwnPair, token: &str, headers: &str) -> Vec<Option<u16>> {
    let request = format!(
        "GET /api/projects HTTP/1.1\r\nhost: api\r\nconnection: close\r\nauthorization: Bearer {token}\r\n{headers}\r\n"
    );
    let ask = |_| {
        let answer = wire::send(pair.pair.ports().api, &request).unwrap();
        answer.map(|answer| answer.status)
    };
    (0..CONNECTIONS).map(ask).collect()
}

pub(crate) fn all_answer(pair: &OwnPair, token: &str, status: u16) -> bool {
    statuses(pair, token, "")
        .iter()
        .all(|answered| *answered == Some(status))
}

/// The token service holds one request of the gateway, however many workers there are. All workers refuse the tokens
/// that its response revokes.
#[forms::each]
fn one_request_is_held_for_all_workers() {
    // On a busy machine, a worker may read for another one that is late.
    let trials = (0..3).map(|_| all_workers_learn_from_one());
    let failed: Vec<_> = trials.take_while(Result::is_err).collect();
    assert!(failed.len() < 3, "{failed:?}");
}

/// Revokes tokens at a new feed.
///
/// # Errors
/// More requests than one for all workers came to the feed.
fn all_workers_learn_from_one() -> Result<(), Vec<String>> {
    let feed = FeedService::start();
    let pair = OwnPair::with_feed(&feed, WORKERS);
    until("one request is held", || feed.held().0 == 1);
    let reads = || {
        let requests = feed.requests();
        requests
            .iter()
            .filter(|path| !path.contains("wait="))
            .count()
    };
    for _ in 0..5 {
        let token = pair.token();
        until("all workers let the token in", || {
            all_answer(&pair, &token, 200)
        });
        let before = reads();
        revoke(&feed, &token);
        until("all workers refuse the token", || {
            all_answer(&pair, &token, 401)
        });
        if reads() != before {
            return Err(feed.requests());
        }
    }
    // Each worker, and Envoy's main thread, read the feed once, when it started.
    let are_more = reads() > usize::from(WORKERS) + 1 || feed.held().1 != 1;
    match are_more {
        true => Err(feed.requests()),
        false => Ok(()),
    }
}
