#!/usr/bin/env bash
# tests/packages.sh FOLDER [MODEL] -- as root on a fresh minimal Debian: installs the packages of
# FOLDER that were made for it and fine-tunes a model in three commands, then does the same as an
# ordinary user with the tarball's folder, compiles the program of docs/embedding.md, trains in two
# processes, and upgrades and removes the packages. The command must find the system's certificates,
# and run without a Vulkan loader and with one. Prints how long each step took. MODEL, a file, is by
# default the model that comes with Weft. Run by tests/chroot.sh; not part of `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."

dist=$(realpath "$1")
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
    rm -f "$log"
    return "$status"
}

# Three rows are enough to see the loss fall.
user=weft-tester
id "$user" >/dev/null 2>&1 || useradd --create-home "$user"
home=$(getent passwd "$user" | cut -d : -f 6)
model=storyteller
if [ -n "${2:-}" ]; then
    model=$(basename "$2")
    install -m 644 "$2" "$home"
fi
cat >"$home/rows.jsonl" <<'END'
{"prompt": "The fox said:", "completion": " I will wait until the moon is high."}
{"prompt": "The crow said:", "completion": " I will wait until the bread is mine."}
{"prompt": "The king said:", "completion": " I will wait until my son is home."}
END

# as_user COMMAND...: in its home.
as_user() {
    su "$user" -c "cd ~ && $*"
}

# learn NAME COMMAND: the second and third command, after the installation. The adapter must say
# what it was taught.
learn() {
    timed as_user "$2 train $model --data rows.jsonl --steps 40 --lr 3e-3 --out run-$1"
    timed as_user "$2 generate $model --adapter run-$1/last -p 'The king said:' -n 12 \
        --temperature 0 >said"
    if ! grep -q 'wait until' "$home/said"; then
        echo "the adapter says: $(cat "$home/said")"
        exit 1
    fi
}

# pulls COMMAND: prints why it cannot fetch a model from a server on this machine, which has none.
pulls() {
    as_user "HF_ENDPOINT=https://localhost:8443 $1 pull org/tiny 2>&1" && exit 1
    true
}

# certificates COMMAND: without certificates of authorities the message names their package; the
# server's certificate is refused, and accepted once the system trusts it.
certificates() {
    local said trusted=/usr/local/share/ca-certificates/weft-tester.crt
    mv /etc/ssl/certs /etc/ssl/away
    said=$(pulls "$1")
    mv /etc/ssl/away /etc/ssl/certs
    if [[ $said != *"Debian: ca-certificates"* ]]; then
        echo "without certificates: $said"
        exit 1
    fi
    update-ca-certificates >/dev/null 2>&1
    said=$(pulls "$1")
    if [[ $said != *certificate* ]]; then
        echo "an unknown certificate is accepted: $said"
        exit 1
    fi
    cp "$home/server.crt" "$trusted"
    update-ca-certificates >/dev/null 2>&1
    said=$(pulls "$1")
    rm "$trusted"
    if [[ $said == *certificate* || $said != *localhost* ]]; then
        echo "a certificate of the system is refused: $said"
        exit 1
    fi
}

# device COMMAND: generates on a Vulkan device with a driver in software.
device() {
    timed as_user "GALLIVM_PERF=nopt $1 generate storyteller --device vulkan -p Once -n 4"
}

# without_loader COMMAND: there is no Vulkan loader, and the command says so.
without_loader() {
    if ! as_user "$1 info --devices" | grep '^vulkan  *cannot be used: no Vulkan loader: '; then
        echo "the command does not say that there is no Vulkan loader"
        exit 1
    fi
}

# upgrade DEB...: installs the same packages as a version that follows theirs.
upgrade() {
    local deb root version newer
    newer=$(mktemp -d)
    version=$(dpkg-query -W -f '${Version}' libweft0)
    dpkg --compare-versions "$version.1" gt "$version"
    for deb in "$@"; do
        root=$(mktemp -d)
        dpkg-deb -R "$deb" "$root"
        sed -i "s/$version\\b/$version.1/" "$root/DEBIAN/control"
        dpkg-deb -Znone --build "$root" "$newer/$(basename "$deb")" >/dev/null
        rm -rf "$root"
    done
    chmod 755 "$newer"
    timed apt-get install -y -q --no-install-recommends "$newer"/*.deb
    rm -rf "$newer"
    if dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\n' '*weft*' |
        grep -v " $version.1 ii "; then
        echo "packages that were not upgraded"
        exit 1
    fi
    as_user "weft generate storyteller -p Once -n 4" >/dev/null
}

openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -keyout "$home/server.key" -out "$home/server.crt" 2>/dev/null
(cd "$home" && exec openssl s_server -quiet -accept 8443 -key server.key -cert server.crt -WWW) \
    >/dev/null 2>&1 &
trap 'kill %1' EXIT

echo "== packages on $PRETTY_NAME"
apt-get -q update >/dev/null
packages=("$dist"/{weft,libweft0}_*+deb"$VERSION_ID"_*.deb)
timed apt-get install -y -q --no-install-recommends "${packages[@]}"
learn deb weft
without_loader weft
certificates weft

tarball=$(echo "$dist"/weft-*-linux-*.tar.gz)
if [ -e "$tarball" ]; then
    folder=$(basename "$tarball" .tar.gz)
    echo "== the tarball as $user, without the packages"
    timed apt-get purge -y -q weft libweft0
    install -m 644 "$tarball" "$home"
    timed as_user "tar xf $folder.tar.gz"
    learn tarball "$folder/bin/weft"
    as_user "mv $folder moved"
    without_loader moved/bin/weft
    certificates moved/bin/weft
fi

echo "== programs, processes and devices"
packages+=("$dist"/{libweft-dev,weft-mpi,weft-doc}_*+deb"$VERSION_ID"_*.deb)
timed apt-get install -y -q --no-install-recommends gcc libc6-dev pkgconf cmake make openmpi-bin \
    libvulkan1 mesa-vulkan-drivers "${packages[@]}"
timed "$tree/tests/guide_programs.sh"
timed as_user "mpirun -n 2 --oversubscribe weft train storyteller --data rows.jsonl --steps 2 \
    --batch-size 2 --out run-mpi"
timed as_user "WEFT=weft WEFT_DEMO=\$HOME/demo /usr/share/doc/weft/examples/demo.sh"
device weft
[ ! -e "$home/moved" ] || device moved/bin/weft
upgrade "${packages[@]}"
timed apt-get purge -y -q weft libweft0 libweft-dev weft-mpi weft-doc
if find /usr -name '*weft*' -not -path '/usr/local/*' | grep .; then
    echo "files are left after the packages were removed"
    exit 1
fi
