"""Compares adapters that `weft convert --adapter-format` writes with what mlx-lm and llama.cpp make
of them, and reads back what mlx-lm writes.

    python3 tests/golden/lora/against_peers.py build/cli/weft [mlx|gguf|peft...]

For each adapter, logits of base and adapter: those of `weft` with PEFT's files, and those of the
peer with the converted ones. Fails when they differ by more than LIMIT, or when the base alone is
that close. With `peft`, adapters that `weft train` makes are loaded by PEFT instead. Needs mlx-lm (findings of 0.32.2 on the CPU) and llama-cpp-python (of 0.3.36).
"""
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy
from safetensors.numpy import load_file, save_file

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from peers import Llama, mlx_logits, peft_model, run, torch_logits, transformers_model, weft_logits

MODELS = HERE.parent / "models"
LIMIT = 2e-5
ADAPTERS = [("lora-llama", "llama"), ("lora-qwen3", "qwen3"), ("lora-qwen3-rs", "qwen3"),
            ("lora-qwen3-patterns", "qwen3"), ("lora-qwen3-pissa", "qwen3"),
            ("lora-qwen3-dora", "qwen3"), ("lora-llama-embeddings", "llama"),
            ("lora-gemma3", "gemma3"), ("lora-qwen3-moe", "qwen3-moe")]


def llama_logits(base, ids, adapter=None):
    return Llama(base, adapter).logits(ids)


def base_of(name, folder):
    """The fixture without scaled rotation, of which mlx-lm and transformers make different things,
    and with the names that mlx-lm has for its settings."""
    to = folder / name
    if not to.exists():
        shutil.copytree(MODELS / name, to)
        config = json.loads((to / "config.json").read_text())
        rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
        if rope.get("rope_type") in ("llama3", "default"):
            config.pop("rope_parameters", None)
            config.pop("rope_scaling", None)
            if rope.get("rope_theta"):
                config["rope_theta"] = rope["rope_theta"]
        if "num_local_experts" in config:
            config.setdefault("num_experts", config["num_local_experts"])
        (to / "config.json").write_text(json.dumps(config))
        run(command, "convert", to, folder / f"{name}.gguf")
    return to


def compare(name, model, peer, folder, ids):
    base = base_of(model, folder)
    expected = weft_logits(command, base, ids, folder, HERE / name / "final")
    to = folder / f"{name}.{peer}"
    run(command, "convert", HERE / name / "final", to, "--adapter-format", peer, "--base", base)
    there = base if peer == "mlx" else folder / f"{model}.gguf"
    logits = mlx_logits if peer == "mlx" else llama_logits
    apart = abs(logits(there, ids, to) - expected).max()
    change = abs(logits(there, ids) - expected).max()
    print(f"{peer:5} {name:24} {apart:.2g} apart, the base alone {change:.2g}", flush=True)
    table = peer == "gguf" and model == "gemma3"  # llama.cpp's GELU is a table of 16-bit floats
    return apart < (0.01 if table else LIMIT) < change


def compare_trained(model, targets, folder, ids):
    """An adapter that weft trains, in PEFT."""
    base, trained = MODELS / model, folder / f"run-{model}-{targets}"
    text = folder / "batches.safetensors"
    given = load_file(HERE / "lora-llama" / "trajectory.safetensors")
    size = json.loads((base / "config.json").read_text())["vocab_size"]
    save_file({"batches": given["batches"][:6] % size, "prompt_lengths": given["prompt_lengths"][:6]},
              text)
    run(command, "train", base, "--batches", text, "--out", trained, "--targets", targets, "--lr", "0.01")
    expected = weft_logits(command, base, ids % size, folder, trained / "last")
    there = torch_logits(peft_model(base, trained / "last"), ids % size)
    apart = abs(there - expected).max()
    change = abs(torch_logits(transformers_model(base), ids % size) - expected).max()
    print(f"peft  {model:12} {targets:28} {apart:.2g} apart, the base alone {change:.2g}", flush=True)
    return apart < LIMIT < change


TRAINED = [("qwen3", "all-linear"), ("qwen3-moe", "all-linear"), ("qwen3-moe", "up_proj"),
           ("qwen3-moe", "mlp.experts.down_proj"), ("mixtral", "all-linear"),
           ("qwen3-moe", "model.layers.1.mlp.experts.gate_up_proj")]


def main():
    ids = load_file(HERE / "lora-llama" / "trajectory.safetensors")["batches"][0].astype("int32")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if sys.argv[2:] == ["peft"]:
            sys.exit(not all([compare_trained(*case, folder, ids) for case in TRAINED]))
        fine = [compare(name, model, peer, folder, ids) for peer in sys.argv[2:] or ["mlx", "gguf"]
                for name, model in ADAPTERS if not (peer == "gguf" and name.endswith("dora"))]
    sys.exit(not all(fine))


command = sys.argv[1]
main()
