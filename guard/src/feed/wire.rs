//! The byte format of the ring's head and pages. Integers are little endian. The keys contain the version of
//! this format, so VMs with another version of the filter use other keys.

use crate::revocations::Revoked;

/// The version of the format, part of every key.
pub(super) const VERSION: &str = "1";

/// The head of the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    /// A random number for each reading of the feed from its start.
    pub(super) reading: u64,
    /// Number of the newest page.
    pub(super) slot: u64,
    /// Number of complete answers of the token service.
    pub(super) answers: u64,
    /// Time of the last of them, in seconds of the steady clock.
    pub(super) answered_at: u64,
    /// Position of the feed up to which the leader has read.
    pub(super) position: u64,
    /// The feed's identity.
    pub(super) feed: String,
}

/// A page of the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) reading: u64,
    pub(super) number: u64,
    pub(super) since: u64,
    pub(super) position: u64,
    pub(super) entries: Vec<Revoked>,
}

/// The whole table at one position of the feed, for VMs that start later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) reading: u64,
    pub(super) position: u64,
    /// Entries for tokens that expire up to this time may be missing, in seconds since 1970.
    pub(super) missing_until: u64,
    pub(super) entries: Vec<Revoked>,
}

fn entries(bytes: &[u8]) -> Option<Vec<Revoked>> {
    let (entries, rest) = bytes.as_chunks();
    let entries = entries.iter().map(Revoked::from_bytes).collect();
    rest.is_empty().then_some(entries)?
}

fn encoded<const N: usize>(numbers: [u64; N], entries: &[Revoked]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 * N + entries.len() * Revoked::BYTES);
    bytes.extend(numbers.map(u64::to_le_bytes).as_flattened());
    for entry in entries {
        bytes.extend(entry.to_bytes());
    }
    bytes
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*number))
}

impl Head {
    pub(super) fn encode(&self) -> Vec<u8> {
        let numbers = [
            self.reading,
            self.slot,
            self.answers,
            self.answered_at,
            self.position,
        ];
        let mut bytes = numbers.map(u64::to_le_bytes).concat();
        bytes.extend_from_slice(self.feed.as_bytes());
        bytes
    }

    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        Some(Self {
            reading: take(bytes)?,
            slot: take(bytes)?,
            answers: take(bytes)?,
            answered_at: take(bytes)?,
            position: take(bytes)?,
            feed: String::from_utf8(bytes.to_vec()).ok()?,
        })
    }
}

impl Slot {
    pub(super) fn encode(&self) -> Vec<u8> {
        let numbers = [self.reading, self.number, self.since, self.position];
        encoded(numbers, &self.entries)
    }

    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        let (reading, number) = (take(bytes)?, take(bytes)?);
        let (since, position) = (take(bytes)?, take(bytes)?);
        Some(Self {
            reading,
            number,
            since,
            position,
            entries: entries(bytes)?,
        })
    }
}

impl Snapshot {
    pub(super) fn encode(&self) -> Vec<u8> {
        let numbers = [self.reading, self.position, self.missing_until];
        encoded(numbers, &self.entries)
    }

    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        Some(Self {
            reading: take(bytes)?,
            position: take(bytes)?,
            missing_until: take(bytes)?,
            entries: entries(bytes)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(
            numbers: [u64; 4],
            feed: String,
            entries in prop::collection::vec((0_u8..3, any::<[u8; 24]>()), 0..20),
        ) {
            let [reading, slot, answers, position] = numbers;
            let head = Head { reading, slot, answers, answered_at: slot, position, feed };
            prop_assert_eq!(Head::decode(&head.encode()), Some(head));
            let entries = entries.into_iter().map(|(kind, rest)| {
                let bytes: Vec<u8> = [kind].into_iter().chain(rest).collect();
                Revoked::from_bytes(&bytes.try_into().unwrap()).unwrap()
            });
            let entries = entries.collect();
            let page = Slot { reading, number: slot, since: answers, position, entries };
            let snapshot = Snapshot { reading, position, missing_until: slot, entries: page.entries.clone() };
            prop_assert_eq!(Slot::decode(&page.encode()), Some(page));
            prop_assert_eq!(Snapshot::decode(&snapshot.encode()), Some(snapshot));
        }

        #[test]
        fn anything_is_read_without_a_crash(bytes: Vec<u8>) {
            let _ = Head::decode(&bytes);
            let _ = Slot::decode(&bytes);
            let _ = Snapshot::decode(&bytes);
        }
    }
}
