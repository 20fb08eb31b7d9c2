#!/usr/bin/env bash
# tools/readme.sh [FOLDER...] -- brings the file lists of the folders' READMEs up to date: a file
# without a line gets one from its own first comment ("core/dtype.c -- element types"). Lines of
# files that are gone are removed, and so are those of a file named twice (as after a merge), which
# gets a new one. Other lines are left unchanged. Without arguments: all folders.
set -euo pipefail
cd "$(dirname "$0")/.."

# The text after "--" in the first comment of a file, up to its first full stop.
summary() {
    awk '
        /^#!/ { next }
        { sub(/^(\/\*|\/\/|#| \*)[ ]?/, ""); text = text " " $0 }
        /\*\/|\.$|^$/ || NR > 6 { exit }
        END {
            if (!sub(/^.* -- /, "", text)) text = ""
            sub(/[ ]*\*\/.*$/, "", text)
            sub(/\.( .*)?$/, "", text)
            print text
        }' "$1"
}

update() {
    local folder=$1 readme=$1/README.md file name
    if [ ! -e "$readme" ]; then
        printf '# %s\n\n' "$folder" >"$readme"
    fi
    while read -r name; do
        [ -e "$folder/$name" ] || sed -i "/^- \`$name\`/d" "$readme"
    done < <(grep -oE '^- `[A-Za-z0-9_.-]+\.(c|h|sh|comp|glsl)`' "$readme" | tr -d '`' | cut -c 3-)
    awk -F'`' 'FNR == NR { named[$2] += /^- `/; next } !/^- `/ || named[$2] == 1' \
        "$readme" "$readme" >"$readme.new"
    mv "$readme.new" "$readme"
    for file in "$folder"/*.[ch] "$folder"/*.sh "$folder"/*.comp "$folder"/*.glsl; do
        name=${file##*/}
        if [ -e "$file" ] && ! grep -q "^- \`$name\`" "$readme"; then
            printf -- '- `%s`: %s\n' "$name" "$(summary "$file")" >>"$readme"
            echo "$readme: $name"
        fi
    done
}

if [ $# -eq 0 ]; then
    # shellcheck disable=SC2046 # folder names are words
    mapfile -t folders < <(find $(cat tools/folders.txt) \
        -type f \( -name '*.[ch]' -o -name '*.sh' -o -name '*.comp' -o -name '*.glsl' \) \
        -printf '%h\n' | sort -u)
    set -- "${folders[@]}"
fi
for folder; do
    update "${folder%/}"
done
