#!/usr/bin/env bash
# tests/bench/cards.sh [SHAPE [DEVICES [WHAT]]] -- updates of 8 micro-batches on the first of
# DEVICES (vulkan,vulkan:1), and with the layers spread over all of them, in two interleaved rounds:
# tokens/s, peak memory and losses of each, and the ratio of the rates. SHAPE (8b) and WHAT
# (lora:8x4x1024) as for bench_shapes. Uses build/tests/bench_shapes (or $BENCH_SHAPES).
set -euo pipefail
cd "$(dirname "$0")/../.."
shape=${1:-8b}
devices=${2:-vulkan,vulkan:1}
what=${3:-lora:8x4x1024}
bench=${BENCH_SHAPES:-build/tests/bench_shapes}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for round in 1 2; do
    for names in "${devices%%,*}" "$devices"; do
        "$bench" "$names" "$shape" "$what" | sed "s/^/$names: /" | tee -a "$work/$names"
    done
done
best() {
    sed -E 's/.*: ([0-9]+) tokens.*/\1/' "$work/$1" | sort -n | tail -1
}
losses() {
    sed -E 's/.*loss //' "$work/$1" | sort -u
}
awk -v one="$(best "${devices%%,*}")" -v all="$(best "$devices")" \
    'BEGIN { printf "%s times the rate of one device\n", all / one }'
echo "losses of one device: $(losses "${devices%%,*}"); of all: $(losses "$devices")"
