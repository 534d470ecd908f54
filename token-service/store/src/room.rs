//! What ended because its person holds no more than a [`Cap`](domain::cap::Cap): a line of the log and a count.

use std::sync::LazyLock;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

/// Counters by the kind of what ended.
pub type EndedForRoom = Family<[(&'static str, &'static str); 1], Counter>;

static ENDED: LazyLock<EndedForRoom> = LazyLock::new(Family::default);

/// Sessions, codes and grants that ended to make room.
pub(crate) fn ended_for_room() -> EndedForRoom {
    ENDED.clone()
}

/// Notes that so many of a kind end to make room for one more of `user`.
pub(crate) fn note(kind: &'static str, user: &str, ended: usize) {
    if ended == 0 {
        return;
    }
    ENDED.get_or_create(&[("kind", kind)]).inc_by(ended as u64);
    tracing::info!(
        kind,
        user,
        ended,
        "a person holds as many as one may: what would expire first ends"
    );
}
