#!/usr/bin/env bash
# Builds the filter so that its bytes depend on the sources, Cargo.lock and the toolchain alone. Messages of panics name source
# files: without this, those of the crates would start with the folder in which cargo keeps them on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo fetch --locked --quiet --target wasm32-wasip1
flags=
for registry in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/; do
    flags+=${flags:+$'\x1f'}--remap-path-prefix=${registry%/}=/crates
done
export CARGO_ENCODED_RUSTFLAGS=$flags
exec cargo build-filter "$@"
