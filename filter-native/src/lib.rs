//! The guard as a native module of Envoy (`envoy.filters.http.dynamic_modules`): a second form of the filter, for those who run
//! load. All decisions come from [`guard`]; this crate is its host.
//!
//! [`abi`] has Envoy's functions and all `unsafe`, and [`hooks`] the functions that Envoy calls.
//! A [`gate::Gate`] is one configuration of the filter. Envoy calls it on its main thread (ticks and fetches) and on its
//! workers (requests). Each thread has its own driver behind a lock that no other thread wants for long. All drivers share
//! keys and revocations, so a million revocations take their memory once.
//!
//! The module runs in Envoy's process, so a panic must not leave it: [`hooks`] catches it at each call, and [`gate`] refuses
//! requests until the state that it may have damaged is rebuilt.

#![cfg(target_os = "linux")]

#[expect(unsafe_code, reason = "calls of Envoy are unsafe")]
mod abi;
mod gate;
mod hooks;
mod metrics;
mod stream;
mod timer;
mod version;
