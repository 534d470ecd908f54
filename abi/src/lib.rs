//! The [proxy-wasm ABI](https://github.com/proxy-wasm/spec/tree/main/abi-versions/v0.2.1) 0.2.1, as far as the filter
//! needs it: what the host calls ([`Plugin`]), and what it can be asked ([`host`]). All unsafe code of the filter is here.
//!
//! The `proxy-wasm` SDK does the same for every plugin there may be. It is not used for two reasons: it panics when a host
//! answers with a status that it does not expect, which ends the VM of a whole worker, and it copies every header of a
//! request into vectors of its own, on every request.

#[cfg(target_arch = "wasm32")]
pub mod host;
pub mod pairs;
mod plugin;

pub use plugin::{Action, Plugin};
