//! The host's shared data.

use super::calls;
use guard::shared_data::{SharedData, SharedDataError, Versioned};

/// The data that all VMs of the same `vm_id` share.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostData;

impl SharedData for HostData {
    fn get(&self, key: &str) -> Result<Option<Versioned>, SharedDataError> {
        calls::shared_data(key).map_err(|_| SharedDataError)
    }

    fn set(&self, key: &str, value: &[u8], version: Option<u32>) -> Result<bool, SharedDataError> {
        calls::set_shared_data(key, value, version).map_err(|_| SharedDataError)
    }
}
