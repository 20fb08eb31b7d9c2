#!/usr/bin/env bash
# tests/clang.sh -- builds the library, the command and a few suites with Clang, without optional
# libraries, and runs them without a home; a shader is compiled without one, too. Another compiler's
# warnings are errors, and the command says what it was built without. Without Clang it ends with
# status 77 (skipped). $WEFT_CLANG_BUILD is the build folder, build-clang by default.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${WEFT_CLANG_BUILD:-build-clang}
suites="array trainer json_parse cli_data"

if ! command -v clang >/dev/null; then
    echo "tests/clang.sh: skipped: clang is missing: apt-get install clang"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if command -v glslc >/dev/null; then
    (unset HOME XDG_CACHE_HOME WEFT_SHADER_CACHE &&
        tools/shader.sh "$work/arange.spv" backends/vulkan/shaders/arange.comp)
fi
# shellcheck disable=SC2086 # the suites are words
WEFT_WERROR=1 CC=clang tools/build.sh "$build" "cli/weft $(printf 'tests/test_%s ' $suites)" \
    -Dauto_features=disabled -Dsubprocess=disabled -Doptimization=0

export HOME=$work/none
unset XDG_CACHE_HOME XDG_CONFIG_HOME XDG_STATE_HOME
# The command runs, and needs no library of an optional part.
needed=$(readelf -d "$build"/cli/weft "$build"/libweft.so.0 | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p')
for library in vulkan hdf5 zip libz. zstd snappy curl crypto edit microhttpd yaml mpi; do
    if grep -q "$library" <<<"$needed"; then
        echo "built without optional parts, but linked with $library"
        exit 1
    fi
done
"$build/cli/weft" generate examples/storyteller --prompt "Once" --max-tokens 4 >/dev/null
for option in serve pull; do
    said=$("$build/cli/weft" "$option" examples/storyteller 2>&1) && status=0 || status=$?
    if [ "$status" -eq 0 ] || [[ $said != *"without "* ]]; then
        echo "weft $option, built without it, says: $said"
        exit 1
    fi
done
for suite in $suites; do
    "$build/tests/test_$suite"
done
if [ -e "$HOME" ]; then
    echo "$HOME was made"
    exit 1
fi
