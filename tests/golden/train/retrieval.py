"""Writes retrieval/rows.jsonl and retrieval/expected.json: sentence-transformers' measures of a ranking.

    python3 tests/golden/train/retrieval.py

Rows with queries that occur twice, equal passages and negatives, and what the
InformationRetrievalEvaluator of sentence-transformers 6.2.0 measures on them with ../models/bert on the CPU.
"""
import json
import pathlib
import random

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

here = pathlib.Path(__file__).parent
words = ["bread", "king", "ship", "moon", "tree", "river", "stone", "owl", "crow", "fox", "gold", "rain"]


def text(n):
    return " ".join(random.choice(words) for _ in range(n))


random.seed(11)
rows = [{"query": text(3), "passage": text(6), "negative": text(5)} for _ in range(60)]
for i in range(8):  # a query with two passages, and two queries with one passage
    rows[50 + i]["query"] = rows[i]["query"]
    rows[20 + i]["passage"] = rows[30 + i]["passage"]
rows[59] = dict(rows[0])
queries, documents, relevant = {}, {}, {}
for r in rows:
    q = queries.setdefault(r["query"], f"q{len(queries)}")
    for d in (r["passage"], r["negative"]):
        documents.setdefault(d, f"d{len(documents)}")
    relevant.setdefault(q, set()).add(documents[r["passage"]])
evaluator = InformationRetrievalEvaluator(
    {v: k for k, v in queries.items()}, {v: k for k, v in documents.items()}, relevant,
    mrr_at_k=[10], ndcg_at_k=[10], accuracy_at_k=[1], precision_recall_at_k=[1, 10, 100])
found = evaluator(SentenceTransformer(str(here / ".." / "models" / "bert"), device="cpu"))
names = ["ndcg@10", "mrr@10", "recall@1", "recall@10", "recall@100"]
expected = {n: float(found["cosine_" + n]) for n in names}
expected |= {"queries": len(queries), "documents": len(documents)}
(here / "retrieval" / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
(here / "retrieval" / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
print(expected)
