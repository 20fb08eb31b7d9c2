"""Loads what `weft` writes from multimodal models in transformers, PEFT and mlx-lm, and what PEFT
writes in `weft`, and prints the largest differences of logits.

    python3 tests/golden/wrapped/against_peers.py build/cli/weft [NAME...]

The models are those of wrapped.py, with wider matrices that can be quantized. Fails when logits
differ by more than LIMIT, when an adapter has no effect, or when a tensor is missing or unexpected.
"""
import json
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file

import wrapped

LIMIT = 2e-5
TARGETS = r".*language_model.*\.(q_proj|v_proj|down_proj|in_proj_qkv)"
PEFT_CASES = {
    "regex": dict(target_modules=TARGETS),
    "names": dict(target_modules=["model.language_model.layers.1.self_attn.q_proj"]),
    "patterns": dict(target_modules=TARGETS, rank_pattern={r"^model.language_model.layers.1.*q_proj": 2},
                     alpha_pattern={r".*layers\.1\.mlp\.down_proj": 3}),
    "excluded": dict(target_modules=r".*language_model.*\.[a-z]*_proj",
                     exclude_modules=r".*layers\.0\..*"),
    "embedding": dict(target_modules=TARGETS, modules_to_save=["embed_tokens"]),
    "head": dict(target_modules=TARGETS, modules_to_save=["lm_head"]),
    "tokens": dict(target_modules=TARGETS, trainable_token_indices={"embed_tokens": [5, 9]}),
    "dora": dict(target_modules=TARGETS, use_dora=True),
    "suffixes": dict(target_modules=["q_proj", "v_proj", "down_proj"]),  # of towers too
    "all-linear": dict(target_modules="all-linear"),
}
TRAININGS = {"all": [], "last layer": ["--layers", "1"], "head": ["--targets", "q_proj,lm_head"],
             "embedding": ["--targets", "embed_tokens,q_proj"],
             "whole": ["--modules-to-save", "embed_tokens"]}
failed = 0


def report(what, difference, effect=None, problems="", limit=LIMIT):
    global failed
    bad = not difference <= limit or problems or (effect is not None and not effect > 2 * LIMIT)
    failed += bool(bad)
    effect = "" if effect is None else f"  effect {effect:.2g}"
    print(f"  {what:45} {difference:.2g}{effect} {problems}{'  FAILED' if bad else ''}")


