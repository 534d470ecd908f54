//! The cache of verified tokens, so that the signature of a token is not verified on every request.
//!
//! Memory is bounded by the number of entries, their total size in bytes, and the length of a cached token. The
//! cache holds only verified tokens, so nobody without a key can choose which slots fill up.

use std::mem::size_of;
use std::sync::Arc;

use claims::Confirmation;
use keys::Key;

use crate::forward::Header;
use crate::rules::RequiredClaim;
use crate::verify::TokenReference;

/// Longest token that is cached, in bytes. Longer tokens are verified on every request.
pub const MAX_CACHED_TOKEN: usize = 4096;

/// Entries that share a slot. A new entry replaces the least recently used of them.
const WAYS: usize = 4;

/// Number of slots that are searched for an old entry when the bytes run out.
const SAMPLED_SLOTS: usize = 4;

/// Overhead of each allocation, in bytes: the allocator's header, and rounding.
const ALLOCATION: usize = 16;

/// Least size of an entry, in bytes: every signed token is longer. It bounds the number of slots.
const LEAST_ENTRY: usize = 512;

/// The result of a verification, ready for the next request with the token.
#[derive(Debug)]
pub struct CachedToken {
    pub issuer: usize,
    pub key: Arc<Key>,
    /// Time from which the token is refused, in seconds since 1970.
    pub refused_from: u64,
    pub reference: Arc<TokenReference>,
    /// What the client must prove with each request. `None` for a bearer token: anybody who has it may use it.
    pub confirmation: Option<Confirmation>,
    /// The generation of the issuer's revocations in which the token was last looked up and not refused.
    pub not_revoked_at: u64,
    /// Time from which the issuer must be asked again, in seconds of the steady clock; `u64::MAX` without
    /// introspection.
    pub active_until: u64,
    /// When the person signed in, in seconds since 1970, as the token says.
    pub authenticated_at: Option<u64>,
    pub scopes: Vec<String>,
    /// The required values of rules that the token has.
    pub claims: Vec<Arc<RequiredClaim>>,
    pub headers: Arc<[Header]>,
}

impl CachedToken {
    /// Bytes allocated by the strings and lists of the value.
    fn allocated(&self) -> usize {
        let reference = &*self.reference;
        let texts = [
            &reference.jti,
            &reference.grant_id,
            &reference.client_id,
            &reference.sub,
            &reference.user_id,
            &reference.user_site,
        ];
        let texts = texts.into_iter().flatten();
        let headers = self.headers.iter().flat_map(|(name, value)| [name, value]);
        let texts: usize = texts
            .chain(&self.scopes)
            .chain(headers)
            .map(|text| text.capacity() + ALLOCATION)
            .sum();
        let lists = self.scopes.capacity() * size_of::<String>()
            + self.claims.capacity() * size_of::<Arc<RequiredClaim>>()
            + self.headers.len() * size_of::<Header>()
            + size_of::<TokenReference>();
        texts + lists + 3 * ALLOCATION
    }
}

#[derive(Debug)]
struct Entry {
    token: Box<[u8]>,
    used: u64,
    /// Memory of the whole entry, in bytes.
    bytes: usize,
    cached: CachedToken,
}

/// A set-associative cache.
#[derive(Debug)]
pub struct TokenCache {
    slots: Vec<[Option<Entry>; WAYS]>,
    uses: u64,
    bytes: usize,
    most_bytes: usize,
    /// Slot at which the next search for an old entry starts.
    hand: usize,
}

impl TokenCache {
    /// A cache of at least `entries` entries with at most `most_bytes` bytes in total. The cache stays empty if
    /// one of the two is 0.
    pub fn new(entries: usize, most_bytes: usize) -> Self {
        let slots = entries.min(most_bytes.div_ceil(LEAST_ENTRY)).div_ceil(WAYS);
        Self {
            slots: std::iter::repeat_with(|| [const { None }; WAYS])
                .take(slots)
                .collect(),
            uses: 0,
            bytes: 0,
            most_bytes,
            hand: 0,
        }
    }

    /// Bytes of all entries: tokens, forwarded headers, scopes and references.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The slot of a token. The last bytes of the signature select the slot, because they are as good as
    /// random. A hash of the whole token is not needed, because [`TokenCache::get_if`] compares the whole token.
    fn slot(&self, token: &[u8]) -> Option<usize> {
        let last = token.last_chunk::<8>()?;
        // Eight characters of base64url hold 48 bits, and the last character may hold fewer. Fibonacci hashing
        // mixes them: the upper half of the product depends on all of them and selects the slot.
        let mixed = u64::from_le_bytes(*last).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let index = ((mixed >> 32) * self.slots.len() as u64) >> 32;
        usize::try_from(index).ok()
    }

