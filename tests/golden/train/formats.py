"""Writes formats.json: the rows of formats.jsonl as TRL tokenizes them, with five real tokenizers.

    python3 tests/golden/train/formats.py FOLDER

FOLDER has gemma2/, gemma3/, llama3_2/, qwen2_5/ and qwen3/ with tokenizer.json and
tokenizer_config.json. Each line of formats.jsonl has a row, the objective that reads it, and where TRL
has no such format the same row in one that it has ("as"). The samples are those of the
_prepare_dataset of SFTTrainer, DPOTrainer and KTOTrainer: "ids", and in "weights" what they train.
Gemma 2's tokenizer here has no chat template, and Gemma 3's takes no tools ("without"): their samples
of such rows are null.
"""
import json
import logging
import pathlib
import sys
import types

import datasets
from transformers import AutoTokenizer
from trl import DPOTrainer, SFTTrainer
from trl.trainer.kto_trainer import KTOTrainer

here = pathlib.Path(__file__).parent
datasets.disable_progress_bars()
logging.disable(logging.WARNING)


def prepared(trainer, tokenizer, rows, **options):
    self = types.SimpleNamespace(_tokenizer=tokenizer, calculate_KL=False, desirable_weight=1,
                                 undesirable_weight=1)
    args = types.SimpleNamespace(dataset_num_proc=None, max_length=None, truncation_mode="keep_end",
                                 dataset_text_field="text", assistant_only_loss=False,
                                 shuffle_dataset=False)
    if trainer is SFTTrainer:
        self.chat_template = None
        self._is_vlm, self.completion_only_loss = False, True
        options = {"packing": False, "formatting_func": None}
    data = datasets.Dataset.from_list(rows)
    return list(trainer._prepare_dataset(self, data, tokenizer, args, dataset_name="train", **options))


def completion(prompt, answer):
    return {"ids": prompt + answer, "weights": [0] * len(prompt) + [1] * len(answer)}


def samples_of(tokenizer, lines):
    """The samples of each line; the lines have the same objective and members."""
    rows, objective = [line.get("as", line["row"]) for line in lines], lines[0]["objective"]
    if objective == "dpo":
        return [[completion(made["prompt_ids"], made[side + "_ids"]) for side in ("chosen", "rejected")]
                for made in prepared(DPOTrainer, tokenizer, rows)]
    if objective == "kto":
        made = [dict(completion(m["prompt_ids"], m["completion_ids"]), label=m["label"])
                for m in prepared(KTOTrainer, tokenizer, rows)]
        return [made[i::len(rows)] if "chosen" in row else [made[i]] for i, row in enumerate(rows)]
    return [[{"ids": made["input_ids"],
              "weights": [int(label != -100) for label in made["labels"]]}]
            for made in prepared(SFTTrainer, tokenizer, rows)]


def takes(tokenizer, name, line):
    told = any(isinstance(value, list) for value in line.get("as", line["row"]).values())
    return name not in line.get("without", []) and (tokenizer.chat_template or not told)


def main():
    lines = [json.loads(line) for line in (here / "formats.jsonl").read_text().splitlines()]
    out = {}
    for name in ("gemma2", "gemma3", "llama3_2", "qwen2_5", "qwen3"):
        tokenizer = AutoTokenizer.from_pretrained(f"{sys.argv[1]}/{name}")
        out[name] = [samples_of(tokenizer, [line])[0] if takes(tokenizer, name, line) else None
                     for line in lines]
    (here / "formats.json").write_text(json.dumps(out) + "\n")


if __name__ == "__main__":
    main()
