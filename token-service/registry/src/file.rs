//! A registrations file of any size, read entry by entry.

use std::path::Path;

use crate::describe::Completeness;
use crate::registrations::{Draft, Reader, Registrations};
use document::{InvalidDocument, Pieces, Place, Problems};
use domain::clock::Timestamp;

/// The lists of a file. Users come first, because clients name their bound users.
const LISTS: &[&str] = &["users", "clients"];

/// A registrations file. The type has no `Debug`, because it may contain passwords.
pub struct RegistrationsFile(Pieces);

/// Reads all of the file at `path`. `now` decides which certificates have expired.
pub fn load(path: &Path, now: Timestamp) -> Draft<Registrations> {
    let problems = Problems::default();
    let file = RegistrationsFile::open(path, &problems);
    let draft = file.draft(&file.entries(), now);
    let draft = draft.unwrap_or_else(|| file.whole(now));
    for problem in problems.into_found() {
        draft.report(&problem.place, problem.message);
    }
    draft
}

impl RegistrationsFile {
    pub fn read(path: &Path) -> Result<Self, InvalidDocument> {
        let problems = Problems::default();
        let file = Self::open(path, &problems);
        problems.none_or(file)
    }

    /// Reads the file at `path`. A file that cannot be read is a problem.
    fn open(path: &Path, problems: &Problems) -> Self {
        Self(Pieces::read(path, LISTS, problems))
    }

    pub fn text(&self) -> &str {
        self.0.text()
    }

    /// The numbers of the entries: first users, then clients, each in the order of the file. The first number is that
    /// of the text before all entries.
    pub fn entries(&self) -> Vec<usize> {
        let mut entries: Vec<usize> = self.0.numbers().collect();
        let list = |entry: &usize| {
            let list = self.0.list(*entry);
            list.map(|list| LISTS.iter().position(|one| *one == list))
        };
        entries.sort_by_key(list);
        entries
    }

    /// The text of an entry; `None` for the text before all entries.
    pub fn entry(&self, entry: usize) -> Option<&str> {
        self.0.list(entry).map(|_| self.0.piece(entry))
    }

    pub fn line(&self, line: usize) -> Place {
        self.0.line(line)
    }

    /// Reads `entries`. `None` if one of the entries cannot be read apart from the others; then the file must be read as
    /// a [whole](Self::whole). `now` decides which certificates have expired.
    pub fn draft(&self, entries: &[usize], now: Timestamp) -> Option<Draft<Registrations>> {
        let problems = Problems::default();
        let mut reader = Reader::new(Completeness::Whole, now);
        for entry in entries {
            let number = self.0.list(*entry).map(|_| *entry);
            reader.read(self.0.table(*entry, &problems)?, number, &problems);
        }
        Some(reader.draft(problems))
    }

    /// Reads the whole file at once, which takes several times its size in memory.
    pub fn whole(&self, now: Timestamp) -> Draft<Registrations> {
        let problems = Problems::default();
        let mut reader = Reader::new(Completeness::Whole, now);
        reader.read(self.0.whole(&problems), None, &problems);
        reader.draft(problems)
    }
}
