//! The filter: the [`guard`] in a proxy-wasm host. It reads requests, asks the guard, and carries out what the guard decides.
//!
//! A panic ends the VM of a whole worker, so the crate has no panic that a request can reach. On other targets than wasm
//! the crate has the tests of [`pairs`] and nothing else.

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
