//! The public keys of issuers: where they are, when they are fetched, which can be used, and what they verify.
//!
//! Gateways and the token service take keys of others by these rules. The crate has no clock and no I/O. Clippy refuses what could
//! panic, because a panic would end the VM of a whole worker of a gateway.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::unreachable,
        clippy::string_slice
    )
)]

pub mod algorithm;
pub mod discovery;
pub mod endpoint;
pub mod failures;
mod key_set;
pub mod schedule;
pub mod signature;
#[cfg(any(test, feature = "testing"))]
#[expect(clippy::unwrap_used, reason = "a test may end so")]
#[cfg_attr(
    not(test),
    expect(clippy::indexing_slicing, reason = "a test may end so")
)]
pub mod testing;

pub use key_set::{Key, KeySet, MAX_JWKS_BYTES, MAX_KEYS, Skipped};
