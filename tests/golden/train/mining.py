"""Writes mining/: pairs and corpora, and the rows that sentence-transformers' mine_hard_negatives makes of them.

    python3 tests/golden/train/mining.py [FOLDER]

bert.jsonl and bert-corpus.jsonl are random words, for ../models/bert. minilm.jsonl is docs/glossary.md: terms and
their meanings, for the real all-MiniLM-L6-v2 in FOLDER (that of tools/real_models.sh). Each MODEL-CASE.jsonl has the
rows of sentence-transformers 6.2.0 for the options of the case, on the CPU. The scores of candidates differ by more
than what rounding changes, which is checked.
"""
import contextlib
import io
import json
import pathlib
import random
import re
import sys

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import mine_hard_negatives

here = pathlib.Path(__file__).parent
out = here / "mining"
WORDS = ["bread", "king", "ship", "moon", "tree", "river", "stone", "owl", "crow", "fox", "gold", "rain"]
CASES = {
    "bert": {
        "triplets": {},
        "tuples": dict(range_min=2, range_max=20, num_negatives=4, output_format="n-tuple", corpus=True),
        "relative": dict(relative_margin=0.02, num_negatives=2),
        "limits": dict(max_score=0.93, min_score=0.85, num_negatives=2, corpus=True),
        "margin": dict(absolute_margin=0.01, num_negatives=1),
    },
    "minilm": {
        "triplets": dict(num_negatives=2),
        "relative": dict(relative_margin=0.05, range_min=1, range_max=30, num_negatives=2, output_format="n-tuple"),
        "limits": dict(absolute_margin=0.1, max_score=0.25, min_score=0.15, num_negatives=2),
    },
}


def write(path, rows):
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))


def text(n):
    return " ".join(random.choice(WORDS) for _ in range(n))


def words():
    random.seed(17)
    rows = [{"query": text(3), "passage": text(6)} for _ in range(30)]
    for i in range(3):  # anchors with several positives, one of them twice, and a positive of two anchors
        rows[20 + i]["query"] = rows[i]["query"]
        rows[10 + i]["passage"] = rows[15 + i]["passage"]
    rows[29] = dict(rows[0])
    return rows, [{"text": text(5)} for _ in range(20)] + [{"text": rows[3]["passage"]}]


def glossary():
    lines = (here / "../../../docs/glossary.md").read_text().splitlines()
    cells = [re.match(r"\| (.+?) \| (.+) \|$", line) for line in lines]
    return [{"query": m[1], "passage": m[2]} for m in cells if m and m[1] != "term"][:40]


def check(model, rows, corpus):
    """Equal vectors aside, the cosines of each anchor differ."""
    q = model.encode(list({r["query"] for r in rows}), normalize_embeddings=True, convert_to_tensor=True)
    d = model.encode(list({r["passage"] for r in rows} | {r["text"] for r in corpus}), normalize_embeddings=True,
                     convert_to_tensor=True)
    scores = (q @ d.T).sort(dim=1).values
    print("least difference of cosines:", (scores[:, 1:] - scores[:, :-1]).min().item())


def main(name, path, rows, corpus):
    model = SentenceTransformer(str(path), device="cpu")
    check(model, rows, corpus)
    write(out / f"{name}.jsonl", rows)
    if corpus:
        write(out / f"{name}-corpus.jsonl", corpus)
    data = Dataset.from_dict({"anchor": [r["query"] for r in rows], "positive": [r["passage"] for r in rows]})
    for case, options in CASES[name].items():
        o = dict(options)
        texts = [r["text"] for r in corpus] if o.pop("corpus", False) else None
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            found = mine_hard_negatives(data, model, corpus=texts, **o)
        print(name, case, len(found), [x for x in printed.getvalue().splitlines() if "Skipped" in x or "Could" in x])
        write(out / f"{name}-{case}.jsonl", found.to_list())


torch.set_num_threads(1)
out.mkdir(exist_ok=True)
main("bert", here / "../models/bert", *words())
if len(sys.argv) > 1:
    main("minilm", f"{sys.argv[1]}/all-minilm-l6-v2", glossary(), [])
