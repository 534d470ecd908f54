#!/usr/bin/env bash
# Installs what the build needs and the machine lacks: the toolchain of rust-toolchain.toml, the crates of Cargo.lock,
# and on Debian the packages of a C compiler and of Python's venv. With the argument `lint` also clippy and rustfmt, with
# `postgres` the packages of PostgreSQL, with `failover` those of PostgreSQL and Patroni, with `tests` those of PostgreSQL,
# PgBouncer, Chromium and its WebDriver server. Quick if nothing is missing.
#
# BUILDS, if set, is the program that make will build. If that program does not exist, this is the first run, which
# takes long.
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
    # Old package lists may be good enough.
    tests/tools/install.sh "$* (with apt, on this system)" 'the Debian mirror' \
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive sh -c \
        'apt-get -o Acquire::Retries=0 update; apt-get -o Acquire::Retries=0 install --yes --no-install-recommends "$@"' \
        package "$@"
}

command -v rustup >/dev/null || fail 'rustup (https://rustup.rs)'
command -v python3 >/dev/null || fail 'Python 3.9 or newer'
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || fail "Python 3.9 or newer; $(python3 --version) is here"

channel=$(sed -n 's/^channel = "\(.*\)"$/\1/p' rust-toolchain.toml)
cargo_home=${CARGO_HOME:-$HOME/.cargo}
if [ -n "${BUILDS:-}" ] && [ ! -x "$BUILDS" ]; then
    cat <<EOF
== This is the first run: it takes some minutes on two cores, nearly all of them for compilation, whose progress cargo
   shows. Later runs start in seconds.
   What is missing is installed: Rust $channel (rustup, in ${RUSTUP_HOME:-$HOME/.rustup}), a C compiler and
   python3-venv (apt, on this system), crates ($cargo_home), and all else in .cache/ and target/ of this folder.
EOF
fi

command -v cc >/dev/null || package gcc libc6-dev
python3 -c 'import ensurepip' 2>/dev/null || package python3-venv

if ! rustup "+$channel" target list --installed 2>/dev/null | grep --quiet '^wasm32-wasip1$'; then
    tests/tools/install.sh "Rust $channel (with rustup)" "the server of rustup" \
        env RUSTUP_MAX_RETRIES=0 rustup toolchain install "$channel" --profile minimal --no-self-update --target wasm32-wasip1
fi
# Not in rust-toolchain.toml: the first command of cargo would install them.
if [ "${1:-}" = lint ] \
    && ! { cargo "+$channel" clippy --version && cargo "+$channel" fmt --version; } >/dev/null 2>&1; then
    tests/tools/install.sh "clippy and rustfmt (with rustup)" "the server of rustup" \
        env RUSTUP_MAX_RETRIES=0 rustup component add --toolchain "$channel" clippy rustfmt
fi
host=$(rustc -vV | sed -n 's/^host: //p')
fetch=(cargo fetch --locked --target "$host" --target wasm32-wasip1)
if ! "${fetch[@]}" --offline >/dev/null 2>&1; then
    tests/tools/install.sh "the crates of Cargo.lock (in $cargo_home)" "the registry of Rust crates" env CARGO_NET_RETRY=0 "${fetch[@]}"
fi
if [ "${1:-}" = tests ] || [ "${1:-}" = postgres ]; then
    ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || package postgresql
fi
if [ "${1:-}" = failover ]; then
    ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || package postgresql
    command -v patroni >/dev/null && command -v ip >/dev/null && command -v pkill >/dev/null \
        || package patroni iproute2 procps
fi
if [ "${1:-}" = tests ]; then
    [ -x /usr/sbin/pgbouncer ] || command -v pgbouncer >/dev/null || package pgbouncer
    command -v chromedriver >/dev/null && command -v chromium-headless-shell >/dev/null \
        || package chromium chromium-driver chromium-headless-shell fonts-dejavu-core
    command -v systemd-analyze >/dev/null || package systemd
fi
