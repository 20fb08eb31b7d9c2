#!/usr/bin/env bash
# tools/modules.sh build|check -- builds and checks the compiled modules in backends/vulkan/modules,
# whose sources need a newer glslc than the build does.
#
# build: compiles every NAME.comp to NAME.spv with $WEFT_GLSLC (default: glslc), which must know
# GL_KHR_cooperative_matrix, and writes the manifest: compiler, options, and for each module the
# SHA-256 of its source with all that it includes, and of the module.
# check: each module belongs to its source, by the manifest. Where $WEFT_GLSLC is the manifest's
# compiler, it compiles again and compares bytes; where it is another that knows the extension, it
# compiles and validates. Prints one line per module; fails if one fails.
set -euo pipefail
cd "$(dirname "$0")/../backends/vulkan/modules"

options=(--target-env=vulkan1.3 -O -fshader-stage=compute -I ../shaders)
compiler=${WEFT_GLSLC:-glslc}
manifest=manifest.txt

# The sources of a module, one after another: the file and all files that it includes.
text_of() {
    local file=$1 line
    while IFS= read -r line || [ -n "$line" ]; do
        if [[ $line =~ ^#include\ \"([^\"]+)\" ]]; then
            if [ -e "${BASH_REMATCH[1]}" ]; then
                text_of "${BASH_REMATCH[1]}"
            else
                text_of "../shaders/${BASH_REMATCH[1]}"
            fi
        else
            printf '%s\n' "$line"
        fi
    done <"$file"
}

hash_of() { text_of "$1.comp" | sha256sum | cut -d ' ' -f 1; }
binary_hash_of() { sha256sum <"$1.spv" | cut -d ' ' -f 1; }
version() { "$compiler" --version 2>/dev/null | head -n 1; }
compile() { "$compiler" "${options[@]}" -o "$2" "$1.comp"; }
modules() { for f in *.comp; do echo "${f%.comp}"; done; }

build() {
    local name
    {
        echo "compiler $(version)"
        echo "options ${options[*]}"
        for name in $(modules); do
            compile "$name" "$name.spv"
            echo "$name $(hash_of "$name") $(binary_hash_of "$name")"
        done
    } >"$manifest.new"
    mv "$manifest.new" "$manifest"
}

# Compares one module with the installed compiler's output; prints the result.
compare() {
    local name=$1 scratch
    scratch=$(mktemp)
    # shellcheck disable=SC2064
    trap "rm -f '$scratch'" RETURN
    if ! compile "$name" "$scratch" 2>/dev/null; then
        echo "passed $name: hashes agree ($(version) cannot compile it)"
    elif [ "$(sed -n 's/^compiler //p' $manifest)" = "$(version)" ]; then
        cmp -s "$scratch" "$name.spv" && echo "passed $name: compiled again, the same bytes" ||
            echo "failed $name: compiled again, other bytes: run tools/modules.sh build"
    elif ! command -v spirv-val >/dev/null || spirv-val --scalar-block-layout "$scratch"; then
        echo "passed $name: hashes agree, and $(version) compiles it"
    else
        echo "failed $name: what $(version) makes of it is not valid"
    fi
}

check() {
    local name line text failed=0
    for name in $(modules); do
        line=$(grep "^$name " $manifest || true)
        if [ "$line" = "$name $(hash_of "$name") $(binary_hash_of "$name")" ]; then
            text=$(compare "$name")
        else
            text="failed $name: the manifest has other hashes: run tools/modules.sh build with"
            text+=" a compiler that knows GL_KHR_cooperative_matrix (WEFT_GLSLC)"
        fi
        echo "$text"
        [[ $text == failed* ]] && failed=1
    done
    return "$failed"
}

case ${1:-} in
build) build ;;
check) check ;;
*)
    echo "usage: tools/modules.sh build|check" >&2
    exit 2
    ;;
esac
