#!/usr/bin/env bash
# go.sh -- puts the Go modules of examples/server-go into .cache/debian, out of Debian's packages of their sources, and compiles the
# program once, so that the tests compile nothing but the program itself.
set -euo pipefail
cd "$(dirname "$0")/../.."
packages=(golang-golang-x-oauth2-dev golang-golang-x-net-dev)
command -v apt-get >/dev/null || { echo "Missing prerequisite: ${packages[*]}, of Debian" >&2; exit 1; }
mkdir -p .cache/debian
(
    cd .cache/debian
    rm -f golang-golang-x-*.deb
    if ! apt-get -o Acquire::Retries=0 download "${packages[@]}"; then
        # The list of packages is older than the mirror, or missing.
        if [ "$(id -u)" = 0 ]; then apt-get update; else sudo apt-get update; fi
        apt-get -o Acquire::Retries=0 download "${packages[@]}"
    fi
    for package in golang-golang-x-*.deb; do
        dpkg-deb --extract "$package" .
    done
)
export GO111MODULE=off GOPATH=$PWD/.cache/debian/usr/share/gocode GOCACHE=$PWD/.cache/go-build
cd examples/server-go
../../.cache/go build -o /dev/null .
