//! The bearer tokens of the administration. The service reads their file for each request with a token, so an operator
//! can add, change and remove tokens while the service runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use zeroize::Zeroizing;

use domain::digest::Digest;
use domain::random::Random;
use secrets::key_file::{self, Key, KeyFileError};

/// Maximum number of tokens in the file. Each request compares all of them.
const MOST: usize = 100;

/// Maximum length of a name, in characters.
const LONGEST_NAME: usize = 64;

const EXPECTED: &str = "TOKEN, TOKEN NAME or TOKEN NAME ROLE: the token is 32 bytes as 43 characters of base64url, the name has \
                        1 to 64 letters, digits or . _ - @, the role is full or read-only";

const NO_TOKEN: &str = "there is no admin token: every request to the administration is refused";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
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
pub(crate) struct Holder {
    pub name: Option<String>,
    pub role: Role,
}

/// What a file of admin tokens contains.
#[derive(Debug, Default, PartialEq, Eq)]
struct Contents {
    tokens: Vec<(Digest, Holder)>,
    /// What the service refuses, with the lines.
    problems: Vec<String>,
}

/// The tokens of a file, one per line.
#[derive(Debug)]
pub(crate) struct AdminTokens {
    path: PathBuf,
    latest: ArcSwap<Contents>,
}

impl AdminTokens {
    /// Reads the tokens in the file at `path`. Creates a missing file with one random token, which has no name and the
    /// role `full`.
    ///
    /// # Errors
    /// A [`KeyFileError`] if the file cannot be created or read; an existing file is never changed.
    pub(crate) fn open(path: &Path, random: &dyn Random) -> Result<Self, KeyFileError> {
        if !path.exists() {
            key_file::load_or_create(path, random)?;
        }
        key_file::contents(path)?;
        let latest = Contents::of(path);
        latest.tell(path);
        Ok(Self {
            path: path.to_owned(),
            latest: ArcSwap::from_pointee(latest),
        })
    }

    /// What a start refuses in the file at `path`, which may be missing: the start creates it.
    ///
    /// # Errors
    /// A [`KeyFileError`] if the start would fail.
    pub(crate) fn check(path: &Path) -> Result<Vec<String>, KeyFileError> {
        if !path.exists() {
            return Ok(Vec::new());
        }
        key_file::contents(path)?;
        let Contents { tokens, problems } = Contents::of(path);
        let mut problems = problems;
        if tokens.is_empty() {
            let path = path.display();
            problems.push(format!("the key file {path}: {NO_TOKEN}"));
        }
        Ok(problems)
    }

    /// The holder of the token `presented`, compared in constant time; `None` if the token is not in the file now
    /// (D-45).
    pub(crate) fn holder(&self, presented: &[u8]) -> Option<Holder> {
        let mut contents = self.latest.load_full();
        let now = Contents::of(&self.path);
        if now != *contents {
            now.tell(&self.path);
            contents = Arc::new(now);
            self.latest.store(Arc::clone(&contents));
        }
        let presented = Digest::of(presented);
        // Compares every token, so the time does not show which token was similar.
        let found = contents
            .tokens
            .iter()
            .fold(None, |found, (digest, holder)| {
                let is_this = *digest == presented;
                found.or(is_this.then_some(holder))
            });
        found.cloned()
    }
}

impl Contents {
    /// A file that cannot be read contains no tokens.
    fn of(path: &Path) -> Self {
        let (tokens, problems) = match read(path) {
            Ok(read) => read,
            Err(error) => (Vec::new(), vec![error.to_string()]),
        };
        let digest = |token: &Key| Digest::of(key_file::text(token).as_bytes());
        let tokens = tokens.iter();
        Self {
            tokens: tokens
                .map(|token| (digest(&token.key), token.holder.clone()))
                .collect(),
            problems,
        }
    }

    fn tell(&self, path: &Path) {
        for problem in &self.problems {
            tracing::error!("refused: {problem}");
        }
        let (path, tokens) = (path.display(), self.tokens.len());
        if tokens == 0 {
            tracing::error!(%path, "{NO_TOKEN}");
        } else {
            tracing::info!(%path, tokens, "admin tokens read");
        }
    }
}

struct AdminToken {
    line: usize,
    key: Key,
    holder: Holder,
}

/// The token that commands send: the last token with the role `full`, because a new token stands below the token that
/// it replaces. Without such a token, the last token; `None` if the file has no token. Also returns what the service
/// refuses in the file.
///
/// # Errors
/// A [`KeyFileError`] if the file cannot be read.
pub(crate) fn newest(
    path: &Path,
) -> Result<(Option<Zeroizing<String>>, Vec<String>), KeyFileError> {
    let (tokens, problems) = read(path)?;
    let full = tokens.iter().rfind(|token| token.holder.role == Role::Full);
    let newest = full.or_else(|| tokens.last());
    Ok((newest.map(|token| key_file::text(&token.key)), problems))
}

