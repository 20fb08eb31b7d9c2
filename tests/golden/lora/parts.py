"""Adapters of q, k, v, gate and up for models that have these as one matrix (parts-MODEL).

    python tests/golden/lora/parts.py
    python tests/golden/lora/parts.py build/cli/weft

Without an argument writes the folders: an adapter in PEFT's format, some of whose parts have
another rank or alpha, and logits of transformers' model with every product added to the rows of
its matrix. With it compares those with `weft logits`, and with llama.cpp, which reads the adapter
that `weft convert` writes. Needs transformers 5.24, with `weft` also llama-cpp-python.
"""
import json
import sys
import tempfile
from pathlib import Path

import numpy
import torch
from safetensors.torch import load_file, save_file

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
import peers

MODELS = ["phi3", "glm4"]
RANKS, ALPHAS = {"k_proj": 2, "up_proj": 3}, {"v_proj": 3}  # of others 4 and 8
LENGTH = 8  # llama.cpp heeds no window of Phi-3


def parts_of(config):
    D = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    q, k = config.num_attention_heads * D, config.num_key_value_heads * D
    F = config.intermediate_size
    return {"self_attn.qkv_proj": {"q_proj": q, "k_proj": k, "v_proj": k},
            "mlp.gate_up_proj": {"gate_proj": F, "up_proj": F}}


def make(name):
    torch.manual_seed(1)
    source = HERE.parent / "models" / name
    model = peers.transformers_model(source)
    tensors = {}
    for i, layer in enumerate(model.model.layers):
        for whole, parts in parts_of(model.config).items():
            linear = dict(layer.named_modules()).get(whole)
            added = []
            for part, rows in parts.items() if linear else ():
                R = RANKS.get(part, 4)
                A, B = torch.randn(R, model.config.hidden_size) * 0.1, torch.randn(rows, R) * 0.1
                path = f"base_model.model.model.layers.{i}.{whole.split('.')[0]}.{part}"
                tensors |= {f"{path}.lora_A.weight": A, f"{path}.lora_B.weight": B}
                added.append(B @ A * ALPHAS.get(part, 8) / R)
            if linear:
                linear.weight.data += torch.cat(added)
    ids = numpy.random.RandomState(0).randint(3, model.config.vocab_size, (2, LENGTH))
    folder = HERE / f"parts-{name}"
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    save_file({"input_ids": torch.tensor(ids).int(),
               "logits": torch.tensor(peers.torch_logits(model, ids))},
              folder / "reference.safetensors")
    targets = sorted({key.split(".")[-3] for key in tensors})
    (folder / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": name, "r": 4,
        "lora_alpha": 8, "rank_pattern": RANKS, "alpha_pattern": ALPHAS, "bias": "none",
        "target_modules": targets}, indent=1) + "\n")


def check(table, weft, name, folder):
    source, adapter = HERE.parent / "models" / name, HERE / f"parts-{name}"
    expected = load_file(adapter / "reference.safetensors")
    ids, logits = expected["input_ids"].numpy(), expected["logits"].numpy()
    base, converted = folder / "base.gguf", folder / "adapter.gguf"
    peers.run(weft, "convert", source, base, "--type", "f32", "--no-tokenizer")
    peers.run(weft, "convert", adapter, converted, "--adapter-format", "gguf", "--base", source)
    table.apart(name, "weft", lambda: (
        peers.weft_logits(weft, source, ids, folder, adapter), logits), 1e-5)
    table.apart(name, "weft with the converted adapter", lambda: (
        peers.weft_logits(weft, source, ids, folder, converted), logits), 1e-5)
    table.apart(name, "llama.cpp with the converted adapter", lambda: (
        peers.Llama(base, converted).logits(ids), logits), 1e-5)


if len(sys.argv) == 1:
    for name in MODELS:
        make(name)
else:
    table = peers.Table()
    for name in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            check(table, sys.argv[1], name, Path(folder))
    table.end()
