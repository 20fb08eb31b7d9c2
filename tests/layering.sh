#!/usr/bin/env bash
# tests/layering.sh -- fails on an include that goes up the house: a file includes from its own
# folder or from floors below it (docs/architecture.md, 1), written from the root of the tree.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck disable=SC2046 # folder names are words
find $(grep -vxE 'tests|tools' tools/folders.txt) -name '*.[ch]' | sort |
    xargs awk '
# The floor that a path lies on.
function floor_of(path) {
    if (path ~ /^weft\// || path ~ /^include\/weft\//) return "weft"
    if (path ~ /^core\/transforms\//) return "transforms"
    if (path ~ /^core\/compile\//) return "transforms"
    if (match(path, /^backends\/[^\/]+\//)) return substr(path, 1, RLENGTH - 1)
    if (match(path, /^[^\/]+\//)) return substr(path, 1, RLENGTH - 1)
    return path
}
BEGIN {
    below["weft"] = "weft"
    below["core"] = "weft core"
    below["ops"] = "weft core ops"
    below["transforms"] = "weft core ops transforms"
    below["nn"] = "weft core ops transforms nn"
    below["optim"] = "weft core ops transforms nn optim"
    below["text"] = "weft core text"
    below["models"] = "weft core ops transforms nn text models"
    below["generate"] = "weft core ops transforms nn text models generate"
    below["train"] = "weft core ops transforms nn optim text models generate train"
    below["hub"] = "weft core ops transforms nn text models generate hub"
    below["engine"] = "weft core ops transforms nn optim text models generate train hub engine"
    below["cli"] = "weft cli"
    below["examples"] = "weft"
    below["backends"] = "weft backends"
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, quoted, "\"")
    from = floor_of(FILENAME)
    to = floor_of(quoted[2])
    # A backend knows the public headers and its own folder; the registry knows the backends.
    allowed = from in below ? below[from] : "weft " from
    fine = index(" " allowed " ", " " to " ") > 0
    if (FILENAME ~ /^backends\/[^\/]+$/ && to ~ /^backends\//) fine = 1
    # Core reaches the backends through their registry alone.
    if (from == "core" && quoted[2] == "backends/registry.h") fine = 1
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
}'
