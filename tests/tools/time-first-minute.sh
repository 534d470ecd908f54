#!/usr/bin/env bash
# time-first-minute.sh -- seconds from `make up` in a fresh clone, with nothing built and nothing in .cache, to the pair's first
# answer, and how they divide. Rust and the crates of Cargo.lock are taken from this machine. Run it while nothing else runs.
set -euo pipefail
cd "$(dirname "$0")/../.."

clone=$(mktemp --directory)
trap 'rm -rf "$clone"' EXIT
git clone --quiet . "$clone"
unset CARGO_TARGET_DIR
"$clone/tests/tools/first-run.sh"
