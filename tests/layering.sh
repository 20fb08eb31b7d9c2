#!/usr/bin/env bash
# tests/layering.sh -- fails on an upward include: a file includes from its own layer or from layers
# below it (tests/layers.txt), by a path from the root of the tree. symbols.sh checks the calls.
# Also fails if core/ compares an op's name: properties that core needs are fields of the literal.
set -euo pipefail
cd "$(dirname "$0")/.."

# Kernel rows are found by the names of their ops: core/device.c.
if grep -rnE '(strn?cmp|strstr)\(.*op->name' core --include='*.c' | grep -v '^core/device\.c:'; then
    echo "core/ compares names of ops: make it a field of weft_op" >&2
    exit 1
fi

# shellcheck disable=SC2046 # folder names are words
find $(grep -vxE 'tests|tools' tools/folders.txt) -name '*.[ch]' | sort |
    xargs awk '
# The layer that a path belongs to.
function layer_of(path) {
    if (path ~ /^weft\// || path ~ /^include\/weft\//) return "weft"
    if (path ~ /^core\/transforms\//) return "transforms"
    if (path ~ /^core\/compile\//) return "transforms"
    if (match(path, /^backends\/[^\/]+\//)) return substr(path, 1, RLENGTH - 1)
    if (match(path, /^[^\/]+\//)) return substr(path, 1, RLENGTH - 1)
    return path
}
FILENAME == "tests/layers.txt" {
    if ($0 !~ /^#/ && split($0, row, ": ") == 2) below[row[1]] = row[2]
    next
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, quoted, "\"")
    from = layer_of(FILENAME)
    to = layer_of(quoted[2])
    # A backend knows the public headers and its own folder; the registry knows the backends.
    allowed = from in below ? below[from] : "weft " from
    fine = index(" " allowed " ", " " to " ") > 0
    if (FILENAME ~ /^backends\/[^\/]+$/ && to ~ /^backends\//) fine = 1
    # They share the coefficients of functions.
    if (from ~ /^backends\// && quoted[2] == "backends/polynomials.h") fine = 1
    # Core reaches the backends through their registry alone.
    if (from == "core" && quoted[2] == "backends/registry.h") fine = 1
    # The command and its server read JSON and UTF-8 with the same parsers, which they compile
    # themselves (cli/meson.build, serve/meson.build).
    if (from == "serve" && quoted[2] == "core/io/json_parse.h") fine = 1
    if (from == "cli" && quoted[2] ~ "^core/io/(json_parse|utf8|kind|shell)[.]h$") fine = 1
    edges++
    if (!fine) {
        printf "%s:%d: %s may not include \"%s\" (may include: %s)\n", \
            FILENAME, FNR, from, quoted[2], allowed
        bad++
    }
}
/^[ \t]*#[ \t]*include[ \t]*<weft\// && FILENAME !~ /^examples\// {
    printf "%s:%d: write it as \"weft/...\"\n", FILENAME, FNR
    bad++
}
END {
    printf "%d includes between files, %d upward\n", edges, bad
    exit bad > 0 || edges == 0
}' tests/layers.txt
