//! The README's tour.

use tests::Tour;

use crate::support::{api, lobby, lobby_ea, pair};

#[test]
fn the_tour_works_as_printed() {
    let tour = Tour {
        api: api(),
        lobby: lobby(),
        lobby_ea: Some(lobby_ea()),
        legacy: Some(pair().legacy_url()),
    };
    let steps = tour.go(pair().artifacts()).unwrap();
    assert!(steps >= 9, "{steps} steps");
}
