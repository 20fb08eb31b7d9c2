#!/usr/bin/env bash
# tests/bench/run.sh [ROUNDS] -- speed as ratios, in one run on this machine: LoRA training and
# decoding of the storyteller in Weft and in PyTorch + PEFT + transformers, in turn, so that both
# meet the same weather. Two threads, float32. The peers' interpreter is $WEFT_PEERS_PYTHON;
# without it only Weft is measured. Uses build/cli/weft (or $WEFT).
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=${1:-3}
weft=${WEFT:-build/cli/weft}
python=${WEFT_PEERS_PYTHON:-}
model=examples/storyteller
data=examples/data/shakespeare.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The value of a key of the last JSON object in a file.
field() { grep -o "\"$2\": *[0-9.eE+-]*" "$1" | tail -n 1 | sed 's/.*: *//'; }
median() { sort -g | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

# Tokens per second of the median update (the first three left out), and the process's peak memory.
train_weft() {
    /usr/bin/time -f '{"peak_rss": %M}' -o "$work/time" "$weft" train "$model" --data "$data" \
        --steps 30 --batch-size 8 --length 257 --rank 8 --alpha 16 --threads 2 \
        --out "$work/run" --overwrite >"$work/log" 2>&1
    grep -o '"seconds": *[0-9.]*' "$work/run/metrics.jsonl" | sed 's/.*: *//' |
        awk 'NR > 3 {print 2048 / ($1 - last)} {last = $1}' | median >"$work/rate"
    echo "$(cat "$work/rate") $(($(field "$work/time" peak_rss) * 1024))"
}

train_peer() {
    "$python" tests/bench/peer_lora.py "$model" 15 "$1" >"$work/peer" 2>/dev/null
    echo "$(field "$work/peer" tokens_per_second) $(field "$work/peer" peak_rss)"
}

decode_weft() {
    "$weft" generate "$model" -p "Once upon a time there was a" -n 400 --ignore-eos \
        --temperature 0 --threads 2 --json >"$work/json"
    field "$work/json" decode_per_second
}

decode_peer() {
    "$python" tests/bench/peer_decode.py "$model" 200 >"$work/peer" 2>/dev/null
    field "$work/peer" tokens_per_second
}

echo "machine: $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
for ((i = 1; i <= rounds; i++)); do
    read -r rate memory < <(train_weft)
    echo "$rate $memory" >>"$work/weft_train"
    decode_weft >>"$work/weft_decode"
    printf 'round %d  weft     train %8.0f tok/s, peak %4.0f MB   decode %6.0f tok/s\n' "$i" \
        "$rate" "$((memory / 1000000))" "$(tail -n 1 "$work/weft_decode")"
    [ -n "$python" ] || continue
    for mode in eager compile; do
        read -r rate memory < <(train_peer $mode)
        echo "$rate $memory" >>"$work/peer_$mode"
        printf 'round %d  peer     train %8.0f tok/s, peak %4.0f MB   (%s)\n' "$i" "$rate" \
            "$((memory / 1000000))" "$mode"
    done
    decode_peer >>"$work/peer_decode"
    printf 'round %d  peer     decode %6.0f tok/s\n' "$i" "$(tail -n 1 "$work/peer_decode")"
done
mid() { awk '{print $1}' "$work/$1" | median; }
if [ -n "$python" ]; then
    awk -v w="$(mid weft_train)" -v e="$(mid peer_eager)" -v c="$(mid peer_compile)" \
        -v wd="$(mid weft_decode)" -v pd="$(mid peer_decode)" 'BEGIN {
        best = e > c ? e : c
        printf "medians: train %.0f against %.0f tok/s: %.2f times;", w, best, w / best
        printf " decode %.0f against %.0f tok/s: %.2f times\n", wd, pd, wd / pd }'
fi