def weft(*arguments):
    run = subprocess.run([command, *map(str, arguments)], capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(run.stderr.strip()[-300:])


def apart(a, b):
    return (a - b).abs().max().item()


def weft_logits(model, *options):
    weft("logits", model, "--ids", work / "ids", "--out", work / "out", "--force", *options)
    return load_file(work / "out")["logits"].reshape(1, ids.shape[1], -1)


def peer(folder, text=False):
    """The model in transformers, and what it says about tensors."""
    kind = transformers.AutoModelForCausalLM if text else transformers.AutoModelForImageTextToText
    model, info = kind.from_pretrained(folder, output_loading_info=True, dtype=torch.float32)
    said = {k: sorted(map(str, v))[:3] for k, v in info.items() if v}
    return model.eval(), str(said) if said else ""


def logits(model):
    with torch.no_grad():
        return model(input_ids=ids).logits


def mlx_logits(folder, adapter=None):
    import mlx.core as mx
    from mlx_lm.tuner.utils import load_adapters
    from mlx_lm.utils import load_model
    mx.set_default_device(mx.cpu)
    model, _ = load_model(Path(folder))
    if adapter:
        model = load_adapters(model, str(adapter))
        model.eval()
    return torch.tensor(numpy.array(model(mx.array(ids.numpy())).astype(mx.float32)))


def mlx_loads(base):
    try:
        mlx_logits(base)
    except Exception as error:  # its configurations are stricter than transformers'
        print(f"  mlx-lm does not load the base: {str(error)[:60]!r}")
        return False
    return True


def check_folders(base, expected):
    for what, options in [("convert", []), ("convert --text-only", ["--text-only"])]:
        weft("convert", base, work / "folder", "--force", *options)
        model, said = peer(work / "folder", text=bool(options))
        report(f"{what}: transformers", apart(logits(model), expected), problems=said)
    if mlx_loads(base):
        weft("convert", base, work / "folder", "--force")
        report("convert: mlx-lm", apart(mlx_logits(work / "folder"), expected))
        weft("convert", base, work / "folder", "--force", "--bits", "4", "--group-size", "32")
        report("quantized: mlx-lm", apart(mlx_logits(work / "folder"), weft_logits(work / "folder")),
               limit=0.05)  # MLX computes in the scales' bfloat16
    try:
        weft("convert", base, work / "m.gguf")
    except RuntimeError as error:  # no architecture in the format
        print(f"  GGUF: {str(error)[-60:]}")
        return
    report("GGUF: weft", apart(weft_logits(work / "m.gguf"), expected))
    weft("convert", work / "m.gguf", work / "folder", "--force")
    model, said = peer(work / "folder", text=True)
    report("GGUF to folder: transformers", apart(logits(model), expected), problems=said)
    (work / "m.gguf").unlink()


def check_fused(what, base, adapter, expected):
    for options in [], ["--text-only"]:
        weft("fuse", base, adapter, work / "folder", "--force", *options)
        model, said = peer(work / "folder", text=bool(options))
        report(f"{what}, fused{' text' if options else ''}: transformers",
               apart(logits(model), expected), problems=said)


def check_peft(base, plain):
    for what, options in PEFT_CASES.items():
        model = peer(base)[0]
        try:
            model = get_peft_model(model, LoraConfig(**{"r": 4, "lora_alpha": 8, **options}))
        except ValueError as error:  # PEFT refuses modules of Gemma 4's tower
            print(f"  PEFT's {what}: {str(error)[:60]}")
            continue
        with torch.no_grad():
            for name, p in model.named_parameters():
                text = "language_model" in name or "lm_head" in name
                if p.requires_grad and text:
                    p.add_(torch.randn(p.shape) * 0.1)
        expected = logits(model.eval())
        shutil.rmtree(work / "adapter", ignore_errors=True)
        model.save_pretrained(work / "adapter")
        report(f"PEFT's {what}: weft", apart(weft_logits(base, "--adapter", work / "adapter"), expected),
               apart(expected, plain))
        check_fused(f"PEFT's {what}", base, work / "adapter", expected)


def check_trained(base, plain):
    for what, options in TRAININGS.items():
        run = work / "run"
        shutil.rmtree(run, ignore_errors=True)
        weft("train", base, "--batches", work / "batches", "--out", run, "--lr", "0.05", "--rank", "2",
             *options)
        adapter = run / "last"
        expected = weft_logits(base, "--adapter", adapter)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = PeftModel.from_pretrained(peer(base)[0], adapter)
        said = [str(w.message)[:80] for w in caught if "missing" in str(w.message)]
        report(f"weft's {what}: PEFT", apart(logits(model.eval()), expected), apart(expected, plain),
               "".join(said))
        check_fused(f"weft's {what}", base, adapter, expected)
        if what in ("all", "last layer") and mlx_loads(base):
            weft("convert", adapter, work / "mlx", "--adapter-format", "mlx", "--base", base, "--force")
            report(f"weft's {what}: mlx-lm", apart(mlx_logits(base, work / "mlx"), expected))
    run = work / "run"
    shutil.rmtree(run)
    weft("train", base, "--full", "--batches", work / "batches", "--out", run, "--lr", "0.01")
    model, said = peer(run / "last")
    expected = weft_logits(run / "last")
    report("trained in full: transformers", apart(logits(model), expected), apart(expected, plain), said)


def main():
    wrapped.TEXT.update(hidden_size=64, intermediate_size=96)
    for name in names or wrapped.MODELS:
        torch.manual_seed(5)
        base = work / name
        base.mkdir()
        wrapped.SEEING["out_hidden_size"] = 64
        model = wrapped.MODELS[name]().float().eval()
        wrapped.randomize(model, "", 0.1)
        wrapped.save_base(model, base)
        config = json.loads((base / "config.json").read_text())
        config["vocab_size"] = wrapped.VOCABULARY  # mlx-lm has defaults of its own
        config["text_config"].update(sliding_window_pattern=2, full_attention_interval=2)
        (base / "config.json").write_text(json.dumps(config))
        plain = logits(model)
        print(name)
        report("base: weft", apart(weft_logits(base), plain))
        for check in lambda: check_folders(base, plain), lambda: check_peft(base, plain), \
                lambda: check_trained(base, plain):
            try:
                check()
            except Exception as error:  # of any peer
                report(f"{type(error).__name__}: {error}", float("nan"))


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    command, *names = sys.argv[1:]
    ids = torch.randint(5, 50, (1, 10), generator=torch.Generator().manual_seed(2))
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        save_file({"input_ids": ids.int()}, work / "ids")
        save_file({"batches": torch.randint(5, 50, (3, 2, 16), dtype=torch.int32),
                   "prompt_lengths": torch.ones(3, 2, dtype=torch.int32)}, work / "batches")
        main()
    sys.exit(failed > 0)
