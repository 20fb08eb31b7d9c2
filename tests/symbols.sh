#!/usr/bin/env bash
# tests/symbols.sh BUILD -- fails on an upward call: an object file of a layer refers to a symbol
# that a higher layer defines (tests/layers.txt). layering.sh checks the includes; this check also
# sees calls of functions that a public header declares.
set -euo pipefail
cd "$(dirname "$0")/.."

nm -A "$1/libweft-internal.a" | awk -v table=tests/layers.txt '
# The layer of an object file, which meson names by its path: "core_io_json.c.o".
function layer_of(object) {
    if (object ~ /^core_(transforms|compile)_/) return "transforms"
    sub(/_.*$/, "", object)
    return object
}
BEGIN {
    while ((getline line < table) > 0)
        if (line !~ /^#/ && split(line, row, ": ") == 2) below[row[1]] = row[2]
    # The tables through which core reaches the ops and the backends.
    allowed["core", "weft__builtins"] = allowed["core", "weft__op_table"] = 1
    allowed["core", "weft__op_table_size"] = 1
    allowed["core", "weft__backends"] = allowed["core", "weft__backend_count"] = 1
    allowed["core", "weft__backend_traits"] = allowed["core", "weft__backend_inspect"] = 1
    # Printing and saving arrays slice and transpose them by public functions.
    allowed["core", "weft_slice_axis"] = allowed["core", "weft_concatenate"] = 1
    allowed["core", "weft_transpose"] = 1
}
{
    split($1, path, ":")
    object = path[2]
    sub(/^.*\//, "", object)
}
NF >= 3 && $(NF - 1) ~ /^[TDRBV]$/ { defined[$NF] = object }
NF >= 3 && $(NF - 1) == "U" { user[++n] = object; used[n] = $NF }
END {
    for (i = 1; i <= n; i++) {
        from = layer_of(user[i])
        if (!(used[i] in defined) || !(from in below) || from == "backends") continue
        to = layer_of(defined[used[i]])
        # Generated files belong to the layer that includes them.
        if (to ~ /^meson-generated/) continue
        if (index(" " below[from] " ", " " to " ") || (from, used[i]) in allowed) {
            calls++
            continue
        }
        printf "%s: %s may not use %s of %s (may use: %s)\n", user[i], from, used[i],
            defined[used[i]], below[from]
        bad++
    }
    printf "%d references between layers, %d upward\n", calls + bad, bad
    exit bad > 0 || calls == 0
}'
