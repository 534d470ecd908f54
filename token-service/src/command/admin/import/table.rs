//! Users as a table: CSV (RFC 4180) with a first row of column names.

use std::path::Path;

use anyhow::Context as _;
use serde_json::{Map, json};

use super::Import;

const COLUMNS: [&str; 10] = [
    "username",
    "email",
    "organization",
    "enabled",
    "password_hash",
    "password",
    "totp_secret",
    "account_user_id",
    "account_username",
    "account_site",
];

/// Reads the table at `path`. An empty cell is an absent value.
///
/// # Errors
/// If the file is not a table with these columns, or the service cannot be asked.
pub(super) fn read(path: &Path, import: &mut Import<'_>) -> anyhow::Result<()> {
    let name = path.display();
    let mut table = csv::ReaderBuilder::new()
        .trim(csv::Trim::Headers)
        .from_path(path)
        .with_context(|| name.to_string())?;
    let columns = table.headers().with_context(|| name.to_string())?.clone();
    for column in &columns {
        anyhow::ensure!(
            COLUMNS.contains(&column),
            "{name}: the column {column:?} is unknown; the columns are {}",
            COLUMNS.join(", ")
        );
    }
    anyhow::ensure!(
        columns.iter().any(|column| column == "username"),
        "{name}: the column username is missing"
    );
    for row in table.records() {
        let row = row.with_context(|| name.to_string())?;
        let (mut user, mut account) = (Map::new(), Map::new());
        for (column, cell) in columns
            .iter()
            .zip(&row)
            .filter(|(_, cell)| !cell.is_empty())
        {
            match (column.strip_prefix("account_"), column, cell) {
                (Some(key), ..) => account.insert(key.to_owned(), cell.into()),
                (None, "enabled", "true" | "false") => {
                    user.insert(column.to_owned(), (cell == "true").into())
                }
                (None, ..) => user.insert(column.to_owned(), cell.into()),
            };
        }
        if !account.is_empty() {
            user.insert("accounts".to_owned(), json!([account]));
        }
        import.user(user)?;
    }
    Ok(())
}
