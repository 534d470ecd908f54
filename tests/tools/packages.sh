#!/usr/bin/env bash
# packages.sh FOLDER -- installs, starts, upgrades, removes and purges the Debian packages of FOLDER under a real systemd: the first
# process of namespaces of its own, on a copy of this system that vanishes afterwards. Needs root with the right to `unshare`.
set -euo pipefail

# ---- outside: the copy, and systemd in it ----
if [ "${1:-}" = --boot ]; then
    shift
    root=$(mktemp --directory)
    mount -t tmpfs none "$root"
    mkdir "$root/upper" "$root/work" "$root/root"
    mount -t overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" none "$root/root"
    cd "$root/root"
    mount -t proc none proc
    # Read-only, so that systemd leaves the kernel of this machine as it is.
    mount --bind -o ro proc/sys proc/sys
    mount -t sysfs -o ro none sys
    mount -t cgroup2 none sys/fs/cgroup
    mount -t tmpfs none run
    mount -t tmpfs none dev
    for device in full null random tty urandom zero; do
        touch "dev/$device"
        mount --bind "/dev/$device" "dev/$device"
    done
    mkdir dev/pts
    mount -t devpts -o newinstance,ptmxmode=0666 none dev/pts
    ln --symbolic pts/ptmx dev/ptmx
    mount --bind "$1" mnt
    # Containers forbid packages to start anything.
    rm -f usr/sbin/policy-rc.d
    cp "$0" usr/local/bin/packages.sh
    cat >etc/systemd/system/packages.service <<'UNIT'
[Unit]
SuccessAction=exit-force
FailureAction=exit-force
[Service]
Type=oneshot
ExecStart=/bin/bash /usr/local/bin/packages.sh --booted
StandardOutput=truncate:/mnt/log
StandardError=inherit
TimeoutStartSec=120s
UNIT
    # Not `chroot`: systemd gives services a root of their own.
    pivot_root . .
    umount --lazy .
    # As nspawn does: without it, credentials do not reach the services.
    mount --make-rshared /
    exec env --ignore-environment container=packages PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        /lib/systemd/systemd --system --unit=packages.service </dev/null
fi
if [ "${1:-}" != --booted ]; then
    code=0
    folder=$(realpath "$1")
    unshare --mount --pid --fork --cgroup --uts --ipc --net bash "$(realpath "$0")" --boot "$folder" || code=$?
    cat "$folder/log"
    exit "$code"
fi

# ---- inside, as a service of that systemd ----
fail() {
    echo "packages.sh: $*" >&2
    journalctl --no-pager --lines=40 --unit='token-*' >&2
    exit 1
}
trap 'fail "line $LINENO"' ERR
state() { systemctl is-active "$1" || true; }
healthy() { curl --silent --fail --retry 50 --retry-delay 1 --retry-all-errors --output /dev/null "http://127.0.0.1:$1"; }

# Installed: nothing runs, and nothing can be started by mistake.
dpkg --install /mnt/*.deb
for name in token-service token-guard; do
    [ "$(state $name.service) $(state $name.socket)" = 'inactive inactive' ] || fail "$name runs without a configuration"
    [ "$(systemctl is-enabled $name.service)" = disabled ] || fail "$name is enabled without a configuration"
    ! systemctl start $name.service || fail "$name starts without a configuration"
    [ "$(state $name.service)" = inactive ] || fail "$name is started over and over without a configuration"
done

# Configured: with the examples of the packages, as docs/operating.md says.
examples=/usr/share/doc
sed '/^registrations = /d' $examples/token-service/examples/config.toml >/tmp/config.toml
install -D --mode=600 /tmp/config.toml /etc/token-service/config.toml
install -D --mode=600 $examples/token-guard/examples/token-guard.json /etc/token-guard/token-guard.json
mkdir /etc/systemd/system/token-guard.service.d
cat >/etc/systemd/system/token-guard.service.d/override.conf <<'DROP_IN'
[Service]
Environment=TOKEN_GUARD_CLUSTERS=token-service=http://127.0.0.1:9080,token-service-internal=http://127.0.0.1:9081
DROP_IN
systemctl daemon-reload
systemctl enable --now token-service token-guard
# Ready, with the keys and the feed of the token service.
healthy 9081/readyz
healthy 9091/readyz
[ "$(state token-service.socket)" = inactive ] || fail 'the sockets are started, which were not enabled'

# Upgraded while the sockets are held: another process, and no connection is refused.
systemctl enable token-service.socket
systemctl restart token-service.service
healthy 9081/readyz
before=$(systemctl show --property=MainPID --value token-service)
while [ ! -e /tmp/upgraded ]; do
    curl --silent --max-time 20 --output /dev/null http://127.0.0.1:9081/healthz || echo "refused: $?" >>/tmp/refused
    echo >>/tmp/asked
done &
dpkg --install /mnt/token-service_*.deb
healthy 9081/readyz
touch /tmp/upgraded
wait
[ "$(systemctl show --property=MainPID --value token-service)" != "$before" ] || fail 'the upgrade did not restart the service'
[ ! -e /tmp/refused ] || fail "connections were refused: $(wc --lines </tmp/refused) of $(wc --lines </tmp/asked)"

# Removed and purged: nothing runs, and what the operator owns stays.
dpkg --remove token-service token-guard
[ "$(state token-service.service) $(state token-service.socket) $(state token-guard.service)" = 'inactive inactive inactive' ] \
    || fail 'removed programs run'
dpkg --purge token-service token-guard
for name in token-service token-guard; do
    ! systemctl cat $name.service >/dev/null 2>&1 || fail "a unit of $name is left"
done
ls /etc/token-service/config.toml /etc/token-guard/token-guard.json /var/lib/token-service/{token-service.redb,encryption-key} >/dev/null
echo "Installed, started, upgraded under $(wc --lines </tmp/asked) requests, removed and purged under $(systemctl --version | head -n 1)."
