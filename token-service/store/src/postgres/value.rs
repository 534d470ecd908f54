//! Numbers as the database has them: 64 bits with a sign.

use domain::clock::Timestamp;

/// A number for the database. A number that is too large becomes the largest.
pub(super) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The seconds of a moment.
pub(super) fn seconds(at: Timestamp) -> i64 {
    number(at.seconds())
}

/// A number of the database; we never write a negative one.
pub(super) fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}

/// The moment with these seconds.
pub(super) fn timestamp(seconds: i64) -> Timestamp {
    Timestamp::from_seconds(unsigned(seconds))
}

/// A number of rows.
pub(super) fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
