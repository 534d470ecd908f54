//! Pages of the revocation feed, one a line, to the same reader: a bad page changes nothing, and the position never goes
//! back except to the start.

#![no_main]

use filter::revocations::{MAX_ENTRIES, Revocations};
use filter::verify::TokenReference;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let token = TokenReference {
        jti: "t".into(),
        grant_id: Some("g".into()),
        client_id: "c".into(),
        sub: "u".into(),
        iat: 100,
    };
    let mut revocations = Revocations::default();
    for (page, now) in input.split(|byte| *byte == b'\n').zip(200..) {
        let before = (
            revocations.position(),
            revocations.synchronized_at(),
            revocations.names(&token),
        );
        let applied = revocations.apply(page, now);
        let position = revocations.position();
        assert!(position >= before.0 || position == 0);
        assert!(revocations.len() <= MAX_ENTRIES);
        if applied.is_err() {
            // Only what has expired may be gone.
            assert_eq!(
                (position, revocations.synchronized_at()),
                (before.0, before.1)
            );
            assert!(before.2 || !revocations.names(&token));
        }
    }
});
