//! Pages of the revocation feed, one a line, to the same reader: a bad page changes nothing, and the table never holds more
//! than it may.

#![cfg_attr(fuzzing, no_main)]

use claims::{Confirmation, Thumbprint};
use guard::clock::Time;
use guard::feed::{Feed, FeedConfig};
use guard::shared_data::NoSharedData;
use guard::verify::TokenReference;
use keys::endpoint::Endpoint;
#[cfg(fuzzing)]
use libfuzzer_sys::fuzz_target;

const CAPACITY: usize = 10;

fuzz_target!(|input: &[u8]| {
    let token = TokenReference {
        jti: Some("t".into()),
        grant_id: Some("g".into()),
        client_id: Some("c".into()),
        sub: Some("u".into()),
        user_id: Some("i".into()),
        user_site: Some("s".into()),
        bound_to: Confirmation {
            jkt: Some(Thumbprint::from_bytes([7; 32])),
            certificate: Some(Thumbprint::from_bytes([9; 32])),
        },
        iat: 100,
        exp: 3700,
    };
    let mut feed = Feed::new(FeedConfig {
        endpoint: Endpoint {
            cluster: "c".into(),
            authority: "a".into(),
            path: "/r".into(),
        },
        issuers: vec!["iss".into()],
        poll_seconds: 2,
        max_staleness_seconds: 60,
        max_entries: CAPACITY,
        skew: 5,
    });
    for (page, now) in input.split(|byte| *byte == b'\n').zip(200..) {
        let time = Time {
            wall: now,
            steady: now,
        };
        feed.due(now);
        let state = |feed: &Feed| (feed.completed_at(), feed.revocations().generation());
        let is_refused = |feed: &Feed| feed.revocations().refusal(&token, "iss", 0).is_some();
        let (before, was_refused) = (state(&feed), is_refused(&feed));
        let answered = feed.answered(page, &NoSharedData, time);
        assert!(feed.revocations().len() <= CAPACITY);
        if answered.is_err() {
            assert_eq!((state(&feed), is_refused(&feed)), (before, was_refused));
            feed.failed(now);
        }
    }
});
