#!/usr/bin/env bash
# alone.sh COMMAND... -- runs COMMAND with a network and processes of its own, as root. The network has loopback addresses
# only. Everything that COMMAND starts ends with it, frozen or not.
set -euo pipefail
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo --preserve-env)
# shellcheck disable=SC2016 # The inner shell expands the variables. As process 1 it needs a trap to obey Ctrl-C.
exec "${as_root[@]}" unshare --net --pid --fork --mount-proc --kill-child sh -c '
    trap "exit 130" INT TERM
    ip link set lo up
    "$@" &
    wait "$!"' sh "$@"
