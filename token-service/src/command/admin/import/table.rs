//! Users as a table: CSV (RFC 4180) with a first row of column names.

use std::fs::File;
use std::io::{self, Read};
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

/// True for a number with an exponent, such as `1.87905E+09`.
fn is_rounded(cell: &str) -> bool {
    let number = cell.replace(',', ".");
    number.contains(['E', 'e']) && number.contains('+') && number.parse::<f64>().is_ok()
}

/// Reads the table at `path`. An empty cell is an absent value.
///
/// # Errors
/// If the file is not a table with these columns, or the service cannot be asked.
pub(super) fn read(path: &Path, import: &mut Import<'_>) -> anyhow::Result<()> {
    let name = path.display();
    let file = File::open(path).with_context(|| name.to_string())?;
    let mut table = csv::ReaderBuilder::new()
        .trim(csv::Trim::Headers)
        .from_reader(Quotes::of(file));
    let columns = table.headers().with_context(|| name.to_string())?.clone();
    for (number, column) in columns.iter().enumerate() {
        let separator = column
            .chars()
            .find(|character| matches!(character, ';' | '\t'));
        if let Some(separator) = separator {
            anyhow::bail!(
                "{name}: columns are separated by {separator:?}: save the table with commas, as CSV (RFC 4180)"
            );
        }
        anyhow::ensure!(
            COLUMNS.contains(&column),
            "{name}: the column {column:?} is unknown; the columns are {}",
            COLUMNS.join(", ")
        );
        anyhow::ensure!(
            columns.iter().take(number).all(|other| other != column),
            "{name}: the column {column} appears twice"
        );
    }
    anyhow::ensure!(
        columns.iter().any(|column| column == "username"),
        "{name}: the column username is missing"
    );
    for row in table.records() {
        let row = row.with_context(|| name.to_string())?;
        let (mut user, mut account) = (Map::new(), Map::new());
        let rounded = columns.iter().zip(&row).find(|(_, cell)| is_rounded(cell));
        // The cell may be a password.
        if let Some((column, _)) = rounded {
            let line = row.position().map_or(0, csv::Position::line);
            let why = format!(
                "{column}: a spreadsheet rounded the number; format the column as text (line {line})"
            );
            let of = columns.iter().position(|column| column == "username");
            let of = of.and_then(|column| row.get(column)).unwrap_or_default();
            import.users.counts.read += 1;
            import
                .users
                .refuse(&format!("user {of}"), &why, import.report);
            continue;
        }
        for (column, cell) in columns
            .iter()
            .zip(&row)
            .filter(|(_, cell)| !cell.is_empty())
        {
            match (column.strip_prefix("account_"), column, cell) {
                (Some(key), ..) => account.insert(key.to_owned(), cell.into()),
                // Spreadsheets write these words in capitals.
                (None, "enabled", _) if cell.eq_ignore_ascii_case("true") => {
                    user.insert(column.to_owned(), true.into())
                }
                (None, "enabled", _) if cell.eq_ignore_ascii_case("false") => {
                    user.insert(column.to_owned(), false.into())
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

/// Where a byte of the table is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    StartOfCell,
    Plain,
    /// Between quotes.
    Quoted,
    /// Behind a quote between quotes: it ends the cell, unless another quote follows.
    AfterQuote,
}

/// A table that fails at its end if quotes are open, because `csv` takes all text behind the first one for a cell.
struct Quotes<R> {
    table: R,
    place: Place,
    line: u64,
    /// Line of the last opening quote.
    opened: u64,
}

impl<R> Quotes<R> {
    const fn of(table: R) -> Self {
        Self {
            table,
            place: Place::StartOfCell,
            line: 1,
            opened: 1,
        }
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.table.read(buffer)?;
        if count == 0 && self.place == Place::Quoted {
            let problem = format!("line {}: the quotes of a cell do not end", self.opened);
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        for byte in buffer.iter().take(count) {
            self.line += u64::from(*byte == b'\n');
            self.place = match (self.place, byte) {
                (Place::StartOfCell, b'"') => {
                    self.opened = self.line;
                    Place::Quoted
                }
                (Place::AfterQuote, b'"') => Place::Quoted,
                (Place::Quoted, b'"') => Place::AfterQuote,
                (Place::Quoted, _) => Place::Quoted,
                (_, b',' | b'\n' | b'\r') => Place::StartOfCell,
                _ => Place::Plain,
            };
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_that_do_not_end_are_an_error_with_their_line() {
        let read = |text: &str| {
            let table = csv::Reader::from_reader(Quotes::of(text.as_bytes()));
            let rows: Result<Vec<_>, _> = table.into_records().collect();
            rows.map(|rows| rows.len())
                .map_err(|error| error.to_string())
        };
        for (whole, rows) in [
            ("a,b\n\"1\",\"say \"\"2\"\"\"\n", 1),
            ("a,b\n1,\"two\nlines, \"\r\n3,4\"\n", 2),
            ("a\n1\"\n\"\"\n\"2\"", 3),
        ] {
            assert_eq!(read(whole), Ok(rows), "{whole}");
        }
        for (open, line) in [
            ("a,b\n1,2\n3,\"4\n5,6\n", 3),
            ("a,b\n\"1\n2\",\"", 3),
            ("a\n\"1\"\"", 2),
        ] {
            let problem = format!("line {line}: the quotes of a cell do not end");
            assert_eq!(read(open), Err(problem), "{open}");
        }
    }
}
