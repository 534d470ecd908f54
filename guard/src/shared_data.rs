//! Data that all VMs of a gateway share.

use std::fmt::Debug;

use claims::dpop::{ProofRefusal, ProofUse, used_proofs};

/// The host has no shared data, or refuses this access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedDataError;

/// A value and its version in the shared data.
pub type Versioned = (Vec<u8>, u32);

/// Stands for the version where there is no value. No host counts that far.
const NO_VALUE: u32 = u32::MAX;

/// Attempts to change a value that other VMs change at the same time.
const ATTEMPTS: usize = 16;

/// Key-value store that all VMs of a gateway share.
pub trait SharedData: Debug + Send {
    /// Returns the value of `key` with its version.
    ///
    /// # Errors
    /// The host has no shared data.
    fn get(&self, key: &str) -> Result<Option<Versioned>, SharedDataError>;

    /// Sets the value of `key`. With a version, sets it only if the stored value still has that version, or if there is no
    /// value. Returns true if the value was set.
    ///
    /// # Errors
    /// The host has no shared data.
    fn set(&self, key: &str, value: &[u8], version: Option<u32>) -> Result<bool, SharedDataError>;

    /// Accepts the use of a proof once for all VMs. `now` is in seconds since 1970. Two calls of the host, if no other VM
    /// changes the same bucket meanwhile.
    ///
    /// # Errors
    /// The host has no shared data.
    fn use_proof(
        &self,
        used: &ProofUse,
        now: u64,
    ) -> Result<Result<(), ProofRefusal>, SharedDataError> {
        let key = used_proofs::key(used);
        for _ in 0..ATTEMPTS {
            let (bucket, version) = self.get(&key)?.unwrap_or((Vec::new(), NO_VALUE));
            match used_proofs::with(&bucket, used, now) {
                Ok(next) if self.set(&key, &next, Some(version))? => return Ok(Ok(())),
                Ok(_) => {}
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
        Ok(Err(ProofRefusal::Busy))
    }
}

/// Stands for a host without shared data.
#[derive(Debug, Clone, Copy)]
pub struct NoSharedData;

impl SharedData for NoSharedData {
    fn get(&self, _: &str) -> Result<Option<Versioned>, SharedDataError> {
        Err(SharedDataError)
    }

    fn set(&self, _: &str, _: &[u8], _: Option<u32>) -> Result<bool, SharedDataError> {
        Err(SharedDataError)
    }
}
