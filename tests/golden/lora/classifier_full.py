"""tests/golden/lora/classifier_full.py WEFT -- for each model in tests/golden/models: trains a classifier
whole (weft train --task classify --full), and compares the probabilities of `weft classify` with those of
transformers' AutoModelForSequenceClassification. Prints the largest difference, or why transformers does not
load the folder."""
import json
import math
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging

logging.disable_progress_bar()
MODELS = Path(__file__).parent.parent / "models"
ROWS = [{"text": t, "label": l} for t, l in (("king", "a"), ("wolf", "b"), ("prince", "a"), ("hen", "b"))]


def letters(folder):
    """A tokenizer of letters, for models that are stored without one."""
    special = ["<unk>", "<s>", "</s>"]
    vocabulary = special + [chr(c) for c in range(ord("a"), ord("z") + 1)]
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None,
        "added_tokens": [{"id": i, "content": c, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, c in enumerate(special)],
        "model": {"type": "BPE", "unk_token": "<unk>", "merges": [],
                  "vocab": {c: i for i, c in enumerate(vocabulary)}}}))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "</s>", "unk_token": "<unk>"}))


def compare(weft, source, work):
    model = work / "model"
    shutil.copytree(source, model)
    if not (model / "tokenizer.json").exists():
        letters(model)
    (work / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    run = subprocess.run([weft, "train", model, "--task", "classify", "--data", work / "rows.jsonl",
                          "--val-split", "0", "--full", "--steps", "1", "--lr", "1e-3", "--dtype", "float32",
                          "--out", work / "run"], capture_output=True, text=True)
    if run.returncode:
        return run.stderr.strip().splitlines()[-1][:160]
    last = work / "run" / "last"
    answer = json.loads(subprocess.run([weft, "classify", last, "fox", "--json", "--dtype", "float32"],
                                       capture_output=True, text=True, check=True).stdout)
    try:
        theirs = AutoModelForSequenceClassification.from_pretrained(last, dtype=torch.float32).eval()
    except (ValueError, RuntimeError) as error:
        return "transformers: %s" % str(error).splitlines()[0][:160]
    ids = AutoTokenizer.from_pretrained(last)("fox", return_tensors="pt").input_ids
    with torch.no_grad():
        expected = theirs(input_ids=ids).logits.softmax(-1)[0].tolist()
    names = theirs.config.id2label.values()
    return "%.1e" % max(abs(math.exp(label["logprob"]) - p) for name, p in zip(names, expected)
                        for label in answer["labels"] if label["label"] == name)


def main(weft):
    for source in sorted(p.parent for p in MODELS.glob("*/config.json")):
        with tempfile.TemporaryDirectory() as work:
            print(source.name, "|", compare(weft, source, Path(work)), flush=True)


main(sys.argv[1])
