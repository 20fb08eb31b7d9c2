#!/usr/bin/env bash
# tools/release.sh [--finish] OUT -- makes a release of the last commit in OUT, as root: the
# packages for Debian 12 and 13 and the tarball, each made in a fresh system and then installed in
# another one, the source archive, the description of the binary interface and its changes, the
# notes from CHANGELOG.md, and the checksums. What OUT has of this commit already is not made again.
# --finish makes only the source archive, the notes and the checksums, of what is there.
set -euo pipefail
cd "$(dirname "$0")/.."

finish=
if [ "$1" = --finish ]; then
    finish=1
    shift
fi
mkdir -p "$1"
out=$(realpath "$1")
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build)

die() {
    echo "release: $*" >&2
    exit 1
}

# The version is written in six places.
differs() {
    die "$1 is not of version $version"
}
grep -q "^weft ($version) " debian/changelog || differs debian/changelog
grep -q "^version: $version\$" CITATION.cff || differs CITATION.cff
grep -qF "\"$version\"" include/weft/version.h || differs include/weft/version.h
IFS=. read -r major minor _ <<<"$version"
grep -qF "libweft0 (<< $major.$((minor + 1))~)" debian/libweft0.symbols ||
    differs debian/libweft0.symbols
# Its section, without the blank lines around it. The heading is "## 0.1.0", with words around it.
notes=$(awk -v version="$version" '
    /^## / { inside = 0; for (i = 2; i <= NF; i++) inside += $i ~ "^[(]?" version "[),:]?$"; next }
    inside && (NF || started) { started = 1; print }' CHANGELOG.md)
[ -n "$notes" ] || differs CHANGELOG.md
if grep -q "^## Unreleased.*$version" CHANGELOG.md; then
    echo "release: CHANGELOG.md calls $version unreleased" >&2
fi

# Everything in OUT is of the same commit, and the working tree has no changes.
commit=$(git rev-parse HEAD)
[ -z "$(git status --porcelain --untracked-files=no)" ] || die "there are uncommitted changes"
if [ -e "$out/COMMIT" ]; then
    [ "$(cat "$out/COMMIT")" = "$commit" ] || die "$out has files of another commit: remove it"
elif [ -z "$finish" ] && [ -n "$(ls "$out")" ]; then
    die "$out has files of an unknown commit: remove it"
fi
echo "$commit" >"$out/COMMIT"

# fresh RELEASE TARGETS: makes targets in a fresh Debian.
fresh() {
    WEFT_CHROOT_DIST=$out WEFT_CHROOT_TARGETS=$2 tests/chroot.sh "$1"
}
there() {
    compgen -G "$out/$1" >/dev/null
}
if [ -z "$finish" ]; then
    there 'weft_*+deb12_*.deb' || fresh bookworm deb
    there 'weft_*+deb13_*.deb' || fresh trixie deb
    there 'weft-*-linux-*.tar.gz' || fresh bookworm tarball
    fresh bookworm packages
    fresh trixie packages
fi

# The binary interface, and what has changed since the release before, whose description is the file
# $WEFT_ABI_BEFORE. A patch version may only add functions.
if [ -z "$finish" ] && command -v abidw >/dev/null; then
    make all
    tests/abi.sh build
    tests/abi.sh build --renew "$out/libweft.so.0-$version.abi.gz"
fi
if [ -z "$finish" ] && [ -n "${WEFT_ABI_BEFORE:-}" ]; then
    if ! tests/abi.sh build "$WEFT_ABI_BEFORE" >"$out/abi-changes.txt" &&
        [[ $WEFT_ABI_BEFORE == *-$major.$minor.* ]]; then
        cat "$out/abi-changes.txt"
        die "$version breaks programs that were linked with the library of $WEFT_ABI_BEFORE"
    fi
fi

git archive --format=tar.gz --prefix="weft-$version/" -o "$out/weft-$version.tar.gz" HEAD
cd "$out"
rm -f SHA256SUMS NOTES.md
{
    printf '# Weft %s\n\n%s\n\n## Files\n\n' "$version" "$notes"
    for file in *.deb *.tar.gz; do
        [ ! -e "$file" ] ||
            printf -- '- `%s`, %s\n' "$file" "$(du -h --apparent-size "$file" | cut -f 1)B"
    done
} >NOTES.md
sha256sum -- *.* >SHA256SUMS
echo "release $version in $out"
