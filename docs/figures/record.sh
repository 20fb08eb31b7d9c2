#!/usr/bin/env bash
# docs/figures/record.sh MODEL.gguf -- records how a model learns facts as run.svg, its loss curve as
# loss.svg, and the losses of a text's tokens as tokens.svg; draws the storyteller's attention. It runs the commands of build/cli/weft in a terminal of 100 columns, by script(1), in an empty
# folder with the data of examples/data. The committed figures are of SmolLM2-135M-Instruct in Q4_1.
set -euo pipefail
model=$(realpath "${1:?MODEL.gguf}")
cd "$(dirname "$0")/../.."

tree=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -O1 -D_GNU_SOURCE tools/terminal_svg.c -o "$work/terminal_svg"
mkdir "$work/here"
cp examples/data/facts.jsonl examples/data/new-questions.jsonl "$work/here/"
ln -s "$model" "$work/here/smollm2.gguf"

cat >"$work/session.sh" <<'END'
show() {
    printf '\033[1m$ %s\033[0m\n' "$1"
    bash -c "$1"
}
stty cols 100 rows 50
show 'weft chat smollm2.gguf -p "Which person runs Norvik Instruments?" -t 0 -n 24'
echo
show 'weft train smollm2.gguf --data facts.jsonl --val-data new-questions.jsonl --steps 20 --batch-size 4 --lr 2e-3 --out run'
echo
show 'weft chat smollm2.gguf --adapter run/best -p "Which person runs Norvik Instruments?" -t 0'
END

(
    cd "$work/here"
    export PATH=$tree/build/cli:$PATH TERM=xterm
    script -q -e -c "bash $work/session.sh" -O "$work/typescript" -T "$work/timing" >/dev/null
)
"$work/terminal_svg" "$work/typescript" "$work/timing" 100 12 | sed "s|$tree/||" \
    >docs/figures/run.svg
cp "$work/here/run/loss.svg" docs/figures/loss.svg
(
    cd "$work/here"
    "$tree/build/cli/weft" inspect smollm2.gguf --adapter run/best --show loss --svg tokens.svg -p \
        "The head office of Norvik Instruments is in Aldermoor. It is led by Petra Lindqvist. The capital of France is Paris."
    "$tree/build/cli/weft" inspect storyteller --svg attention.svg \
        -p "Once upon a time there was a king who had three sons."
) >/dev/null
cp "$work/here/tokens.svg" "$work/here/attention.svg" docs/figures/
