# Sourced by the scripts beside it.

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
    echo "== installing $* with apt"
    "${as_root[@]}" apt-get update
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@"
}
