"""Compares an adapter of `weft train --add-tokens` with what transformers and PEFT make of it.

    python3 tests/golden/lora/new_tokens.py WEFT [MODEL]

WEFT is the command, MODEL a folder (the storyteller). It trains a few updates on sentences with four
new tokens and prints: whether transformers' add_tokens on the base gives the same ids as the saved
tokenizer, how far the logits of AutoPeftModelForCausalLM and of the fused model in transformers are
from Weft's, and how far the rows' start is from that of resize_token_embeddings.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from peft import AutoPeftModelForCausalLM
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

weft = pathlib.Path(sys.argv[1]).resolve()
here = pathlib.Path(__file__).parent
model = str(pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else
                         here / "../../../examples/storyteller").resolve())
work = pathlib.Path(tempfile.mkdtemp())
TOKENS = ["<q>", "<a>", "<hero>", "\u00e9t\u00e9s"]
TEXTS = ["<q> Where was the <hero>? <a> At home.", "<hero><hero> in two \u00e9t\u00e9s <b>", "none"]


def run(*words):
    return subprocess.run([str(weft), *words], check=True, capture_output=True, text=True).stdout


def weft_logits(folder, ids, *adapter):
    save_file({"input_ids": torch.tensor([ids], dtype=torch.int32)}, work / "ids.safetensors")
    run("logits", folder, *adapter, "--ids", str(work / "ids.safetensors"), "--out",
        str(work / "logits.safetensors"))
    return next(iter(load_file(work / "logits.safetensors").values()))[0]


rows = [{"prompt": f"<q> Who was number {i}? <a>", "completion": f" The <hero> of {i % 5} \u00e9t\u00e9s."}
        for i in range(24)]
(work / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
(work / "new.txt").write_text("\n".join(TOKENS) + "\n")
run("train", model, "--data", str(work / "rows.jsonl"), "--add-tokens", str(work / "new.txt"),
    "--steps", "20", "--lr", "2e-3", "--out", str(work / "run"))
adapter = work / "run" / "last"
base_tokenizer = AutoTokenizer.from_pretrained(model)
old = len(base_tokenizer)
base_tokenizer.add_tokens(TOKENS)
saved = AutoTokenizer.from_pretrained(adapter)
for text in TEXTS:
    a, b = base_tokenizer(text).input_ids, saved(text).input_ids
    c = [int(x) for x in run("tokenize", str(adapter), "--prompt", text).split()]
    print("ids equal" if a == b == c else f"ids differ: {a} {b} {c}", len(a))
peft = AutoPeftModelForCausalLM.from_pretrained(adapter, dtype=torch.float32).eval()
run("fuse", model, str(adapter), str(work / "fused"), "--type", "f32")
fused = AutoModelForCausalLM.from_pretrained(work / "fused", dtype=torch.float32).eval()
for text in TEXTS:
    ids = saved(text).input_ids
    with torch.no_grad():
        theirs = peft(torch.tensor([ids])).logits[0]
        theirs_fused = fused(torch.tensor([ids])).logits[0]
    ours = weft_logits(model, ids, "--adapter", str(adapter))
    print(f"logits of {tuple(ours.shape)}: PEFT {(ours - theirs).abs().max():.2g}, "
          f"fused {(ours - theirs_fused).abs().max():.2g}")
resized = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
rows = resized.get_input_embeddings().weight.shape[0]
mean = resized.get_input_embeddings().weight.detach()[:old].mean(0)
deviation = resized.get_input_embeddings().weight.detach()[:old].std(0).mean()
resized.resize_token_embeddings(old + len(TOKENS))
start = resized.get_input_embeddings().weight.detach()[rows:]
if len(start):
    print(f"resize_token_embeddings differs from the mean by {(start - mean).abs().max():.2g}; "
          f"standard deviation of rows {deviation:.2g}")
