//! The registrations file that a start applied last, so that the next start reads only what changed (D-27).

use crate::digest::Digest;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppliedFile {
    /// Keyed hash of what decides about every entry beside its text: the program, and the configuration.
    pub rules: Digest,
    /// Keyed hash of the text: another start with the same text changes nothing. `None` if the text does not decide
    /// everything.
    pub text: Option<Digest>,
}

impl AppliedFile {
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.rules.as_bytes().to_vec();
        bytes.extend(self.text.iter().flat_map(Digest::as_bytes));
        bytes
    }

    /// Reads [`Self::to_bytes`]; `None` if the bytes are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (rules, text) = bytes.split_first_chunk()?;
        let text = match text {
            [] => None,
            text => Some(Digest::from_bytes(text.try_into().ok()?)),
        };
        let rules = Digest::from_bytes(*rules);
        Some(Self { rules, text })
    }
}

/// What a change of the registry does to the [`AppliedFile`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FileChange {
    #[default]
    Keep,
    /// The next start compares each entry of its file. The digest is random, so that a start that is applying a file notices.
    Forget(Digest),
    /// The change is overtaken unless the store has `before`.
    Replace {
        before: Option<AppliedFile>,
        after: Option<AppliedFile>,
    },
}

impl FileChange {
    /// What the store has after the change; `None` if the change is overtaken.
    pub fn of(self, found: Option<AppliedFile>) -> Option<Option<AppliedFile>> {
        match self {
            Self::Keep => Some(found),
            Self::Forget(random) => Some(found.map(|file| AppliedFile {
                text: Some(random),
                ..file
            })),
            Self::Replace { before, after } => (found == before).then_some(after),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_from_its_bytes() {
        let rules = Digest::of(b"rules");
        for text in [None, Some(Digest::of(b"text"))] {
            let file = AppliedFile { rules, text };
            assert_eq!(AppliedFile::from_bytes(&file.to_bytes()), Some(file));
        }
        for length in [0, 31, 33, 65] {
            assert_eq!(AppliedFile::from_bytes(&vec![0; length]), None);
        }
    }
}
