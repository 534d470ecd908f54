//! The statements that create the tables.

use crate::tx::tables::{Kind, Name};

/// Tables whose rows are replaced often: the next version of a row finds room on its page, so that its index stays as it is.
const REPLACED: &[Name] = &[Name::grants, Name::sessions, Name::failures];

pub(super) fn all() -> String {
    let tables = Name::ALL.iter().filter(|name| name.kind() != Kind::Log);
    let tables: String = tables.map(|table| create(*table)).collect();
    tables + include_str!("creation.sql")
}

fn create(table: Name) -> String {
    let name = table.text();
    let more = match table {
        // `sequence` is the position in the feed. `waits_since` is the time since when the entry waits for its next position,
        // in microseconds since 1970, and null when the entry has its position.
        Name::revoked => ", sequence BIGINT, waits_since BIGINT",
        _ => "",
    };
    let room = match REPLACED.contains(&table) {
        true => " WITH (fillfactor = 85)",
        false => "",
    };
    format!(
        "CREATE TABLE IF NOT EXISTS {name} (k BYTEA PRIMARY KEY, v BYTEA NOT NULL{more}){room};\n"
    )
}
