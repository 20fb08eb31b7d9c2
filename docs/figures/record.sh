#!/usr/bin/env bash
# docs/figures/record.sh -- records a training run as run.svg, and its loss curve as loss.svg: runs
# the commands of build/cli/weft in a terminal of 100 columns, by script(1), in an empty folder.
set -euo pipefail
cd "$(dirname "$0")/../.."

tree=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -O1 -D_GNU_SOURCE tools/terminal_svg.c -o "$work/terminal_svg"
mkdir "$work/here"
cp examples/data/shakespeare.txt "$work/here/"

cat >"$work/session.sh" <<'END'
show() {
    printf '\033[1m$ %s\033[0m\n' "$1"
    bash -c "$1"
}
stty cols 100 rows 50
show 'weft train storyteller --data shakespeare.txt --val-split 0.1 --steps 60 --lr 5e-3 --out run'
echo
show 'weft generate storyteller --adapter run/best -p "ROMEO:" -n 60 --top-p 0.9 --seed 3'
END

(
    cd "$work/here"
    export PATH=$tree/build/cli:$PATH TERM=xterm
    script -q -e -c "bash $work/session.sh" -O "$work/typescript" -T "$work/timing" >/dev/null
)
"$work/terminal_svg" "$work/typescript" "$work/timing" 100 4 | sed "s|$tree/||" \
    >docs/figures/run.svg
cp "$work/here/run/loss.svg" docs/figures/loss.svg
