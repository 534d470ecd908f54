//! The round trips of every operation, whenever a test runs one.

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use super::*;
use crate::conformance::{refresh, session, start};
use domain::digest::Digest;

/// Operations that may need more than two round trips, with their maximum.
const MORE: &[(&str, u32)] = &[
    // Ends what owners hold: reads the indexes, then the rows, and then the entries of the feed of legacy tokens.
    ("change_registry", 5),
    ("revoke_all", 4),
    ("set_second_factor", 4),
    // The same, and before that, the user of the identity.
    ("end_provider_sign_ins", 5),
    ("end_sessions", 3),
    // Reads the counts of the index that the user's row belongs to.
    ("rehash_password", 3),
    ("reseal", 3),
    // Reads the feed, and then the other tables.
    ("remove_expired", 3),
    // Reads who is due, and then the notices, and both again if another replica has claimed some.
    ("claim_notices", 5),
    // Two in the usual case. More when grants or sessions must make room, or when a code or a refresh token is used again.
    ("redeem_code", 4),
    ("redeem_legacy_code", 5),
    ("rotate_refresh", 3),
    ("start_session", 3),
];

/// Panics if an operation took more round trips than it should.
pub(in crate::postgres) fn assert_few(operation: &str, attempts: u32, taken: u32, usual: u32) {
    let more = MORE.iter().find(|(name, _)| *name == operation);
    let most = more.map_or(usual, |(_, most)| *most);
    assert!(
        attempts > 1 || taken <= most,
        "{operation} took {taken} round trips, and not {most}"
    );
}

/// What each sign-in and each refresh does.
#[tokio::test]
async fn the_usual_operations_take_two_round_trips() {
    let store = Database::new(false).await.store;
    let grant = grant_of(&*store, code()).await;
    let rotation = use_of(&grant, grant.current.refresh_id, at(5));
    refresh(&*store, rotation).await;
    let id = Digest::of(b"session");
    start(&*store, id, session("ada", at(100)), None).await;
    let (mut registry, mut measured) = (Registry::default(), String::new());
    store.register_metrics(&mut registry);
    encode(&mut measured, &registry).unwrap();
    for operation in ["redeem_code", "rotate_refresh", "start_session"] {
        let taken = format!("operation_round_trips_sum{{operation=\"{operation}\"}} 2.0\n");
        assert!(measured.contains(&taken), "{taken}{measured}");
    }
}
