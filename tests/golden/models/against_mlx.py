"""Compares checkpoints that `weft convert` quantises with what mlx makes of the same weights.

    python against_mlx.py BUILD/cli/weft

A model of random weights, in bfloat16 as checkpoints are, goes through `weft convert` in each of
mlx's formats. mlx.core.load reads the files; their codes, scales and biases must be those of
mlx.core.quantize, bit for bit, and so must what mlx.core.dequantize makes of them. Fails on any
difference. Needs mlx, torch, transformers and numpy.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import mlx.core as mx
import torch
from transformers import AutoModelForCausalLM, Qwen3Config

SETTINGS = [("affine", bits) for bits in (2, 3, 4, 5, 6, 8)]
SETTINGS += [("mxfp4", 4), ("mxfp8", 8), ("nvfp4", 4)]
SIZES = dict(vocab_size=192, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
             num_attention_heads=2, num_key_value_heads=1, head_dim=64, tie_word_embeddings=False)


def bits_of(a):
    return a.view(mx.uint16) if a.dtype == mx.bfloat16 else a


def same(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and bool(mx.array_equal(bits_of(a), bits_of(b)))


def compare(command, source, to, mode, bits):
    """How many matrices there are, and the parts of them that differ."""
    subprocess.run([command, "convert", source, to, "--mode", mode, "--bits", str(bits)], check=True,
                   capture_output=True)
    exact, made = (mx.load(str(folder / "model.safetensors")) for folder in (source, to))
    said = json.loads((to / "config.json").read_text())["quantization"]
    names = [name.removesuffix(".scales") for name in made if name.endswith(".scales")]
    settings = dict(group_size=said["group_size"], bits=said["bits"], mode=said.get("mode", "affine"))
    differ = []
    for name in names:
        theirs = mx.quantize(exact[name + ".weight"], **settings)
        ours = [made[f"{name}.{part}"] for part in ("weight", "scales", "biases")[:len(theirs)]]
        values = mx.dequantize(*ours, **settings), mx.dequantize(*theirs, **settings)
        differ += [f"{name}[{i}]" for i, (a, b) in enumerate(zip(ours, theirs)) if not same(a, b)]
        differ += [] if same(*values) else [f"{name} decoded"]
    return len(names), differ


def main(command):
    torch.manual_seed(0)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "hf"
        model = AutoModelForCausalLM.from_config(Qwen3Config(**SIZES), dtype=torch.bfloat16)
        model.save_pretrained(source)
        for mode, bits in SETTINGS:
            matrices, differ = compare(command, source, Path(folder) / f"{mode}-{bits}", mode, bits)
            print(f"{mode}, {bits} bits: {matrices} matrices, {len(differ)} parts differ {differ[:3]}")
            failed |= bool(differ) or not matrices
    sys.exit(failed)


main(sys.argv[1])