    /// Returns the entry of exactly this token. Removes the entry if it is no longer good.
    pub fn get_if(
        &mut self,
        token: &[u8],
        is_good: impl FnOnce(&mut CachedToken) -> bool,
    ) -> Option<&CachedToken> {
        self.uses += 1;
        let slot = self.slot(token)?;
        let place = self.slots.get_mut(slot)?.iter_mut().find(|place| {
            let entry = place.as_ref();
            entry.is_some_and(|entry| same(&entry.token, token))
        })?;
        let entry = place.as_mut()?;
        entry.used = self.uses;
        if !is_good(&mut entry.cached) {
            self.bytes = self.bytes.saturating_sub(entry.bytes);
            *place = None;
        }
        place.as_ref().map(|entry| &entry.cached)
    }

    /// Adds a verified token in place of the least recently used entry of its slot. When the bytes run out, old
    /// entries of other slots are removed too.
    pub fn insert(&mut self, token: &[u8], cached: CachedToken) {
        let bytes = size_of::<Entry>() + token.len() + ALLOCATION + cached.allocated();
        if token.len() > MAX_CACHED_TOKEN || bytes > self.most_bytes {
            return;
        }
        // The bytes of an older entry of the same token must not count.
        self.remove(token);
        while self.bytes + bytes > self.most_bytes {
            self.evict();
        }
        self.uses += 1;
        let used = self.uses;
        let slot = self.slot(token);
        let Some(slot) = slot.and_then(|slot| self.slots.get_mut(slot)) else {
            return;
        };
        let place = slot.iter_mut().min_by_key(|entry| match entry {
            None => 0,
            Some(entry) => entry.used,
        });
        let mut freed = 0;
        if let Some(place) = place {
            let replaced = place.replace(Entry {
                token: token.into(),
                used,
                bytes,
                cached,
            });
            freed = replaced.map_or(0, |entry| entry.bytes);
        }
        self.bytes = (self.bytes + bytes).saturating_sub(freed);
    }

    pub fn remove(&mut self, token: &[u8]) {
        self.get_if(token, |_| false);
    }

    /// Removes the least recently used entry of the next [`SAMPLED_SLOTS`] slots that are not empty.
    fn evict(&mut self) {
        let count = self.slots.len();
        let mut oldest: Option<(usize, usize, u64)> = None;
        let mut looked_through = 0;
        for step in 0..count {
            let number = (self.hand + step) % count;
            let entries = self.slots.get(number).into_iter().flatten();
            let least = entries
                .enumerate()
                .filter_map(|(way, entry)| Some((number, way, entry.as_ref()?.used)))
                .min_by_key(|(_, _, used)| *used);
            let Some(least) = least else {
                continue;
            };
            if oldest.is_none_or(|(_, _, used)| least.2 < used) {
                oldest = Some(least);
            }
            looked_through += 1;
            if looked_through == SAMPLED_SLOTS {
                break;
            }
        }
        let evicted = oldest.and_then(|(number, way, _)| {
            self.hand = (number + 1) % count;
            self.slots.get_mut(number)?.get_mut(way)?.take()
        });
        self.bytes = match evicted {
            Some(entry) => self.bytes.saturating_sub(entry.bytes),
            None => 0,
        };
    }
}

