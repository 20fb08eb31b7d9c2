#!/usr/bin/env bash
# tools/site.sh OUT -- makes the documentation site of the documents, the reference and the manual
# page in the folder OUT: Sphinx with MyST, without a network, and with warnings as errors. Open
# OUT/index.html; its search works from files too. Sphinx reads copies in OUT.source, so that the
# documents need no markup of its own. An earlier site in OUT is replaced.
set -euo pipefail
export LC_ALL=C
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
if [ -n "$(ls "$out")" ] && [ ! -e "$out/searchindex.js" ]; then
    echo "tools/site.sh: $out has other files than a site" >&2
    exit 1
fi
source=$out.source
if [ -e "$source" ] && [ ! -e "$source/order" ]; then
    echo "tools/site.sh: $source is not the copy of an earlier site" >&2
    exit 1
fi
rm -rf "$out" "$source"
mkdir "$source"

# links FILE: what a document links to or shows, without anchors, as paths from the top.
links() {
    local folder
    folder=$(dirname "$1")
    awk '/^ *```/ { code = !code; next } !code' "$1" |
        grep -oE '\]\([^)#]+|<img src="[^"]+' | sed -E 's/^(\]\(|<img src=")//' |
        grep -vE '^[a-z]+:' | sort -u | while read -r link; do
        realpath -m --relative-to=. "$folder/$link"
    done || true
}

