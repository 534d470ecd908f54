#!/usr/bin/env bash
# time-first-minute.sh -- seconds from `make up` in a fresh clone, with nothing built and nothing in .cache, to the pair's first
# answer, and how they divide. Rust and the crates of Cargo.lock are taken from this machine. Run it while nothing else runs.
set -euo pipefail
cd "$(dirname "$0")/../.."

clone=$(mktemp --directory)
up=
finish() {
    [ -z "$up" ] || { kill -s INT -- "-$up" && wait "$up"; } 2>/dev/null || true
    rm -rf "$clone"
}
trap finish EXIT
git clone --quiet . "$clone"
cd "$clone"
unset CARGO_TARGET_DIR
free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
for port in LOBBY LOBBY_EA LEGACY API ENVOY_ADMIN PUBLIC INTERNAL PUBLIC_EA INTERNAL_EA; do
    declare -x "${port}_PORT=$(free)"
done
set -m
make up >log 2>&1 &
up=$!
set +m
while read -r line; do
    case $line in
        '== '* | *'Finished `'* | 'Starting the'* | 'The pair is running'*) printf '%4d s  %s\n' "$SECONDS" "$line" ;;
    esac
    case $line in
        'The pair is running'*) exit ;;
    esac
done < <(tail --lines=+1 --follow --pid="$up" log)
tail -n 20 log >&2
exit 1
