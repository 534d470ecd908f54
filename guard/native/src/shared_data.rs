//! Data that the guards of one process share, so that one of them reads a revocation feed for all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use guard::feed::{SharedData, SharedDataError, Versioned};

/// Values by key, with the versions that writers compare.
#[derive(Debug, Clone, Default)]
pub struct ProcessData(Arc<Mutex<HashMap<String, Versioned>>>);

impl SharedData for ProcessData {
    fn get(&self, key: &str) -> Result<Option<Versioned>, SharedDataError> {
        let values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(values.get(key).cloned())
    }

    fn set(&self, key: &str, value: &[u8], version: Option<u32>) -> Result<bool, SharedDataError> {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = values.get(key).map_or(0, |(_, stored)| *stored);
        if version.is_some_and(|version| version != stored) {
            return Ok(false);
        }
        values.insert(key.to_owned(), (value.to_vec(), stored.wrapping_add(1)));
        Ok(true)
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
