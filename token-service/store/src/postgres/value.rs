//! Conversion of numbers to the database's signed 64-bit integers.

use domain::clock::Timestamp;

/// Converts a number for the database. A number that is too large becomes the maximum.
pub(super) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn seconds(at: Timestamp) -> i64 {
    number(at.seconds())
}

/// Converts a number of the database. This program never writes negative numbers.
pub(super) fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}

pub(super) fn timestamp(seconds: i64) -> Timestamp {
    Timestamp::from_seconds(unsigned(seconds))
}

pub(super) fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
