//! Logs and counts the entries that end because a user has reached a [`Cap`](domain::cap::Cap).

use std::sync::LazyLock;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

/// Counters by kind of entry.
pub type EndedForRoom = Family<[(&'static str, &'static str); 1], Counter>;

static ENDED: LazyLock<EndedForRoom> = LazyLock::new(Family::default);

pub(crate) fn ended_for_room() -> EndedForRoom {
    ENDED.clone()
}

/// Records that `ended` entries of a kind end to make room for a new entry of `user`.
pub(crate) fn note(kind: &'static str, user: &str, ended: usize) {
    if ended == 0 {
        return;
    }
    ENDED.get_or_create(&[("kind", kind)]).inc_by(ended as u64);
    tracing::info!(
        kind,
        user,
        ended,
        "a person has reached the limit: what would expire first ends"
    );
}
