#!/usr/bin/env bash
# tests/install.sh BUILD -- installs into a scratch folder, checks that pkg-config and the loader
# would find the installation, and builds two programs against it, with the shared and with the
# static library. One of the two is the program of docs/embedding.md. CMake's description and moving
# the installation are tested as well.
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PATH=/usr/bin:$PATH

DESTDIR=$work meson install -C "$build" --no-rebuild --quiet

# option NAME: the value that the build folder was configured with.
option() {
    meson introspect --buildoptions "$build" | python3 -c '
import json, sys
print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == sys.argv[1]))' "$1"
}
prefix=$(option prefix)
libdir=$prefix/$(option libdir)
lib=$work$libdir

# expect FILE: fails if the file is not installed at this path.
expect() {
    if [ ! -e "$work$1" ]; then
        echo "expected $1, which is not installed"
        exit 1
    fi
}
expect "$libdir/pkgconfig/weft.pc"
expect "$libdir/libweft.so"
expect "$libdir/libweft.so.0"
expect "$libdir/libweft.a"
# MPI's libraries replace signal handlers: only processes of mpirun load them.
if [ -e "$build/weft-mpi.so" ]; then
    expect "$libdir/weft/weft-mpi.so"
    if readelf -d "$lib/libweft.so.0" | grep 'NEEDED.*libmpi'; then
        echo "libweft.so is linked with MPI"
        exit 1
    fi
    # One process that claims to be one of two: the module is found, and MPI finds only one process.
    said=$(LD_LIBRARY_PATH=$lib PMI_SIZE=2 PMI_RANK=0 \
        OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        "$work$prefix/bin/weft" train none --data none --out "$work/run" 2>&1) || true
    if [[ $said != *"but MPI has"* ]]; then
        echo "the installed command does not load weft-mpi.so: $said"
        exit 1
    fi
fi
expect "$prefix/bin/weft"
expect "$prefix/include/weft/weft.h"
expect "$prefix/include/weft/tool/run.h"
for completion in bash-completion/completions/weft.bash fish/vendor_completions.d/weft.fish \
    zsh/vendor-completions/_weft; do
    expect "$prefix/share/$completion"
done
# The command finds its library and its model where it is moved to; in /usr the loader finds it.
if [ "$prefix" != /usr ]; then
    mv "$work$prefix" "$work/moved"
    (cd / && env -u LD_LIBRARY_PATH "$work/moved/bin/weft" info storyteller >/dev/null)
    mv "$work/moved" "$work$prefix"
fi

# The guides' commands rely on these paths, for prefixes that the system searches.
if [ "$prefix" = /usr/local ] || [ "$prefix" = /usr ]; then
    searched=$(pkg-config --variable=pc_path pkg-config)
    if [[ ":$searched:" != *":$libdir/pkgconfig:"* ]]; then
        echo "pkg-config does not search $libdir/pkgconfig but $searched"
        exit 1
    fi
    searched=$(PATH=$PATH:/usr/sbin:/sbin ldconfig -v -N -X 2>&1 || true)
    if ! grep -qE "^$libdir( |:)|Can't stat $libdir:" <<<"$searched"; then
        echo "the loader does not search $libdir"
        exit 1
    fi
fi

export PKG_CONFIG_PATH=$lib/pkgconfig
flags() {
    pkg-config "--define-variable=prefix=$work$prefix" "$@" weft
}

cat >"$work/program.c" <<'END'
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>
int main(void)
{
    puts(weft_version());
    return strcmp(weft_version(), WEFT_VERSION) != 0;
}
END
# The C program of docs/embedding.md.
awk '/^```c$/ { inside = 1; next } /^```$/ && inside { exit } inside' docs/embedding.md \
    >"$work/embedding.c"

for program in program embedding; do
    # shellcheck disable=SC2046,SC2086 # $CC may be words
    ${CC:-cc} -std=c11 -Wall -Werror "$work/$program.c" -o "$work/shared" \
        $(flags --cflags --libs)
    LD_LIBRARY_PATH=$lib "$work/shared"

    # The archive by name, and the shared libraries that it needs.
    # shellcheck disable=SC2046,SC2086
    ${CC:-cc} -std=c11 -Wall -Werror $(flags --cflags) "$work/$program.c" "$lib/libweft.a" \
        -o "$work/static" $(pkg-config --libs $(pkg-config --print-requires-private weft)) \
        -lm -pthread
    "$work/static"
done

# The same by CMake, and a version that is too new.
if ! command -v cmake >/dev/null; then
    echo "cmake is not installed: weft-config.cmake is not tested"
    exit 0
fi
cat >"$work/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.18)
project(program C)
find_package(weft ${WANTED} REQUIRED COMPONENTS static)
add_executable(shared_program program.c)
target_link_libraries(shared_program weft::weft)
add_executable(static_program program.c)
target_link_libraries(static_program weft::static)
END
configure() {
    cmake -S "$work" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$work$prefix" "$@" >"$work/log" 2>&1
}
if ! configure -DWANTED=0.1 || ! cmake --build "$work/cmake" >>"$work/log" 2>&1; then
    cat "$work/log"
    exit 1
fi
"$work/cmake/shared_program"
"$work/cmake/static_program"
if readelf -d "$work/cmake/static_program" | grep 'NEEDED.*libweft'; then
    echo "weft::static is not linked statically"
    exit 1
fi
for wanted in 0.2 1.0 0.1.99; do
    if configure -DWANTED="$wanted"; then
        echo "find_package(weft $wanted) accepts $(cat "$build/weft-config-version.cmake")"
        exit 1
    fi
done