/// Compares two tokens. The standard comparison goes byte by byte in WebAssembly.
fn same(one: &[u8], other: &[u8]) -> bool {
    if !cfg!(target_family = "wasm") {
        return one == other;
    }
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

    use keys::algorithm::Algorithm;
    use keys::testing::Issuer;

    use super::*;

    const LARGE: usize = 1024 * 1024 * 1024;

    fn cached(issuer: usize) -> CachedToken {
        let keys = Issuer::new(Algorithm::EdDsa).keys();
        CachedToken {
            issuer,
            key: Arc::clone(keys.get(Issuer::KID, Algorithm::EdDsa).unwrap()),
            refused_from: 0,
            reference: Arc::default(),
            confirmation: None,
            not_revoked_at: 0,
            active_until: u64::MAX,
            authenticated_at: None,
            scopes: vec![],
            claims: vec![],
            headers: Arc::new([]),
        }
    }

    fn issuer(cache: &mut TokenCache, token: &str) -> Option<usize> {
        cache
            .get_if(token.as_bytes(), |_| true)
            .map(|cached| cached.issuer)
    }

    #[test]
    fn a_look_alike_does_not_hit() {
        let mut cache = TokenCache::new(100, LARGE);
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
        let mut cache = TokenCache::new(WAYS, LARGE);
        let token = |number: usize| format!("token number {number:08}");
        for number in 0..WAYS {
            cache.insert(token(number).as_bytes(), cached(number));
        }
        assert_eq!(issuer(&mut cache, &token(0)), Some(0));
        cache.insert(token(WAYS).as_bytes(), cached(WAYS));
        assert_eq!(issuer(&mut cache, &token(0)), Some(0));
        let left =
            (0..=WAYS).filter(|number| cache.get_if(token(*number).as_bytes(), |_| true).is_some());
        assert_eq!(left.count(), WAYS);
    }

    #[test]
    fn a_token_is_replaced_and_removed() {
        let mut cache = TokenCache::new(100, LARGE);
        cache.insert(b"header.body.signature", cached(1));
        cache.insert(b"header.body.signature", cached(2));
        assert_eq!(issuer(&mut cache, "header.body.signature"), Some(2));
        cache.remove(b"header.body.signature");
        assert_eq!(issuer(&mut cache, "header.body.signature"), None);
    }

    #[test]
    fn nothing_is_kept_beyond_the_bounds() {
        let long = "x".repeat(MAX_CACHED_TOKEN + 1);
        let mut cache = TokenCache::new(100, LARGE);
        cache.insert(long.as_bytes(), cached(1));
        assert_eq!(issuer(&mut cache, &long), None);
        for (entries, bytes) in [(0, LARGE), (100, 0), (100, 100)] {
            let mut none = TokenCache::new(entries, bytes);
            none.insert(b"header.body.signature", cached(1));
            assert_eq!(issuer(&mut none, "header.body.signature"), None);
            assert_eq!(none.bytes(), 0);
        }
    }

    /// Adds an entry of the largest possible size, with 40 KiB of headers.
    fn insert_large(cache: &mut TokenCache, number: usize) -> String {
        let token = format!("{}{number:08}", "x".repeat(1000));
        let value = "v".repeat(10 * 1024);
        let header = |name: &str| (name.to_owned(), value.clone());
        let headers = ["x-a", "x-b", "x-c", "x-d"].map(header);
        cache.insert(
            token.as_bytes(),
            CachedToken {
                headers: Arc::new(headers),
                ..cached(number)
            },
        );
        token
    }

    #[test]
    fn bytes_are_bounded_and_the_entries_that_are_used_stay() {
        const MOST: usize = 4 * 1024 * 1024;
        let mut cache = TokenCache::new(10_000, MOST);
        let favourite = insert_large(&mut cache, 0);
        let one = cache.bytes();
        assert!((41 * 1024..45 * 1024).contains(&one), "{one}");
        let mut last = String::new();
        for number in 1..1000 {
            last = insert_large(&mut cache, number);
            assert!(cache.bytes() <= MOST);
            assert_eq!(
                issuer(&mut cache, &last),
                Some(number),
                "what is new is there"
            );
            assert_eq!(issuer(&mut cache, &favourite), Some(0), "after {number}");
        }
        assert!(cache.bytes() > MOST - 2 * one, "the room is used");
        cache.remove(last.as_bytes());
        cache.remove(favourite.as_bytes());
        assert!(cache.bytes() <= MOST - 2 * one);
    }

    #[test]
    fn every_byte_is_given_back() {
        let mut cache = TokenCache::new(WAYS, LARGE);
        for number in 0..100 {
            insert_large(&mut cache, number);
            insert_large(&mut cache, number);
        }
        let entries = |cache: &TokenCache| -> usize {
            let entries = cache.slots.iter().flatten().flatten();
            entries.map(|entry| entry.bytes).sum()
        };
        assert_eq!(cache.bytes(), entries(&cache));
        assert!(cache.bytes() > 0);
        for number in 0..100 {
            cache.remove(format!("{}{number:08}", "x".repeat(1000)).as_bytes());
        }
        assert_eq!((cache.bytes(), entries(&cache)), (0, 0));
    }
}
