#!/usr/bin/env bash
# tests/packages.sh FOLDER [MODEL] -- as root on a fresh minimal Debian: installs the packages of
# FOLDER that were made for it and fine-tunes a model in three commands, then does the same as an
# ordinary user with the tarball's folder, and compiles the program of docs/embedding.md. Prints how
# long each command took. MODEL is by default the model that comes with Weft. Run by
# tests/chroot.sh; not part of `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."

dist=$(realpath "$1")
model=${2:-storyteller}
tree=$PWD
# shellcheck source=/dev/null
. /etc/os-release
export DEBIAN_FRONTEND=noninteractive LC_ALL=C

# timed COMMAND...: the whole output only when it fails.
timed() {
    local start log status=0
    start=$(date +%s)
    log=$(mktemp)
    "$@" >"$log" 2>&1 || status=$?
    [ "$status" -eq 0 ] || cat "$log"
    printf '%5d s  %s\n' "$(($(date +%s) - start))" "$(tr -s ' ' <<<"$*")"
    grep -E '^(best|trained|adapter)' "$log" || true
    rm -f "$log"
    return "$status"
}

# Three rows are enough to see the loss fall.
user=weft-tester
id "$user" >/dev/null 2>&1 || useradd --create-home "$user"
home=$(getent passwd "$user" | cut -d : -f 6)
cat >"$home/rows.jsonl" <<'END'
{"prompt": "The fox said:", "completion": " I will wait until the moon is high."}
{"prompt": "The crow said:", "completion": " I will wait until the bread is mine."}
{"prompt": "The king said:", "completion": " I will wait until my son is home."}
END

# learn NAME COMMAND: the second and third command, after the installation. The adapter must say
# what it was taught.
learn() {
    local run=$home/run-$1
    shift
    timed su "$user" -c "cd ~ && $* train $model --data rows.jsonl --steps 60 --lr 5e-3 \
        --out $run"
    timed su "$user" -c "cd ~ && $* generate $model --adapter $run/last -p 'The king said:' \
        -n 12 --temperature 0 >said"
    if ! grep -q 'wait until' "$home/said"; then
        echo "the adapter says: $(cat "$home/said")"
        exit 1
    fi
}

echo "== packages on $PRETTY_NAME"
apt-get -q update >/dev/null
packages=("$dist"/{weft,libweft0}_*+deb"$VERSION_ID"_*.deb)
timed apt-get install -y -q --no-install-recommends "${packages[@]}"
learn deb weft
weft info --devices

tarball=$(echo "$dist"/weft-*-linux-*.tar.gz)
if [ -e "$tarball" ]; then
    folder=$(basename "$tarball" .tar.gz)
    echo "== the tarball as $user, without the packages"
    timed apt-get purge -y -q weft libweft0
    install -m 644 "$tarball" "$home"
    timed su "$user" -c "cd ~ && tar xf $folder.tar.gz"
    learn tarball "./$folder/bin/weft"
    su "$user" -c "cd ~ && mv $folder moved && moved/bin/weft info --devices"
fi

echo "== programs"
packages+=("$dist"/{libweft-dev,weft-mpi}_*+deb"$VERSION_ID"_*.deb "$dist"/weft-doc_*.deb)
timed apt-get install -y -q --no-install-recommends gcc libc6-dev pkgconf "${packages[@]}"
timed "$tree/tests/guide_programs.sh"
timed apt-get purge -y -q weft libweft0 libweft-dev weft-mpi weft-doc
if find /usr -name '*weft*' -not -path '/usr/local/*' | grep .; then
    echo "files are left after the packages were removed"
    exit 1
fi
