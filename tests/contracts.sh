#!/usr/bin/env bash
# tests/contracts.sh -- checks that each public function has a comment that says, as far as they
# apply, shapes, dtypes, ownership and errors. It is above the function, above its group, or after
# it. The comment, or the one at the top of the header, states
#   - errors: what makes a weft_status other than WEFT_OK;
#   - ownership: who frees a pointer that the function returns or sets;
#   - shapes and dtypes: of the arrays that a function takes and returns.
# A comment that refers to another function ("as weft_add") inherits that function's statements.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."

problems=$(awk '
# Whether the comment says one of the words or refers to another function, or the header does.
function says(text, words) { return (text " " top) ~ words || text ~ /[^A-Za-z_]weft_[a-z0-9_]+/ }

function check(name, declaration, text,    arrays, line) {
    line = FILENAME ": " name ": "
    functions++
    if (text == "") { print line "no comment"; return }
    arrays = declaration ~ /weft_array/
    if (declaration ~ /^(WEFT_NODISCARD )?WEFT_API weft_status/ &&
        !says(text, "WEFT_[A-Z]+|[Ff]ail|error"))
        print line "what makes it fail?"
    if ((declaration ~ /\*\*[a-z]+[,)]/ ||
         declaration ~ /WEFT_API (const )?(char|void|weft_[a-z_]+) \*/) &&
        declaration !~ /WEFT_API (weft_array|weft_module) \*/ && declaration !~ /weft_array \*\*/ &&
        !says(text, "[Ff]ree|[Oo]wn|caller|[Bb]orrow|[Bb]elong|[Vv]alid|[Ll]ives|literal|static"))
        print line "who owns what it returns?"
    if (arrays && declaration ~ /WEFT_API weft_array \*/) {
        if (!says(text, "[Ss]hape|\\(\\.\\.\\.|\\([A-Z0-9](, |\\))|0-d|[Aa]x[ie]s|[Ss]calar|" \
                        "vector|matri"))
            print line "what are the shapes?"
        if (!says(text, "[Dd]type|float|integer|int32|uint32|bool|complex"))
            print line "what are the dtypes?"
    }
}

FNR == 1 { top = ""; comment = ""; inside = 0; first = 1; declaration = ""; group = "" }

# Comments, joined to one line each.
inside || /^[ \t]*\/\*/ {
    if (declaration == "") {
        text = $0
        gsub(/^[ \t]*\/?\*+\/?|\*\/.*$/, "", text)
        pending = inside ? pending " " text : text
        inside = $0 !~ /\*\//
        if (!inside) {
            if (first) { top = pending; first = 0; pending = "" }
            else if (pending ~ /^ ----/) { pending = ""; group = "" }
            else group = pending
        }
        next
    }
}
/^[ \t]*$/ { group = "" }
/^(WEFT_NODISCARD )?WEFT_API / && !/WEFT_API extern/ { declaration = $0; behind = "" }
declaration != "" {
    if ($0 !~ /^(WEFT_NODISCARD )?WEFT_API /) declaration = declaration " " $0
    if ($0 ~ /;/) {
        if (match($0, /\/\*.*\*\//)) behind = substr($0, RSTART + 2, RLENGTH - 4)
        sub(/;.*/, "", declaration)
        if (match(declaration, /weft_[a-z0-9_]+\(/)) {
            name = substr(declaration, RSTART, RLENGTH - 1)
            check(name, declaration ")", group " " behind == " " ? "" : group " " behind)
        }
        declaration = ""
    }
}
END { print functions " functions" >"/dev/stderr" }
' include/weft/*.h include/weft/tool/*.h 2>/dev/null)
[ -z "$problems" ] || echo "$problems"
n=$(cat include/weft/*.h include/weft/tool/*.h | grep -cE '^(WEFT_NODISCARD )?WEFT_API ')
echo "$n functions, $(printf '%s' "$problems" | grep -c . || true) problems"
[ -z "$problems" ]
