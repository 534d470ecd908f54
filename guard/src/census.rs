//! The number of running VMs. A VM that crashed cannot take itself off a sum, so each VM says in the shared data every few
//! seconds that it runs.

use std::hash::{BuildHasher as _, RandomState};

use crate::shared_data::SharedData;

/// Time between two entries of one VM, in seconds.
const EVERY: u64 = 5;

/// A VM without an entry for this many seconds runs no more.
const LOST_AFTER: u64 = 3 * EVERY;

/// Attempts to write while other VMs write too.
const ATTEMPTS: usize = 4;

/// The part of one VM in the count.
#[derive(Debug)]
pub(crate) struct Census {
    key: String,
    me: u64,
    entered_at: Option<u64>,
}

impl Census {
    /// All VMs with the same `version` are counted together.
    pub(crate) fn new(version: &str) -> Self {
        Self {
            key: format!("gatepass.running.1.{version}"),
            me: RandomState::new().hash_one(0_u64),
            entered_at: None,
        }
    }

    /// Enters this VM if that is due. Returns the number of running VMs; `None` if it is not due, or if the host has no
    /// shared data. `now` in seconds of the steady clock.
    pub(crate) fn count(&mut self, data: &dyn SharedData, now: u64) -> Option<u64> {
        if self.entered_at.is_some_and(|at| now < at + EVERY) {
            return None;
        }
        let number = self.write(data, now, true)?;
        self.entered_at = Some(now);
        Some(number)
    }

    /// This VM ends. Returns the number of those that still run; `None` if this VM was never counted.
    pub(crate) fn leave(&mut self, data: &dyn SharedData, now: u64) -> Option<u64> {
        self.entered_at?;
        self.write(data, now, false)
    }

    fn write(&self, data: &dyn SharedData, now: u64, runs: bool) -> Option<u64> {
        for _ in 0..ATTEMPTS {
            let stored = data.get(&self.key).ok()?;
            let version = stored.as_ref().map(|(_, version)| *version);
            let value = stored.map(|(value, _)| value).unwrap_or_default();
            let (words, _) = value.as_chunks();
            let mut entries: Vec<[u64; 2]> = words
                .as_chunks()
                .0
                .iter()
                .map(|entry: &[[u8; 8]; 2]| entry.map(u64::from_le_bytes))
                .filter(|[vm, at]| *vm != self.me && now < at.saturating_add(LOST_AFTER))
                .collect();
            if runs {
                entries.push([self.me, now]);
            }
            let bytes = entries.iter().flatten().flat_map(|word| word.to_le_bytes());
            let bytes: Vec<u8> = bytes.collect();
            if data.set(&self.key, &bytes, version).ok()? {
                return Some(entries.len() as u64);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Store;
    use crate::shared_data::NoSharedData;

    #[test]
    fn running_vms_are_counted_and_crashed_ones_are_not() {
        let store = Store::default();
        let mut vms: Vec<Census> = (0..4).map(|_| Census::new("1")).collect();
        for (number, vm) in vms.iter_mut().enumerate() {
            assert_eq!(vm.count(&store, 100), Some(number as u64 + 1));
            assert_eq!(vm.count(&store, 100 + EVERY - 1), None);
        }
        assert_eq!(Census::new("2").count(&store, 100), Some(1));
        // One ends in order, and one crashes.
        assert_eq!(vms.remove(3).leave(&store, 101), Some(3));
        vms.remove(2);
        for (now, expected) in [(105, 3), (110, 3), (114, 3), (119, 2), (124, 2)] {
            let counts: Vec<_> = vms.iter_mut().map(|vm| vm.count(&store, now)).collect();
            if counts[1].is_some() {
                assert_eq!(counts[1], Some(expected), "{now}");
            }
        }
        assert_eq!(Census::new("1").leave(&store, 130), None);
        assert_eq!(Census::new("1").count(&NoSharedData, 130), None);
    }
}
