//! The enforcement: verifies bearer JWTs in front of a resource server, inside Envoy or another proxy-wasm host.
//!
//! [`guard`] decides about requests from headers, keys, revocations, rules and the time; everything that it is
//! made of is plain Rust and tested natively. Only `host` calls the host. A panic would end the VM of a whole
//! worker, so the crate has none that input can reach.

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

pub mod access_log;
pub mod answers;
pub mod authorization;
pub mod cache;
pub mod clock;
pub mod config;
pub mod feed;
pub mod fetch;
#[cfg(test)]
mod fixtures;
pub mod forward;
pub mod gauges;
pub mod guard;
#[cfg(target_arch = "wasm32")]
mod host;
pub mod keys;
pub mod revocations;
pub mod rules;
pub mod signature;
pub mod verify;
pub mod waiting;