/// The tokens in the file at `path`, and what is wrong with its other lines. A token on several lines has one holder, or
/// is refused.
fn read(path: &Path) -> Result<(Vec<AdminToken>, Vec<String>), KeyFileError> {
    let text = key_file::contents(path)?;
    let (mut tokens, mut problems): (Vec<AdminToken>, Vec<String>) = (Vec::new(), Vec::new());
    let mut refused: Vec<Key> = Vec::new();
    for (line, text) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let text = text.trim_ascii();
        if text.is_empty() || text.starts_with(b"#") {
            continue;
        }
        let Some((key, holder)) = str::from_utf8(text).ok().and_then(token) else {
            let path = path.to_owned();
            let expected = EXPECTED;
            let error = KeyFileError::Line {
                path,
                line,
                expected,
            };
            problems.push(error.to_string());
            continue;
        };
        let same = tokens.iter().position(|token| token.key == key);
        let other = same
            .and_then(|at| tokens.get(at))
            .filter(|token| token.holder != holder);
        if let Some(other) = other {
            let (path, first) = (path.display(), other.line);
            problems.push(format!(
                "the key file {path}, lines {first} and {line}: one token with two names or roles"
            ));
            tokens.retain(|token| token.key != key);
            refused.push(key);
        } else if tokens.len() == MOST {
            let path = path.display();
            problems.push(format!(
                "the key file {path}, line {line}: more than {MOST} tokens"
            ));
        } else if same.is_none() && !refused.contains(&key) {
            tokens.push(AdminToken { line, key, holder });
        }
    }
    Ok((tokens, problems))
}

fn token(line: &str) -> Option<(Key, Holder)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
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
    let name = name.map(str::to_owned);
    Some((key_file::parse(token.as_bytes())?, Holder { name, role }))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use tempfile::TempDir;

    use super::*;
    use system::OsRandom;

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
            // Only the malformed line is refused.
            (format!("{first} ada\n{second} ada root\n"), [ada(), None]),
            (
                format!("{first} a\u{1b}b full\n{second} monitoring read-only\n"),
                [None, monitoring()],
            ),
            (format!("{first} ada full {second}\n"), [None, None]),
            // A token with two names or roles is refused, wherever the lines are.
            (
                format!(
                    "{first} ada full\n{second} monitoring read-only\n{first} ada read-only\n{first} ada full\n"
                ),
                [None, monitoring()],
            ),
            (format!("{first} ada\n{first} ada full\n"), [ada(), None]),
            (String::new(), [None, None]),
            ("# nobody\n".repeat(200), [None, None]),
            // Editors of Windows put a mark before the first token.
            (format!("\u{feff}{second} ada full\r\n"), [None, ada()]),
        ] {
            std::fs::write(&path, &text).unwrap();
            assert_eq!(holders(), expected, "{text}");
        }
        let open_to_others = |mode| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, permissions).unwrap();
        };
        open_to_others(0o644);
        assert_eq!(holders(), [None, None]);
        open_to_others(0o600);
        assert_eq!(holders(), [None, ada()]);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(holders(), [None, None]);
        assert_eq!(tokens.holder(b""), None);
    }

    #[test]
    fn a_file_has_at_most_a_hundred_tokens() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("token");
        let key = |number: u8| key_file::text(&Key::new([number; 32]));
        let lines: Vec<_> = (0..=100).map(|number| key(number).to_string()).collect();
        write(&path, &lines.join("\n"));
        let (tokens, problems) = read(&path).unwrap();
        assert_eq!(tokens.len(), MOST);
        let expected = format!(
            "the key file {}, line 101: more than 100 tokens",
            path.display()
        );
        assert_eq!(problems, [expected]);
    }

    fn write(path: &Path, text: &str) {
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    #[test]
    fn commands_present_the_newest_token_that_allows_everything() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("token");
        let key = |number: u8| key_file::text(&Key::new([number; 32]));
        let (one, two, see) = (key(1), key(2), key(3));
        let (one, two, see) = (one.as_str(), two.as_str(), see.as_str());
        for (text, expected) in [
            (format!("{one}\n{two}\n"), Some(two)),
            (
                format!("{one} ada\n{two} bob full\n{see} eve read-only\n# end\n"),
                Some(two),
            ),
            (format!("{see} eve read-only\n"), Some(see)),
            // The service refuses this line too.
            (format!("{one}\n{two} bob root\n"), Some(one)),
            ("# nothing\n\n".to_owned(), None),
        ] {
            write(&path, &text);
            let (found, _) = newest(&path).unwrap();
            assert_eq!(
                found.as_ref().map(|token| token.as_str()),
                expected,
                "{text}"
            );
        }
    }
}
