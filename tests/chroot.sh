#!/usr/bin/env bash
# tests/chroot.sh [RELEASE [MIRROR]] -- tests what README promises in a fresh minimal Debian: make,
# demo, test, install, and the program of docs/embedding.md. In a fresh Debian (RELEASE: bookworm,
# the default, or trixie) with only git, make and certificates, made by debootstrap: a clone of this
# tree's last commit, then `make`, `make demo`, `make test` and `make install`, and the C program of
# docs/embedding.md compiled by its own commands and run (tests/guide_programs.sh). Prints how long
# each took, and the tests' totals. Needs root and debootstrap; not part of `make test`.
#
# MIRROR is by default the one that this system's own apt uses for the release, or else
# http://deb.debian.org/debian. $WEFT_CHROOT is the folder to work in; what is made there is removed
# at the end unless $WEFT_CHROOT_KEEP is set. $WEFT_CHROOT_BASE is a minimal system that is copied
# in place of debootstrap's. $WEFT_CHROOT_TARGETS names other targets; `guides` is the program of
# docs/embedding.md, and `packages` installs what is in the folder $WEFT_CHROOT_DIST
# (tests/packages.sh), and trains $WEFT_CHROOT_MODEL, a file, or else the model that comes with
# Weft. What `deb` and `tarball` make is copied to the folder.
set -euo pipefail
cd "$(dirname "$0")/.."

release=${1:-bookworm}
case $release in
bookworm | trixie) ;;
*)
    echo "usage: tests/chroot.sh [bookworm|trixie [MIRROR]]" >&2
    exit 2
    ;;
esac
mirror=${2:-$(apt-get indextargets --format '$(SITE) $(ORIGIN) $(CODENAME)' \
    'Created-By: Packages' 2>/dev/null |
    awk -v release="$release" '$2 == "Debian" && $3 == release { print $1; exit }')}
mirror=${mirror:-http://deb.debian.org/debian}
work=${WEFT_CHROOT:-$(mktemp -d)}
root=$work/root
targets=${WEFT_CHROOT_TARGETS:-all demo test install guides}

inside() {
    env -i HOME=/root LANG=C.UTF-8 CI="${CI:-}" \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        chroot "$root" "$@" </dev/null
}

finish() {
    local folder
    for folder in dev/pts proc; do
        if mountpoint -q "$root/$folder"; then umount "$root/$folder"; fi
    done
    [ -n "${WEFT_CHROOT_KEEP:-}" ] || rm -rf --one-file-system "$root"
}
trap finish EXIT

mkdir -p "$work"
if [ -n "${WEFT_CHROOT_BASE:-}" ]; then
    echo "copying $WEFT_CHROOT_BASE to $root"
    cp -a --one-file-system "$WEFT_CHROOT_BASE" "$root"
else
    echo "debootstrap of $release from $mirror into $root"
    if ! debootstrap --variant=minbase --include=git,make,ca-certificates "$release" "$root" \
        "$mirror" >"$work/debootstrap.log" 2>&1; then
        tail "$work/debootstrap.log"
        exit 1
    fi
fi
mount -t proc proc "$root/proc"
mkdir -p "$root/dev/pts"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -sf pts/ptmx "$root/dev/ptmx"
cp /etc/resolv.conf "$root/etc/resolv.conf"
# This system's apt settings for the network (a proxy, its certificates), if there are any.
apt-config dump | grep -E '^Acquire::https?::(Proxy|CAInfo) ' \
    >"$root/etc/apt/apt.conf.d/99outer" || true

git clone --quiet --no-hardlinks . "$root/root/weft"

# run TARGET: a target of make, guides or packages.
dist=${WEFT_CHROOT_DIST:-$work/dist}
model=${WEFT_CHROOT_MODEL:-}
run() {
    case $1 in
    guides) inside /root/weft/tests/guide_programs.sh ;;
    packages)
        cp -rT "$dist" "$root/root/dist" && {
            [ -z "$model" ] || cp "$model" "$root/root"
        } && inside /root/weft/tests/packages.sh /root/dist ${model:+"/root/${model##*/}"}
        ;;
    deb | tarball)
        inside make -C /root/weft "$1" && mkdir -p "$dist" && cp -t "$dist" "$root"/root/weft/dist/*
        ;;
    *) inside make -C /root/weft "$1" ;;
    esac
}

status=0
summary=
for target in $targets; do
    start=$(date +%s)
    echo "==== $target"
    result=passed
    run "$target" 2>&1 | tee "$work/log" || { result=FAILED && status=1; }
    total=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$work/log" | tail -1 || true)
    summary+=$(printf '%-8s %s in %d s%s' "$target" "$result" "$(($(date +%s) - start))" \
        "${total:+: $total}")$'\n'
done
echo "==== $release"
printf '%s' "$summary"
exit $status
