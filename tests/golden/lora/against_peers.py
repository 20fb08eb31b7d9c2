"""Compares adapters that `weft convert --adapter-format` writes with what mlx-lm and llama.cpp make
of them, and reads back what mlx-lm writes.

    python3 tests/golden/lora/against_peers.py build/cli/weft [mlx|gguf|peft...]

For each adapter, logits of base and adapter: those of `weft` with PEFT's files, and those of the
peer with the converted ones. Fails when they differ by more than LIMIT, or when the base alone is
that close. With `peft`, adapters that `weft train` makes are loaded by PEFT instead. Needs mlx-lm (findings of 0.32.2 on the CPU) and llama-cpp-python (of 0.3.36).
"""
import ctypes
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
from safetensors.numpy import load_file, save_file

HERE = Path(__file__).resolve().parent
MODELS = HERE.parent / "models"
LIMIT = 2e-5
ADAPTERS = [("lora-llama", "llama"), ("lora-qwen3", "qwen3"), ("lora-qwen3-rs", "qwen3"),
            ("lora-qwen3-patterns", "qwen3"), ("lora-qwen3-pissa", "qwen3"),
            ("lora-qwen3-dora", "qwen3"), ("lora-llama-embeddings", "llama"),
            ("lora-gemma3", "gemma3"), ("lora-qwen3-moe", "qwen3-moe")]


def weft(*arguments):
    subprocess.run([command, *map(str, arguments)], check=True, capture_output=True)


def weft_logits(base, adapter, folder):
    out = folder / "logits.safetensors"
    weft("logits", base, "--adapter", adapter, "--ids", folder / "ids.safetensors", "--out", out)
    return load_file(out)["logits"]


def mlx_logits(base, adapter, ids):
    import mlx.core as mx
    from mlx_lm.tuner.utils import load_adapters
    from mlx_lm.utils import load_model
    mx.set_default_device(mx.cpu)
    model, _ = load_model(base)
    if adapter:
        model = load_adapters(model, str(adapter))
        model.eval()
    return numpy.array(model(mx.array(ids)).astype(mx.float32))


def llama_logits(base, adapter, ids):
    import llama_cpp
    quiet = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    options = llama_cpp.llama_model_default_params()
    options.use_extra_bufts = False
    model = llama_cpp.llama_model_load_from_file(str(base).encode(), options)
    lora = llama_cpp.llama_adapter_lora_init(model, str(adapter).encode()) if adapter else None
    if adapter and not lora:
        raise RuntimeError("llama.cpp cannot load the adapter")
    size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    o = llama_cpp.llama_context_default_params()
    o.n_ctx = o.n_batch = o.n_ubatch = 32
    o.type_k = o.type_v = llama_cpp.GGML_TYPE_F32
    o.flash_attn_type = 0
    o.n_threads = o.n_threads_batch = 1
    out = []
    for row in ids:
        context = llama_cpp.llama_init_from_model(model, o)
        if lora:
            adapters = (llama_cpp.llama_adapter_lora_p_ctypes * 1)(lora)
            llama_cpp.llama_set_adapters_lora(context, adapters, 1, (ctypes.c_float * 1)(1.0))
        batch = llama_cpp.llama_batch_init(len(row), 0, 1)
        batch.n_tokens = len(row)
        for i, token in enumerate(row):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = int(token), i, 1
            batch.seq_id[i][0], batch.logits[i] = 0, 1
        if llama_cpp.llama_decode(context, batch):
            raise RuntimeError("llama_decode failed")
        out.append([numpy.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, i),
                                             (size,)).copy() for i in range(len(row))])
        llama_cpp.llama_free(context)
    return numpy.array(out)


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
        weft("convert", to, folder / f"{name}.gguf")
    return to


def compare(name, model, peer, folder, ids):
    base = base_of(model, folder)
    expected = weft_logits(base, HERE / name / "final", folder)
    to = folder / f"{name}.{peer}"
    weft("convert", HERE / name / "final", to, "--adapter-format", peer, "--base", base)
    there = base if peer == "mlx" else folder / f"{model}.gguf"
    logits = mlx_logits if peer == "mlx" else llama_logits
    apart = abs(logits(there, to, ids) - expected).max()
    change = abs(logits(there, None, ids) - expected).max()
    print(f"{peer:5} {name:24} {apart:.2g} apart, the base alone {change:.2g}", flush=True)
    table = peer == "gguf" and model == "gemma3"  # llama.cpp's GELU is a table of 16-bit floats
    return apart < (0.01 if table else LIMIT) < change


def peft_logits(base, adapter, ids):
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, attn_implementation="eager")
    if adapter:
        model = PeftModel.from_pretrained(model, adapter)
    with torch.no_grad():
        return model(torch.tensor(ids).long()).logits.numpy()


def compare_trained(model, targets, folder, ids):
    """An adapter that weft trains, in PEFT."""
    base, run = MODELS / model, folder / f"run-{model}-{targets}"
    text = folder / "batches.safetensors"
    given = load_file(HERE / "lora-llama" / "trajectory.safetensors")
    size = json.loads((base / "config.json").read_text())["vocab_size"]
    save_file({"batches": given["batches"][:6] % size, "prompt_lengths": given["prompt_lengths"][:6]},
              text)
    save_file({"input_ids": ids % size}, folder / "ids.safetensors")
    weft("train", base, "--batches", text, "--out", run, "--targets", targets, "--lr", "0.01")
    expected = weft_logits(base, run / "last", folder)
    apart = abs(peft_logits(base, run / "last", ids % size) - expected).max()
    change = abs(peft_logits(base, None, ids % size) - expected).max()
    print(f"peft  {model:12} {targets:28} {apart:.2g} apart, the base alone {change:.2g}", flush=True)
    return apart < LIMIT < change


TRAINED = [("qwen3", "all-linear"), ("qwen3-moe", "all-linear"), ("qwen3-moe", "up_proj"),
           ("qwen3-moe", "mlp.experts.down_proj"), ("mixtral", "all-linear"),
           ("qwen3-moe", "model.layers.1.mlp.experts.gate_up_proj")]


def main():
    ids = load_file(HERE / "lora-llama" / "trajectory.safetensors")["batches"][0].astype("int32")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_file({"input_ids": ids}, folder / "ids.safetensors")
        if sys.argv[2:] == ["peft"]:
            sys.exit(not all([compare_trained(*case, folder, ids) for case in TRAINED]))
        fine = [compare(name, model, peer, folder, ids) for peer in sys.argv[2:] or ["mlx", "gguf"]
                for name, model in ADAPTERS if not (peer == "gguf" and name.endswith("dora"))]
    sys.exit(not all(fine))


command = sys.argv[1]
main()
