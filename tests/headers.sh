#!/usr/bin/env bash
# tests/headers.sh -- checks the public headers: each compiles alone as C11 and as C++17 without a
# warning, and weft/weft.h includes all but those of weft/tool/, which no other header includes.
set -euo pipefail
cd "$(dirname "$0")/.."

read -ra cc <<<"${CC:-cc}" # perhaps "ccache gcc"
cplusplus=("${CXX:-c++}")
if command -v clang++ >/dev/null; then cplusplus+=(clang++); fi
warnings="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror"
bad=0

compile() {
    local language=$1 standard=$2 header=$3
    shift 3
    # shellcheck disable=SC2086
    if ! printf '#include "weft/%s"\nextern int not_empty;\n' "$header" |
        "$@" -x "$language" "-std=$standard" $warnings -Iinclude -fsyntax-only -; then
        echo "include/weft/$header: does not compile alone as $standard"
        bad=1
    fi
}

for path in include/weft/*.h include/weft/tool/*.h; do
    header=${path#include/weft/}
    compile c c11 "$header" "${cc[@]}"
    for compiler in "${cplusplus[@]}"; do
        compile c++ c++17 "$header" "$compiler"
    done
    if [[ $header != weft.h && $header != tool/* ]] &&
        ! grep -q "^#include \"weft/$header\"" include/weft/weft.h; then
        echo "include/weft/weft.h: does not include weft/$header"
        bad=1
    fi
    if [[ $header != tool/* ]] && grep -n '^#include "weft/tool/' "$path"; then
        echo "$path: includes a header of weft/tool/"
        bad=1
    fi
done
exit $bad
