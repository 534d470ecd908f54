//! The legacy refresh token: 42 characters that contain the grant id, the step and a tag that only this service can
//! make (protocol.md §2.5).
//!
//! The store knows a step only by the SHA-256 of its token. The tag proves that this service issued the token, so a
//! made-up token cannot revoke a grant. The token follows from grant and step, so the service can repeat a lost
//! response without storing it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use subtle::ConstantTimeEq as _;

use domain::digest::Digest;
use domain::{GrantId, TokenId};
use secrets::sealing::EncryptionKey;

const STEP_BYTES: usize = 3;
const TAG_BYTES: usize = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LegacyRefreshToken {
    pub(super) grant_id: GrantId,
    /// Number of refreshes, modulo 2^24.
    step: u32,
}

impl LegacyRefreshToken {
    pub(super) const fn first(grant_id: GrantId) -> Self {
        Self { grant_id, step: 0 }
    }

    /// The next token. After 2^24 refreshes, about a hundred years, the count restarts at 0.
    #[must_use]
    pub(super) const fn next(self) -> Self {
        Self {
            grant_id: self.grant_id,
            step: (self.step + 1) % (1 << (8 * STEP_BYTES)),
        }
    }

    /// The token as text, for this instance.
    pub(super) fn text(self, hostname: &str, key: &EncryptionKey) -> String {
        let tag = self.tag(hostname, key);
        URL_SAFE_NO_PAD.encode(
            [
                self.grant_id.as_bytes().as_slice(),
                &self.step_bytes(),
                &tag,
            ]
            .concat(),
        )
    }

    pub(super) fn id(self, hostname: &str, key: &EncryptionKey) -> TokenId {
        let digest = Digest::of(self.text(hostname, key).as_bytes());
        let mut id = [0; 16];
        for (to, from) in id.iter_mut().zip(digest.as_bytes()) {
            *to = *from;
        }
        TokenId::from_bytes(id)
    }

    /// Reads a token; `None` if this service did not make the token for this instance.
    pub(super) fn parse(text: &str, hostname: &str, key: &EncryptionKey) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (grant_id, rest) = bytes.split_first_chunk::<16>()?;
        let (step, tag) = rest.split_first_chunk::<STEP_BYTES>()?;
        let [high, middle, low] = *step;
        let token = Self {
            grant_id: GrantId::from_bytes(*grant_id),
            step: u32::from_be_bytes([0, high, middle, low]),
        };
        let expected = token.tag(hostname, key);
        bool::from(expected.as_slice().ct_eq(tag)).then_some(token)
    }

    const fn step_bytes(self) -> [u8; STEP_BYTES] {
        let [_, high, middle, low] = self.step.to_be_bytes();
        [high, middle, low]
    }

    fn tag(self, hostname: &str, key: &EncryptionKey) -> [u8; TAG_BYTES] {
        let parts = [
            b"legacy refresh token".as_slice(),
            hostname.as_bytes(),
            self.grant_id.as_bytes(),
            &self.step_bytes(),
        ];
        let mut tag = [0; TAG_BYTES];
        for (to, from) in tag.iter_mut().zip(key.tag(&parts)) {
            *to = from;
        }
        tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 31 bytes in base64url.
    const LENGTH: usize = 42;

    #[test]
    fn tokens_have_42_characters_and_are_known_on_their_instance_alone() {
        let key = EncryptionKey::new(&[1; 32]).unwrap();
        let mut token = LegacyRefreshToken::first(GrantId::from_bytes([5; 16]));
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..100 {
            let text = token.text("us1.example", &key);
            assert_eq!(text.len(), LENGTH);
            assert!(seen.insert(text.clone()));
            assert_eq!(
                LegacyRefreshToken::parse(&text, "us1.example", &key),
                Some(token)
            );
            assert_eq!(LegacyRefreshToken::parse(&text, "us2.example", &key), None);
            token = token.next();
        }
    }

    #[test]
    fn a_changed_token_is_not_one() {
        let key = EncryptionKey::new(&[1; 32]).unwrap();
        let text = LegacyRefreshToken::first(GrantId::from_bytes([5; 16])).text("h", &key);
        for position in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[position] = b'A' + u8::from(changed[position] == b'A');
            let changed = String::from_utf8(changed).unwrap();
            for wrong in [&*changed, &text[..position]] {
                let parsed = LegacyRefreshToken::parse(wrong, "h", &key);
                assert_eq!(parsed, None, "{position}");
            }
        }
        let other = EncryptionKey::new(&[2; 32]).unwrap();
        assert_eq!(LegacyRefreshToken::parse(&text, "h", &other), None);
    }
}
