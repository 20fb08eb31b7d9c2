#!/usr/bin/env bash
# tests/guide_programs.sh -- after `make install`: compiles the C program of docs/embedding.md by
# the guide's own commands (shared and static, and with CMake if it is installed) and runs it. Part
# of tests/chroot.sh, since it needs an installation. For one in another prefix set PKG_CONFIG_PATH,
# LD_LIBRARY_PATH and PATH as the guide says.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk '/^```c$/ { inside = 1; next } /^```$/ && inside { exit } inside' docs/embedding.md \
    >"$work/program.c"

# Every shell block that compiles program.c, a file each, without the installation.
awk -v work="$work" '
    /^```sh$/ { inside = 1; text = ""; next }
    /^```$/ && inside {
        inside = 0
        if (text ~ /program\.c/) print text >(work "/block" ++n ".sh")
        next
    }
    inside { text = text $0 "\n" }' docs/embedding.md

tree=$PWD
count=0
for block in "$work"/block*.sh; do
    cat "$block"
    (cd "$work" && rm -f a.out && bash -euo pipefail "$block")
    # The program names the model from the root of the tree.
    (cd "$tree" && "$work/a.out")
    count=$((count + 1))
done
if [ "$count" -ne 2 ]; then
    echo "expected two ways to compile the program in docs/embedding.md, found $count"
    exit 1
fi

# The guide's lines for CMake, in a project.
if command -v cmake >/dev/null; then
    {
        printf 'cmake_minimum_required(VERSION 3.18)\nproject(program C)\n'
        awk '/^```cmake$/ { inside = 1; next } /^```$/ { inside = 0 } inside' docs/embedding.md
    } >"$work/CMakeLists.txt"
    cat "$work/CMakeLists.txt"
    cmake -S "$work" -B "$work/cmake"
    cmake --build "$work/cmake"
    "$work/cmake/program"
fi
weft --version
