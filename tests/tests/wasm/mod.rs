//! What only `filter.wasm` has, whatever `FILTER` names: VMs that crash, and a host that may refuse calls.

mod crash;
mod host;
