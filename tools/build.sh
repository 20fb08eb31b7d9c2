#!/usr/bin/env bash
# tools/build.sh FOLDER TARGETS [MESON OPTION...] -- configures FOLDER once and builds the targets,
# a list of words, in it.
# WEFT_WERROR=1 makes warnings errors.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$1
read -ra targets <<<"$2"
shift 2

# The system's own meson and ninja come before any that a user has put in front.
PATH=/usr/bin:$PATH
werror=$([ "${WEFT_WERROR:-0}" = 1 ] && echo true || echo false)

if [ ! -e "$folder/build.ninja" ]; then
    mkdir -p "$folder"
    if ! meson setup "$folder" "-Dwerror=$werror" "$@" >"$folder/setup.log" 2>&1; then
        cat "$folder/setup.log" >&2
        exit 1
    fi
elif ! grep -q -x "werror=$werror" "$folder/.weft" 2>/dev/null; then
    meson configure "$folder" "-Dwerror=$werror"
fi
echo "werror=$werror" >"$folder/.weft"

# A progress line on a terminal; elsewhere only what the compiler complained of.
if [ -t 1 ]; then
    exec ninja -C "$folder" "${targets[@]}"
fi
log=$folder/build.log
if ! ninja -C "$folder" "${targets[@]}" >"$log" 2>&1; then
    grep -vE '^\[[0-9]+/[0-9]+\] (Compiling|Linking|Generating)' "$log" >&2
    exit 1
fi
grep -A 8 'warning:' "$log" || true
