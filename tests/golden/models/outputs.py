"""Every kind of output that `weft` writes of every family, in the programs that read it.

    python tests/golden/models/outputs.py build/cli/weft [fixture...]

For each fixture of this folder and of ../wrapped that transformers can load, and for dense folders
from those in MLX's format: an adapter that `weft train` makes in PEFT, one that PEFT makes in
`weft`, the merged folder, the converted folder and all parameters trained in transformers, the
merged GGUF file, the GGUF adapter on the converted file in llama.cpp. For multimodal models also
every way in which PEFT selects modules, and wider ones in mlx-lm. Prints the largest differences of
logits in their standard deviations and fails when one is beyond its limit. Needs transformers,
peft, llama-cpp-python and mlx-lm.
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
sys.path += [str(HERE.parent), str(HERE.parent / "wrapped")]
from peers import (Llama, Table, mlx_logits, peft_model, run, torch_logits, transformers_model,
                   weft_logits)

LIMIT = 5e-5  # float32, sums in another order

# Fixtures whose folder transformers does not read as it is: MLX's format, the model's own code, and
# multimodal ones without the tensors of other modalities (those of ../wrapped have them).
# gpt-oss-mxfp4: merged and trained weights would be in MLX's format, too.
FROM_MLX = ["mlx-qwen3", "mlx-qwen3-moe", "qwen3-5-mlx", "gpt-oss-mxfp4"]
NOT_READ = ["minicpm", "minicpm-head", "gemma3-wrapped", "gemma4-wrapped", "qwen3-5-wrapped",
            "mistral3", "ministral3", *FROM_MLX]


# How an adapter of PEFT may select modules of a multimodal class, and what it may have beside them.
TARGETS = r".*language_model.*\.(q_proj|v_proj|down_proj|in_proj_qkv)"
WAYS = {
    "names": dict(target_modules=["model.language_model.layers.1.self_attn.q_proj"]),
    "patterns": dict(target_modules=TARGETS, alpha_pattern={r".*layers\.1\.mlp\.down_proj": 3},
                     rank_pattern={r"^model.language_model.layers.1.*q_proj": 2}),
    "exclusion": dict(target_modules=r".*language_model.*\.[a-z]*_proj",
                      exclude_modules=r".*layers\.0\..*"),
    "embedding": dict(target_modules=TARGETS, modules_to_save=["embed_tokens"]),
    "head": dict(target_modules=TARGETS, modules_to_save=["lm_head"]),
    "tokens": dict(target_modules=TARGETS, trainable_token_indices={"embed_tokens": [5, 9]}),
    "DoRA": dict(target_modules=TARGETS, use_dora=True),
    "suffixes": dict(target_modules=["q_proj", "v_proj", "down_proj"]),  # of towers too
    "all-linear": dict(target_modules="all-linear"),
}
TRAININGS = {"last layer": ["--layers", "1"], "head": ["--targets", "q_proj,lm_head"],
             "embedding": ["--targets", "embed_tokens,q_proj"],
             "whole": ["--modules-to-save", "embed_tokens"]}

# PEFT 0.21 takes target_modules of the dense and shared MLPs of these for those of the experts, so
# they are target_parameters.
AS_PARAMETERS = ["qwen3-moe-mixed", "qwen3-next"]


# PEFT refuses adapters of out_proj in these.
MAMBA = ["falcon_h1", "nemotron_h"]

# llama.cpp ignores adapters of the projections around the experts.
IGNORED = ["nemotron-h-experts"]


def is_encoder(folder):
    """classifier.py and encoders_against_llama_cpp.py compare these."""
    kind = json.loads((folder / "config.json").read_text())["model_type"]
    return (folder / "modules.json").exists() or kind in (
        "bert", "roberta", "xlm-roberta", "modernbert")


def fixtures(names):
    wrapped = HERE.parent / "wrapped"
    for source in sorted([*HERE.glob("*/config.json"), *wrapped.glob("*/config.json")]):
        name = source.parent.name
        if source.parent.parent == wrapped:
            name += " (wrapped)"
        elif name in NOT_READ and name not in FROM_MLX or is_encoder(source.parent):
            continue
        if not names or name.split()[0] in names:
            yield name, source.parent


def text_modules(model):
    """The linears of the text model."""
    prefix = {name[:name.index("layers.0.")] for name, _ in model.named_modules()
              if "layers.0." in name and not any(t in name for t in ("vision", "visual", "audio"))}
    return [n for n, m in model.named_modules() if type(m).__name__ == "Linear"
            and any(n.startswith(p) for p in prefix)
            and any(part in n for part in ("self_attn", ".mlp.", ".feed_forward.", ".conv.",
                                          ".shared_mlp.", ".mamba.", ".mixer."))
            and ".experts." not in n and not n.endswith("_gate")
            and not (n.endswith("out_proj") and model.config.model_type in MAMBA)]


def peft_adapter(source, to, **options):
    """An adapter of PEFT on the class that config.json names, in which the text model is trained."""
    import torch
    from peft import LoraConfig, get_peft_model
    torch.manual_seed(1)
    base = transformers_model(source)
    if not options:
        modules = text_modules(base)
        weights = [f"{n}.weight" for n in modules if ".mlp." in n and source.name in AS_PARAMETERS]
        options = dict(target_modules=[n for n in modules if f"{n}.weight" not in weights],
                       target_parameters=weights or None)
    model = get_peft_model(base, LoraConfig(**{"r": 2, "lora_alpha": 4, **options}))
    wrapped = any("language_model" in name for name, _ in model.named_parameters())
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.requires_grad and (not wrapped or "language_model" in name or "lm_head" in name):
                p.add_(torch.randn(p.shape) * 0.1)
    model.save_pretrained(str(to))
    return model.eval()


def gguf_limit(config):
    """llama.cpp looks gelu up in a table in float16, and has another epsilon for latents."""
    if config["model_type"].startswith("gemma"):
        return 0.06
    return 2e-4 if config["model_type"] == "glm4_moe_lite" else LIMIT


# Layers that share keys and values in an order on which llama.cpp fails, and yarn with bounds that
# llama.cpp rounds (against_llama_cpp.py);
# longrope, whose factors llama.cpp chooses by the size of the context, not by the length.
NOT_IN_LLAMA = ["gemma4-dense", "phi3-longrope", "minicpm3-published", "gpt-oss", "gpt-oss-mxfp4"]


def gguf(table, command, name, source, adapter, ids, folder, config):
    """The merged file and the adapter as a file, where GGUF has the family."""
    done = subprocess.run([command, "convert", source, folder / "base.gguf", "--type", "f32"],
                          capture_output=True, text=True)
    if done.returncode or name in NOT_IN_LLAMA:
        why = done.stderr.strip()[-120:] or "llama.cpp does not read it"
        print(f"--   {name:18} {'GGUF':40} {why}", flush=True)
        return
    limit = gguf_limit(config)
    # llama.cpp has no windows in files of these: positions within the window.
    seen = config.get("sliding_window") if config["model_type"] in ("mistral", "phi3") else None

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
    if (text.get("enable_moe_block") or text.get("hidden_size_per_layer_input")
            or name in IGNORED):
        table.refused(name, "GGUF adapter that llama.cpp misreads", "merge the adapter", apart)
    elif config["model_type"] == "glm4_moe_lite":
        table.refused(name, "GGUF adapter of kv_b_proj", "GGUF has no name for it", apart)
    else:
        table.apart(name, "GGUF adapter in llama.cpp", apart, limit)


def check_ways(table, command, name, source, ids, train, folder):
    """Of a multimodal model: how PEFT and `weft train` select modules."""
    plain = weft_logits(command, source, ids, folder)
    seen = 10 * LIMIT * plain.std()  # the least effect of an adapter

    def merged(adapter, expected):
        def compute():
            run(command, "fuse", source, adapter, folder / "way", "--force")
            return torch_logits(transformers_model(folder / "way"), ids), expected
        return compute

    for what, options in WAYS.items():
        to = folder / f"peft-{what}"
        try:
            expected = torch_logits(peft_adapter(source, to, **options), ids)
        except ValueError as error:  # PEFT refuses modules of Gemma 4's towers
            print(f"--   {name:18} PEFT's {what:33} {str(error)[:80]}", flush=True)
            continue
        table.line(abs(expected - plain).max() > seen, name, f"PEFT's {what}: effect", "")
        table.apart(name, f"PEFT's {what} in weft", lambda: (
            weft_logits(command, source, ids, folder, to), expected), LIMIT)
        table.apart(name, f"PEFT's {what} merged", merged(to, expected), LIMIT)
    for what, options in TRAININGS.items():
        run(command, *train, "--rank", "2", *options, "--out", folder / "ways", "--overwrite")
        adapter = folder / "ways" / "last"
        ours = weft_logits(command, source, ids, folder, adapter)
        table.line(abs(ours - plain).max() > seen, name, f"weft's {what}: effect", "")
        table.apart(name, f"weft's {what} in PEFT", lambda: (
            torch_logits(peft_model(source, adapter), ids), ours), LIMIT)
        table.apart(name, f"weft's {what} merged", merged(adapter, ours), LIMIT)


def check_mlx(table, command, name, key, ids, train, folder):
    """A multimodal model that is wide enough to be quantized, in mlx-lm."""
    import torch
    import wrapped
    base = folder / "wide"
    base.mkdir()
    wrapped.TEXT.update(hidden_size=64, intermediate_size=96)
    wrapped.SEEING["out_hidden_size"] = 64
    torch.manual_seed(5)
    model = wrapped.MODELS[key]().float().eval()
    wrapped.randomize(model, "", 0.1)
    wrapped.save_base(model, base)
    config = json.loads((base / "config.json").read_text())
    config["vocab_size"] = wrapped.VOCABULARY  # mlx-lm has defaults of its own
    config["text_config"].update(sliding_window_pattern=2, full_attention_interval=2)
    (base / "config.json").write_text(json.dumps(config))
    ids = ids % wrapped.VOCABULARY
    try:
        mlx_logits(base, ids)
    except Exception as error:  # its configurations are stricter than transformers'
        print(f"--   {name:18} {'mlx-lm':40} {str(error)[:80]}", flush=True)
        return

    def converted(*options):
        run(command, "convert", base, folder / "mlx", "--force", *options)
        return mlx_logits(folder / "mlx", ids), weft_logits(command, folder / "mlx", ids, folder)

    def adapted():
        run(command, "train", base, *train[2:], "--rank", "2", "--out", folder / "wide-run")
        adapter = folder / "wide-run" / "last"
        run(command, "convert", adapter, folder / "ad", "--adapter-format", "mlx", "--base", base)
        return mlx_logits(base, ids, folder / "ad"), weft_logits(command, base, ids, folder, adapter)

    table.apart(name, "converted folder in mlx-lm", converted, LIMIT)
    table.apart(name, "quantized folder in mlx-lm",
                lambda: converted("--bits", "4", "--group-size", "32"), 2e-4)
    table.apart(name, "adapter in mlx-lm", adapted, LIMIT)


def check(table, command, name, source, folder):
    config = json.loads((source / "config.json").read_text())
    size = config.get("text_config", config)["vocab_size"]
    random = numpy.random.default_rng(3)
    ids = random.integers(3, min(size, 200), (2, 12)).astype("int32")
    save_file({"batches": random.integers(3, min(size, 200), (3, 2, 16)).astype("int32"),
               "prompt_lengths": numpy.ones((3, 2), "int32")}, folder / "batches.safetensors")
    train = ("train", source, "--batches", folder / "batches.safetensors", "--lr", "0.01")
    adapter = folder / "run" / "last"
    peft = []  # the logits of PEFT's own adapter

    def own():
        return torch_logits(transformers_model(source), ids), weft_logits(command, source, ids, folder)

    def in_peft():
        run(command, *train, "--rank", "2", "--out", folder / "run")
        ours = weft_logits(command, source, ids, folder, adapter)
        if abs(ours - weft_logits(command, source, ids, folder)).max() < 1e-3:
            raise RuntimeError("the adapter changes nothing")
        return torch_logits(peft_model(source, adapter), ids), ours

    def of_peft():
        peft.append(torch_logits(peft_adapter(source, folder / "peft"), ids))
        return weft_logits(command, source, ids, folder, folder / "peft"), peft[0]

    def merged():
        run(command, "fuse", source, adapter, folder / "fused")
        return (torch_logits(transformers_model(folder / "fused"), ids),
                weft_logits(command, source, ids, folder, adapter))

    def merged_of_peft():
        run(command, "fuse", source, folder / "peft", folder / "fused-peft")
        return torch_logits(transformers_model(folder / "fused-peft"), ids), peft[0]

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
    if "(wrapped)" in name:
        check_ways(table, command, name, source, ids, train, folder)
        check_mlx(table, command, name, source.name, ids, train, folder)


def main(command, names):
    table = Table()
    for name, source in fixtures(names):
        folder = Path(tempfile.mkdtemp())
        if source.name in FROM_MLX:
            run(command, "convert", source, folder / name, "--type", "f32")
            source = folder / name
        check(table, command, name, source, folder)
        shutil.rmtree(folder)
    table.end()


if sys.argv[1] == "--llama":
    path, lora, ids, out = sys.argv[2:]
    numpy.save(out, Llama(path, None if lora == "-" else lora).logits(numpy.load(ids)))
elif __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
