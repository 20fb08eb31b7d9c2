#!/usr/bin/env bash
# docs/figures/make.sh [--check] -- draws the figures that come from text: the diagrams from the
# .txt files here, the bars from the tables of docs/performance.md. --check fails on a figure that
# is out of date.
set -euo pipefail
cd "$(dirname "$0")"

out=.
if [ "${1:-}" = --check ]; then
    out=$(mktemp -d)
    trap 'rm -rf "$out"' EXIT
fi

for text in *.txt; do
    awk -f diagram.awk "$text" >"$out/${text%.txt}.svg"
done

# bars NAME TITLE HEADING TABLE COLUMNS [VARIABLE...]
bars() {
    local name=$1 title=$2 heading=$3 table=$4 columns=$5
    shift 5
    awk -v title="$title" -v heading="$heading" -v table="$table" -v columns="$columns" \
        "${@/#/-v}" -f bars.awk ../performance.md >"$out/$name.svg"
}
bars cpu "Training and decoding on two CPU cores (storyteller, float32)" \
    "## CPU: training and generating, against PyTorch" 1 "2 3 4"
bars lora "LoRA training on one NVIDIA H100 by Vulkan, tokens/s" \
    "## GPU: training, prefill and decoding by Vulkan" 1 "2" same=1
bars tokenizer "Encoding English text, one thread" "## Tokenizer" 1 "4 5 6" same=1

status=0
if [ "$out" != . ]; then
    for figure in "$out"/*.svg; do
        if ! cmp -s "$figure" "${figure##*/}"; then
            echo "docs/figures/${figure##*/} is out of date: docs/figures/make.sh draws it again"
            status=1
        fi
    done
fi
exit $status
