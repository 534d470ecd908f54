#!/usr/bin/env bash
# postgres.sh [PORT CERTIFICATE KEY] -- runs a PostgreSQL server for tests until standard input ends, and then removes
# the server's data. Standard input ends however the caller ends. The server listens on a socket in a new folder, whose
# name is the first line of the output; with arguments also by TLS on 127.0.0.1.
#
# Each line of the input is a command, answered by one line: `crash` kills the server, `start` starts it again, and
# `session` or `transaction` starts PgBouncer with this pool_mode, on a socket with the mode as its folder.
set -euo pipefail
PATH=$PATH:/usr/sbin

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
# Half of the processor time of the tests' servers. Statements of the service are short, but the planner knows nothing about new tables.
[ "${POSTGRES_FSYNC:-off}" = on ] || options+=" -c jit=off"
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

# What initdb has made once is copied for all other servers.
template=$(realpath "$(dirname "$0")/../../.cache")/postgres-$(id -u)-$(basename "${bin%/bin}")
data() {
    if [ -d "$template" ]; then
        cp -r "$template" "$folder/data"
        [ "$(id -u)" != 0 ] || chown -R postgres: "$folder/data"
        return
    fi
    pg initdb --pgdata="$folder/data" --username=postgres --auth=trust --encoding=UTF8 --locale=C --no-sync || return
    # Another script may have been faster.
    cp -r "$folder/data" "$template.$$" && mv -T "$template.$$" "$template" 2>/dev/null || rm -rf "$template.$$"
}

# On a busy machine, the server may take longer to start than the minute for which pg_ctl waits by itself.
export PGCTLTIMEOUT=300
start() { pg pg_ctl start --wait --pgdata="$folder/data" --options="$options"; }
crash() { pg pg_ctl stop --wait --pgdata="$folder/data" --mode=immediate; }
poolers=()
pooler() {
    command -v pgbouncer >/dev/null || { echo 'PgBouncer is missing: run `make tools`' >&2; exit 1; }
    mkdir "$folder/$1" && echo '"postgres" ""' >"$folder/$1/users" && chmod a+rwX "$folder/$1"
    printf '%s\n' '[databases]' "* = host=$folder user=postgres" '[pgbouncer]' "pool_mode=$1" auth_type=any "auth_file=$folder/$1/users" \
        listen_addr= listen_port=5432 "unix_socket_dir=$folder/$1" >"$folder/$1/ini"
    "${as[@]}" pgbouncer --quiet "$folder/$1/ini" >>"$log" 2>&1 &
    poolers+=($!)
    until [ -S "$folder/$1/.s.PGSQL.5432" ]; do
        kill -0 "${poolers[-1]}" || { cat "$log" >&2; exit 1; }
        sleep 0.01
    done
}
finish() {
    [ "${#poolers[@]}" = 0 ] || kill "${poolers[@]}" || true
    crash || true
    rm -rf "$folder"
}
trap finish EXIT
# Ctrl-C reaches the tests too; their end ends the input of this script.
trap '' INT TERM

cd "$folder"
{ data && start; } || { cat "$log" >&2; exit 1; }
echo "$folder"
while read -r command; do
    case $command in
        start) start ;;
        crash) crash ;;
        session | transaction) pooler "$command" ;;
    esac
    echo "$command"
done
