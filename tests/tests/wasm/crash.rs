//! A crash of a VM. A native module has no VM: it catches panics, and a crash of it is Envoy's.

use tests::wire;

use crate::api::until;
use crate::feed::{WORKERS, all_answer, revoke, statuses};
use crate::support::module::LARGE;
use crate::support::{FeedService, OwnPair, get};

/// The end of a VM in Envoy's log: memory for the headers of a request is the first that it lacks.
const OUT_OF_MEMORY: &str = "proxy_on_memory_allocate failed";

/// A crash of the filter's VM fails only the requests of that moment. No request passes unchecked, and Envoy starts the
/// VM again.
#[test]
fn a_crashed_filter_fails_closed_and_comes_back() {
    let pair = OwnPair::with_crashing_filter(None);
    let good = pair.token();
    let (signed, _) = good.rsplit_once('.').unwrap();
    let forged = format!("{signed}.{}", "A".repeat(86));
    let url = format!("{}/api/projects", pair.pair.api_url());
    let large = format!("x-large: {}\r\n", "1".repeat(LARGE));
    for crash in 1..=3 {
        until("the filter lets good tokens in", || pair.call(&good) == 200);
        assert_eq!(pair.call(&forged), 401);
        assert_eq!(get(&url, &[]).status, 401);
        for token in [&good, &forged] {
            let request = format!(
                "GET /api/projects HTTP/1.1\r\nhost: api\r\nconnection: close\r\nauthorization: Bearer {token}\r\n{large}\r\n"
            );
            let answer = wire::send(pair.pair.ports().api, &request);
            let answer = answer.unwrap().unwrap();
            assert!((500..600).contains(&answer.status), "{answer:?}");
            assert!(!answer.body.contains("x-user-id"), "{answer:?}");
        }
        until("the filter is back", || {
            // Meanwhile the filter, or the gateway in its place, refuses requests.
            for status in [pair.call(&forged), get(&url, &[]).status] {
                assert!(status == 401 || (500..600).contains(&status), "{status}");
            }
            pair.call(&good) == 200
        });
        let crashes = |log: &str| (log.matches(OUT_OF_MEMORY).count() >= crash).then_some(());
        pair.pair.log().until("the crash", crashes).unwrap();
    }
}

/// The VM of every worker crashes in turn, also the VM that reads the feed for all. The other VMs and the new VMs
/// continue.
#[test]
fn the_feed_survives_the_death_of_the_vm_that_reads_it() {
    let feed = FeedService::start();
    let pair = OwnPair::with_crashing_filter(Some((&feed, WORKERS)));
    let large = format!("x-large: {}\r\n", "1".repeat(LARGE));
    for _ in 0..3 {
        let token = pair.token();
        until("all workers let the token in", || {
            all_answer(&pair, &token, 200)
        });
        let crashed = statuses(&pair, &token, &large);
        let is_let_in = |status: &Option<u16>| status.is_some_and(|status| status < 300);
        assert!(!crashed.iter().any(is_let_in), "{crashed:?}");
        revoke(&feed, &token);
        until("all workers refuse the token", || {
            all_answer(&pair, &token, 401)
        });
    }
    pair.pair.log().until_it_says(OUT_OF_MEMORY).unwrap();
}
