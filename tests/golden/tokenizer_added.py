"""Writes tokenizer_added.json: what the tokenizers library makes of texts once tokens were added to
the tokenizers of the other files here and to the storyteller's.

    python tests/golden/tokenizer_added.py      (tokenizers 0.23.3)
"""
import json
from pathlib import Path

from tokenizers import Tokenizer

here = Path(__file__).parent
TOKENS = ["<q>", "<hero>", "a b", "\u00e9t\u00e9", "<A>", "zz\"\\z"]
TEXTS = ["<q> abc <hero>ab a b.", "<hero><q>", "ab\u00e9t\u00e9 <A><a>", "a bab zz\"\\z-", "bad <q >",
         ""]


def tokenizers():
    for name in ("small", "models", "words"):
        for entry in json.loads((here / f"tokenizer_{name}.json").read_text()):
            yield f"tokenizer_{name}.json", entry["name"], entry["tokenizer"]
    story = here / "../../examples/storyteller/tokenizer.json"
    yield None, "storyteller", json.loads(story.read_text())


def encoded(t, text):
    try:
        ids = t.encode(text, add_special_tokens=False).ids
    except Exception:  # a word that is no token, without an unknown one
        return None
    return {"text": text, "ids": ids, "decoded": t.decode(ids, skip_special_tokens=False)}


out = []
for file, name, data in tokenizers():
    t = Tokenizer.from_str(json.dumps(data))
    known = [x for x in TOKENS if t.token_to_id(x) is not None]
    tokens = [x for x in TOKENS if x not in known]
    before = max(t.get_vocab(with_added_tokens=True).values()) + 1
    t.add_tokens(tokens)
    ids = [t.token_to_id(x) for x in tokens]
    if ids != list(range(before, before + len(tokens))):  # a vocabulary with gaps
        print("left out:", name, before, ids)
        continue
    texts = [x for x in (encoded(t, text) for text in TEXTS) if x]
    out.append({"file": file, "name": name, "known": known, "tokens": tokens, "first": before,
                "texts": texts})
(here / "tokenizer_added.json").write_text(json.dumps(out, ensure_ascii=True) + "\n")
print(len(out))
