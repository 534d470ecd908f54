//! Data that the guards of one process share, so that one of them reads a revocation feed for all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use claims::dpop::{ProofRefusal, ProofUse, UsedProofs};
use guard::shared_data::{SharedData, SharedDataError, Versioned};

/// Values by key, with the versions that writers compare, and the used proofs.
#[derive(Debug, Clone, Default)]
pub struct ProcessData {
    values: Arc<Mutex<HashMap<String, Versioned>>>,
    used_proofs: UsedProofs,
}

impl SharedData for ProcessData {
    fn get(&self, key: &str) -> Result<Option<Versioned>, SharedDataError> {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(values.get(key).cloned())
    }

    fn set(&self, key: &str, value: &[u8], version: Option<u32>) -> Result<bool, SharedDataError> {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = values.get(key).map(|(_, stored)| *stored);
        if version.is_some() && stored.is_some() && version != stored {
            return Ok(false);
        }
        let next = stored.map_or(1, |stored| stored.wrapping_add(1));
        values.insert(key.to_owned(), (value.to_vec(), next));
        Ok(true)
    }

    /// Threads that use proofs at the same time do not wait for each other.
    fn use_proof(
        &self,
        used: &ProofUse,
        now: u64,
    ) -> Result<Result<(), ProofRefusal>, SharedDataError> {
        Ok(self.used_proofs.accept(used, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_writers_that_saw_the_same_value_one_sets_it() {
        let (one, other) = {
            let data = ProcessData::default();
            (data.clone(), data)
        };
        assert_eq!(one.get("lease"), Ok(None));
        assert_eq!(one.set("lease", b"a", None), Ok(true));
        let (_, version) = other.get("lease").unwrap().unwrap();
        assert_eq!(one.set("lease", b"b", Some(version)), Ok(true));
        assert_eq!(other.set("lease", b"c", Some(version)), Ok(false));
        let (value, _) = other.get("lease").unwrap().unwrap();
        assert_eq!(value, b"b");
    }
}
