#!/usr/bin/env bash
# tests/tree.sh -- checks the rules of the source tree that a script can count. Every folder with
# code has a README with a line for each of its files and for no others; files have at most 600
# lines of at most 100 columns; functions have at most 60 lines; no notes to self are left in the
# code.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."

problems=$(mktemp)
trap 'rm -f "$problems"' EXIT

folders=$(cat tools/folders.txt)
# shellcheck disable=SC2086
find $folders -type f \( -name '*.[ch]' -o -name '*.sh' -o -name '*.comp' -o -name '*.glsl' \) |
    sort >"$problems.files"
trap 'rm -f "$problems" "$problems.files"' EXIT

# READMEs, both ways.
xargs -n 1 dirname <"$problems.files" | sort -u | while read -r folder; do
    readme=$folder/README.md
    if [ ! -e "$readme" ]; then
        echo "$readme: missing"
        continue
    fi
    grep -oE '^- `[A-Za-z0-9_.-]+\.(c|h|sh|comp|glsl)`' "$readme" | tr -d '`' | cut -c 3- |
        sort -u >"$problems.named" || true
    awk -v folder="$folder" '{
        n = split($0, part, "/")
        if (substr($0, 1, length($0) - length(part[n]) - 1) == folder) print part[n]
    }' "$problems.files" | sort -u >"$problems.there"
    comm -13 "$problems.named" "$problems.there" | sed "s|^|$readme: does not name |"
    comm -23 "$problems.named" "$problems.there" | sed "s|^|$readme: names what is not there: |"
    rm -f "$problems.named" "$problems.there"
    awk -F'`' -v readme="$readme" \
        '/^- `/ && named[$2]++ == 1 { print readme ": names twice: " $2 }' "$readme"
done >>"$problems"

# Lengths. A function's body is between braces in the first column.
xargs awk '
FNR == 1 { if (previous != "" && lines > 600) print previous ": " lines " lines"
    previous = FILENAME; start = 0 }
{ lines = FNR }
{ text = $0; gsub(/[\200-\277]/, "", text) } # the further bytes of a UTF-8 character
length(text) > 100 { print FILENAME ":" FNR ": " length(text) " columns" }
/^{/ { start = FNR }
/^}/ { if (start && FNR - start + 1 > 60)
        print FILENAME ":" start ": a function of " FNR - start + 1 " lines"
    start = 0 }
END { if (lines > 600) print previous ": " lines " lines" }
' <"$problems.files" >>"$problems"

xargs grep -nE '\<(TO''DO|FIX''ME|X''XX|HA''CK)\>' <"$problems.files" >>"$problems" || true

# A data file in the top folder was left there by a program.
git ls-files 2>/dev/null | grep -E '^[^/]*\.(npy|npz|safetensors|gguf|json|jsonl|h5|log|txt)$' |
    grep -vx meson_options.txt |
    sed 's/$/: a file of data at the top/' >>"$problems" || true

# A failed array has its own status, such as out of memory, which weft__report keeps.
xargs grep -nE 'weft_fail\(WEFT_[A-Z]+, "%s", weft_error\(' <"$problems.files" >>"$problems" || true

cat "$problems"
grep -q README "$problems" && echo "tools/readme.sh brings the lists of the READMEs up to date"
echo "$(wc -l <"$problems.files") files, $(wc -l <"$problems") problems"
[ ! -s "$problems" ]
