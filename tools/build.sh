#!/usr/bin/env bash
# tools/build.sh FOLDER TARGETS [MESON OPTION...] -- configures FOLDER and builds the targets, a
# list of words, in it. A configured folder is configured again when the options or the packages
# known to pkg-config have changed, so that an optional library is used once it is installed, and
# from scratch when $CC is set to another compiler. WEFT_WERROR=1 makes warnings errors.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$1
read -ra targets <<<"$2"
shift 2

# The system's meson and ninja take precedence over others in the PATH.
PATH=/usr/bin:$PATH
# ccache fails where it cannot write, such as in a home that does not exist.
if cache=$(ccache -k cache_dir 2>/dev/null); then
    { mkdir -p "$cache" 2>/dev/null && [ -w "$cache" ]; } || export CCACHE_DISABLE=1
fi
werror=$([ "${WEFT_WERROR:-0}" = 1 ] && echo true || echo false)

# quietly COMMAND...: shows what it printed only when it fails.
quietly() {
    local log
    log=$(mktemp)
    if ! "$@" >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        exit 1
    fi
    rm -f "$log"
}

# recorded KEY: the value that the folder was configured with.
recorded() {
    sed -n "s/^$1=//p" "$folder/.weft" 2>/dev/null || true
}

# The compiler that the folder's commands begin with.
used_compiler() {
    sed -n '/^ *"command": "/{s/^ *"command": "//;s/ -.*//p;q}' "$folder/compile_commands.json"
}

# One number for the names of all packages that pkg-config knows.
packages=$(pkg-config --list-package-names 2>/dev/null | sort | cksum)

options=$*
if [ ! -e "$folder/build.ninja" ]; then
    mkdir -p "$folder"
    quietly meson setup "$folder" "-Dwerror=$werror" "$@"
    compiler=${CC:-}
else
    compiler=$(recorded compiler)
    if [ -n "${CC:-}" ] && [ "$CC" != "$compiler" ] && [ "$CC" != "$(used_compiler)" ]; then
        quietly meson setup --wipe "$folder" "-Dwerror=$werror" "$@"
    elif [ "$werror" != "$(recorded werror)" ] ||
        { [ -n "$options" ] && [ "$options" != "$(recorded options)" ]; }; then
        quietly meson configure "$folder" "-Dwerror=$werror" "$@"
    fi
    if [ "$packages" != "$(recorded packages)" ]; then
        quietly meson setup --reconfigure "$folder"
    fi
    compiler=${CC:-$compiler}
    options=${options:-$(recorded options)}
fi
printf '%s\n' "werror=$werror" "compiler=$compiler" "options=$options" "packages=$packages" \
    >"$folder/.weft"

# A progress line on a terminal; elsewhere only the compiler's diagnostics.
if [ -t 1 ]; then
    exec ninja -C "$folder" "${targets[@]}"
fi
log=$folder/build.log
if ! ninja -C "$folder" "${targets[@]}" >"$log" 2>&1; then
    grep -vE '^\[[0-9]+/[0-9]+\] (Compiling|Linking|Generating)' "$log" >&2
    exit 1
fi
grep -A 8 'warning:' "$log" || true
