#!/usr/bin/env bash
# tools/deb.sh FOLDER OUT -- builds the Debian packages of this checkout for the Debian that runs,
# in FOLDER, and puts them into OUT. Their version ends in the system's, as in 0.1.0+deb12, so that
# an upgrade of the system replaces them. Fails on errors and warnings of lintian.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p "$1" "$2"
folder=$(realpath "$1")
out=$(realpath "$2")
# shellcheck source=/dev/null
. /etc/os-release
# Debian's Python and its packages, whatever the user's is. The build has another HOME.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
export CCACHE_DIR=${CCACHE_DIR:-$HOME/.cache/ccache}
export WEFT_SHADER_CACHE=${WEFT_SHADER_CACHE:-$HOME/.cache/weft/shaders}

rm -rf "$folder"
mkdir -p "$folder/weft"
git ls-files -z | xargs -0 cp --parents --preserve=mode,timestamps -t "$folder/weft"
cd "$folder/weft"
version=$(dpkg-parsechangelog -S Version)+deb$VERSION_ID
sed -i "1s/.*/weft ($version) $VERSION_CODENAME; urgency=medium/" debian/changelog

export DEB_BUILD_OPTIONS="noautodbgsym ${DEB_BUILD_OPTIONS:-}"
log=$folder/build.log
if ! dpkg-buildpackage --build=binary --no-sign >"$log" 2>&1; then
    tail -40 "$log"
    exit 1
fi
lintian --allow-root --fail-on error,warning "$folder"/*.changes
mv "$folder"/*.deb "$folder"/*.changes "$folder"/*.buildinfo "$out"
ls -sh "$out"/*"$version"*.deb
