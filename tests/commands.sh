#!/usr/bin/env bash
# tests/commands.sh BUILD [DOCUMENT...] -- runs the commands of weft in documents that name a model,
# a card or a server of the reader: with the storyteller on the CPU, small data and few updates in
# their place. (tests/cli/test_cli_guide.c runs those that need no such change, in blocks marked
# sh.) `weft pull` only parses its options: nothing is fetched. Commands of mpirun are left out
# where it is missing, and those of a server where curl is.
set -euo pipefail
export LC_ALL=C
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
source=$PWD
shift
[ $# -gt 0 ] || set -- README.md docs/*.md

work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
export PATH=$build/cli:$PATH HOME=$work/home HF_HUB_OFFLINE=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mkdir -p "$work/home/.cache/huggingface/hub"

# Those that build, install or need another program are left out: tests/chroot.sh,
# tests/packages.sh and tests/guide_programs.sh run most of them.
elsewhere='^(sudo|git|cd|make|tar|export|mkdir|cp|cc|[.]/|build/|ANTHROPIC_)'

# The commands of a document, each on a line: of blocks marked bash, of README.md also of those
# marked sh, and of indented blocks. Comments are cut off.
commands() {
    awk -v readme="$(basename "$1")" -v elsewhere="$elsewhere" '
    /^ *```/ {
        if (inside) inside = 0
        else inside = /```bash *$/ || (readme == "README.md" && /```sh *$/)
        code = !code
        next
    }
    inside || (!code && /^    (weft|curl) /) {
        sub(/^ +/, "")
        sub(/ +# .*/, "")
        held = held $0
        if (sub(/\\$/, "", held)) next
        loops += gsub(/; do/, "&", $0) - gsub(/done/, "&", $0)
        if (loops) { held = held (/do$/ ? " " : "; "); next }
        if (held != "" && held !~ elsewhere) print held
        held = ""
    }' "$1"
}

# What a reader fills in, and what would take long.
models='MODEL|SMALL|LARGE|BASE|all-MiniLM-L6-v2|Qwen\/Qwen3-0.6B|smollm2[a-z0-9_.-]+'
small() {
    sed -E -e '/weft pull/b' -e "s/\b($models)( |$)/storyteller\2/g" \
        -e 's/--device (vulkan(,vulkan:1)?|NAME)/--device cpu/' \
        -e 's/ --(stream|gpu-layers [0-9]+)//g' \
        -e 's/\bFILE\b/chats.jsonl/; s/\bMODEL-4bit\b/storyteller-4bit/' \
        -e 's/^weft bench .*/& -n 4 --runs 1 --no-cache --no-restore --no-bundle --no-probes/' \
        -e 's/^weft fuse .*/& --force/; s/^mpirun -n 4/mpirun -n 2 --oversubscribe/' \
        -e 's/--steps [0-9]+/--steps 2/' \
        -e 's/(--num-generations|--batch-size|--micro-batch) [0-9]+/\1 2/g' \
        -e '/weft train .*--(steps|resume|dry-run)/!s/.*weft train .*/& --steps 2/' \
        -e '/weft train .*--(resume|dry-run)/!s/.*weft train .*/& --overwrite/' \
        -e '/--objective grpo/s/$/ --max-completion-length 4 --num-generations 2 --batch-size 2/'
}

# A folder with data and adapters of the names that the documents use.
prepare() {
    mkdir "$1" && cd "$1"
    local i name
    for i in 1 2 3 4 5 6 7 8 9 10; do
        echo "{\"messages\": [{\"role\": \"user\", \"content\": \"Who is $i?\"}," \
            "{\"role\": \"assistant\", \"content\": \"The king.\"}]}" >>chats.jsonl
        echo "{\"question\": \"What is 1 + $i?\", \"answer\": \"$((i + 1))\"}" >>questions.jsonl
        echo "{\"anchor\": \"The king $i\", \"positive\": \"A king $i\"}" >>pairs.jsonl
        echo "{\"text\": \"I read it $i times.\", \"label\": \"$((i % 2))\"}" >>reviews.jsonl
        echo "{\"prompt\": \"The fox $i\", \"completion\": \" waits.\"}" >>tools.jsonl
        echo "{\"text\": \"The fox waits.\"}" >>texts.jsonl
    done
    cp chats.jsonl valid.jsonl
    cp tools.jsonl train.jsonl
    case $1 in
    */adapters.md) cp reviews.jsonl test.jsonl ;;
    *) cp pairs.jsonl test.jsonl ;;
    esac
    printf '<tool>\n</tool>\n' >tokens.txt
    echo 'The fox waits for the king.' >text.txt
    for name in weft-run run runs/pirate runs/formal; do
        mkdir -p "$name"
        cp -rL "$work/adapter/last" "$name/best"
    done
    cp -r run/best style
    cp -r run/best facts
    mkdir -p adapters
    cp -r run/best adapters/pirate-2
    rm -r run
    case $1 in
    */adapters.md) weft convert storyteller storyteller-4bit --bits 4 ;;
    esac
}

stop_server() {
    [ -z "$server" ] || { kill "$server" && wait "$server" || true; }
    server=
}

# A server in the place of the one before it, when it listens. $url receives its address.
serve() {
    stop_server
    : >server # the background process may empty it later than it is read
    eval "exec $1 --port 0" >server 2>&1 </dev/null &
    server=$!
    for _ in $(seq 300); do
        url=$(sed -n 's/^weft: serving on //p' server)
        [ -z "$url" ] || return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    cat server
    return 1
}

run() {
    case $1 in
    "weft pull "*) grep "HF_HUB_OFFLINE is set" <<<"$(eval "$1" 2>&1 || true)" ;;
    *" HuggingFaceH4/"*) grep "no such dataset in the local cache" <<<"$(eval "$1" 2>&1 || true)" ;;
    "weft info --devices --report "*) return ;; # minutes; tests/cli has its own
    "weft serve "*) serve "$1" ;;
    curl\ *)
        command -v curl >/dev/null || return 0
        eval "${1/http:\/\/127.0.0.1:8080/$url} -sSf --max-time 100"
        ;;
    "weft chat "*--server*) # the last server, by its first model
        echo key >key
        eval "$(sed -E -e "s|https?://[a-z0-9.:]+|$url|" \
            -e 's/chat [a-z]+ --server/chat --server/' <<<"$1")"
        ;;
    mpirun\ *)
        command -v mpirun >/dev/null || return 0
        eval "$1"
        ;;
    *) eval "$1" ;;
    esac
}

weft train storyteller --data <(echo '{"prompt": "The fox", "completion": " waits."}') \
    --format jsonl --steps 2 --out "$work/adapter" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
count=0 failed=0
for document in "$@"; do
    commands "$source/$document" | small >"$work/commands"
    [ -s "$work/commands" ] || continue
    folder=$work/${document##*/}
    (prepare "$folder") >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    cd "$folder"
    while read -r command <&3; do
        count=$((count + 1))
        if ! run "$command" >"$work/log" 2>&1 </dev/null; then
            failed=$((failed + 1))
            echo "$document: $command"
            tail -n 5 "$work/log" | sed 's/^/    /'
        fi
    done 3<"$work/commands"
    stop_server
done
echo "commands: $((count - failed)) passed, $failed failed, 0 skipped"
[ $failed -eq 0 ] && [ $count -gt 0 ]
