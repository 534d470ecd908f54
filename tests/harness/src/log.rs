//! The output of programs that still run.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::process::{PATIENCE, pace};

/// What running programs write to files. Their log threads write a line some time after the answer that the line is about,
/// so nobody can read the output at once: a caller waits for a line, or ends the program ([`crate::Process::end`]).
#[derive(Debug, Clone)]
pub struct Log {
    files: Vec<PathBuf>,
}

impl Log {
    pub(crate) fn of(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let files = files.into_iter().collect();
        Self { files }
    }

    /// The logs of several programs as one.
    #[must_use]
    pub fn joined(logs: impl IntoIterator<Item = Self>) -> Self {
        Self::of(logs.into_iter().flat_map(|log| log.files))
    }

    /// Waits until `find` finds something in the output.
    ///
    /// # Errors
    /// When that takes too long; with the output.
    pub fn until<T>(&self, what: &str, mut find: impl FnMut(&str) -> Option<T>) -> Result<T> {
        let start = Instant::now();
        loop {
            let text = self.text();
            if let Some(found) = find(&text) {
                return Ok(found);
            }
            if start.elapsed() > PATIENCE {
                bail!("{what}: not in the log within {PATIENCE:?}:\n{text}");
            }
            pace();
        }
    }

    /// Waits until the output contains `words`.
    ///
    /// # Errors
    /// When that takes too long; with the output.
    pub fn until_it_says(&self, words: &str) -> Result<()> {
        self.until(words, |text| text.contains(words).then_some(()))
    }

    /// The output so far. A file that does not exist is empty.
    pub(crate) fn text(&self) -> String {
        let read = |file| std::fs::read(file).unwrap_or_default();
        let texts = self.files.iter().map(read);
        texts
            .map(|text| String::from_utf8_lossy(&text).into_owned())
            .collect()
    }
}
