//! The paths of rules.

use super::readings::{PathCase, refuses};

/// The paths of a rule. Paths are compared byte for byte, without the query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathPattern {
    /// Exactly this path.
    Exact(String),
    /// This path and all paths below it. A prefix matches only whole segments.
    Prefix(String),
}

impl PathPattern {
    pub const fn key(&self) -> &'static str {
        match self {
            Self::Exact(_) => "path",
            Self::Prefix(_) => "path_prefix",
        }
    }

    pub(super) fn text(&self) -> &str {
        match self {
            Self::Exact(text) | Self::Prefix(text) => text,
        }
    }

    /// Checks that a request can match the pattern: what [`find`] refuses in requests is refused in rules.
    ///
    /// # Errors
    /// What is wrong with the pattern.
    pub fn check(&self) -> Result<(), &'static str> {
        let text = self.text();
        if !text.starts_with('/') {
            return Err("must start with a slash");
        }
        if text.contains('*') {
            return Err("has no wildcards: path_prefix matches everything below a path");
        }
        if text.contains(['?', '%', ';', '#']) || refuses(text.as_bytes()) {
            return Err(
                "must be a plain path: no query, percent signs, semicolons, dot segments or double slashes",
            );
        }
        // RFC 3986 §3.3: clients percent-encode all other characters, which results in a different path.
        let legal = |byte: u8| {
            byte.is_ascii_alphanumeric()
                || matches!(
                    byte,
                    b'/' | b'-'
                        | b'.'
                        | b'_'
                        | b'~'
                        | b'!'
                        | b'$'
                        | b'&'
                        | b'\''
                        | b'('
                        | b')'
                        | b'+'
                        | b','
                        | b'='
                        | b':'
                        | b'@'
                )
        };
        if !text.bytes().all(legal) {
            return Err(
                "has a character that requests only carry percent-encoded; no rule can name such a path",
            );
        }
        Ok(())
    }

    pub(super) fn matches(&self, path: &[u8], case: PathCase) -> bool {
        let text = self.text().as_bytes();
        let Some((start, rest)) = path.split_at_checked(text.len()) else {
            return false;
        };
        case.is_same(text, start)
            && match self {
                Self::Exact(_) => rest.is_empty(),
                Self::Prefix(_) => {
                    text.ends_with(b"/") || matches!(rest.first(), None | Some(b'/'))
                }
            }
    }

    /// True if the pattern names this path with a slash added to its end or removed from it, which is the same path for
    /// many servers.
    pub(super) fn is_twin_of(&self, path: &[u8], case: PathCase) -> bool {
        let text = self.text().as_bytes();
        if text.len().abs_diff(path.len()) != 1 {
            return false;
        }
        match (path.strip_suffix(b"/"), text.strip_suffix(b"/")) {
            (Some(path), None) => case.is_same(text, path),
            (None, Some(text)) => case.is_same(text, path),
            _ => false,
        }
    }

    /// Exact paths before prefixes, longer paths before shorter ones.
    pub(super) fn precedence(&self) -> (bool, usize) {
        (matches!(self, Self::Exact(_)), self.text().len())
    }
}
