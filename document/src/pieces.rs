//! A TOML file that is read in pieces, one for each table of a list, so that memory is proportional to a piece.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::place::Place;
use crate::problem::Problems;
use crate::table::Table;
use crate::toml::{Source, read_text};

/// The text of a TOML file, cut before each header of a table in one of some lists, such as `[[users]]`. There is no
/// `Debug`, because values may be secrets.
pub struct Pieces {
    path: Arc<Path>,
    text: String,
    lists: &'static [&'static str],
    pieces: Vec<Piece>,
}

/// Small, because a file may have hundreds of thousands.
#[derive(Clone, Copy)]
struct Piece {
    /// Byte offset of the first byte.
    start: usize,
    /// Number of lines before the piece; the largest number stands for all above it.
    lines: u32,
    /// The list of the table, by its place among the lists; `None` for the text before all tables.
    list: Option<u8>,
}

impl Pieces {
    /// Reads the file at `path`. A file that cannot be read is a problem.
    pub fn read(path: &Path, lists: &'static [&'static str], problems: &Problems) -> Self {
        Self::of(path, read_text(path, problems).unwrap_or_default(), lists)
    }

    pub fn of(path: &Path, text: String, lists: &'static [&'static str]) -> Self {
        let mut pieces = vec![Piece {
            start: 0,
            lines: 0,
            list: None,
        }];
        let mut start = 0;
        for (lines, line) in text.split_inclusive('\n').enumerate() {
            let list =
                header(line).and_then(|key| (0..).zip(lists).find(|(_, list)| **list == key));
            if let Some((list, _)) = list {
                pieces.push(Piece {
                    start,
                    lines: u32::try_from(lines).unwrap_or(u32::MAX),
                    list: Some(list),
                });
            }
            start += line.len();
        }
        pieces.shrink_to_fit();
        Self {
            path: path.into(),
            text,
            lists,
            pieces,
        }
    }

    /// The whole file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The numbers of all pieces, in the order of the file. Piece 0 is the text before all tables.
    pub fn numbers(&self) -> Range<usize> {
        0..self.pieces.len()
    }

    /// The list to which the table of a piece belongs; `None` for piece 0.
    pub fn list(&self, piece: usize) -> Option<&'static str> {
        let list = self.pieces.get(piece)?.list?;
        self.lists.get(usize::from(list)).copied()
    }

    /// The text of a piece.
    pub fn piece(&self, piece: usize) -> &str {
        let start = |piece: usize| self.pieces.get(piece).map(|piece| piece.start);
        let end = start(piece + 1).unwrap_or(self.text.len());
        let range = start(piece).unwrap_or(end)..end;
        self.text.get(range).unwrap_or_default()
    }

    /// A line of the file.
    pub fn line(&self, line: usize) -> Place {
        Place::File {
            path: Arc::clone(&self.path),
            line: Some(line),
        }
    }

    /// Reads a piece. A syntax error is a problem. `None` if the piece may mean something else within the file, because
    /// its header may be a line of a text, or because it does not contain exactly one table of its list. Then the file
    /// must be read as a [whole](Self::whole).
    pub fn table(&self, piece: usize, problems: &Problems) -> Option<Table> {
        let text = self.piece(piece);
        let lines = usize::try_from(self.pieces.get(piece)?.lines).ok()?;
        let source = Source::new(Arc::clone(&self.path), text, lines, problems);
        let has_long_texts = text.contains("\"\"\"") || text.contains("'''");
        if has_long_texts && toml_span::parse(text).is_err() {
            return None;
        }
        let table = source.read(text);
        let is_alone = match self.list(piece) {
            // A table with a syntax error was reported, and has no members.
            Some(list) => {
                table.members.is_empty()
                    || (table.members.len() == 1 && table.count(list) == Some(1))
            }
            None => self.lists.iter().all(|list| table.count(list).is_none()),
        };
        is_alone.then_some(table)
    }

    /// Reads the whole file at once. A syntax error is a problem; the parser stops at the first one.
    pub fn whole(&self, problems: &Problems) -> Table {
        Table::parse(&self.path, &self.text, problems)
    }
}

/// The key of a header such as `[[users]]`.
fn header(line: &str) -> Option<&str> {
    let (key, rest) = line.trim_start().strip_prefix("[[")?.split_once("]]")?;
    let rest = rest.trim_start();
    (rest.is_empty() || rest.starts_with('#')).then(|| key.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    const LISTS: &[&str] = &["users", "clients"];

    fn read(pieces: &Pieces) -> (Option<Vec<Value>>, Vec<String>) {
        let problems = Problems::default();
        let tables = pieces
            .numbers()
            .map(|piece| pieces.table(piece, &problems))
            .map(|table| table.map(|table| Value::Object(table.members().clone())));
        let tables = tables.collect();
        let problems = problems.into_sorted();
        (tables, problems.iter().map(ToString::to_string).collect())
    }

    fn of(text: &str) -> Pieces {
        Pieces::of(Path::new("r.toml"), text.to_owned(), LISTS)
    }

    #[test]
    fn pieces_contain_what_the_file_contains() {
        let text = "# first\nname = \"x\"\n[[users]] # one\nname = \"a\"\n[[users.accounts]]\nid = 1\n\
                    [[users.accounts]]\nid = 2\n\r\n [[ clients ]]\r\nname = \"\"\"\nlong\n\"\"\"\n[[users]]";
        let (tables, problems) = read(&of(text));
        let expected = serde_json::json!([
            {"name": "x"},
            {"users": [{"name": "a", "accounts": [{"id": 1}, {"id": 2}]}]},
            {"clients": [{"name": "long\n"}]},
            {"users": [{}]},
        ]);
        assert_eq!(tables.map(Value::from), Some(expected));
        assert_eq!(problems, [""; 0]);
        let pieces = of(text);
        let lists: Vec<_> = pieces.numbers().map(|piece| pieces.list(piece)).collect();
        let expected = [None, Some("users"), Some("clients"), Some("users")];
        assert_eq!(lists, expected);
        let texts: String = pieces.numbers().map(|piece| pieces.piece(piece)).collect();
        assert_eq!(texts, text);
    }

    #[test]
    fn a_piece_that_does_not_stand_alone_is_not_read() {
        for text in [
            // The header is a line of a text.
            "[[users]]\nname = \"\"\"\n[[clients]]\n\"\"\"\n",
            "name = '''\n[[users]]\n'''\n",
            // Another spelling of a header.
            "[[users]]\nname = \"a\"\n[[\"users\"]]\nname = \"b\"\n",
            // Tables of the last table of another list.
            "[[clients]]\n[[users]]\n[clients.more]\nx = 1\n",
            "users = []\n[[users]]\n",
            "[[users]]\n[other]\nx = 1\n",
        ] {
            let pieces = of(text);
            assert_eq!(read(&pieces).0, None, "{text}");
        }
    }

    #[test]
    fn problems_have_their_line_in_the_file() {
        let text =
            "# first\n\n[[users]]\nname = \"a\"\n[[clients]]\nname = oops\n[[users]]\nx = inf\n";
        let (tables, problems) = read(&of(text));
        assert_eq!(tables.map(|tables| tables.len()), Some(4));
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].starts_with("r.toml:6: "), "{problems:?}");
        assert_eq!(problems[1], "r.toml:8: x: must be a finite number");
    }
}
