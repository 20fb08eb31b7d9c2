#!/usr/bin/env bash
# tests/options.sh -- tools/build.sh configures a build folder again for other options, for another
# compiler and when an optional library has been installed, and otherwise leaves it as it is.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=$work/build
unset CC
export PATH=/usr/bin:$PATH

# build [MESON OPTION...]: one small program is enough.
build() {
    tools/build.sh "$folder" tests/fake_engine "$@"
}

# expect OPTION VALUE
expect() {
    local value
    value=$(meson introspect --buildoptions "$folder" | python3 -c '
import json, sys
print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == sys.argv[1]))' "$1")
    if [ "$value" != "$2" ]; then
        echo "option $1: expected $2, got $value"
        exit 1
    fi
}

expect_compiler() {
    if ! grep -q "\"command\": \"$1 " "$folder/compile_commands.json"; then
        echo "expected the folder to be compiled by $1"
        exit 1
    fi
}

# uses LIBRARY 0|1
uses() {
    if [ "$(meson introspect --dependencies "$folder" | grep -c "\"name\": \"$1\"")" != "$2" ]; then
        echo "library $1: expected $2 entries among the folder's dependencies"
        exit 1
    fi
}

if pkg-config --exists libzip; then
    mkdir "$work/packages"
    for path in $(pkg-config --variable pc_path pkg-config | tr : ' '); do
        find "$path" -name '*.pc' ! -name libzip.pc -exec ln -sft "$work/packages" {} + \
            2>/dev/null || true
    done
    PKG_CONFIG_LIBDIR=$work/packages build
    uses libzip 0
    build
    uses libzip 1
    rm -rf "$folder"
fi
build -Dvulkan=disabled -Doptimization=1
expect vulkan disabled
expect optimization 1
build -Dhdf5=disabled
expect hdf5 disabled
expect vulkan disabled
build
expect hdf5 disabled
expect optimization 1
if command -v clang >/dev/null; then
    CC=clang build
    expect_compiler clang
    expect vulkan disabled
    build
    expect_compiler clang
    CC=gcc build -Dvulkan=auto
    expect_compiler gcc
    expect vulkan auto
    expect hdf5 disabled
fi
if build -Dnonsense=1 >"$work/log" 2>&1 || ! grep -q nonsense "$work/log"; then
    echo "an option that does not exist: expected an error that names it"
    exit 1
fi
