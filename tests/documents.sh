#!/usr/bin/env bash
# tests/documents.sh -- checks documents: links lead to existing files and headings, README.md has
# at most 150 lines and only figures of the sections that it links to, paragraphs have at most 750
# characters, docs/README.md names every document, each question in docs/questions.md has a link,
# figures are up to date, the messages in docs/troubleshooting.md are in the sources, and each
# message of the sources has a section there.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
problems=$work/problems
documents=$(ls README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md docs/*.md docs/figures/*.md)

# The links of all documents and READMEs, as "DOCUMENT LINK PATH[#ANCHOR]", and the anchors that
# headings have, as "PATH#ANCHOR"; both without code.
find . -name '*.md' -not -path './build*' -not -path './.*' -printf '%P\n' | sort >"$work/files"
xargs awk -v anchors="$work/anchors" '
function fold(path,    n, i, k, part, out) {
    n = split(path, part, "/")
    for (i = 1; i <= n; i++) {
        if (part[i] == ".." && k > 0) k--
        else if (part[i] != "." && part[i] != "") out[++k] = part[i]
    }
    path = out[1]
    for (i = 2; i <= k; i++) path = path "/" out[i]
    return path
}
FNR == 1 { code = 0; folder = FILENAME; sub(/[^\/]*$/, "", folder) }
/^ *```/ { code = !code }
code { next }
/^#+ / {
    text = tolower($0)
    sub(/^#+ /, "", text)
    gsub(/[^a-z0-9 _-]/, "", text)
    gsub(/ /, "-", text)
    text = FILENAME "#" text
    print seen[text]++ ? text "-" seen[text] - 1 : text >anchors
}
{
    while (match($0, /\]\([^) ]+/)) {
        link = substr($0, RSTART + 2, RLENGTH - 2)
        $0 = substr($0, RSTART + RLENGTH)
        if (link ~ /^(https?:|mailto:)/) continue
        path = link
        anchor = sub(/#.*/, "", path) ? substr(link, length(path) + 1) : ""
        print FILENAME, link, (path == "" ? FILENAME : fold(folder path)) anchor
    }
}' <"$work/files" >"$work/links"
while read -r document link target; do
    if [ ! -e "${target%%#*}" ]; then
        echo "$document: a link to $link, which does not exist"
    elif [[ $target == *#* ]] && ! grep -qxF -e "$target" "$work/anchors"; then
        echo "$document: a link to $link: there is no such heading"
    fi
done <"$work/links" >>"$problems"

lines=$(wc -l <README.md)
[ "$lines" -le 150 ] || echo "README.md: $lines lines, at most 150" >>"$problems"

# Each figure in the table of measurements of README.md is in the section of docs/performance.md
# that its row links to.
awk '
function anchor(text) {
    text = tolower(text)
    sub(/^#+ /, "", text)
    gsub(/[^a-z0-9 _-]/, "", text)
    gsub(/ /, "-", text)
    return text
}
FILENAME == "docs/performance.md" {
    if (/^```/) code = !code
    if (/^## / && !code) section = anchor($0)
    text[section] = text[section] " " $0
    next
}
/^## / { inside = /^## Measured/ }
inside && /^\| .*[0-9]/ {
    rows++
    split($0, cell, "|")
    if (!match($0, /docs\/performance.md#[a-z0-9_-]+/)) {
        print "README.md:" FNR ": a measurement without a link to docs/performance.md"
        next
    }
    where = substr($0, RSTART + 20, RLENGTH - 20)
    rest = cell[3] " " cell[4]
    while (match(rest, /[0-9][0-9,.]*/)) {
        number = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        sub(/[,.]$/, "", number)
        pattern = number
        gsub(/\./, "[.]", pattern)
        if (text[where] !~ "(^|[^0-9.,])" pattern "($|[^0-9.,]|[.,]($|[^0-9]))")
            print "README.md:" FNR ": docs/performance.md#" where " does not have " number
    }
}
END { if (rows == 0) print "README.md: no table of measurements" }' \
    docs/performance.md README.md >>"$problems"

# Paragraphs and list items; not code, tables and headings.
# shellcheck disable=SC2086
awk '
function finish() {
    if (length(text) > 750)
        print file ":" start ": a paragraph of " length(text) " characters, at most 750"
    text = ""
}
FNR == 1 { finish(); code = 0; file = FILENAME }
/^ *```/ { finish(); code = !code; next }
code { next }
/^ *$/ || /^#/ || /^ *\|/ { finish(); next }
/^ *([-*]|[0-9]+\.) / { finish() }
{ if (text == "") start = FNR; line = $0; sub(/^ +/, "", line); text = text " " line }
END { finish() }' $documents >>"$problems"

for document in docs/*.md docs/weft.1; do
    name=${document#docs/}
    [ "$name" = README.md ] || grep -qF "($name)" docs/README.md ||
        echo "docs/README.md: does not name $name" >>"$problems"
done

# Each common question has an answer with a link, two clicks from README.md.
grep -q '(docs/questions.md)' README.md ||
    echo "README.md: no link to docs/questions.md" >>"$problems"
awk '
function finish() {
    if (question != "" && text !~ /\]\([^)]+\)/)
        print "docs/questions.md: no link answers: " question
    question = text = ""
}
/^\*\*/ { finish(); match($0, /\*\*[^*]+\*\*/); question = substr($0, 3, RLENGTH - 4); count++ }
/^$/ || /^#/ { finish() }
{ text = text $0 }
END { finish(); if (count < 20) print "docs/questions.md: " count " questions, at least 20" }' \
    docs/questions.md >>"$problems"

# Messages: the code spans in the first column, in parts between "..." and single capitals, each of
# which is in a source. Strings that are broken over lines are joined.
# shellcheck disable=SC2046
find $(cat tools/folders.txt) \( -name '*.c' -o -name '*.h' -o -name '*.sh' \) \
    -not -path 'tests/*' -print0 | xargs -0 cat | tr '\n' ' ' |
    sed 's/" *"//g; s/\\"/"/g' >"$work/sources"
awk -F'|' '/^\| / { print $2 }' docs/troubleshooting.md | grep -oE '`[^`]+`' | tr -d '`' |
    sed 's/\.\.\./\n/g; s/\b[NM]\b/\n/g; s/FILE:LINE: /\n/g; s/--[a-z-]* *$/\n/' |
    sed "s/^[ :,')(]*//; s/[ :,('0-9]*\$//" | awk 'length($0) >= 14' | sort -u >"$work/parts"
while read -r part; do
    grep -qF -e "$part" "$work/sources" ||
        echo "docs/troubleshooting.md: no source has the message: $part" >>"$problems"
done <"$work/parts"

# Each message of the sources has a section there, by a line of tools/messages.txt, and each line of
# that file has a message.
tools/messages.sh >"$work/messages"
awk -F'\t' '$2 == "?" {
    print $1 ": tools/messages.txt and docs/troubleshooting.md have no class for: " $3
}' "$work/messages" >>"$problems"
awk '/^[a-z-]+ / && $1 != "none" { print $1 }' tools/messages.txt | sort -u |
    while read -r section; do
        grep -qxF "docs/troubleshooting.md#$section" "$work/anchors" ||
            echo "docs/troubleshooting.md: no heading is $section, which tools/messages.txt names"
    done >>"$problems"
tools/messages.sh --unused >>"$problems"

docs/figures/make.sh --check >>"$problems" || true

cat "$problems"
echo "$(wc -l <"$work/files") documents, $(wc -l <"$work/links") links," \
    "$(wc -l <"$work/parts") parts of $(wc -l <"$work/messages") messages," \
    "$(wc -l <"$problems") problems"
[ ! -s "$problems" ] && [ -s "$work/links" ] && [ -s "$work/parts" ]
