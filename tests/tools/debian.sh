#!/usr/bin/env bash
# debian.sh PACKAGE=LINK... -- links the program of each package (haproxy, nginx, lighttpd, nftables, glewlwyd, etcd-server,
# apache2-bin, libapache2-mod-oauth2) as .cache/LINK: the one that is installed, or else the one out of Debian's package. The package
# is not installed, because that would start a service; what it depends on is. Apache, Glewlwyd and lighttpd always come out of their
# packages, which have their modules.
set -euo pipefail
cd "$(dirname "$0")/../.."

as_root=()
if [ "$(id -u)" != 0 ]; then
    as_root=(sudo)
fi
mkdir -p .cache/debian
has_modules='@(apache2-bin|glewlwyd|libapache2-mod-oauth2|lighttpd)'
is_updated=
for argument in "$@"; do
    name=${argument%=*} link=${argument#*=}
    called=${name/nftables/nft}
    called=${called/etcd-server/etcd}
    called=${called/apache2-bin/apache2}
    called=${called/libapache2-mod-oauth2/mod_oauth2.so}
    if [[ $name != $has_modules ]] && program=$(command -v "$called" || ls "/usr/sbin/$called" 2>/dev/null); then
        ln -sf "$program" ".cache/$link"
        continue
    fi
    if ! command -v apt-get >/dev/null || ! command -v "${as_root[0]:-apt-get}" >/dev/null; then
        echo "Missing prerequisite: $name (HAProxy 2.5 or newer, with Lua; nginx with auth_request; nft; etcd; Debian's packages of Apache, mod_oauth2, Glewlwyd and lighttpd)" >&2
        exit 1
    fi
    [ -n "$is_updated" ] || "${as_root[@]}" apt-get -o Acquire::Retries=0 update
    is_updated=yes
    (
        cd .cache/debian
        rm -f "$name"_*.deb
        apt-get -o Acquire::Retries=0 download "$name"
        package=$(ls "$name"_*.deb)
        # nginx-common has the service, and folders of which the program needs one.
        depends=$(dpkg-deb --field "$package" Depends | sed 's/, nginx-common ([^)]*)//g')
        # The rest of what these depend on sets up a service.
        [[ $name != $has_modules ]] || depends=$(tr ',' '\n' <<<"$depends" | grep '^ *lib' | paste -sd,)
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=0 \
            satisfy --yes --no-install-recommends "$depends"
        dpkg-deb --extract "$package" .
        [ "$name" != nginx ] || "${as_root[@]}" install --directory --mode=1777 /var/lib/nginx
    )
    program=$(cd .cache && ls "debian/usr/sbin/$called" "debian/usr/bin/$called" "debian/usr/lib/apache2/modules/$called" 2>/dev/null || true)
    ln -sf "$program" ".cache/$link"
done
