#!/usr/bin/env bash
# first-run.sh -- does in this checkout what the README says, in its order and on free ports: `make up` until the first answer,
# every `bash` block of README.md and docs/tour.md, Ctrl-C. Fails if the compiler warns, if the answer is not the documented
# one, if a block does not work as printed, or if a process is left. Prints the seconds to the first answer, and how they divide.
set -euo pipefail
cd "$(dirname "$0")/../.."

free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
for port in LOBBY LOBBY_EA LEGACY KEYS API CALLBACK ENVOY_ADMIN PUBLIC INTERNAL PUBLIC_EA INTERNAL_EA; do
    declare -x "${port}_PORT=$(free)"
done
log=$(mktemp)
up=
finish() {
    [ -z "$up" ] || kill -s INT -- "-$up" 2>/dev/null || true
    wait
    rm -f "$log"
}
trap finish EXIT
fail() {
    tail -n 30 "$log" >&2
    echo "first run: $1" >&2
    exit 1
}
# The programs of a run have these ports in their environment.
left() { env --unset=LOBBY_PORT grep --files-with-matches --null-data --line-regexp "LOBBY_PORT=$LOBBY_PORT" /proc/[0-9]*/environ 2>/dev/null; }

# A process group of its own gets Ctrl-C as a whole, as in a terminal.
set -m
make up >"$log" 2>&1 &
up=$!
set +m
SECONDS=0
while read -r line; do
    case $line in
        '== '* | *'Finished `'* | 'Starting the'* | 'The pair is running'*) printf '%4d s  %s\n' "$SECONDS" "$line" ;;
    esac
    case $line in 'The pair is running'*) break ;; esac
done < <(env --unset=LOBBY_PORT tail --lines=+1 --follow --sleep-interval=0.1 --pid="$up" "$log")
kill -s 0 "$up" 2>/dev/null || fail '`make up` ended'
status=$(curl --silent --output /dev/null --write-out '%{http_code}' "http://127.0.0.1:$API_PORT/api/projects")
[ "$status" = 401 ] || fail "the API answered $status without a token, not 401"
echo "make up: first answer (401) after $SECONDS s"

# `make lint` looks at what the tests compile, which has more features.
! grep '^warning' "$log" || fail 'the compiler warned'

make --silent tour
status=$(curl --silent --output /dev/null --write-out '%{http_code}' "http://127.0.0.1:$CALLBACK_PORT/callback")
[ "$status" = 200 ] || fail "the demo application answered $status, not 200"

SECONDS=0
kill -s INT -- "-$up"
wait "$up" || true
up=
grep --quiet '^Stopped\.$' "$log" || fail 'Ctrl-C did not stop `make up`'
for process in $(left); do
    fail "after Ctrl-C, process ${process//[!0-9]/} is left: $(tr '\0' ' ' <"${process%environ}cmdline")"
done
echo "Ctrl-C: no process left after $SECONDS s"
