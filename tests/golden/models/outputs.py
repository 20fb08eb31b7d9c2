"""Every kind of output that `weft` writes of every family, in the programs that read it.

    python tests/golden/models/outputs.py build/cli/weft [fixture...]

For each fixture of this folder and of ../wrapped that transformers can load: an adapter that `weft train` makes in PEFT, one that PEFT makes in `weft`, the merged
folder, the converted folder and all parameters trained in transformers, the merged GGUF file, the
GGUF adapter on the converted file in llama.cpp. Prints the largest differences of logits in their
standard deviations and fails when one is beyond its limit. Needs transformers, peft and
llama-cpp-python.
"""
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
from safetensors.numpy import save_file

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from peers import Llama, Table, peft_model, run, torch_logits, transformers_model, weft_logits

LIMIT = 5e-5  # float32, sums in another order

# Fixtures whose folder transformers does not read as it is: MLX's format, the model's own code, and
# multimodal ones without the tensors of other modalities (those of ../wrapped have them).
NOT_READ = ["mlx-qwen3", "mlx-qwen3-moe", "qwen3-5-mlx", "minicpm", "minicpm-head", "gemma3-wrapped",
            "gemma4-wrapped", "qwen3-5-wrapped", "mistral3", "ministral3"]


# PEFT 0.21 takes target_modules of the dense and shared MLPs of these for those of the experts, so
# they are target_parameters.
AS_PARAMETERS = ["qwen3-moe-mixed", "qwen3-next"]


def fixtures(names):
    wrapped = HERE.parent / "wrapped"
    for source in sorted([*HERE.glob("*/config.json"), *wrapped.glob("*/config.json")]):
        name = source.parent.name
        if source.parent.parent == wrapped:
            name += " (wrapped)"
        elif name in NOT_READ:
            continue
        if not names or name.split()[0] in names:
            yield name, source.parent


def text_modules(model):
    """The linears of the text model."""
    prefix = {name[:name.index("layers.0.")] for name, _ in model.named_modules()
              if "layers.0." in name and not any(t in name for t in ("vision", "visual", "audio"))}
    return [n for n, m in model.named_modules() if type(m).__name__ == "Linear"
            and any(n.startswith(p) for p in prefix) and ("self_attn" in n or ".mlp." in n)
            and ".experts." not in n and not n.endswith("_gate")]


def peft_adapter(source, to):
    """An adapter of PEFT on the class that config.json names, with B that is not zero."""
    import torch
    from peft import LoraConfig, get_peft_model
    torch.manual_seed(1)
    base = transformers_model(source)
    modules = text_modules(base)
    weights = [f"{n}.weight" for n in modules if ".mlp." in n and source.name in AS_PARAMETERS]
    modules = [n for n in modules if f"{n}.weight" not in weights]
    model = get_peft_model(base, LoraConfig(r=2, lora_alpha=4, target_modules=modules,
                                            target_parameters=weights or None))
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_B" in name:
                p.normal_(std=0.05)
    model.save_pretrained(str(to))
    return model.eval()


def gelu_limit(config):
    """llama.cpp looks gelu up in a table in float16."""
    return 0.06 if config["model_type"].startswith("gemma") else LIMIT


# Layers that share keys and values in an order on which llama.cpp fails (against_llama_cpp.py).
NOT_IN_LLAMA = ["gemma4-dense"]


def gguf(table, command, name, source, adapter, ids, folder, config):
    """The merged file and the adapter as a file, where GGUF has the family."""
    done = subprocess.run([command, "convert", source, folder / "base.gguf", "--type", "f32"],
                          capture_output=True, text=True)
    if done.returncode or name in NOT_IN_LLAMA:
        why = done.stderr.strip()[-120:] or "llama.cpp does not read it"
        print(f"--   {name:18} {'GGUF':40} {why}", flush=True)
        return
    limit = gelu_limit(config)
    # llama.cpp has no windows in files of llama's architecture: positions within the window.
    seen = config.get("sliding_window") if config["model_type"] == "mistral" else None

    def in_llama(path, lora=None):
        from_file = Path(folder) / "llama.npy"
        numpy.save(Path(folder) / "ids.npy", ids)
        done = subprocess.run([sys.executable, __file__, "--llama", path, lora or "-",
                               Path(folder) / "ids.npy", from_file], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"llama.cpp fails: {done.stderr.strip()[-200:]}")
        return numpy.load(from_file)

    def merged():
        run(command, "fuse", source, adapter, folder / "fused.gguf", "--type", "f32")
        return (in_llama(folder / "fused.gguf")[:, :seen],
                weft_logits(command, source, ids, folder, adapter)[:, :seen])

    def apart():
        run(command, "convert", adapter, folder / "adapter.gguf", "--adapter-format", "gguf",
            "--base", source)
        return (in_llama(folder / "base.gguf", folder / "adapter.gguf")[:, :seen],
                weft_logits(command, source, ids, folder, adapter)[:, :seen])

    table.apart(name, "merged GGUF in llama.cpp", merged, limit)
    text = config.get("text_config", config)
    if text.get("enable_moe_block") or text.get("hidden_size_per_layer_input"):
        table.refused(name, "GGUF adapter that llama.cpp misreads", "merge the adapter", apart)
    else:
        table.apart(name, "GGUF adapter in llama.cpp", apart, limit)


