//! The registrations file that a start applied last, so that the next start reads only what changed in the file (D-27).

use std::sync::Arc;

use crate::digest::Digest;

/// Identifies a text without telling anything about the text to readers of the store: a part of a keyed hash.
pub type Tag = [u8; 16];

/// What the store remembers of the file as a whole. The values of each object are
/// [remembered](crate::remembered::Remembered) apart.
#[derive(Clone, PartialEq, Eq)]
pub struct AppliedFile {
    /// A keyed hash of the text.
    pub digest: Digest,
    /// True if the text decides everything: another start with the same text changes nothing.
    pub is_settled: bool,
    /// The tags of each entry that decides everything about its object: of its text, and of the object's name. Sorted.
    pub entries: Vec<(Tag, Tag)>,
}

impl std::fmt::Debug for AppliedFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let entries = self.entries.len();
        write!(formatter, "AppliedFile({entries} entries)")
    }
}

/// Maximum size of a part. Some databases restrict the size of rows.
const PART: usize = 512 * 1024;

impl AppliedFile {
    /// The name of the tag of the entry with this text, if the file contained the entry.
    pub fn name_of(&self, entry: &Tag) -> Option<&Tag> {
        let found = self.entries.binary_search_by_key(&entry, |(text, _)| text);
        let (_, name) = self.entries.get(found.ok()?)?;
        Some(name)
    }

    /// The parts in which stores keep the file. The first part is the [`AppliedFile::header`].
    pub fn parts(&self) -> impl Iterator<Item = Vec<u8>> {
        let mut header = self.digest.as_bytes().to_vec();
        header.push(self.is_settled.into());
        let entries = self.entries.chunks(PART / 32);
        let entries = entries.map(|entries| {
            let bytes = entries.iter().flat_map(|(text, name)| [text, name]);
            bytes.flatten().copied().collect()
        });
        std::iter::once(header).chain(entries)
    }

    /// Reads [`AppliedFile::parts`]; `None` if they are damaged.
    pub fn from_parts(parts: &[Vec<u8>]) -> Option<Self> {
        let (header, parts) = parts.split_first()?;
        let (digest, settled) = header.split_first_chunk::<32>()?;
        let mut entries = Vec::new();
        for part in parts {
            let (pairs, rest) = part.as_chunks::<32>();
            let pairs = pairs.iter().filter_map(|pair| {
                let (text, name) = pair.split_first_chunk::<16>()?;
                Some((*text, name.try_into().ok()?))
            });
            entries.extend(pairs);
            if !rest.is_empty() {
                return None;
            }
        }
        Some(Self {
            digest: Digest::from_bytes(*digest),
            is_settled: settled == [1],
            entries,
        })
    }

    /// The digest in the first of [`AppliedFile::parts`].
    pub fn digest_in(header: &[u8]) -> Option<Digest> {
        let digest = header.first_chunk::<32>()?;
        Some(Digest::from_bytes(*digest))
    }
}

/// What a change of the registry does to the [`AppliedFile`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FileChange {
    #[default]
    Keep,
    /// The next start compares each object of its file.
    Forget,
    /// Replaces the file. The change is overtaken unless the store has the digest `before` (`None`: no file).
    Replace {
        before: Option<Digest>,
        after: Option<Arc<AppliedFile>>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_from_its_parts() {
        for (count, parts) in [(0, 1), (1, 2), (PART / 32, 2), (PART / 32 + 1, 3)] {
            let entry = |number: usize| {
                let tag = (number as u128).to_be_bytes();
                (tag, tag.map(|byte| !byte))
            };
            let file = AppliedFile {
                digest: Digest::of(b"text"),
                is_settled: count == 1,
                entries: (0..count).map(entry).collect(),
            };
            let stored: Vec<_> = file.parts().collect();
            assert_eq!(stored.len(), parts);
            assert_eq!(AppliedFile::digest_in(&stored[0]), Some(file.digest));
            assert_eq!(AppliedFile::from_parts(&stored).as_ref(), Some(&file));
            for number in [0, count / 2] {
                let (text, name) = entry(number);
                let expected = (number < count).then_some(name);
                assert_eq!(
                    file.name_of(&text).copied(),
                    expected,
                    "{number} of {count}"
                );
            }
        }
        assert_eq!(AppliedFile::from_parts(&[]), None);
        assert_eq!(AppliedFile::from_parts(&[vec![0; 33], vec![0; 31]]), None);
    }
}
