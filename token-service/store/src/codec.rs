//! The bytes of keys, whose order is the order of the values: in redb, in PostgreSQL (`BYTEA`), and in a `BTreeMap`.
//!
//! Numbers are 8 bytes, big endian. Kinds and flags are 1 byte. Ids and digests are themselves. A text that other parts follow
//! ends with 00 00, and a 00 in it becomes 00 FF. A text at the end of a key is itself.

use std::borrow::Cow;

use crate::OnceId;
use crate::row::RowError;
use domain::digest::Digest;
use domain::{ClientId, GrantId, Revoked, Username};

pub(crate) type Bytes = Vec<u8>;

/// A value that is a key by itself.
pub(crate) trait Key {
    fn bytes(&self) -> Cow<'_, [u8]>;
}

macro_rules! keys {
    ($($type:ty: |$key:ident| $bytes:expr;)*) => {$(
        impl Key for $type {
            fn bytes(&self) -> Cow<'_, [u8]> {
                let $key = self;
                $bytes.into()
            }
        }
    )*};
}

keys! {
    [u8]: |key| key;
    str: |key| key.as_bytes();
    u64: |key| key.to_be_bytes().to_vec();
    ClientId: |key| key.as_str().as_bytes();
    Username: |key| key.as_str().as_bytes();
    GrantId: |key| key.as_bytes().as_slice();
    Digest: |key| key.as_bytes().as_slice();
    OnceId: |key| key.as_bytes().as_slice();
    Revoked: |key| key.key();
}

/// Writes a key of several parts.
#[derive(Debug, Clone)]
pub(crate) struct Parts(Bytes);

impl Parts {
    pub(crate) fn new() -> Self {
        // Most keys fit.
        Self(Vec::with_capacity(96))
    }

    /// A text that other parts follow.
    pub(crate) fn text(mut self, text: &str) -> Self {
        for byte in text.bytes() {
            self.0.push(byte);
            if byte == 0 {
                self.0.push(0xff);
            }
        }
        self.0.extend_from_slice(&[0, 0]);
        self
    }

    pub(crate) fn number(self, number: u64) -> Self {
        self.array(&number.to_be_bytes())
    }

    pub(crate) fn byte(self, byte: u8) -> Self {
        self.array(&[byte])
    }

    pub(crate) fn flag(self, flag: bool) -> Self {
        self.byte(flag.into())
    }

    pub(crate) fn array<const N: usize>(mut self, array: &[u8; N]) -> Self {
        self.0.extend_from_slice(array);
        self
    }

    /// The key so far: a prefix of keys.
    pub(crate) fn end(self) -> Bytes {
        self.0
    }

    /// The key with a text at its end.
    pub(crate) fn last(mut self, text: &str) -> Bytes {
        self.0.extend_from_slice(text.as_bytes());
        self.0
    }
}

/// The parts of a key that are not yet read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rest<'k>(pub(crate) &'k [u8]);

impl<'k> Rest<'k> {
    /// A text that other parts follow.
    pub(crate) fn text(&mut self) -> Result<Cow<'k, str>, RowError> {
        let key = self.0;
        let mut end = 0;
        loop {
            end += key.get(end..).and_then(zero).ok_or_else(unexpected)?;
            match key.get(end + 1) {
                Some(0) => break,
                Some(0xff) => end += 2,
                _ => return Err(unexpected()),
            }
        }
        let (text, behind) = key.split_at(end);
        self.0 = behind.get(2..).unwrap_or_default();
        let text = std::str::from_utf8(text).map_err(|_| ());
        match text {
            Ok(text) => Ok(text.into()),
            // 00 FF is no UTF-8.
            Err(()) => unescaped(key.get(..end).unwrap_or_default()).map(Cow::Owned),
        }
    }

    pub(crate) fn number(&mut self) -> Result<u64, RowError> {
        Ok(u64::from_be_bytes(*self.array()?))
    }

    pub(crate) fn byte(&mut self) -> Result<u8, RowError> {
        self.array().map(|[byte]| *byte)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<&'k [u8; N], RowError> {
        let (array, rest) = self.0.split_first_chunk().ok_or_else(unexpected)?;
        self.0 = rest;
        Ok(array)
    }

    /// The text at the end of the key.
    pub(crate) fn last(self) -> Result<&'k str, RowError> {
        std::str::from_utf8(self.0).map_err(|_| unexpected())
    }
}

fn zero(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == 0)
}

fn unescaped(text: &[u8]) -> Result<String, RowError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = zero(rest) {
        let (before, behind) = rest.split_at(at + 1);
        bytes.extend_from_slice(before);
        rest = behind.get(1..).unwrap_or_default();
    }
    bytes.extend_from_slice(rest);
    String::from_utf8(bytes).map_err(|_| unexpected())
}

fn unexpected() -> RowError {
    RowError("a key of another form than the keys of its table".into())
}

/// The least key behind `key`.
pub(crate) fn next(key: &[u8]) -> Bytes {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

/// The least key behind all that begin with `prefix`; `None` if no key is behind them.
pub(crate) fn behind_all(prefix: &[u8]) -> Option<Bytes> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut behind = prefix.get(..=last)?.to_vec();
    *behind.last_mut()? += 1;
    Some(behind)
}

