#!/usr/bin/env bash
# examples/demo.sh -- what `make demo` runs: generates with the storyteller, fine-tunes it on
# Shakespeare in a hundred steps, and generates again.
set -euo pipefail
cd "$(dirname "$0")/.."

weft=${WEFT:-build/cli/weft}
model=storyteller
data=examples/data/shakespeare.txt
out=${WEFT_DEMO:-build/demo}

# Bold titles on a terminal.
bold='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
    bold=$'\033[1m' plain=$'\033[0m'
fi
title() {
    printf '\n%s%s%s\n\n' "$bold" "$*" "$plain"
}

title "1. The storyteller, 3 million parameters, trained on fairy tales:"
"$weft" generate "$model" --echo -p "Once upon a time there was" -n 60 --top-p 0.9 --seed 6

title "2. The same model is given a line of a play:"
"$weft" generate "$model" --echo -p $'KING RICHARD:\n' -n 40 --top-p 0.9 --seed 3

title "3. It learns Shakespeare: LoRA, rank 16, 100 updates of 8 x 256 tokens."
"$weft" train "$model" --data "$data" --val-split 0.1 --length 256 --batch-size 8 --steps 100 \
    --rank 16 --alpha 32 --lr 5e-3 --warmup 10 --schedule cosine --weight-decay 0.01 --clip 1 \
    --out "$out" --overwrite

title "4. The same line, with the adapter:"
"$weft" generate "$model" --adapter "$out/last" --echo -p $'KING RICHARD:\n' -n 120 --top-p 0.9 \
    --seed 3

title "What is where"
cat <<END
  adapter      $out/last  (PEFT format; the best by validation loss: $out/best)
  metrics      $out/metrics.jsonl
  loss curve   $out/loss.svg

What to try next

  $weft generate $model --adapter $out/last --echo -p \$'ROMEO:\\n' --temperature 0.9
  $weft train $model --data YOUR-TEXT.txt --val-split 0.1 --out run
  $weft eval $model --adapter $out/last --data $data --last 0.1 --window 255
  $weft help train
END
