#!/usr/bin/env bash
# promtool.sh FILE -- puts promtool there, and Prometheus beside it: those of this system, or else the ones of Debian's package
# `prometheus`, which it unpacks without installing it, because the package would start a server.
set -euo pipefail
file=$(realpath --canonicalize-missing "$1")
if command -v promtool >/dev/null && command -v prometheus >/dev/null; then
    ln -sf "$(command -v promtool)" "$file"
    ln -sf "$(command -v prometheus)" "$(dirname "$file")/prometheus"
    exit
fi
command -v apt-get >/dev/null || { echo 'Missing prerequisite: Prometheus, with promtool' >&2; exit 1; }
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
# apt downloads as a user of its own.
chmod a+rwx "$folder"
cd "$folder"
if ! apt-get -o Acquire::Retries=0 download prometheus; then
    # The list of packages is older than the mirror, or missing.
    if [ "$(id -u)" = 0 ]; then apt-get update; else sudo apt-get update; fi
    apt-get -o Acquire::Retries=0 download prometheus
fi
dpkg-deb --fsys-tarfile prometheus_*.deb | tar --extract ./usr/bin/prometheus ./usr/bin/promtool
install --mode=755 usr/bin/prometheus "$(dirname "$file")/prometheus"
install --mode=755 usr/bin/promtool "$file"
