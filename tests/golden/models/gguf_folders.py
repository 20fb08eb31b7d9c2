"""Loads in transformers the folders that `weft convert` makes from GGUF files.

    python tests/golden/models/gguf_folders.py build/cli/weft [fixture...]

Each fixture here that GGUF can express is written as a GGUF file in F32 and back as a folder. Its
class, its tensors and its logits must be those of the original checkpoint in transformers; the
members of config.json that differ are printed. Needs torch and transformers (these are findings of
transformers 5.24).
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging

HERE = Path(__file__).parent
# The original has another class (multimodal), another format, or needs code from a hub.
OTHERS = {"gemma3-wrapped", "mistral3", "ministral3", "minicpm", "mlx-qwen3", "mlx-qwen3-moe"}
ENCODERS = {"bert", "modernbert", "modernbert-old", "roberta", "xlm-roberta", "embedder-qwen3",
            "embedder-gemma3", "embedder-gemma3-plain"}
IGNORED = {"_name_or_path", "transformers_version"}


def convert(weft, source, out, *options):
    done = subprocess.run([weft, "convert", str(source), str(out), *options],
                          capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip()


def compare(source, folder):
    a, b = AutoConfig.from_pretrained(source), AutoConfig.from_pretrained(folder)
    a = getattr(a, "text_config", a)
    x, y = a.to_dict(), b.to_dict()
    differ = {k: (x.get(k), y.get(k)) for k in sorted(set(x) | set(y))
              if k not in IGNORED and x.get(k) != y.get(k)}
    first = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    second, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                        output_loading_info=True)
    torch.manual_seed(0)
    ids = torch.randint(3, b.vocab_size, (1, 40))
    with torch.no_grad():
        off = (first(input_ids=ids).logits - second(input_ids=ids).logits).abs().max().item()
    problems = {k: v for k, v in info.items() if v}
    listed = json.loads((folder / "config.json").read_text())["architectures"]
    return off, problems, type(second).__name__ == listed[0], differ


def main():
    logging.set_verbosity_error()
    weft, names = sys.argv[1], sys.argv[2:]
    names = names or sorted(p.parent.name for p in HERE.glob("*/config.json")
                            if p.parent.name not in ENCODERS)
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        for name in names:
            source, file = HERE / name, Path(work) / f"{name}.gguf"
            folder = Path(work) / name
            refused = convert(weft, source, file, "--type", "f32")
            if refused or name in OTHERS:
                print(f"{name}: not compared: {refused[-90:] if refused else 'another class'}")
                continue
            refused = convert(weft, file, folder)
            if refused:
                print(f"{name}: FAILED: {refused}")
                failed += 1
                continue
            off, problems, listed, differ = compare(source, folder)
            good = off < 1e-4 and not problems and listed
            failed += not good
            print(f"{name}: {'equal' if good else 'FAILED'}, logits off by {off:.1e} {problems or ''}"
                  f" config: {differ}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