/// Keys from one to before another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Keys {
    pub(crate) from: Bytes,
    /// Not included; `None` for the end of the table.
    pub(crate) to: Option<Bytes>,
}

impl Keys {
    pub(crate) const fn all() -> Self {
        Self {
            from: Vec::new(),
            to: None,
        }
    }

    /// The keys that begin with `prefix`.
    pub(crate) fn with(prefix: &[u8]) -> Self {
        Self {
            from: prefix.to_vec(),
            to: behind_all(prefix),
        }
    }

    /// The part of these keys that is behind `key`.
    pub(crate) fn behind(self, key: &[u8]) -> Self {
        let from = self.from.max(next(key));
        Self { from, ..self }
    }

    /// The part of these keys that is before `key`.
    pub(crate) fn before(self, key: &[u8]) -> Self {
        let key = key.to_vec();
        let to = Some(
            self.to
                .map_or_else(|| key.clone(), |to| to.min(key.clone())),
        );
        Self { to, ..self }
    }

    /// True if no key can be among them.
    pub(crate) fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to <= self.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The parts of a key, as a tuple whose order is that of the values.
    type Values = (u8, String, u64, String, bool, [u8; 4], String);

    fn key((kind, first, number, second, flag, id, last): &Values) -> Bytes {
        let key = Parts::new().byte(*kind).text(first).number(*number);
        key.text(second).flag(*flag).array(id).last(last)
    }

    fn read(key: &[u8]) -> Result<Values, RowError> {
        let mut rest = Rest(key);
        let (kind, first, number) = (rest.byte()?, rest.text()?, rest.number()?);
        let (second, flag, id) = (rest.text()?, rest.byte()? != 0, *rest.array()?);
        let last = rest.last()?.to_owned();
        Ok((kind, first.into(), number, second.into(), flag, id, last))
    }

    /// Short, so that many have a prefix in common, with the characters at which an encoding may go wrong.
    fn text() -> impl Strategy<Value = String> {
        let letter = prop::sample::select(vec!['\0', '\u{1}', 'a', 'b', '\u{ff}', '\u{10ffff}']);
        prop::collection::vec(letter, 0..4).prop_map(String::from_iter)
    }

    fn values() -> impl Strategy<Value = Values> {
        let number = prop_oneof![0..3_u64, Just(256), Just(u64::MAX), any::<u64>()];
        let id = prop::array::uniform4(prop_oneof![Just(0_u8), Just(0xff)]);
        (0..2_u8, text(), number, text(), any::<bool>(), id, text())
    }

    proptest! {
        #[test]
        fn the_order_of_the_bytes_is_the_order_of_the_values(one in values(), other in values()) {
            prop_assert_eq!(key(&one).cmp(&key(&other)), one.cmp(&other));
        }

        #[test]
        fn a_key_has_all_its_parts(values in values()) {
            prop_assert_eq!(read(&key(&values)), Ok(values));
        }

        #[test]
        fn foreign_bytes_are_refused_or_read(bytes in prop::collection::vec(0..3_u8, 0..40)) {
            if let Ok(values) = read(&bytes) {
                prop_assert_eq!(read(&key(&values)), Ok(values));
            }
        }

        #[test]
        fn keys_with_a_prefix_are_those_of_the_range(
            prefix in prop::collection::vec(prop_oneof![Just(0_u8), Just(7), Just(0xff)], 0..4),
            key in prop::collection::vec(prop_oneof![Just(0_u8), Just(7), Just(8), Just(0xff)], 0..6),
            bound in prop::collection::vec(prop_oneof![Just(0_u8), Just(7), Just(0xff)], 0..6),
        ) {
            let is_in = |keys: &Keys| {
                *keys.from <= *key && keys.to.as_ref().is_none_or(|to| **to > *key)
            };
            let keys = Keys::with(&prefix);
            prop_assert_eq!(is_in(&keys), key.starts_with(&prefix));
            let behind = keys.clone().behind(&bound);
            prop_assert_eq!(is_in(&behind), is_in(&keys) && key > bound);
            let before = keys.clone().before(&bound);
            prop_assert_eq!(is_in(&before), is_in(&keys) && key < bound);
            prop_assert!(!before.is_empty() || !is_in(&before));
        }
    }

    #[test]
    fn a_key_that_ends_early_is_refused() {
        assert!(Rest(b"ada").text().is_err());
        assert!(Rest(b"ada\0").text().is_err());
        assert!(Rest(b"ada\0\x01").text().is_err());
        assert!(Rest(&[0; 7]).number().is_err());
        assert!(Rest(&[]).byte().is_err());
        assert!(Rest(&[0xff]).last().is_err());
    }

    #[test]
    fn keys_of_people_and_clients_are_readable() {
        let key = Parts::new().text("ada").text("app").flag(true).end();
        assert_eq!(key, b"ada\0\0app\0\0\x01");
    }
}
