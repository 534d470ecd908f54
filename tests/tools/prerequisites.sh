#!/usr/bin/env bash
# Checks what the build needs of the machine. Installs the toolchain of rust-toolchain.toml when it is
# missing, and on Debian the packages of a C compiler and of Python's venv; with the argument `tests` also
# those of what they start: PostgreSQL, Chromium and its WebDriver server. Quick when all is there.
set -euo pipefail
cd "$(dirname "$0")/../.."

fail() {
    printf 'Missing prerequisite: %s\n' "$1" >&2
    exit 1
}

# package NAME... -- installs Debian packages, or fails with the names.
package() {
    local as_root=()
    if [ "$(id -u)" != 0 ]; then
        as_root=(sudo)
    fi
    if ! command -v apt-get >/dev/null || ! command -v "${as_root[0]:-apt-get}" >/dev/null; then
        fail "install what the packages $* of Debian provide"
    fi
    echo "== installing $* with apt"
    "${as_root[@]}" apt-get update
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@"
}

command -v rustup >/dev/null || fail 'rustup (https://rustup.rs)'
command -v python3 >/dev/null || fail 'Python 3.9 or newer'
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || fail "Python 3.9 or newer; $(python3 --version) is here"
command -v cc >/dev/null || package gcc libc6-dev
python3 -c 'import ensurepip' 2>/dev/null || package python3-venv

channel=$(sed -n 's/^channel = "\(.*\)"$/\1/p' rust-toolchain.toml)
if ! rustup "+$channel" target list --installed 2>/dev/null | grep --quiet '^wasm32-wasip1$' \
    || ! cargo "+$channel" clippy --version >/dev/null 2>&1 \
    || ! cargo "+$channel" fmt --version >/dev/null 2>&1; then
    echo "== installing Rust $channel with rustup"
    rustup toolchain install "$channel" --profile minimal \
        --component clippy --component rustfmt --target wasm32-wasip1
fi
if [ "${1:-}" = tests ]; then
    ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || package postgresql
    command -v chromedriver >/dev/null && command -v chromium >/dev/null \
        || package chromium chromium-driver fonts-dejavu-core
fi
