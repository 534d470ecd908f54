//! Proofs that were used, so that this process accepts each of them once (RFC 9449 §11.1).
//!
//! A proof is remembered until it would be refused anyway, never shorter. The memory is bounded: of one key, so that its
//! flood leaves room for the others, and in all. Whoever finds no room is refused.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use claims::Thumbprint;
use claims::dpop::{ProofRefusal, ProofUse};
use domain::clock::Timestamp;

/// Parts with a lock of their own. The key decides about the part.
const PARTS: usize = 64;

/// Most remembered proofs of one key.
pub const MOST_OF_A_KEY: usize = 8192;

/// Most remembered proofs of one part. All parts together take about 40 MiB.
const MOST_OF_A_PART: usize = 2 * MOST_OF_A_KEY;

/// Seconds between two removals of proofs that would be refused anyway.
const SWEPT_EVERY: u64 = 10;

/// The start of a [`ProofUse::id`]. Only whoever has the key can look for two proofs with the same start.
type Id = [u8; 16];

#[derive(Debug)]
pub struct UsedProofs(Vec<Mutex<Part>>);

#[derive(Debug, Default)]
struct Part {
    /// Time until which a proof is remembered, in seconds since 1970, by key and id.
    until: HashMap<Thumbprint, HashMap<Id, u64>>,
    len: usize,
    /// In seconds since 1970.
    swept_at: u64,
}

impl Default for UsedProofs {
    fn default() -> Self {
        Self((0..PARTS).map(|_| Mutex::default()).collect())
    }
}

impl UsedProofs {
    /// Accepts this use of a proof.
    ///
    /// # Errors
    /// [`ProofRefusal::Replayed`] if it was accepted before, [`ProofRefusal::Busy`] if there is no room.
    pub fn accept(&self, used: &ProofUse, now: Timestamp) -> Result<(), ProofRefusal> {
        let [place, ..] = used.thumbprint.as_bytes();
        let part = self.0.get(usize::from(*place) % PARTS);
        let part = part.ok_or(ProofRefusal::Busy)?;
        let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
        part.accept(used, now.seconds())
    }
}

impl Part {
    fn accept(&mut self, used: &ProofUse, now: u64) -> Result<(), ProofRefusal> {
        if now >= self.swept_at.saturating_add(SWEPT_EVERY) || self.is_full(used) {
            self.sweep(now);
        }
        let id = *used.id.first_chunk().ok_or(ProofRefusal::Busy)?;
        let is_full = self.is_full(used);
        let of_key = self.until.get(&used.thumbprint);
        if of_key.is_some_and(|of_key| of_key.contains_key(&id)) {
            return Err(ProofRefusal::Replayed);
        }
        if is_full {
            return Err(ProofRefusal::Busy);
        }
        let of_key = self.until.entry(used.thumbprint).or_default();
        of_key.insert(id, used.until);
        self.len += 1;
        Ok(())
    }

    fn is_full(&self, used: &ProofUse) -> bool {
        let of_key = self.until.get(&used.thumbprint).map_or(0, HashMap::len);
        of_key >= MOST_OF_A_KEY || self.len >= MOST_OF_A_PART
    }

    /// Removes proofs that would be refused anyway, at most once in a second.
    fn sweep(&mut self, now: u64) {
        if now == self.swept_at {
            return;
        }
        self.swept_at = now;
        let mut len = 0;
        self.until.retain(|_, of_key| {
            of_key.retain(|_, until| now < *until);
            len += of_key.len();
            !of_key.is_empty()
        });
        self.len = len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::digest::Digest;

    const NOW: u64 = 1_800_000_000;

    fn proof(key: &[u8], number: usize, until: u64) -> ProofUse {
        ProofUse {
            thumbprint: Thumbprint::of(key),
            id: *Digest::of(format!("{key:?} {number}").as_bytes()).as_bytes(),
            until,
        }
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    #[test]
    fn rfc9449_s11_1_a_proof_is_accepted_once_and_remembered_until_it_is_too_old() {
        let proofs = UsedProofs::default();
        let one = proof(b"key", 1, NOW + 61);
        assert_eq!(proofs.accept(&one, at(NOW)), Ok(()));
        for now in [NOW, NOW + 1, NOW + 11, NOW + 60] {
            let again = proofs.accept(&one, at(now));
            assert_eq!(again, Err(ProofRefusal::Replayed), "{now}");
        }
        assert_eq!(proofs.accept(&proof(b"key", 2, NOW + 61), at(NOW)), Ok(()));
        assert_eq!(
            proofs.accept(&proof(b"other", 1, NOW + 61), at(NOW)),
            Ok(())
        );
    }

    #[test]
    fn a_flood_of_one_key_leaves_room_for_the_others() {
        let mut part = Part::default();
        for number in 0..MOST_OF_A_KEY {
            assert_eq!(part.accept(&proof(b"a", number, NOW + 61), NOW), Ok(()));
        }
        let one_more = proof(b"a", MOST_OF_A_KEY, NOW + 61);
        assert_eq!(part.accept(&one_more, NOW + 60), Err(ProofRefusal::Busy));
        let again = proof(b"a", 0, NOW + 61);
        assert_eq!(part.accept(&again, NOW + 60), Err(ProofRefusal::Replayed));
        assert_eq!(part.accept(&proof(b"b", 0, NOW + 61), NOW + 60), Ok(()));
        assert_eq!(part.accept(&one_more, NOW + 61), Ok(()));
        assert_eq!(part.len, 1);
    }

    #[test]
    fn a_flood_of_many_keys_takes_bounded_memory_and_forgets_nothing() {
        let mut part = Part::default();
        let key = |number: usize| number.to_be_bytes();
        for number in 0..MOST_OF_A_PART {
            let used = proof(&key(number), 0, NOW + 61);
            assert_eq!(part.accept(&used, NOW), Ok(()));
        }
        let one_more = proof(b"x", 0, NOW + 61);
        assert_eq!(part.accept(&one_more, NOW + 60), Err(ProofRefusal::Busy));
        let first = proof(&key(0), 0, NOW + 61);
        assert_eq!(part.accept(&first, NOW + 60), Err(ProofRefusal::Replayed));
        assert_eq!(part.accept(&one_more, NOW + 61), Ok(()));
        assert_eq!(part.until.len(), 1);
    }

    #[test]
    fn of_parallel_uses_one_is_accepted() {
        let proofs = UsedProofs::default();
        let used = proof(b"key", 1, NOW + 61);
        let accepted = std::thread::scope(|scope| {
            let uses: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| proofs.accept(&used, at(NOW)).is_ok()))
                .collect();
            uses.into_iter()
                .map(|used| u32::from(used.join().unwrap()))
                .sum::<u32>()
        });
        assert_eq!(accepted, 1);
    }
}
