//! Registrations files.

use std::path::Path;

use crate::describe::Completeness;
use crate::registrations::{Draft, Registrations};
use document::{Problems, Table};
use domain::clock::Timestamp;

/// Reads the file at `path`. `now` decides which certificates have expired.
pub fn load(path: &Path, now: Timestamp) -> Draft<Registrations> {
    let problems = Problems::default();
    let table = Table::read(path, &problems);
    Registrations::read(table, Completeness::Whole, now, problems)
}

/// Reads `text`, which is in the file at `path`.
pub(crate) fn parse(path: &Path, text: &str, now: Timestamp) -> Draft<Registrations> {
    let problems = Problems::default();
    let table = Table::parse(path, text, &problems);
    Registrations::read(table, Completeness::Whole, now, problems)
}
