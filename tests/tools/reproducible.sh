#!/usr/bin/env bash
# reproducible.sh FILTER -- builds the filter in a clone of this checkout in another folder, with cargo's home under another
# name, and fails unless its bytes are those of the file FILTER, which filter/build.sh built here.
set -euo pipefail
cd "$(dirname "$0")/../.."

filter=$1
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/sources of the filter"
# What is built here, committed or not.
git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- --ignore-failed-read \
    | tar --extract --directory="$folder/sources of the filter"
ln -s "${CARGO_HOME:-$HOME/.cargo}" "$folder/cargo"
cd "$folder/sources of the filter"
unset CARGO_TARGET_DIR
CARGO_HOME=$folder/cargo filter/build.sh --quiet
sums=$(sha256sum "$filter" target/wasm32-wasip1/release/filter.wasm)
echo "$sums"
[ "$(cut --delimiter=' ' --fields=1 <<<"$sums" | uniq | wc --lines)" = 1 ] \
    || { echo 'The filter is not reproducible: its bytes depend on the folder.' >&2; exit 1; }
