#!/usr/bin/env bash
# tests/one.sh LABEL NAME COMMAND... -- runs one test program and appends its "passed failed
# skipped" to the file $WEFT_COUNTS. One line on success, everything it printed on failure.
#
# A program that ends with the line "NAME: N passed, N failed, N skipped" is counted by it; any
# other counts as one: exit status 0 passed, 77 skipped, else failed. A program that reports no
# failure and yet dies (a crash, a leak, the time limit) adds one failure. The failed checks of a
# program and the end of what it printed are appended to the file $WEFT_FAILURES, too, where that is
# set. Its times (CPU seconds, wall seconds, LABEL, NAME) are appended to the file $WEFT_TIMES.
set -euo pipefail

label=$1
name=$2
shift 2
limit=${WEFT_TEST_SECONDS:-900}

output=$(mktemp)
trap 'rm -f "$output" "$output.times"' EXIT

status=0
TIMEFORMAT='%1R %1U %1S'
{ time timeout --kill-after=10 "$limit" "$@" >"$output" 2>&1 </dev/null || status=$?; } \
    2>"$output.times"
read -r wall user system <"$output.times"
cpu=$(awk -v u="$user" -v s="$system" 'BEGIN { printf "%.1f", u + s }')

counts=$(sed -nE 's/^[^ ]+: ([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 \2 \3/p' \
    "$output" | tail -n 1)
if [ -n "$counts" ]; then
    read -r passed failed skipped <<<"$counts"
    if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
        failed=1
    fi
else
    passed=0 failed=0 skipped=0
    case $status in
    0) passed=1 ;;
    77) skipped=1 ;;
    *) failed=1 ;;
    esac
fi

{
    if [ "$failed" -gt 0 ]; then
        printf -- '---- %s %s: FAILED' "$label" "$name"
        case $status in
        124 | 137) printf ' (no end after %s seconds, or killed)' "$limit" ;;
        *) printf ' (exit status %s)' "$status" ;;
        esac
        printf ': %s\n' "$*"
        cat "$output"
        printf -- '----\n'
    fi
    note=
    if [ "$skipped" -gt 0 ]; then
        note=$(sed -nE 's/^.*: skipped: (.*)$/\1/p' "$output" | sort -u |
            awk 'NR <= 3 { printf "%s%s", (NR > 1 ? "; " : ""), $0 }')
        note=", $skipped skipped${note:+ ($note)}"
    fi
    printf '%-6s %-28s %4d passed%s%s  %ss, CPU %ss\n' "$label" "$name" "$passed" \
        "$([ "$failed" -eq 0 ] || printf ', %d FAILED' "$failed")" "$note" "$wall" "$cpu"
} >"$output.lines"
# One write, so that tests that run side by side do not mix their lines.
cat "$output.lines"
rm -f "$output.lines"

if [ "$failed" -gt 0 ] && [ -n "${WEFT_FAILURES:-}" ]; then
    {
        printf -- '---- %s %s, %d failed: %s\n' "$label" "$name" "$failed" "$*"
        grep -m 12 -E '^[^ ]+\.c:[0-9]+: ' "$output" || true
        echo '...'
        tail -n 30 "$output"
    } >"$output.lines"
    cat "$output.lines" >>"$WEFT_FAILURES"
    rm -f "$output.lines"
fi

printf '%d %d %d\n' "$passed" "$failed" "$skipped" >>"$WEFT_COUNTS"
[ -z "${WEFT_TIMES:-}" ] || printf '%s %s %s %s\n' "$cpu" "$wall" "$label" "$name" >>"$WEFT_TIMES"
