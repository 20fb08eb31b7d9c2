#!/usr/bin/env bash
# tests/snippets.sh -- checks quotations in documents: each block of C is in the file that the text
# before it names last, every weft_* name is in the sources, and the functions in a row of a table
# that begins with a file are defined in it. A line `...` in a block leaves lines out; indentation
# does not count.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."

documents="docs/architecture.md docs/style.md docs/fine-tuning.md docs/adding-models.md
    docs/adding-ops.md docs/adding-kernels.md docs/adding-backends.md docs/adding-objectives.md
    docs/adding-data-formats.md docs/adding-options.md docs/adding-routes.md
    docs/life-of-a-token.md docs/life-of-a-training-step.md"
problems=$(mktemp)
trap 'rm -f "$problems" "$problems".*' EXIT

# The blocks, each in a file of its own whose first line is "DOCUMENT:LINE SOURCE".
# shellcheck disable=SC2086
awk -v out="$problems" '
FNR == 1 { source = ""; inside = 0 }
/^ *```c *$/ {
    inside = 1
    block = out ".block" ++n
    print FILENAME ":" FNR " " source >block
    next
}
/^ *```/ { if (inside) close(block); inside = 0; next }
inside { sub(/^[ \t]+/, ""); sub(/[ \t]+$/, ""); print >block; next }
{
    text = $0
    while (match(text, /`[A-Za-z0-9_\/.-]+\.[ch]`/)) {
        source = substr(text, RSTART + 1, RLENGTH - 2)
        text = substr(text, RSTART + RLENGTH)
    }
}
END { print n > (out ".count") }' $documents

count=$(cat "$problems.count")
for ((i = 1; i <= count; i++)); do
    block=$problems.block$i
    read -r where source <"$block"
    if [ -z "$source" ] || [ ! -e "$source" ]; then
        echo "$where: the text before the block names no file that exists${source:+ ($source)}"
        continue
    fi
    awk -v where="$where" -v source="$source" '
    function trim(line) { sub(/^[ \t]+/, "", line); sub(/[ \t]+$/, "", line); return line }
    # The first line at or after `from` where lines a to b - 1 of the block occur; 0: none.
    function find(from, a, b,    i, k) {
        for (i = from; i <= lines; i++) {
            for (k = 0; a + k < b && text[i + k] == quoted[a + k]; k++) { }
            if (a + k == b) return i
        }
        return 0
    }
    NR == FNR { if (FNR > 1) quoted[++n] = $0; next }
    { text[++lines] = trim($0) }
    END {
        from = 1
        for (a = 1; a <= n; a = b + 1) {
            for (b = a; b <= n && quoted[b] != "..."; b++) { }
            if (b == a) continue
            at = find(from, a, b)
            if (!at) {
                print where ": not in " source ": " quoted[a]
                exit
            }
            from = at + b - a
        }
    }' "$block" "$source"
done >>"$problems"

# Names. One that ends in "_" matches many.
sources=$(mktemp "$problems.XXXX")
find . -name '*.[ch]' -not -path './build*' -print0 |
    xargs -0 grep -ohE '\bweft_[a-z0-9_]+' | sort -u >"$sources"
for document in $documents; do
    grep -ohE '\bweft_[a-z0-9_]+' "$document" | grep -v '_$' | sort -u | comm -23 - "$sources" |
        sed "s|^|$document: the tree has no |"
done >>"$problems"

# Functions: rows like | `file.c` | `one()`, `another()` | text |
# shellcheck disable=SC2086
functions=$(awk -F'|' '/^\| `[A-Za-z0-9_\/.-]+\.[ch]` \|/ {
    gsub(/[ `]/, "", $2)
    while (match($3, /`[A-Za-z0-9_]+\(\)`/)) {
        print FILENAME ":" FNR, $2, substr($3, RSTART + 1, RLENGTH - 4)
        $3 = substr($3, RSTART + RLENGTH)
    }
}' $documents)
while read -r where source name; do
    grep -qE "^[a-z].*\b$name\(" "$source" || echo "$where: $source defines no function $name"
done <<<"$functions" >>"$problems"

cat "$problems"
echo "$count snippets, $(wc -l <<<"$functions") functions, $(wc -l <"$problems") problems"
[ ! -s "$problems" ] && [ "$count" -gt 0 ] && [ -n "$functions" ]
