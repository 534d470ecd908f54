#!/usr/bin/env bash
# Puts HAProxy at .cache/haproxy: the one that is installed, or else the program out of Debian's package. The package is not
# installed, because that would start a service; what it depends on is.
set -euo pipefail
cd "$(dirname "$0")/../.."

mkdir -p .cache/debian
if program=$(command -v haproxy || ls /usr/sbin/haproxy 2>/dev/null); then
    ln -sf "$program" .cache/haproxy
    exit
fi
as_root=()
if [ "$(id -u)" != 0 ]; then
    as_root=(sudo)
fi
if ! command -v apt-get >/dev/null || ! command -v "${as_root[0]:-apt-get}" >/dev/null; then
    echo 'Missing prerequisite: HAProxy 2.5 or newer, with Lua' >&2
    exit 1
fi
"${as_root[@]}" apt-get -o Acquire::Retries=0 update
cd .cache/debian
rm -f haproxy_*.deb
apt-get -o Acquire::Retries=0 download haproxy
package=$(ls haproxy_*.deb)
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=0 \
    satisfy --yes --no-install-recommends "$(dpkg-deb --field "$package" Depends)"
dpkg-deb --extract "$package" .
ln -sf debian/usr/sbin/haproxy ../haproxy
