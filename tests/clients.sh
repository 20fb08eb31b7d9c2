#!/usr/bin/env bash
# tests/clients.sh BUILD -- asks `weft serve` by the official Python clients (serve/clients.py).
# $PYTHON is the Python that has them. Skipped (77) without the module openai.
set -euo pipefail
weft=$(cd "$1" && pwd)/cli/weft
python=${PYTHON:-python3}
cd "$(dirname "$0")/.."

"$python" -c 'import openai' 2>/dev/null || {
    echo "clients: skipped: no openai"
    exit 77
}
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
cat >"$work/chat.jinja" <<'END'
{% for m in messages %}{{ m.content }}
{% endfor %}{% if enable_thinking and add_generation_prompt %}<think>
{% endif %}{# </think> #}
END
"$weft" serve examples/storyteller --name storyteller --template "$work/chat.jinja" --port 0 \
    --state "$work/state" --device cpu --dtype float32 2>"$work/serve" &
server=$!
for _ in $(seq 300); do
    url=$(sed -n 's/^weft: serving on //p' "$work/serve")
    [ -z "$url" ] || break
    sleep 0.1
done
[ -n "$url" ] || { cat "$work/serve"; exit 1; }
"$python" tests/serve/clients.py "$url"
