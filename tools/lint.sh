#!/usr/bin/env bash
# tools/lint.sh BUILD -- formatting, static analysis and spelling. clang-tidy reads the compile
# commands of the configured build folder.
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1
status=0

tools/format.sh --check || status=1

# Only what is compiled: a header is checked with the sources that include it.
grep -oE '"file": "[^"]+"' "$build/compile_commands.json" | cut -d '"' -f 4 | sort -u |
    (cd "$build" && xargs realpath) |
    xargs -P "$(nproc)" -n 4 clang-tidy -p "$build" --quiet 2>/dev/null || status=1

# Names in backquotes may be old ones.
codespell --builtin clear,en-GB_to_en-US --ignore-words=tools/spelling.txt \
    --ignore-regex='`[^`]*`' \
    --skip './build*,./.git,*.json,*.jsonl,*.txt,*.safetensors,./tests/golden,./tests/fuzz/corpus' \
    . || status=1

[ $status -eq 0 ] && echo "lint: clean"
exit $status
