//! What only `filter.wasm` has, whatever `FILTER` names: VMs that crash, and other hosts of proxy-wasm than Envoy.

mod crash;
mod second_host;