# The manual page as Markdown: an item for each option.
manual() {
    awk '
    { gsub(/\\-/, "-"); gsub(/\\&/, "") }
    /^\.nf/ { print "\n```text"; code = 1; next }
    /^\.fi/ { print "```\n"; code = 0; next }
    code { gsub(/\\e/, "\\"); print; next }
    /^\.TH/ {
        print "# The manual page\n\n`weft help --man | man -l -` shows it in a terminal."
        next
    }
    { gsub(/\\e/, "\\\\"); gsub(/[*_<\[`]/, "\\\\&"); gsub(/\\f[BIR]/, "") }
    /^\.SH / { print "\n## " substr($0, 5, 1) tolower(substr($0, 6)) "\n"; next }
    /^\.SS / { print "\n### " substr($0, 5) "\n"; next }
    /^\.PP/ { print ""; next }
    /^\.TP/ { item = 1; next }
    /^\.B?[BIR] / { gsub(/"/, ""); sub(/^\.[BIR]+ /, "") }
    item { print "\n**" $0 "**\\"; item = 0; next }
    { print }' "$1"
}

# page FILE: copies a document, or makes one of a text that is not Markdown.
page() {
    local file=$1 language
    mkdir -p "$source/$(dirname "$file")"
    case $file in
    *.md) cp "$file" "$source/$file" ;;
    *.svg | *.png) cp "$file" "$source/$file" ;;
    *.1) manual "$file" >"$source/$file.md" ;;
    *)
        case $file in
        *.c | *.h) language=c ;;
        *.sh) language=sh ;;
        *) language=text ;;
        esac
        {
            printf '# %s\n\n````%s\n' "${file##*/}" $language
            cat "$file"
            printf '````\n'
        } >"$source/$file.md"
        ;;
    esac
}

# The documents and everything that they link to.
files=$(ls README.md CHANGELOG.md docs/*.md docs/reference/*.md examples/*.c)
while [ -n "$files" ]; do
    for file in $files; do
        page "$file"
    done
    files=$(for file in $files; do
        [[ $file != *.md ]] || links "$file"
    done | sort -u | while read -r file; do
        [ ! -f "$file" ] || [ -e "$source/$file" ] || [ -e "$source/$file.md" ] || echo "$file"
    done)
done
# Links to texts lead to their pages.
find "$source" -name '*.md' -exec sed -i -E \
    's/\]\(([^):]*\/)?(LICENSE|[^)\/:]+\.(c|h|1|cff|sh|build|comp))\)/](\1\2.md)/g' {} +

# Every message below the section that explains it, for the search.
tools/messages.sh | cut -f 2- | sort -u | awk -F'\t' '
    BEGIN { print "# All messages\n\n`...` stands for names and numbers." }
    $1 == "none" { next } # a title of a picture, not a message
    $1 != section {
        section = title = $1
        gsub(/-/, " ", title)
        print "\n## " toupper(substr(title, 1, 1)) substr(title, 2)
        print "\nSee [troubleshooting](troubleshooting.md#" section ").\n"
    }
    {
        gsub(/%[-+ #0-9.*]*(ll|z|h|j)?[a-zA-Z]/, "...", $2)
        gsub(/^[ ,:;]+|[ ,:;]+$/, "", $2)
        print "- ``` " $2 " ```"
    }' >"$source/docs/messages.md"

# contents CAPTION: a hidden table of contents of the pages on standard input, which are paths from
# the top.
contents() {
    printf '\n```{toctree}\n:hidden:\n%s\n' "${1:+:caption: $1}"
    sed 's|^|/|; s/\.md$//'
    printf '```\n'
}

# The order of the navigation is that of the tables of docs/README.md, then of the lists of the
# reference and of the examples; the other pages are at the end.
order=$source/order
awk '/^## / { print } /^\| / { while (match($0, /\]\([^)#]+/)) {
    print substr($0, RSTART + 2, RLENGTH - 2)
    $0 = substr($0, RSTART + RLENGTH) } }' "$source/docs/README.md" |
    sed -E 's|^([a-z])|docs/\1|; s|^\.\./||' | awk '!seen[$0]++' |
    grep -vE '^docs/figures|functions\.md|examples/.*\.c' >"$order"
(cd "$source" && ls docs/reference/*.md examples/*.c.md) | grep -v '/README' >"$order.below"
{
    echo docs/README.md
    cat "$order"
    echo "## The project"
    (cd "$source" && find . -name '*.md' | sort | sed 's|^\./||') |
        grep -vxF -e README.md -e docs/README.md -f "$order" -f "$order.below"
} | awk -v out="$order" '
    BEGIN { file = out ".0" }
    /^## / { file = out "." ++n; print substr($0, 4) >(file ".caption"); next }
    { print >file }'
contents "" <"$order.0" >>"$source/README.md"
for list in "$order".[1-9]; do
    contents "$(cat "$list.caption")" <"$list" >>"$source/README.md"
done
grep ^docs/reference/functions "$order.below" | cat - "$order.below" | awk '!seen[$0]++' |
    grep ^docs | contents "" >>"$source/docs/reference/README.md"
grep ^examples "$order.below" | contents "" >>"$source/examples/README.md"

WEFT_VERSION=$(sed -n "s/^ *version: '\(.*\)',*/\1/p" meson.build | head -n 1)
export WEFT_VERSION PYTHONWARNINGS=ignore
sphinx-build -q -W --keep-going -d "$source/doctrees" -c tools/site -b html "$source" "$out"
# Debian's packages of the theme have its script as a module, which browsers do not load from files,
# import a style sheet from a path of a web server, and lack the dark colors for browsers that ask
# for them.
scripts=$out/_static/scripts
sed -i '/^import .*gumshoe-patched/d' "$scripts/furo.js"
cat "$scripts/furo.js" >>"$scripts/gumshoe-patched.js"
mv "$scripts/gumshoe-patched.js" "$scripts/furo.js"
styles=$out/_static/styles
sed -n 's|^@import url(\(/javascript/[^)]*\));.*|\1|p' "$styles/furo.css" | while read -r sheet; do
    cp "/usr/share$sheet" "$styles"
    sed -i "s|url($sheet)|url(${sheet##*/})|" "$styles/furo.css"
done
dark=$(sed -n '/^  body\[data-theme="dark"\] {/,/}/p' "$styles/furo.css" | sed 1d)
{
    printf '@media (prefers-color-scheme: dark) { body[data-theme="auto"] {\n%s\n}\n' "$dark"
    # A long word in code does not make a table wider than a phone.
    echo 'td code { overflow-wrap: anywhere }'
} >>"$styles/furo.css"
cp "$out/README.html" "$out/index.html"
