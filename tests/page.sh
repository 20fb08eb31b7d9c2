#!/usr/bin/env bash
# tests/page.sh BUILD [FOLDER] -- drives the page of `weft serve` in headless Chromium
# (serve/browser.py), with an API key, two adapters of the storyteller and a fine-tuning job; writes
# screenshots to FOLDER. Skipped (77) without Chromium or Python.
set -euo pipefail
weft=$(cd "$1" && pwd)/cli/weft
shots=${2:+$(mkdir -p "$2" && cd "$2" && pwd)}
cd "$(dirname "$0")/.."

skip() {
    echo "page: skipped: $1"
    exit 77
}
command -v chromium >/dev/null || skip "no chromium"
command -v python3 >/dev/null || skip "no python3"

work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
for name in cats dogs; do
    text="All the $name of the town sing, and the $name never stop."
    echo "{\"text\": \"$text\"}" >"$work/$name.jsonl"
    "$weft" train examples/storyteller --data "$work/$name.jsonl" --steps 8 --lr 0.01 \
        --out "$work/$name" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
done
cat >"$work/chat.jinja" <<'END'
{% for m in messages %}{{ m.content }}
{% endfor %}
END
export WEFT_API_KEY=of-the-test
"$weft" serve examples/storyteller --name storyteller --adapter cats="$work/cats/last" \
    --adapter dogs="$work/dogs/last" --template "$work/chat.jinja" --state "$work/state" --port 0 \
    2>"$work/serve" &
server=$!
for _ in $(seq 300); do
    url=$(sed -n 's/^weft: serving on //p' "$work/serve")
    [ -z "$url" ] || break
    sleep 0.1
done
[ -n "$url" ] || { cat "$work/serve"; exit 1; }
python3 tests/serve/browser.py chromium "$url/" ${shots:+"$shots"}
