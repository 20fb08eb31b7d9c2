#!/usr/bin/env python3
"""Trains with the weft command from a PEFT adapter and takes the result back to PEFT.

    peft_roundtrip.py WEFT MODELS RECIPE...

WEFT is the command, MODELS the folder of base models, a RECIPE a folder with initial/, final/,
recipe.json and trajectory.safetensors (tests/golden/lora). For each it checks that

- every loss is within 1e-5 and every gradient norm within 1e-4 of PEFT's, with and without
  checkpointing;
- the adapter that weft saves loads in PEFT without a missing or unexpected tensor, and PEFT and
  weft give the same logits with it, which are close to those that PEFT's own run ended with;
- PEFT's own final adapter gives the same logits in weft as in PEFT.

Needs torch, transformers, peft and safetensors; no other test does.
"""

import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch
from peft import PeftModel, get_peft_model_state_dict
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM


def weft(command, *arguments):
    done = subprocess.run([command, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command} {arguments[0]}: exit status {done.returncode}\n{done.stderr}")


def train(command, model, recipe, folder, *more):
    settings = json.loads((recipe / "recipe.json").read_text())
    if recipe.name.endswith("-plus"):  # LoRA+: the rate of B is four times that of A
        more = (*more, "--lora-plus", 4)
    weft(command, "train", model, "--batches", recipe / "trajectory.safetensors",
         "--init-adapter", recipe / "initial", "--out", folder, "--lr", settings["lr"],
         "--weight-decay", settings["weight_decay"], "--schedule", "constant", *more)
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def worst(rows, key, expected):
    assert [row["step"] for row in rows] == list(range(1, len(expected) + 1))
    return max(abs(row[key] - e) / abs(e) for row, e in zip(rows, expected.tolist()))


def peft_logits(model, adapter, ids):
    base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    config = json.loads((adapter / "adapter_config.json").read_text())
    tokens = (config.get("trainable_token_indices") or {}).values()
    size = 1 + max((max(rows) for rows in tokens), default=0)
    if size > base.config.vocab_size:  # the adapter brings new tokens
        base.resize_token_embeddings(size)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Found missing adapter keys")  # else only a warning
        adapted = PeftModel.from_pretrained(base, str(adapter))
    there = {name for name in load_file(str(adapter / "adapter_model.safetensors"))
             if not name.endswith(".base_layer.weight")}
    expected = {name for name in get_peft_model_state_dict(adapted, save_embedding_layers=False)
                if not name.endswith(".base_layer.weight")}
    if base.config.tie_word_embeddings:  # rows of a tied head may be saved, or left out
        there, expected = ({name for name in names if ".lm_head.token_adapter." not in name}
                           for names in (there, expected))
    assert there == expected, there ^ expected
    with torch.no_grad():
        return adapted.eval()(ids.long()).logits


def weft_logits(command, model, adapter, ids, folder):
    save_file({"input_ids": ids.int().contiguous()}, str(folder / "ids.safetensors"))
    weft(command, "logits", model, "--adapter", adapter, "--ids", folder / "ids.safetensors",
         "--out", folder / "logits.safetensors")
    return load_file(str(folder / "logits.safetensors"))["logits"]


def check(command, models, recipe, folder):
    trajectory = load_file(str(recipe / "trajectory.safetensors"))
    model = models / json.loads(
        (recipe / "initial" / "adapter_config.json").read_text())["base_model_name_or_path"
    ].rsplit("/", 1)[-1]
    found = {}
    for name, more in (("plain", []), ("checkpoint", ["--checkpoint"])):
        rows = train(command, model, recipe, folder / name, *more)
        found[f"{name}: loss"] = (worst(rows, "loss", trajectory["losses"]), 1e-5)
        found[f"{name}: norm"] = (worst(rows, "grad_norm", trajectory["grad_norms"]), 1e-4)
    ids = trajectory["batches"][0]
    saved = folder / "plain" / "last"
    ours, theirs = weft_logits(command, model, saved, ids, folder), peft_logits(model, saved, ids)
    found["saved adapter, PEFT against weft"] = ((ours - theirs).abs().max().item(), 2e-5)
    difference = (theirs - trajectory["final_logits"]).abs().max().item()
    found["saved adapter against PEFT's run"] = (difference, 5e-4)
    final = recipe / "final"
    ours, theirs = weft_logits(command, model, final, ids, folder), peft_logits(model, final, ids)
    found["PEFT's adapter, PEFT against weft"] = ((ours - theirs).abs().max().item(), 2e-5)
    return found


def main():
    command, models, failed = sys.argv[1], Path(sys.argv[2]), 0
    for recipe in map(Path, sys.argv[3:]):
        with tempfile.TemporaryDirectory() as folder:
            for name, (value, limit) in check(command, models, recipe, Path(folder)).items():
                failed += not value <= limit
                print(f"{recipe.name}: {name}: {value:.2g} (at most {limit:g})"
                      f"{'' if value <= limit else ' FAILED'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
