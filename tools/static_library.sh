#!/bin/sh
# tools/static_library.sh INTERNAL.a OUT.a -- makes the static library for programs: all objects
# joined into one, in which all symbols except the exported ones are local, so that Weft's internal
# names cannot clash with a program's own.
set -eu

internal=$1
out=$2
object=$out.o

trap 'rm -f "$object"' EXIT
"${LD:-ld}" -r --whole-archive "$internal" -o "$object"
# Also by name, since joining may lose the hidden visibility of thread-local variables.
"${OBJCOPY:-objcopy}" --localize-hidden --wildcard --localize-symbol='weft__*' "$object"
rm -f "$out"
"${AR:-ar}" crs "$out" "$object"
