#!/usr/bin/env bash
# alone.sh COMMAND... -- runs COMMAND with its own network and processes, as root. The network has loopback addresses
# only. Everything that COMMAND starts ends with it, frozen or not.
set -euo pipefail
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo --preserve-env)
isolated=("${as_root[@]}" unshare --net --pid --fork --mount-proc --kill-child)
if ! problem=$("${isolated[@]}" ip link set lo up 2>&1); then
    printf '%s: %s\n%s\n' "$0" "$problem" \
        'It needs its own network and processes: run it as root or with sudo, in a container with --privileged.' >&2
    exit 1
fi
# shellcheck disable=SC2016 # The inner shell expands the variables. As process 1 it needs a trap to obey Ctrl-C.
exec "${isolated[@]}" sh -c '
    trap "exit 130" INT TERM
    ip link set lo up
    "$@" &
    wait "$!"' sh "$@"
