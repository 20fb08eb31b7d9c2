#!/usr/bin/env bash
# tests/site.sh [FOLDER] -- builds the documentation site without warnings and checks its pages:
# links lead to pages and anchors of the site, nothing is loaded from elsewhere, and each document
# is in the navigation and in the search. With FOLDER also in headless Chromium, from files, at the
# widths of a desktop and of a phone (serve/site.py), with screenshots there. Skipped (77) without
# Sphinx, MyST or the theme.
set -euo pipefail
export LC_ALL=C
shots=${1:+$(mkdir -p "$1" && cd "$1" && pwd)}
cd "$(dirname "$0")/.."

command -v sphinx-build >/dev/null || { echo "site: skipped: no sphinx-build"; exit 77; }
python=$(sed -n '1s/^#!//p' "$(command -v sphinx-build)")
$python -c 'import myst_parser, furo' 2>/dev/null ||
    { echo "site: skipped: no python3-myst-parser or furo"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tools/site.sh "$work/site"
cd "$work/site"

# What each page links to and loads, and the anchors that it has, as lines of three words.
find . -name '*.html' -print0 | xargs -0 awk '
function fold(path,    n, i, k, part, out) {
    n = split(path, part, "/")
    for (i = 1; i <= n; i++) {
        if (part[i] == ".." && k > 0) k--
        else if (part[i] != "." && part[i] != "") out[++k] = part[i]
    }
    path = ""
    for (i = 1; i <= k; i++) path = path (i > 1 ? "/" : "") out[i]
    return path
}
FNR == 1 { page = fold(FILENAME); folder = page; if (!sub(/\/[^\/]*$/, "", folder)) folder = "." }
{
    while (match($0, /(^|[ <])(id|name|href|src)="[^"]*"/)) {
        text = substr($0, RSTART + 1, RLENGTH - 2)
        before = substr($0, 1, RSTART)
        $0 = substr($0, RSTART + RLENGTH - 1)
        sub(/^[ <]/, "", text)
        kind = substr(text, 1, index(text, "=") - 1)
        value = substr(text, index(text, "\"") + 1)
        if (kind == "id") { print "anchor", page, value; continue }
        if (kind == "name") continue
        tag = before
        sub(/.*</, "", tag)
        sub(/ .*/, "", tag)
        if (value ~ /^(https?:|mailto:)/) {
            if (tag != "a") print "outside", page, value
            continue
        }
        anchor = ""
        if (i = index(value, "#")) {
            anchor = substr(value, i + 1)
            value = substr(value, 1, i - 1)
        }
        sub(/\?.*/, "", value)
        path = value == "" ? page : fold(folder "/" value)
        print "link", page, path, anchor
    }
}' >"$work/found"

{
    sort -u "$work/found" | awk '
    $1 == "anchor" { has[$2, $3] = 1; next }
    $1 == "outside" { print $2 ": loads " $3; next }
    { page[++n] = $2; path[n] = $3; anchor[n] = $4 }
    END {
        for (i = 1; i <= n; i++) {
            if (!(path[i] in there)) there[path[i]] = system("test -f \"" path[i] "\"") == 0
            if (!there[path[i]]) print page[i] ": a link to " path[i] ", which does not exist"
            else if (anchor[i] != "" && path[i] ~ /html$/ && !((path[i], anchor[i]) in has))
                print page[i] ": a link to " path[i] "#" anchor[i] ": there is no such anchor"
        }
    }'
    find . -name '*.css' -print0 | xargs -0 grep -noE '(url\(|@import )["'"'"']?(/|https?:)[^);]*' |
        sed 's/$/: from outside of the site/' || true
    find "$work/site.source" -name '*.md' -printf '%P\n' | while read -r page; do
        page=${page%.md}
        grep -qF "\"$page\"" searchindex.js || echo "$page: not in the search"
        [ "$page" = README ] || grep -q "^link [^ ]*README.html $page.html" "$work/found" ||
            echo "$page: not in the navigation"
    done
} >"$work/problems"
cat "$work/problems"
echo "$(find . -name '*.html' | wc -l) pages, $(grep -c '^link' "$work/found") links," \
    "$(wc -l <"$work/problems") problems"
if [ -s "$work/problems" ] || [ ! -s "$work/found" ]; then
    exit 1
fi
cd "$OLDPWD"
[ -z "$shots" ] || python3 tests/serve/site.py chromium "$work/site" "$shots"
