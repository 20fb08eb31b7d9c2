#!/usr/bin/env bash
# tools/messages.sh [--unused] -- prints the messages that a user of the library or the command can
# read, from the sources: "FILE:LINE<tab>SECTION<tab>TEXT". SECTION is the heading of
# docs/troubleshooting.md that explains the message, by tools/messages.txt; "?" where no line of
# that file fits.
#
# --unused: prints the lines of tools/messages.txt that are the class of no message.
#
# A message is a string of at least two words in an argument of a function whose name says that it
# reports a failure, or a string of at least three words that a function returns.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."

reports='fail|error|refuse|compla|usage|warn|bad|wrong|problem|log_message|because|expect|invalid'
reports+='|malformed|unsupported|cannot|check_kind|give_up'
# Strings, characters, the beginning of comments, names, and what separates strings.
tokens='"([^"\\]|\\.)*"|'"'([^'\\\\]|\\\\.)*'"'|/[*]|//|[A-Za-z_][A-Za-z0-9_]*|[(){};,=?:+]'
unused=${1:+1}
export reports tokens unused
sources=$(grep -vxE 'include|tests|tools|examples' tools/folders.txt)
# shellcheck disable=SC2086
find $sources -name '*.[ch]' | sort | xargs awk '
BEGIN { reports = ENVIRON["reports"]; tokens = ENVIRON["tokens"]; unused = ENVIRON["unused"] }
FILENAME == ARGV[1] {
    if (/^[a-z-]/) {
        section[++classes] = $1
        files[classes] = $2
        pattern[classes] = $0
        sub(/^[^ ]+ +[^ ]+ +/, "", pattern[classes])
    }
    next
}
function finish(    i, sink) {
    if (!literal) return
    literal = 0
    sink = returned && text ~ /[^ ] [^ ]+ [^ ]/
    for (i = depth; i > 0 && !sink; i--)
        sink = name[i] ~ reports
    if (!sink || text !~ /[a-z].* / || text ~ /^ *[<{\\]/) return
    gsub(/\\"/, "\"", text)
    gsub(/\t/, " ", text)
    for (i = 1; i <= classes; i++)
        if (FILENAME ~ files[i] && text ~ pattern[i]) break
    used[i] = 1
    if (!unused) print FILENAME ":" start "\t" (i <= classes ? section[i] : "?") "\t" text
}
FNR == 1 { depth = comment = directive = returned = 0; previous = "" }
{
    line = $0
    if (comment) {
        if (!(i = index(line, "*/"))) next
        line = substr(line, i + 2)
        comment = 0
    }
    if (directive || line ~ /^ *#/) {
        directive = line ~ /\\$/
        next
    }
    while (match(line, tokens)) {
        token = substr(line, RSTART, RLENGTH)
        line = substr(line, RSTART + RLENGTH)
        if (token == "/*") {
            if (!(i = index(line, "*/"))) { comment = 1; break }
            line = substr(line, i + 2)
            continue
        }
        if (token == "//") break
        if (token ~ /^"/) {
            if (!literal) { literal = 1; start = FNR; text = "" }
            text = text substr(token, 2, length(token) - 2)
            continue
        }
        if (literal && token ~ /^PRI/) { text = text "d"; continue }
        finish()
        if (token == "(") name[++depth] = previous
        else if (token == ")") depth -= depth > 0
        else if (token ~ /[;{}]/) depth = returned = 0
        else if (token == "return") returned = 1
        previous = token ~ /^[A-Za-z_]/ ? token : ""
    }
}
END {
    for (i = 1; i <= classes && unused; i++)
        if (!used[i])
            print "tools/messages.txt: no message is of: " section[i] " " files[i] " " pattern[i]
}' tools/messages.txt
