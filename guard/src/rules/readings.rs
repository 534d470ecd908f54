//! How servers read paths.

use std::borrow::Cow;

/// Whether the API distinguishes two paths that differ only in the case of letters (D-44).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathCase {
    /// The API may serve `/docs` for `/Docs`, so the lower-case form is one more reading of a path.
    Insensitive,
    Sensitive,
}

impl PathCase {
    pub(super) fn is_same(self, one: &[u8], other: &[u8]) -> bool {
        match self {
            Self::Insensitive => one.eq_ignore_ascii_case(other),
            Self::Sensitive => one == other,
        }
    }
}

/// Layers of percent-encoding that are examined. A path that a third decoding changes is refused.
pub(super) const MAX_LAYERS: usize = 3;

/// The bytes before the first occurrence of `byte`.
pub(super) fn before(text: &[u8], byte: u8) -> &[u8] {
    let end = text.iter().position(|other| *other == byte);
    text.get(..end.unwrap_or(text.len())).unwrap_or(text)
}

/// The path as servers read it that ignore the case of letters. ASCII letters stay, because [`PathPattern::matches`](super::PathPattern)
/// ignores their case. The Kelvin sign and the long s become ASCII letters.
pub(super) fn without_case(path: &[u8]) -> Cow<'_, [u8]> {
    if path.is_ascii() {
        return Cow::Borrowed(path);
    }
    let text = String::from_utf8_lossy(path);
    Cow::Owned(text.to_uppercase().to_lowercase().into_bytes())
}

/// The path of a target, if the path has exactly one reading (no escapes, dots or duplicate slashes, and no upper-case letters if
/// the API may ignore case). Checked first, because nearly all paths are such.
pub(super) fn plain_path(target: &[u8], case: PathCase) -> Option<&[u8]> {
    let mut before = b' ';
    let mut length = 0;
    for byte in target {
        let is_plain = match byte {
            b'?' => break,
            b'/' => before != b'/',
            b'-' | b'_' | b'~' | b'0'..=b'9' | b'a'..=b'z' => true,
            b'A'..=b'Z' => case == PathCase::Sensitive,
            _ => false,
        };
        if !is_plain {
            return None;
        }
        before = *byte;
        length += 1;
    }
    target.get(..length).filter(|path| path.starts_with(b"/"))
}

/// True if servers are known to read the path, before or after decoding, in different ways.
pub(super) fn refuses(path: &[u8]) -> bool {
    let Some(inner) = path.strip_prefix(b"/") else {
        // The asterisk form of OPTIONS, which no rule can match.
        return path != b"*";
    };
    let mut segments = inner.split(|byte| *byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let name = segment.split(|byte| *byte == b';').next();
        let empty_within = segment.is_empty() && segments.peek().is_some();
        if empty_within || matches!(name, Some(b"." | b"..")) {
            return true;
        }
    }
    let strange = |byte: &u8| matches!(byte, 0..=0x1f | 0x7f | b'\\');
    path.iter().any(strange) || has_treacherous_bytes(path)
}

/// Finds `%2f` and `%5c`, which some servers decode before they split the path; `%00`; escapes such as `%u002f`
/// of some old servers; and overlong UTF-8, which lenient decoders read as ASCII (RFC 3629 §10).
fn has_treacherous_bytes(path: &[u8]) -> bool {
    path.windows(3).any(|window| {
        matches!(
            window,
            [b'%', b'2', b'f' | b'F'] | [b'%', b'5', b'c' | b'C'] | [b'%', b'0', b'0']
        )
    }) || path.windows(2).any(|window| {
        matches!(
            window,
            [b'%', b'u' | b'U']
                | [0xc0 | 0xc1, 0x80..=0xbf]
                | [0xe0, 0x80..=0x9f]
                | [0xf0, 0x80..=0x8f]
        )
    })
}

/// The path without the parameters of its segments (RFC 3986 §3.3).
pub(super) fn without_parameters(path: &[u8]) -> Cow<'_, [u8]> {
    if !path.contains(&b';') {
        return Cow::Borrowed(path);
    }
    let segments = path.split(|byte| *byte == b'/');
    let segments: Vec<&[u8]> = segments.map(|segment| before(segment, b';')).collect();
    Cow::Owned(segments.join(&b'/'))
}
