//! The bearer tokens of the administration. The service reads their file for each request with a token, so an operator
//! can add, change and remove tokens while the service runs.

use std::path::{Path, PathBuf};

use arc_swap::ArcSwap;

use crate::key_file::{self, KeyFileError};
use domain::digest::Digest;
use domain::random::Random;

/// Maximum number of tokens in the file. Each request compares all of them.
const MOST: usize = 100;

/// Maximum length of a name, in characters.
const LONGEST_NAME: usize = 64;

const EXPECTED: &str = "TOKEN, TOKEN NAME or TOKEN NAME ROLE: the token is 32 bytes as 43 characters of base64url, the name has \
                        1 to 64 letters, digits or . _ - @, the role is full or read-only";

/// Permissions of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    Full,
    /// Read only: lists, single objects, the audit log, explanations; not a copy of the store.
    ReadOnly,
}

impl Role {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "full" => Some(Self::Full),
            "read-only" => Some(Self::ReadOnly),
            _ => None,
        }
    }
}

/// The holder of a token, according to the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The name, if the token has one.
    pub name: Option<String>,
    pub role: Role,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct AdminToken {
    digest: Digest,
    holder: Holder,
}

/// The tokens of a file, one per line.
#[derive(Debug)]
pub struct AdminTokens {
    path: PathBuf,
    tokens: ArcSwap<Vec<AdminToken>>,
}

impl AdminTokens {
    /// Reads the tokens in the file at `path`. Creates a missing file with one random token, which has no name and the
    /// role `full`.
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

    /// The holder of the token `presented`, compared in constant time; `None` if the token is not in the file. If the
    /// file is unreadable or malformed, its last valid tokens stay in effect.
    #[must_use]
    pub fn holder(&self, presented: &[u8]) -> Option<Holder> {
        match read(&self.path) {
            Ok(tokens) => {
                if tokens != **self.tokens.load() {
                    tracing::info!(path = %self.path.display(), tokens = tokens.len(), "admin tokens changed");
                    self.tokens.store(tokens.into());
                }
            }
            Err(error) => tracing::error!(%error, "the admin tokens stay as they were"),
        }
        let presented = Digest::of(presented);
        let tokens = self.tokens.load();
        // Compares every token, so the time does not show which token was similar.
        let found = tokens.iter().fold(None, |found, token| {
            let is_this = token.digest == presented;
            found.or(is_this.then_some(token))
        });
        found.map(|token| token.holder.clone())
    }
}

/// The token that commands send: the last token with the role `full`, because a new token stands below the token that
/// it replaces. Without such a token, the last token; `None` if the text has no token.
#[must_use]
pub fn newest(text: &str) -> Option<&str> {
    let lines = || text.lines().filter_map(fields);
    let full = lines().rfind(|fields: &Vec<&str>| !matches!(fields.get(2), Some(&"read-only")));
    full.or_else(|| lines().next_back())?.first().copied()
}

/// The fields of a line; `None` for an empty line or a comment.
fn fields(line: &str) -> Option<Vec<&str>> {
    let line = line.trim();
    (!line.is_empty() && !line.starts_with('#')).then(|| line.split_ascii_whitespace().collect())
}

fn read(path: &Path) -> Result<Vec<AdminToken>, KeyFileError> {
    let text = key_file::contents(path)?;
    let malformed = |line| KeyFileError::Line {
        path: path.to_owned(),
        line,
        expected: EXPECTED,
    };
    let text = std::str::from_utf8(&text).map_err(|_| malformed(1))?;
    let mut tokens = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(fields) = fields(line) {
            tokens.push(token(&fields).ok_or_else(|| malformed(number))?);
        }
    }
    if (1..=MOST).contains(&tokens.len()) {
        Ok(tokens)
    } else {
        Err(KeyFileError::Count {
            path: path.to_owned(),
            found: tokens.len(),
            most: MOST,
        })
    }
}

fn token(fields: &[&str]) -> Option<AdminToken> {
    let (token, name, role) = match *fields {
        [token] => (token, None, Role::Full),
        [token, name] => (token, Some(name), Role::Full),
        [token, name, role] => (token, Some(name), Role::parse(role)?),
        _ => return None,
    };
    let legal = |name: &&str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@".contains(&byte);
        name.len() <= LONGEST_NAME && name.bytes().all(plain)
    };
    if !name.as_ref().is_none_or(legal) {
        return None;
    }
    let token = key_file::parse(token.as_bytes())?;
    Some(AdminToken {
        digest: Digest::of(key_file::text(&token).as_bytes()),
        holder: Holder {
            name: name.map(str::to_owned),
            role,
        },
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use tempfile::TempDir;

    use super::*;
    use domain::random::OsRandom;

    fn named(name: &str, role: Role) -> Option<Holder> {
        let name = Some(name.to_owned());
        Some(Holder { name, role })
    }

    #[test]
    fn tokens_change_while_the_service_runs() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("token");
        let tokens = AdminTokens::open(&path, &OsRandom).unwrap();
        let first = std::fs::read_to_string(&path).unwrap();
        let (first, second) = (first.trim_end(), "B".repeat(42) + "A");
        let holders = || [first, &second].map(|token| tokens.holder(token.as_bytes()));
        let nobody = Holder {
            name: None,
            role: Role::Full,
        };
        assert_eq!(holders(), [Some(nobody.clone()), None]);
        let ada = || named("ada", Role::Full);
        let monitoring = || named("monitoring", Role::ReadOnly);
        for (text, expected) in [
            (
                format!("{first}\n{second}\n"),
                [Some(nobody.clone()), Some(nobody)],
            ),
            (
                format!("# people\n{first} ada\n\n{second}  monitoring\tread-only\n"),
                [ada(), monitoring()],
            ),
            // A malformed file changes nothing.
            (
                format!("{first} ada\n{second} ada root\n"),
                [ada(), monitoring()],
            ),
            (
                format!("{first} ada\n{second} a\u{1b}b full\n"),
                [ada(), monitoring()],
            ),
            (
                format!("{first} ada full {second}\n"),
                [ada(), monitoring()],
            ),
            ("\n".to_owned(), [ada(), monitoring()]),
            ("# nobody\n".repeat(200), [ada(), monitoring()]),
            (format!("{second} ada full\n"), [None, ada()]),
        ] {
            std::fs::write(&path, &text).unwrap();
            assert_eq!(holders(), expected, "{text}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(holders(), [None, ada()]);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(holders(), [None, ada()]);
        assert_eq!(tokens.holder(b""), None);
    }

    #[test]
    fn commands_present_the_newest_token_that_allows_everything() {
        assert_eq!(newest("old\nnew\n"), Some("new"));
        assert_eq!(
            newest("one ada\ntwo bob full\nsee eve read-only\n# end\n"),
            Some("two")
        );
        assert_eq!(newest("see eve read-only\n"), Some("see"));
        assert_eq!(newest("# nothing\n\n"), None);
    }
}
