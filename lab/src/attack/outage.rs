//! Floods while the token service is down: a gateway that never had keys, and a gateway whose revocations are stale.
//! All requests wait, and all end at the same time.

use super::client::Operation;
use super::unknown_keys::flood;
use super::{Attack, Outage};

/// The API can accept no request, and nobody gets a token.
const UNAVAILABLE: &[(Operation, u16)] = &[
    (Operation::Keys, 503),
    (Operation::Token, 503),
    (Operation::Call, 503),
    (Operation::SignIn, 503),
    (Operation::KnownDevice, 503),
];

pub(crate) const NO_KEYS: Attack = Attack {
    name: "no-keys",
    about: "the flood of unknown keys at a gateway that starts while the token service is away",
    outage: Some(&Outage {
        gateway: &[],
        begin: |pair| {
            pair.stop_token_service();
            pair.restart_envoy()
        },
    }),
    explains: UNAVAILABLE,
    run: flood,
};

pub(crate) const STALE_FEED: Attack = Attack {
    name: "stale-feed",
    about: "the flood of unknown keys while revocations are stale and the gateway denies",
    outage: Some(&Outage {
        gateway: &[(
            r#""max_staleness_seconds": 60, "when_stale": "allow""#,
            r#""max_staleness_seconds": 2, "when_stale": "deny""#,
        )],
        begin: |pair| {
            pair.stop_token_service();
            Ok(())
        },
    }),
    explains: UNAVAILABLE,
    run: flood,
};
