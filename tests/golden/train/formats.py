"""Writes formats.json: the rows of formats.jsonl as TRL tokenizes them, with five real tokenizers.

    python3 tests/golden/train/formats.py FOLDER

FOLDER has gemma2/, gemma3/, llama3_2/, qwen2_5/ and qwen3/ with tokenizer.json and
tokenizer_config.json. Each line of formats.jsonl has a row, the objective that reads it, and where TRL
has no such format the same row in one that it has ("as"). The samples are those of the
_prepare_dataset of SFTTrainer, DPOTrainer and KTOTrainer: "ids", and in "weights" what they train.
Gemma 2's tokenizer here has no chat template, and Gemma 3's takes no tools ("without"): their samples
of such rows are null.
"""
import itertools
import json
import logging
import pathlib
import sys
import types

import datasets.fingerprint
from transformers import AutoTokenizer
from trl import DPOTrainer, SFTTrainer
from trl.trainer.kto_trainer import KTOTrainer

here = pathlib.Path(__file__).parent
datasets.disable_progress_bars()
logging.disable(logging.WARNING)
# Datasets in memory have no cache, so their fingerprints need only differ. Hashing the function of a
# map pickles the tokenizer that it refers to: up to 13 seconds for each row.
fingerprints = itertools.count()
datasets.fingerprint.Hasher.hash = staticmethod(lambda value: str(next(fingerprints)))


def prepared(trainer, tokenizer, row, **options):
    self = types.SimpleNamespace(_tokenizer=tokenizer, calculate_KL=False, desirable_weight=1,
                                 undesirable_weight=1)
    args = types.SimpleNamespace(dataset_num_proc=None, max_length=None, truncation_mode="keep_end",
                                 dataset_text_field="text", assistant_only_loss=False,
                                 shuffle_dataset=False)
    if trainer is SFTTrainer:
        self.chat_template = None
        self._is_vlm, self.completion_only_loss = False, True
        options = {"packing": False, "formatting_func": None}
    data = datasets.Dataset.from_list([row])
    return list(trainer._prepare_dataset(self, data, tokenizer, args, dataset_name="train", **options))


def completion(prompt, answer):
    return {"ids": prompt + answer, "weights": [0] * len(prompt) + [1] * len(answer)}


def samples_of(tokenizer, line):
    row = line.get("as", line["row"])
    if line["objective"] == "dpo":
        [made] = prepared(DPOTrainer, tokenizer, row)
        return [completion(made["prompt_ids"], made[side + "_ids"]) for side in ("chosen", "rejected")]
    if line["objective"] == "kto":
        return [dict(completion(made["prompt_ids"], made["completion_ids"]), label=made["label"])
                for made in prepared(KTOTrainer, tokenizer, row)]
    [made] = prepared(SFTTrainer, tokenizer, row)
    return [{"ids": made["input_ids"],
             "weights": [int(label != -100) for label in made["labels"]]}]


def takes(tokenizer, name, line):
    told = any(isinstance(value, list) for value in line.get("as", line["row"]).values())
    return name not in line.get("without", []) and (tokenizer.chat_template or not told)


lines = [json.loads(line) for line in (here / "formats.jsonl").read_text().splitlines()]
out = {}
for name in ("gemma2", "gemma3", "llama3_2", "qwen2_5", "qwen3"):
    tokenizer = AutoTokenizer.from_pretrained(f"{sys.argv[1]}/{name}")
    out[name] = [samples_of(tokenizer, line) if takes(tokenizer, name, line) else None
                 for line in lines]
(here / "formats.json").write_text(json.dumps(out) + "\n")
