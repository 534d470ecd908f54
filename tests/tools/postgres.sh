#!/usr/bin/env bash
# postgres.sh [PORT CERTIFICATE KEY] -- runs a PostgreSQL server for tests until standard input ends, and then removes
# the server's data. Standard input ends however the caller ends. The server listens on a socket in a new folder, whose
# name is the first line of the output; with arguments also by TLS on 127.0.0.1.
#
# Each line of the input is a command, answered by one line: `crash` kills the server, `start` starts it again.
set -euo pipefail

bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort --version-sort | tail -n 1)
[ -x "$bin/initdb" ] || { echo 'PostgreSQL is missing: run `make tools`' >&2; exit 1; }

# The path of a socket has at most 107 bytes: not in the project's folder. In memory where there is room: the tests of the store
# make some 250 databases of 300 files each.
parent=/tmp
free=$(df --output=avail --block-size=1G /dev/shm 2>/dev/null | tail -n 1) || free=0
[ "${POSTGRES_FSYNC:-off}" = on ] || [ "$free" -lt 8 ] || parent=/dev/shm
folder=$(mktemp --directory "$parent/postgres-test.XXXXXX")
# The server refuses to run as root.
as=()
if [ "$(id -u)" = 0 ]; then
    chown postgres: "$folder"
    as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
fi
pg() { "${as[@]}" "$bin/$1" "${@:2}" >>"$folder/log" 2>&1; }
log=$folder/log
touch "$log" && chmod a+rw "$log"

# Data need not outlast the machine, so the server does not wait for the disk. The tests are about clients that die, not
# about the server's disk. Benchmarks set POSTGRES_FSYNC=on.
options="-c unix_socket_directories=$folder -c fsync=${POSTGRES_FSYNC:-off} -c max_connections=400"
options+=" -c shared_buffers=64MB -c log_min_messages=warning"
if [ $# = 3 ]; then
    # The server reads the files as its own user.
    install --mode=600 "$2" "$folder/server.crt"
    install --mode=600 "$3" "$folder/server.key"
    [ "$(id -u)" != 0 ] || chown postgres: "$folder"/server.*
    options+=" -c listen_addresses=127.0.0.1 -c port=$1 -c ssl=on"
    options+=" -c ssl_cert_file=$folder/server.crt -c ssl_key_file=$folder/server.key"
else
    options+=" -c listen_addresses="
fi

start() { pg pg_ctl start --wait --pgdata="$folder/data" --options="$options"; }
crash() { pg pg_ctl stop --wait --pgdata="$folder/data" --mode=immediate; }
finish() {
    crash || true
    rm -rf "$folder"
}
trap finish EXIT
# Ctrl-C reaches the tests too; their end ends the input of this script.
trap '' INT TERM

cd "$folder"
{ pg initdb --pgdata="$folder/data" --username=postgres --auth=trust --encoding=UTF8 --locale=C --no-sync && start; } \
    || { cat "$log" >&2; exit 1; }
echo "$folder"
while read -r command; do
    case $command in
        start) start ;;
        crash) crash ;;
    esac
    echo "$command"
done
