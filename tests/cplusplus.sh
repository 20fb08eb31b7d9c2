#!/usr/bin/env bash
# tests/cplusplus.sh BUILD -- checks the library from C++17: the programs in tests/cplusplus/ and
# the C program of docs/embedding.md compile with every installed C++ compiler, and run.
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk '/^```c$/ { inside = 1; next } /^```$/ && inside { exit } inside' docs/embedding.md \
    >"$work/embedding.cc"

status=0
compilers=0
# CXX may contain a cache and a compiler: CXX="ccache g++".
for compiler in "${CXX:-}" g++ clang++; do
    [ -n "$compiler" ] && command -v "${compiler%% *}" >/dev/null || continue
    compilers=$((compilers + 1))
    for source in tests/cplusplus/*.cc "$work/embedding.cc"; do
        name=$(basename "$source" .cc)
        warnings="-Wall -Wextra -Wpedantic -Wshadow -Werror"
        # Its options start from {0}, for which clang++ warns about missing braces.
        [ "$name" != embedding ] || warnings="-Wall -Wno-missing-braces -Werror"
        # shellcheck disable=SC2086
        if ! $compiler -std=c++17 $warnings -I. -Iinclude "$source" -o "$work/$name" \
            -L"$build" -lweft "-Wl,-rpath,$PWD/$build"; then
            echo "$compiler: $name: does not compile as C++17"
            status=1
        elif ! "$work/$name" >"$work/log" 2>&1; then
            cat "$work/log"
            echo "$compiler: $name: failed"
            status=1
        fi
    done
done
if [ "$compilers" -eq 0 ]; then
    echo "there is no C++ compiler"
    exit 77
fi
exit $status
