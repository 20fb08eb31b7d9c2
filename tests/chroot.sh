#!/usr/bin/env bash
# tests/chroot.sh [MIRROR] -- the promise of the front door, on a machine as bare as can be. In a
# fresh Debian 12 with only git, make and certificates, made by debootstrap: a clone of this tree's
# last commit, and then `make`, `make demo`, `make test`. Needs root and debootstrap; not part of
# `make test`. MIRROR is by default the one that this system's own apt uses. $WEFT_CHROOT is the
# folder to work in; what is made there is removed at the end unless $WEFT_CHROOT_KEEP is set.
# $WEFT_CHROOT_TARGETS names other targets.
set -euo pipefail
cd "$(dirname "$0")/.."

mirror=${1:-$(apt-get indextargets --format '$(SITE) $(ORIGIN) $(CODENAME)' 'Created-By: Packages' |
    awk '$2 == "Debian" && $3 == "bookworm" { print $1; exit }')}
work=${WEFT_CHROOT:-$(mktemp -d)}
root=$work/root
targets=${WEFT_CHROOT_TARGETS:-all demo test}

inside() {
    env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin CI="${CI:-}" \
        chroot "$root" "$@" </dev/null
}

finish() {
    mountpoint -q "$root/proc" && umount "$root/proc"
    [ -n "${WEFT_CHROOT_KEEP:-}" ] || rm -rf --one-file-system "$root"
}
trap finish EXIT

echo "debootstrap from $mirror into $root"
if ! debootstrap --variant=minbase --include=git,make,ca-certificates bookworm "$root" "$mirror" \
    >"$work/debootstrap.log" 2>&1; then
    tail "$work/debootstrap.log"
    exit 1
fi
mount -t proc proc "$root/proc"
cp /etc/resolv.conf "$root/etc/resolv.conf"
# How this system's apt reaches the network (a proxy, its certificates), if that is special.
apt-config dump | grep -E '^Acquire::https?::(Proxy|CAInfo) ' \
    >"$root/etc/apt/apt.conf.d/99outer" || true

git clone --quiet --no-hardlinks . "$root/root/weft"

status=0
for target in $targets; do
    start=$(date +%s)
    echo "==== make $target"
    if inside make -C /root/weft "$target"; then
        echo "==== make $target: passed in $(($(date +%s) - start)) s"
    else
        echo "==== make $target: FAILED in $(($(date +%s) - start)) s"
        status=1
    fi
done
exit $status
