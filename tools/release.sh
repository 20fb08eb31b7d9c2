#!/usr/bin/env bash
# tools/release.sh OUT -- makes a release of the last commit in OUT, as root: the packages for
# Debian 12 and 13 and the tarball, each made in a fresh system and then installed in another one,
# the description of the binary interface and its changes, the notes from CHANGELOG.md, and the
# checksums. What is in OUT already is not made again.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p "$1"
out=$(realpath "$1")
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build)

# The version is written in five places.
differs() {
    echo "$1 is not of version $version"
    exit 1
}
grep -q "^weft ($version) " debian/changelog || differs debian/changelog
grep -q "^version: $version\$" CITATION.cff || differs CITATION.cff
grep -qF "\"$version\"" include/weft/version.h || differs include/weft/version.h
IFS=. read -r major minor _ <<<"$version"
grep -qF "libweft0 (<< $major.$((minor + 1))~)" debian/libweft0.symbols ||
    differs debian/libweft0.symbols
notes=$(awk -v version="$version" '/^## / { inside = index($0, version); next } inside' \
    CHANGELOG.md)
[ -n "$notes" ] || differs CHANGELOG.md

# fresh RELEASE TARGETS: makes targets in a fresh Debian.
fresh() {
    WEFT_CHROOT_DIST=$out WEFT_CHROOT_TARGETS=$2 tests/chroot.sh "$1"
}
there() {
    compgen -G "$out/$1" >/dev/null
}
there 'weft_*+deb12_*.deb' || fresh bookworm deb
there 'weft_*+deb13_*.deb' || fresh trixie deb
there 'weft-*-linux-*.tar.gz' || fresh bookworm tarball
fresh bookworm packages
fresh trixie packages

# The binary interface, and what has changed since the release before, whose description is the file
# $WEFT_ABI_BEFORE. A patch version may only add functions.
abi=$out/libweft.so.0-$version.abi
if command -v abidw >/dev/null; then
    make all
    abidw --headers-dir include --out-file "$abi" build/libweft.so
fi
if [ -n "${WEFT_ABI_BEFORE:-}" ]; then
    abidiff "$WEFT_ABI_BEFORE" "$abi" >"$out/abi-changes.txt" || [ $(($? & 3)) -eq 0 ]
    if [[ $WEFT_ABI_BEFORE == *-$major.$minor.* ]] &&
        ! abidiff --no-added-syms "$WEFT_ABI_BEFORE" "$abi"; then
        echo "$version breaks programs that were linked with the library of $WEFT_ABI_BEFORE"
        exit 1
    fi
fi

cd "$out"
rm -f SHA256SUMS
{
    printf '# Weft %s\n\n%s\n\n## Files\n\n' "$version" "$notes"
    for file in *.deb *.tar.gz; do
        printf -- '- `%s`, %s\n' "$file" "$(du -h --apparent-size "$file" | cut -f 1)B"
    done
} >NOTES.md
sha256sum -- *.* >SHA256SUMS
echo "release $version in $out"
