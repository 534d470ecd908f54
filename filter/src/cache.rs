//! Verified tokens, so that a token's signature is checked once and not on every request.
//!
//! Memory is bounded: the number of entries is, and so is the length of a token that is remembered. Only verified
//! tokens enter, so nobody without a key can choose what lies where.

use std::rc::Rc;

use crate::forward::Header;
use crate::keys::Key;
use crate::verify::TokenReference;

/// Longer tokens are verified on every request, in bytes.
pub const MAX_CACHED_TOKEN: usize = 4096;

/// Entries that share a slot: the least recently used of them makes room.
const WAYS: usize = 4;

/// What a hit needs to decide, ready to use.
#[derive(Debug)]
pub struct CachedToken {
    /// Index of the issuer.
    pub issuer: usize,
    /// The key that signed the token.
    pub key: Rc<Key>,
    /// From this second on the token is refused.
    pub refused_from: u64,
    /// What revocations may name.
    pub reference: Rc<TokenReference>,
    /// The issuer's revocations up to this position do not name the token.
    pub not_revoked_up_to: u64,
    /// Its scopes.
    pub scopes: Vec<String>,
    /// Headers for the resource server.
    pub headers: Rc<[Header]>,
}

#[derive(Debug)]
struct Entry {
    token: Box<[u8]>,
    used: u64,
    cached: CachedToken,
}

/// A set-associative cache.
#[derive(Debug)]
pub struct TokenCache {
    slots: Vec<[Option<Entry>; WAYS]>,
    uses: u64,
}

impl TokenCache {
    /// A cache of at least `entries` entries, or none at all for 0.
    #[must_use]
    pub fn new(entries: usize) -> Self {
        let slots = entries.div_ceil(WAYS);
        Self {
            slots: std::iter::repeat_with(|| [const { None }; WAYS])
                .take(slots)
                .collect(),
            uses: 0,
        }
    }

    /// The slot of a token, by the last bytes of its signature: they are as good as random, and no hash over the
    /// whole token is needed because the whole token is compared afterwards.
    fn slot(&mut self, token: &[u8]) -> Option<&mut [Option<Entry>; WAYS]> {
        let last = token.last_chunk::<8>()?;
        // Eight characters of base64url hold 48 bits, the last of them maybe fewer: mix them (Fibonacci hashing).
        let mixed = u64::from_le_bytes(*last).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
        let index = usize::try_from(mixed.checked_rem(self.slots.len() as u64)?).ok()?;
        self.slots.get_mut(index)
    }

    /// The entry of exactly this token.
    pub fn get(&mut self, token: &[u8]) -> Option<&mut CachedToken> {
        self.uses += 1;
        let uses = self.uses;
        let entry = self
            .slot(token)?
            .iter_mut()
            .flatten()
            .find(|entry| same(&entry.token, token))?;
        entry.used = uses;
        Some(&mut entry.cached)
    }

    /// Remembers a verified token, in place of the least recently used one of its slot.
    pub fn insert(&mut self, token: &[u8], cached: CachedToken) {
        if token.len() > MAX_CACHED_TOKEN {
            return;
        }
        let used = self.uses;
        let Some(slot) = self.slot(token) else {
            return;
        };
        let place = slot.iter_mut().min_by_key(|entry| match entry {
            Some(entry) if same(&entry.token, token) => 0,
            None => 1,
            Some(entry) => entry.used.saturating_add(2),
        });
        if let Some(place) = place {
            *place = Some(Entry {
                token: token.into(),
                used,
                cached,
            });
        }
    }

    /// Forgets a token.
    pub fn remove(&mut self, token: &[u8]) {
        if let Some(slot) = self.slot(token) {
            for entry in slot {
                entry.take_if(|entry| same(&entry.token, token));
            }
        }
    }
}

/// Whether two tokens are the same. The libraries' own comparison goes byte by byte in WebAssembly.
fn same(one: &[u8], other: &[u8]) -> bool {
    let ((blocks, end), (other_blocks, other_end)) =
        (one.as_chunks::<64>(), other.as_chunks::<64>());
    one.len() == other.len()
        && blocks.iter().zip(other_blocks).all(|(block, other)| {
            let (words, others) = (block.as_chunks::<8>().0, other.as_chunks::<8>().0);
            let differing = words
                .iter()
                .zip(others)
                .map(|(word, other)| u64::from_ne_bytes(*word) ^ u64::from_ne_bytes(*other));
            differing.fold(0, |all, bits| all | bits) == 0
        })
        && end == other_end
}

#[cfg(test)]
mod tests {
    use claims::Algorithm;

    use super::*;
    use crate::fixtures::Issuer;

    fn cached(issuer: usize) -> CachedToken {
        let keys = Issuer::new(Algorithm::EdDsa).keys();
        CachedToken {
            issuer,
            key: Rc::clone(keys.get(Issuer::KID).unwrap()),
            refused_from: 0,
            reference: Rc::new(TokenReference {
                jti: String::new(),
                grant_id: None,
                client_id: String::new(),
                sub: String::new(),
                iat: 0,
            }),
            not_revoked_up_to: 0,
            scopes: vec![],
            headers: Rc::new([]),
        }
    }

    fn issuer(cache: &mut TokenCache, token: &str) -> Option<usize> {
        cache.get(token.as_bytes()).map(|cached| cached.issuer)
    }

    #[test]
    fn a_look_alike_does_not_hit() {
        let mut cache = TokenCache::new(100);
        cache.insert(b"header.body.signature", cached(1));
        assert_eq!(issuer(&mut cache, "header.body.signature"), Some(1));
        for other in [
            "Header.body.signature",
            "header.bodysignature",
            "signature",
            "",
            "x",
        ] {
            assert_eq!(issuer(&mut cache, other), None, "{other}");
        }
    }

    #[test]
    fn the_least_recently_used_makes_room() {
        let mut cache = TokenCache::new(WAYS);
        let token = |number: usize| format!("token number {number:08}");
        for number in 0..WAYS {
            cache.insert(token(number).as_bytes(), cached(number));
        }
        assert_eq!(issuer(&mut cache, &token(0)), Some(0));
        cache.insert(token(WAYS).as_bytes(), cached(WAYS));
        assert_eq!(issuer(&mut cache, &token(0)), Some(0));
        let left = (0..=WAYS).filter(|number| cache.get(token(*number).as_bytes()).is_some());
        assert_eq!(left.count(), WAYS);
    }

    #[test]
    fn a_token_is_replaced_and_removed() {
        let mut cache = TokenCache::new(100);
        cache.insert(b"header.body.signature", cached(1));
        cache.insert(b"header.body.signature", cached(2));
        assert_eq!(issuer(&mut cache, "header.body.signature"), Some(2));
        cache.remove(b"header.body.signature");
        assert_eq!(issuer(&mut cache, "header.body.signature"), None);
    }

    #[test]
    fn nothing_is_kept_beyond_the_bounds() {
        let long = "x".repeat(MAX_CACHED_TOKEN + 1);
        let mut cache = TokenCache::new(100);
        cache.insert(long.as_bytes(), cached(1));
        assert_eq!(issuer(&mut cache, &long), None);
        let mut none = TokenCache::new(0);
        none.insert(b"header.body.signature", cached(1));
        assert_eq!(issuer(&mut none, "header.body.signature"), None);
    }
}
