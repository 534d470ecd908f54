//! Kills the token service repeatedly at random moments under load. The service must lose nothing that it acknowledged.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tests::PATIENCE;
use tests::load::{ExactlyOnce, Load, Scope, World};

use crate::api::until;
use crate::support::{OwnPair, database};

/// Number of kills. `make faults` sets more.
fn kills() -> usize {
    std::env::var("FAULT_KILLS").map_or(25, |kills| kills.parse().unwrap())
}

/// Most responses between a start and the next kill.
const ANSWERS: u64 = 40;

fn killed_again_and_again(changes: &[(&str, &str)]) {
    // A repeated request after a kill must not count as theft, and a code must not expire, however slowly this machine
    // starts services.
    let patient = [
        ("TOKEN_SERVICE__LIFETIMES__REFRESH_REUSE_GRACE", "5m"),
        ("TOKEN_SERVICE__LIFETIMES__AUTHORIZATION_CODE", "5m"),
    ];
    let mut pair = OwnPair::start(&[&patient, changes].concat());
    let admin_token = std::fs::read_to_string(pair.state().join("admin-token")).unwrap();
    let world = Arc::new(World::of(&pair.pair, &admin_token));
    let clients = ExactlyOnce::of(&world, PATIENCE);
    let mut load = Load::default();
    clients.start(&mut load);
    for kill in 0..kills() {
        let moment = RandomState::new().hash_one(kill) % ANSWERS;
        let goal = clients.answered.load(Ordering::SeqCst) + usize::try_from(moment).unwrap();
        until("the service answers", || {
            clients.answered.load(Ordering::SeqCst) >= goal
        });
        world.ledger.during_outage(Scope::Retryable, || {
            pair.pair.kill_token_service().unwrap();
            let down = clients.down.write().unwrap();
            pair.pair.start_token_service().unwrap();
            drop(down);
        });
    }
    load.stop().unwrap();
    // The last thing that a failure prints is its reason.
    let log = pair.pair.end();
    assert_eq!(BTreeMap::new(), world.ledger.surprises(), "{log}");
    let unanswered = clients.unanswered.load(Ordering::SeqCst);
    assert!(unanswered > 0, "no kill ever hit a request");
}

#[test]
fn what_a_file_acknowledged_survives_every_kill() {
    killed_again_and_again(&[]);
}

#[test]
fn what_a_database_acknowledged_survives_every_kill() {
    let database = database();
    killed_again_and_again(&[("TOKEN_SERVICE__STORE__URL", database.url())]);
}
