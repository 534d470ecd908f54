//! The filter: the crate `guard` in a proxy-wasm host. The filter reads requests, asks the guard, and carries out
//! the guard's decision.
//!
//! A panic ends the VM of a whole worker, so clippy refuses what could panic in this crate. For other targets than
//! wasm, the crate contains only the module `pairs` and its tests.

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

#[cfg(target_arch = "wasm32")]
mod host;
#[cfg(any(test, target_arch = "wasm32"))]
mod pairs;
