#!/usr/bin/env bash
# tests/bench/device_demo.sh [DEVICE [STEPS]] -- the demo's training, shortened (10 updates, 16
# windows to validate on), on the CPU and on DEVICE (vulkan): the validation losses must agree
# within 0.5%. Minutes on a driver in software. Uses build/cli/weft (or $WEFT).
set -euo pipefail
cd "$(dirname "$0")/../.."
device=${1:-vulkan}
steps=${2:-10}
weft=${WEFT:-build/cli/weft}
data=examples/data/shakespeare.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tail -c 10500 "$data" >"$work/validation.txt"
train() {
    "$weft" train examples/storyteller --device "$1" --data "$data" \
        --val-data "$work/validation.txt" --length 256 --batch-size 8 --steps "$steps" --rank 16 \
        --alpha 32 --lr 5e-3 --warmup 10 --schedule cosine --weight-decay 0.01 --clip 1 \
        --out "$work/$1" >"$work/$1.log" 2>&1 || { cat "$work/$1.log" && exit 1; }
    grep '^val ' "$work/$1.log" | sed "s/^/$1: /"
    grep -o 'validation loss [0-9.]* before, [0-9.]* after' "$work/$1.log" | awk '{print $3, $5}'
}
train cpu | tee "$work/cpu.losses"
train "$device" | tee "$work/device.losses"
paste <(tail -n 1 "$work/cpu.losses") <(tail -n 1 "$work/device.losses") | awk '{
    before = ($3 - $1) / $1; after = ($4 - $2) / $2
    printf "before %+.4f%%, after %+.4f%%\n", 100 * before, 100 * after
    exit before * before > 2.5e-5 || after * after > 2.5e-5 || NF != 4 }'
