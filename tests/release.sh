#!/usr/bin/env bash
# tests/release.sh -- checks what tools/release.sh writes beside the packages: the notes are the
# version's section of CHANGELOG.md and name every file, the checksums hold and notice a change, the
# source archive has the commit, and a version that differs in one place, uncommitted changes or
# files of another commit end it.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v git >/dev/null || { echo "release: skipped: no git" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
out=$work/out
places=(debian/changelog CITATION.cff include/weft/version.h debian/libweft0.symbols CHANGELOG.md)
mkdir "$tree"
cp --parents -t "$tree" tools/release.sh meson.build "${places[@]}"
cd "$tree"
cat >CHANGELOG.md <<'END'
# Changelog

## 10.1.0

- Not this one.

## 0.1.0 (2026-12-01)

- First change,
  in two lines.

- Last change.

## 0.1.0-rc1

- Not this one either: 0.1.0.
END
sed -i "s/^  version: '.*',/  version: '0.1.0',/" meson.build
git init -q
commit() {
    git add -A && git -c user.name=t -c user.email=t@t commit -q -m "$1"
}
commit first

bad=0
complain() {
    echo "$*"
    bad=1
}
# fails MESSAGE: the release must end with it.
fails() {
    local said status=0
    said=$(tools/release.sh --finish "$out" 2>&1) || status=$?
    [ "$status" -ne 0 ] && [[ $said == *"$1"* ]] || complain "expected '$1', got '$said'"
}

mkdir "$out"
head -c 5000 /dev/urandom >"$out/weft_0.1.0+deb12_amd64.deb"
echo folder >"$out/weft-0.1.0-linux-x86_64.tar.gz"
tools/release.sh --finish "$out" >/dev/null
expected='# Weft 0.1.0

- First change,
  in two lines.

- Last change.

## Files

- `weft_0.1.0+deb12_amd64.deb`, 4.9KB
- `weft-0.1.0-linux-x86_64.tar.gz`, 7B'
[ "$(grep -v '^- `weft-0.1.0.tar.gz`, ' "$out/NOTES.md")" = "$expected" ] ||
    complain "NOTES.md: $(cat "$out/NOTES.md")"
grep -q '^- `weft-0.1.0.tar.gz`, ' "$out/NOTES.md" || complain "NOTES.md: no source archive"
(cd "$out" && sha256sum --quiet --strict -c SHA256SUMS) || complain "SHA256SUMS does not hold"
for file in weft_0.1.0+deb12_amd64.deb weft-0.1.0{-linux-x86_64,}.tar.gz NOTES.md; do
    grep -qF "  $file" "$out/SHA256SUMS" || complain "SHA256SUMS: no $file"
done
cmp -s <(tar xzOf "$out/weft-0.1.0.tar.gz" weft-0.1.0/CHANGELOG.md) CHANGELOG.md ||
    complain "the source archive differs from the commit"
# Again: the same.
cp "$out/SHA256SUMS" "$work"
tools/release.sh --finish "$out" >/dev/null
cmp "$work/SHA256SUMS" "$out/SHA256SUMS" || complain "a second time SHA256SUMS differs"
echo changed >>"$out/weft_0.1.0+deb12_amd64.deb"
if (cd "$out" && sha256sum --quiet -c SHA256SUMS) >/dev/null 2>&1; then
    complain "SHA256SUMS does not notice a change"
fi

echo >>meson.build
fails "uncommitted changes"
commit second
fails "files of another commit"
rm -rf "$out"
for place in "${places[@]}"; do
    sed -i 's/0\.1\.0/0.1.9/g; s/0\.2~/0.3~/' "$place"
    commit "$place"
    fails "$place is not of version 0.1.0"
    git reset -q --hard HEAD~1
done
exit $bad
