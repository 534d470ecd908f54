//! The memory of used proofs: each is accepted once (RFC 9449 §11.1).
//!
//! A use has its place in one of [`BUCKETS`] buckets, chosen by its id, and stays there until the proof would be refused
//! anyway. Nothing makes room for another use before. A bucket that is full, or full of one key's uses, refuses further
//! ones: a client that floods the memory takes a quarter of it at most, and the rest stays for the others.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{ProofRefusal, ProofUse};

/// Number of buckets.
const BUCKETS: usize = 4096;

/// Most uses in a bucket.
const MOST: usize = 128;

/// Most uses of one key in a bucket.
const MOST_OF_KEY: usize = MOST / 4;

/// Bytes of an entry: the first 16 of the id, the first 8 of the thumbprint, and the time until which the use is
/// remembered, in seconds since 1970.
const ENTRY: usize = 28;

fn entry(used: &ProofUse) -> [u8; ENTRY] {
    let until = u32::try_from(used.until).unwrap_or(u32::MAX).to_le_bytes();
    let parts = used.id.iter().take(16);
    let parts = parts.chain(used.thumbprint.as_bytes().iter().take(8));
    let mut entry = [0; ENTRY];
    for (place, byte) in entry.iter_mut().zip(parts.chain(&until)) {
        *place = *byte;
    }
    entry
}

fn index(used: &ProofUse) -> usize {
    let [.., low, high] = used.id;
    usize::from(u16::from_le_bytes([low, high])) % BUCKETS
}

/// The key of the use's bucket in the data that the VMs of a gateway share.
pub fn key(used: &ProofUse) -> String {
    format!("gatepass.proofs.1.{}", index(used))
}

/// Returns the content of the use's bucket with this use, and without uses whose time is over.
///
/// # Errors
/// [`ProofRefusal::Replayed`], or [`ProofRefusal::Busy`] if there is no room.
pub fn with(bucket: &[u8], used: &ProofUse, now: u64) -> Result<Vec<u8>, ProofRefusal> {
    let own = entry(used);
    let key = own.get(16..24);
    let mut next = Vec::with_capacity(bucket.len() + ENTRY);
    let mut of_key = 0;
    for other in bucket.as_chunks::<ENTRY>().0 {
        // A use whose time is over counts too, because the clock may have stepped back.
        if other.first_chunk::<16>() == own.first_chunk() {
            return Err(ProofRefusal::Replayed);
        }
        let until = other
            .last_chunk()
            .map_or(0, |until| u32::from_le_bytes(*until));
        if now < u64::from(until) {
            of_key += usize::from(other.get(16..24) == key);
            next.extend_from_slice(other);
        }
    }
    if of_key >= MOST_OF_KEY || next.len() >= MOST * ENTRY {
        return Err(ProofRefusal::Busy);
    }
    next.extend_from_slice(&own);
    Ok(next)
}

/// The entries of one bucket.
type Bucket = Mutex<Vec<u8>>;

/// The memory in one process. Clones share it. It has no buckets before the first use.
#[derive(Clone, Default)]
pub struct UsedProofs(Arc<OnceLock<Box<[Bucket]>>>);

impl fmt::Debug for UsedProofs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("UsedProofs")
    }
}

impl UsedProofs {
    /// Accepts a use once. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// [`ProofRefusal::Replayed`], or [`ProofRefusal::Busy`] if there is no room.
    pub fn accept(&self, used: &ProofUse, now: u64) -> Result<(), ProofRefusal> {
        let buckets = self.0.get_or_init(|| {
            std::iter::repeat_with(Mutex::default)
                .take(BUCKETS)
                .collect()
        });
        let bucket = buckets.get(index(used)).ok_or(ProofRefusal::Busy)?;
        let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
        *bucket = with(&bucket, used, now)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Thumbprint;

    const NOW: u64 = 1_800_000_000;

    /// A use in the first bucket.
    fn used(key: &str, jti: u32) -> ProofUse {
        let mut id = *Thumbprint::of(format!("{key} {jti}").as_bytes()).as_bytes();
        (id[30], id[31]) = (0, 0);
        ProofUse {
            thumbprint: Thumbprint::of(key.as_bytes()),
            id,
            until: NOW + 60,
        }
    }

    #[test]
    fn rfc9449_s11_1_a_use_is_accepted_once_until_its_time_is_over() {
        let proofs = UsedProofs::default();
        let other = proofs.clone();
        let mut first = used("key", 1);
        assert_eq!(proofs.accept(&first, NOW), Ok(()));
        assert_eq!(other.accept(&first, NOW + 59), Err(ProofRefusal::Replayed));
        // While nothing else needs the bucket, longer.
        assert_eq!(proofs.accept(&first, NOW + 60), Err(ProofRefusal::Replayed));
        assert_eq!(proofs.accept(&used("key", 2), NOW + 59), Ok(()));
        assert_eq!(proofs.accept(&first, NOW + 59), Err(ProofRefusal::Replayed));
        let mut late = used("key", 3);
        late.until = NOW + 120;
        assert_eq!(proofs.accept(&late, NOW + 60), Ok(()));
        first.until = NOW + 120;
        assert_eq!(proofs.accept(&first, NOW + 60), Ok(()));
    }

    #[test]
    fn a_flood_of_one_key_leaves_room_for_others_and_nothing_is_forgotten() {
        let proofs = UsedProofs::default();
        let accepted = |key: &str| {
            (0..200)
                .filter(|jti| proofs.accept(&used(key, *jti), NOW) == Ok(()))
                .count()
        };
        assert_eq!(accepted("flood"), MOST_OF_KEY);
        assert_eq!(proofs.accept(&used("quiet", 1), NOW), Ok(()));
        assert_eq!(accepted("b"), MOST_OF_KEY);
        assert_eq!(accepted("c"), MOST_OF_KEY);
        assert_eq!(accepted("d"), MOST_OF_KEY - 1);
        let full = proofs.accept(&used("late", 1), NOW);
        assert_eq!(full, Err(ProofRefusal::Busy));
        for key in ["flood", "quiet", "b", "c", "d"] {
            let again = proofs.accept(&used(key, 1), NOW + 59);
            assert_eq!(again, Err(ProofRefusal::Replayed), "{key}");
        }
        assert_eq!(proofs.accept(&used("late", 1), NOW + 60), Ok(()));
    }

    #[test]
    fn uses_are_spread_over_all_buckets() {
        let mut found = std::collections::BTreeSet::new();
        for jti in 0..40_000_u32 {
            let id = *Thumbprint::of(&jti.to_le_bytes()).as_bytes();
            found.insert(key(&ProofUse {
                id,
                ..used("key", 1)
            }));
        }
        assert!(found.len() > BUCKETS * 99 / 100, "{}", found.len());
    }
}
