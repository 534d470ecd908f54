//! Header maps in the format of the proxy-wasm ABI: a count, the lengths of all names and values, then the
//! names and values, each followed by a zero byte. All integers have 32 bits, little endian.

/// Bytes of an integer.
const WORD: usize = 4;

/// A map as the host wrote it, read in place. The SDK would copy each name and value into a vector, and would
/// panic if they did not have the announced lengths.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pairs(Vec<u8>);

impl Pairs {
    pub(crate) const fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The names and values in the host's order. Stops if bytes are missing.
    pub(crate) fn iter(&self) -> Iter<'_> {
        let (count, rest) = split_word(&self.0).unwrap_or_default();
        let (lengths, contents) = count
            .checked_mul(2 * WORD)
            .and_then(|size| rest.split_at_checked(size))
            .unwrap_or_default();
        Iter { lengths, contents }
    }
}

impl<'a> IntoIterator for &'a Pairs {
    type Item = (&'a [u8], &'a [u8]);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Iter<'a> {
    lengths: &'a [u8],
    contents: &'a [u8],
}

impl<'a> Iter<'a> {
    #[inline]
    fn take(&mut self) -> Option<&'a [u8]> {
        let (length, lengths) = split_word(self.lengths)?;
        let (text, rest) = self.contents.split_at_checked(length)?;
        self.lengths = lengths;
        self.contents = rest.get(1..)?;
        Some(text)
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        Some((self.take()?, self.take()?))
    }
}

#[inline]
fn split_word(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (word, rest) = bytes.split_first_chunk::<WORD>()?;
    Some((usize::try_from(u32::from_le_bytes(*word)).ok()?, rest))
}

/// Encodes a map for the host; `None` if it is too large for 32-bit lengths.
pub(crate) fn encode(pairs: &[(&str, &str)]) -> Option<Vec<u8>> {
    let word = |length: usize| Some(u32::try_from(length).ok()?.to_le_bytes());
    let mut bytes = word(pairs.len())?.to_vec();
    for (name, value) in pairs {
        bytes.extend(word(name.len())?);
        bytes.extend(word(value.len())?);
    }
    for text in pairs.iter().flat_map(|(name, value)| [name, value]) {
        bytes.extend(text.bytes());
        bytes.push(0);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_form_is_that_of_the_specification() {
        let encoded = encode(&[(":method", "GET"), ("x", "")]).unwrap();
        let expected = b"\x02\0\0\0\x07\0\0\0\x03\0\0\0\x01\0\0\0\0\0\0\0:method\0GET\0x\0\0";
        assert_eq!(encoded, expected);
    }

    #[test]
    fn no_map_is_an_empty_one() {
        assert_eq!(Pairs::default().iter().count(), 0);
        assert_eq!(Pairs::new(encode(&[]).unwrap()).iter().count(), 0);
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            pairs: Vec<(String, String)>,
            end in any::<prop::sample::Index>(),
        ) {
            let texts: Vec<(&str, &str)> = pairs
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect();
            let expected: Vec<(&[u8], &[u8])> = texts
                .iter()
                .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
                .collect();
            let mut encoded = encode(&texts).unwrap();
            let whole = Pairs::new(encoded.clone());
            prop_assert_eq!(whole.iter().collect::<Vec<_>>(), &expected[..]);
            encoded.truncate(end.index(encoded.len()));
            let cut = Pairs::new(encoded);
            let read: Vec<_> = cut.iter().collect();
            prop_assert!(expected.starts_with(&read));
        }

        #[test]
        fn nonsense_is_read_without_harm(bytes: Vec<u8>) {
            let length = bytes.len();
            let read: usize = Pairs::new(bytes).iter().map(|(name, value)| name.len() + value.len()).sum();
            prop_assert!(read <= length);
        }
    }
}
