//! Decides which requests reach a resource server: verifies bearer JWTs and applies the rules of the
//! configuration.
//!
//! [`Guard`] decides from headers, keys, revocations, rules and the time. [`driver::Driver`] drives it: the order of
//! calls is the same in every host. The crate has no clock and no I/O: hosts pass their clocks into each call and carry
//! out the fetches. Two more traits let a host verify signatures and provide shared data. Clippy refuses what could
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

pub mod access_log;
pub mod answers;
pub mod authorization;
pub mod cache;
mod census;
pub mod clock;
pub mod config;
mod decide;
pub mod denial_log;
pub mod driver;
pub mod feed;
pub mod fetch;
#[cfg(test)]
mod fixtures;
pub mod forward;
pub mod gauges;
pub mod introspection;
pub mod parts;
pub mod profile;
pub mod revocations;
pub mod rules;
pub mod secret;
pub mod shared_data;
mod shared_key;
pub mod source;
pub mod verdict;
pub mod verify;
mod waiting;

pub use decide::{Authorization, Connection, Effect, Fate, Guard, Metrics, Request};
