#!/usr/bin/env bash
# Builds filter.wasm so that its bytes depend only on the sources, Cargo.lock and the toolchain. Messages of panics name source
# files: without the flags, the paths of the crates would start with the folder in which cargo keeps them on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo fetch --locked --quiet --target wasm32-wasip1
flags=
for registry in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/; do
    flags+=${flags:+$'\x1f'}--remap-path-prefix=${registry%/}=/crates
done
export CARGO_ENCODED_RUSTFLAGS=$flags
cargo rustc --package=filter --lib --crate-type=staticlib --target=wasm32-wasip1 --release --locked "$@"

# The SDK has all callbacks of the ABI. rustc would export them all, and a host calls each callback that a module exports, for
# each request. So this script links the module, and names the callbacks that the filter uses.
exports=(
    _initialize proxy_abi_version_0_2_1 proxy_on_memory_allocate
    proxy_on_vm_start proxy_on_configure proxy_on_tick proxy_on_http_call_response
    proxy_on_context_create proxy_on_request_headers proxy_on_delete
)
built=${CARGO_TARGET_DIR:-target}/wasm32-wasip1/release
"$(rustc --print target-libdir)/../bin/rust-lld" -flavor wasm --no-entry --stack-first -z stack-size=1048576 \
    --gc-sections --strip-all "${exports[@]/#/--export=}" -o "$built/filter.wasm" \
    "$built/libfilter.a" "$(rustc --print target-libdir --target wasm32-wasip1)/self-contained/libc.a"
# Cargo's list of sources, by which the tests refuse a module that is older.
cp "$built/libfilter.d" "$built/filter.d"
