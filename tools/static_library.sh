#!/bin/sh
# tools/static_library.sh INTERNAL.a OUT.a -- the static library that programs link: all objects
# joined into one, whose symbols other than the exported ones are then local, so that nothing of
# Weft's insides can clash with a program's own names.
set -eu

internal=$1
out=$2
object=$out.o

trap 'rm -f "$object"' EXIT
"${LD:-ld}" -r --whole-archive "$internal" -o "$object"
# By name too: joining may lose that a thread's variable is hidden.
"${OBJCOPY:-objcopy}" --localize-hidden --wildcard --localize-symbol='weft__*' "$object"
rm -f "$out"
"${AR:-ar}" crs "$out" "$object"
