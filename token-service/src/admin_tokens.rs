//! The bearer tokens of the administration. Their file is read anew for each request that presents one, so that an operator
//! changes them while the service runs: two at once let every caller move to the new one before the old one ends.

use std::path::{Path, PathBuf};

use arc_swap::ArcSwap;

use crate::key_file::{self, KeyFileError};
use domain::digest::Digest;
use domain::random::Random;

/// Tokens in the file at most: the old one and its successor.
const MOST: usize = 2;

/// The tokens of a file, one a line.
#[derive(Debug)]
pub struct AdminTokens {
    path: PathBuf,
    tokens: ArcSwap<Vec<Digest>>,
}

impl AdminTokens {
    /// The tokens in the file at `path`; a missing file is created with a random one.
    ///
    /// # Errors
    /// A [`KeyFileError`]; an existing file is never changed.
    pub fn open(path: &Path, random: &dyn Random) -> Result<Self, KeyFileError> {
        if !path.exists() {
            key_file::load_or_create(path, random)?;
        }
        Ok(Self {
            path: path.to_owned(),
            tokens: ArcSwap::from_pointee(read(path)?),
        })
    }

    /// Whether `presented` is one of the tokens in the file, compared in constant time. While the file cannot be read, or
    /// holds something else, the tokens that it held before count.
    #[must_use]
    pub fn contain(&self, presented: &[u8]) -> bool {
        match read(&self.path) {
            Ok(tokens) => {
                if tokens != **self.tokens.load() {
                    tracing::info!(path = %self.path.display(), "admin tokens changed");
                    self.tokens.store(tokens.into());
                }
            }
            Err(error) => tracing::error!(%error, "the admin tokens stay as they were"),
        }
        let presented = Digest::of(presented);
        let tokens = self.tokens.load();
        // Every token is compared: how long it takes does not tell which one was close.
        tokens
            .iter()
            .fold(false, |found, token| found | (*token == presented))
    }
}

fn read(path: &Path) -> Result<Vec<Digest>, KeyFileError> {
    let tokens = key_file::load_lines(path, MOST)?;
    let digest = |token| Digest::of(key_file::text(token).as_bytes());
    Ok(tokens.iter().map(digest).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use tempfile::TempDir;

    use super::*;
    use domain::random::OsRandom;

    #[test]
    fn tokens_change_while_the_service_runs() {
        let folder = TempDir::new().unwrap();
        let (path, other) = (folder.path().join("token"), folder.path().join("other"));
        let tokens = AdminTokens::open(&path, &OsRandom).unwrap();
        let first = std::fs::read_to_string(&path).unwrap();
        key_file::load_or_create(&other, &OsRandom).unwrap();
        let second = std::fs::read_to_string(&other).unwrap();
        let (first, second) = (first.trim_end(), second.trim_end());
        let contained = || [first, second].map(|token| tokens.contain(token.as_bytes()));
        assert_eq!(contained(), [true, false]);
        for (text, expected) in [
            (format!("{first}\n{second}\n"), [true, true]),
            // What makes no sense changes nothing.
            (format!("{first}\n{second}\n{second}\n"), [true, true]),
            ("\n".to_owned(), [true, true]),
            (format!("{second}\n"), [false, true]),
        ] {
            std::fs::write(&path, &text).unwrap();
            assert_eq!(contained(), expected, "{text}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(contained(), [false, true]);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(contained(), [false, true]);
        assert!(!tokens.contain(b""));
    }
}
