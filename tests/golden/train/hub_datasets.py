"""Writes hub_datasets.json: which files the datasets library takes for the splits of repositories.

    python3 tests/golden/train/hub_datasets.py

Each repository has a card, the paths of its files, and for names in Weft's form (ORG/NAME/CONFIG:SPLIT)
the files of that split. datasets 5.2 reads the repositories from folders.
"""
import json
import logging
import pathlib
import tempfile

import datasets

here = pathlib.Path(__file__).parent
logging.disable(logging.WARNING)
CARD = "---\nlanguage:\n- en\n{}---\n\n# A dataset\n\nconfigs: not these\n"
PUSHED = "configs:\n- config_name: default\n  data_files:\n  - split: train\n    path: data/train-*\n  - split: test\n    path: data/test-*\n"
TWO = """configs:
- config_name: easy
  data_files:
  - split: train
    path: easy/train-*
- config_name: hard
  default: true
  data_files:
  - split: train
    path:
    - hard/train-*
    - "more/**/*.parquet"
  - split: train_sft
    path: hard/sft.parquet
"""
repositories = [
    ("pushed", PUSHED, ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet",
                        "data/test-00000-of-00001.parquet", "data/extra-00000-of-00001.parquet"],
     [("", "train"), ("", "test")]),
    ("two", TWO, ["easy/train-00000-of-00001.parquet", "hard/train-00000-of-00001.parquet", "hard/sft.parquet",
                  "more/a/b.parquet", "more/c.parquet", "more/c.txt"],
     [("", "train"), ("easy", "train"), ("hard", "train"), ("hard", "train_sft")]),
    ("path", "configs:\n- config_name: default\n  data_files: rows.jsonl\n", ["rows.jsonl", "other.jsonl"],
     [("", "train")]),
    ("list", "configs:\n- config_name: default\n  data_files:\n  - a.csv\n  - b/*.csv\n", ["a.csv", "b/1.csv", "b/2.csv", "c.csv"],
     [("", "train")]),
    ("folder", "configs:\n- config_name: one\n  data_dir: one\n- config_name: two\n  data_dir: two\n",
     ["one/train.jsonl", "one/test.jsonl", "two/rows.jsonl"], [("one", "train"), ("one", "test"), ("two", "train")]),
    ("within", "configs:\n- config_name: de\n  data_dir: de\n- config_name: en\n  data_dir: en\n  data_files:\n"
     "  - split: train\n    path: t-*.jsonl\n",
     ["en/t-1.jsonl", "en/t-2.jsonl", "en/u-1.jsonl", "de/t-1.jsonl"], [("en", "train"), ("de", "train")]),
    ("no-configs", "", ["train.jsonl", "test.jsonl", "validation.jsonl", "notes.jsonl"],
     [("", "train"), ("", "test"), ("", "validation")]),
    ("names", None, ["my_train_file.csv", "my-dev-file.csv", "eval.csv"], [("", "train"), ("", "validation"), ("", "test")]),
    ("folders", None, ["train/a.json", "train/b.json", "test/a.json"], [("", "train"), ("", "test")]),
    ("unnamed", None, ["a.jsonl", "b.jsonl"], [("", "train")]),
    ("shards", None, ["data/train-00000-of-00001.parquet", "data/sft_only-00000-of-00001.parquet"],
     [("", "train"), ("", "sft_only")]),
    ("compressed", None, ["train.jsonl.gz", "valid.jsonl.gz"], [("", "train"), ("", "validation")]),
    ("formats", None, ["train-1.parquet", "train-2.parquet", "train.csv"], [("", "train")]),
    ("ignored", None, ["rows.json", "dataset_infos.json", ".hidden.json"], [("", "train")]),
]

out = []
for name, configs, files, asked in repositories:
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        card = None if configs is None else CARD.format(configs)
        if card is not None:
            (folder / "README.md").write_text(card)
        for path in files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text("{}")
        splits = []
        for config, split in asked:
            builder = datasets.load_dataset_builder(str(folder), name=config or None)
            found = builder.config.data_files[split]
            splits.append({"name": f"org/{name}{'/' + config if config else ''}{'' if split == 'train' else ':' + split}",
                           "files": sorted(str(pathlib.Path(p).relative_to(folder.resolve())) for p in found)})
        out.append({"name": name, "card": card, "files": files, "splits": splits})
(here / "hub_datasets.json").write_text(json.dumps(out, indent=1) + "\n")
