#!/usr/bin/env bash
# tests/exports.sh BUILD -- checks that the shared and the static library export the same symbols:
# those that begin with weft_ and are declared in the public headers.
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

nm -D --defined-only "$build/libweft.so" | awk '{ print $3 }' | sort -u >"$work/shared"
nm --defined-only --extern-only "$build/libweft.a" | awk 'NF == 3 { print $3 }' | sort -u \
    >"$work/static"
cat include/weft/*.h include/weft/tool/*.h | grep -oE '\<weft_[A-Za-z0-9_]+' |
    sort -u >"$work/declared"

bad=0
complain() {
    if [ -s "$work/found" ]; then
        sed "s/^/$1: /" "$work/found"
        bad=1
    fi
}
grep -vE '^weft_[a-z0-9]' "$work/shared" >"$work/found" || true
complain "libweft.so exports what does not begin with weft_"
comm -23 "$work/shared" "$work/declared" >"$work/found"
complain "libweft.so exports what no public header declares"
comm -3 "$work/shared" "$work/static" | tr -d '\t' >"$work/found"
complain "only one of libweft.so and libweft.a exports"
if [ ! -s "$work/shared" ]; then
    echo "libweft.so exports nothing"
    bad=1
fi
echo "$(wc -l <"$work/shared") symbols"
exit $bad
