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
        assert_eq!(reads(), before, "{:?}", feed.requests());
    }
    // Each worker, and Envoy's main thread, read the feed once, when it started.
    assert!(reads() <= usize::from(WORKERS) + 1, "{:?}", feed.requests());
    assert_eq!(feed.held().1, 1, "{:?}", feed.requests());
}
