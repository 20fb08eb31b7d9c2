"""Compares an adapter of `weft train --task classify`, or with --full the whole model, with what
transformers and PEFT make of it.

    python3 tests/golden/lora/classifier_peft.py WEFT [MODEL] [--full]

It trains the storyteller (or MODEL, which may be a classifier with three labels) a few updates on
texts with three labels and prints the largest difference of log-probabilities between `weft classify` and PeftModel, of texts alone and in a padded
batch.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from peft import PeftModel
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

full = "--full" in sys.argv
sys.argv = [a for a in sys.argv if a != "--full"]
weft = pathlib.Path(sys.argv[1]).resolve()
here = pathlib.Path(__file__).parent
model = str(pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else
                         here / "../../../examples/storyteller").resolve())
work = pathlib.Path(tempfile.mkdtemp())
WORDS = {"court": ["king", "queen"], "animals": ["fox", "wolf", "bear"], "things": ["table", "cup"]}
own = json.loads((pathlib.Path(model) / "config.json").read_text())
if own["architectures"][0].endswith("ForSequenceClassification"):
    WORDS = dict(zip(own["id2label"].values(), WORDS.values()))
rows = [{"text": f"Once there was a {w} and another {w}" + " in the wood" * (i % 3), "label": k}
        for i in range(4) for k, ws in WORDS.items() for w in ws]
(work / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
subprocess.run([str(weft), "train", model, "--task", "classify", "--data", str(work / "rows.jsonl"),
                "--steps", "8", "--out", str(work / "run"), *(["--full"] if full else [])],
               check=True, capture_output=True)
adapter = work / "run" / "last"
texts = ["A king.", "There was a fox in the wood, and it was cold there.", "The cup"]
used = [str(adapter)] if full else [model, "--adapter", str(adapter)]
out = subprocess.run([str(weft), "classify", *used, "--json", *texts], check=True,
                     capture_output=True, text=True).stdout
ours = [{x["label"]: x["logprob"] for x in json.loads(line)["labels"]}
        for line in out.splitlines()]
config = AutoConfig.from_pretrained(adapter)
base, info = AutoModelForSequenceClassification.from_pretrained(
    adapter if full else model, config=config, dtype=torch.float32, output_loading_info=True)
assert not full or not any(info.values()), info
peft = base.eval() if full else PeftModel.from_pretrained(base, adapter).eval()
tokenizer = AutoTokenizer.from_pretrained(model)
if tokenizer.pad_token is None:
    tokenizer.pad_token = tokenizer.eos_token


def apart(theirs, at):
    return max(abs(theirs[i, k].item() - ours[at + i][config.id2label[k]])
               for i in range(theirs.shape[0]) for k in range(config.num_labels))


with torch.no_grad():
    alone = max(apart(peft(**tokenizer([t], return_tensors="pt")).logits.log_softmax(-1), i)
                for i, t in enumerate(texts))
    batch = tokenizer(texts, return_tensors="pt", padding=True, padding_side="right")
    together = apart(peft(**batch).logits.log_softmax(-1), 0)
print(f"labels {list(config.id2label.values())}: log-probabilities differ by {alone:.2g} alone, "
      f"{together:.2g} in a batch")