def check(table, command, name, source, folder):
    config = json.loads((source / "config.json").read_text())
    size = config.get("text_config", config)["vocab_size"]
    random = numpy.random.default_rng(3)
    ids = random.integers(3, min(size, 200), (2, 12)).astype("int32")
    save_file({"batches": random.integers(3, min(size, 200), (3, 2, 16)).astype("int32"),
               "prompt_lengths": numpy.ones((3, 2), "int32")}, folder / "batches.safetensors")
    train = ("train", source, "--batches", folder / "batches.safetensors", "--lr", "0.01")
    adapter = folder / "run" / "last"

    def own():
        return torch_logits(transformers_model(source), ids), weft_logits(command, source, ids, folder)

    def in_peft():
        run(command, *train, "--rank", "2", "--out", folder / "run")
        ours = weft_logits(command, source, ids, folder, adapter)
        if abs(ours - weft_logits(command, source, ids, folder)).max() < 1e-3:
            raise RuntimeError("the adapter changes nothing")
        return torch_logits(peft_model(source, adapter), ids), ours

    def of_peft():
        model = peft_adapter(source, folder / "peft")
        return weft_logits(command, source, ids, folder, folder / "peft"), torch_logits(model, ids)

    def merged():
        run(command, "fuse", source, adapter, folder / "fused")
        return (torch_logits(transformers_model(folder / "fused"), ids),
                weft_logits(command, source, ids, folder, adapter))

    def merged_of_peft():
        run(command, "fuse", source, folder / "peft", folder / "fused-peft")
        return (torch_logits(transformers_model(folder / "fused-peft"), ids),
                torch_logits(peft_model(source, folder / "peft"), ids))

    def converted():
        run(command, "convert", source, folder / "converted")
        return (torch_logits(transformers_model(folder / "converted"), ids),
                weft_logits(command, source, ids, folder))

    def full():
        run(command, *train, "--full", "--out", folder / "full")
        return (torch_logits(transformers_model(folder / "full" / "last"), ids),
                weft_logits(command, folder / "full" / "last", ids, folder))

    def text_only():
        run(command, "fuse", source, adapter, folder / "text", "--text-only")
        return (torch_logits(transformers_model(folder / "text"), ids),
                weft_logits(command, source, ids, folder, adapter))

    table.apart(name, "stored folder in transformers", own, LIMIT)
    table.apart(name, "adapter in PEFT", in_peft, LIMIT)
    table.apart(name, "adapter of PEFT in weft", of_peft, LIMIT)
    table.apart(name, "merged folder in transformers", merged, LIMIT)
    table.apart(name, "merged PEFT adapter in transformers", merged_of_peft, LIMIT)
    table.apart(name, "converted folder in transformers", converted, LIMIT)
    table.apart(name, "all parameters trained, transformers", full, LIMIT)
    if "text_config" in config:
        table.apart(name, "text model alone in transformers", text_only, LIMIT)
    gguf(table, command, name, source, adapter, ids, folder, config)


def main(command, names):
    table = Table()
    for name, source in fixtures(names):
        folder = Path(tempfile.mkdtemp())
        check(table, command, name, source, folder)
        shutil.rmtree(folder)
    table.end()


if sys.argv[1] == "--llama":
    path, lora, ids, out = sys.argv[2:]
    numpy.save(out, Llama(path, None if lora == "-" else lora).logits(numpy.load(ids)))
else:
    main(sys.argv[1], sys.argv[2:])
