"""Writes tokenizer_words.json: WordLevel tokenizers, and tokenizers whose Metaspace puts a mark in
front of the first piece alone behind normalizers that remove characters, with what the tokenizers
library makes of some texts.

    python tests/golden/tokenizer_words.py                  (tokenizers 0.22 and later)
    python tests/golden/tokenizer_words.py FOLDER           as FOLDER/NAME/tokenizer.json, for
                                                            tokenizer_compare.py
"""
import sys

sys.path.pop(0)  # this folder has a random.py, which is not the module of that name
import json  # noqa: E402
import random  # noqa: E402
import re  # noqa: E402
from pathlib import Path  # noqa: E402

from tokenizers import Tokenizer  # noqa: E402

HERE = Path(__file__).resolve().parent
TEXT = (HERE.parents[1] / "examples/data/shakespeare.txt").read_text()[:60000]
MARK = "\u2581"


def added(content, token_id, **options):
    return {"id": token_id, "content": content, "single_word": False, "lstrip": False,
            "rstrip": False, "normalized": False, "special": True, **options}


def tokenizer(model, **parts):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
            "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None,
            "model": model, **parts}


def sequence(key, *steps):
    return {"type": "Sequence", key: list(steps)}


def replace(regex, content):
    return {"type": "Replace", "pattern": {"Regex": regex}, "content": content}


def words(lowercase):
    text = TEXT.lower() if lowercase else TEXT
    counts = {}
    for word in re.findall(r"\w+|[^\w\s]+", text):
        counts[word] = counts.get(word, 0) + 1
    most = sorted(counts, key=lambda w: (-counts[w], w))[:300]
    return {w: i for i, w in enumerate(["<unk>", "<s>", "</s>", "[UNK]", *most])}


def word_levels():
    spaces, punctuation = {"type": "WhitespaceSplit"}, {"type": "Punctuation"}
    vocab = words(True)
    special = [added(t, vocab[t]) for t in ("<unk>", "<s>", "</s>")]
    pieces = [{"SpecialToken": {"id": "<s>", "type_id": 0}},
              {"Sequence": {"id": "A", "type_id": 0}}]
    yield "words", tokenizer(
        {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"}, added_tokens=special,
        normalizer={"type": "Lowercase"},
        pre_tokenizer=sequence("pretokenizers", spaces, punctuation),
        post_processor={"type": "TemplateProcessing", "single": pieces,
                        "pair": [*pieces, {"Sequence": {"id": "B", "type_id": 1}}],
                        "special_tokens": {"<s>": {"id": "<s>", "ids": [vocab["<s>"]],
                                                   "tokens": ["<s>"]}}})
    yield "words between spaces", tokenizer(
        {"type": "WordLevel", "vocab": words(False), "unk_token": "<unk>"}, pre_tokenizer=spaces)
    yield "whole texts", tokenizer(
        {"type": "WordLevel", "vocab": {"<unk>": 0, "hello world": 1, "": 2, "a": 3},
         "unk_token": "<unk>"})


def firsts():
    characters = sorted({c for c in TEXT + "\u00e9\u0301\u00e4" if c not in " \n"})
    vocab = {t: i for i, t in enumerate(["<unk>", "<s>", MARK, *characters])}
    for a in ("t", "a", "x", "th"):
        vocab[MARK + a] = len(vocab)
    vocab["th"] = len(vocab)
    merges = [["t", "h"], [MARK, "t"], [MARK, "a"], [MARK, "x"], [MARK, "th"]]
    model = {"type": "BPE", "dropout": None, "unk_token": "<unk>",
             "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
             "byte_fallback": False, "ignore_merges": False, "vocab": vocab, "merges": merges}
    metaspace = {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "first", "split": True}
    special = [added("<s>", 1)]
    removers = {
        "first": None,
        "first, letters removed": replace("[ax]", ""),
        "first, spaces removed": replace(" ", ""),
        "first, the start removed": replace("^.", ""),
        "first, stripped": {"type": "Strip", "strip_left": True, "strip_right": True},
        "first, accents removed": sequence("normalizers", {"type": "NFD"},
                                           {"type": "StripAccents"}),
        "first, something in front": {"type": "Prepend", "prepend": "x"},
        "first, everything removed": replace(".", ""),
        "first, cleaned": {"type": "BertNormalizer", "clean_text": True,
                           "handle_chinese_chars": True, "strip_accents": None,
                           "lowercase": False},
    }
    for name, normalizer in removers.items():
        yield name, tokenizer(model, added_tokens=special, normalizer=normalizer,
                              pre_tokenizer=metaspace, decoder=metaspace)
        # A token that the normalizer changes is another matter.
        if normalizer and not name.endswith(("start removed", "front", "everything removed")):
            yield name + ", token behind it", tokenizer(
                model, added_tokens=[added("<s>", 1, normalized=True)], normalizer=normalizer,
                pre_tokenizer=metaspace, decoder=metaspace)


HARD = ["", " ", "  ", "a", "x", "ax", "a b", " a", "xa the", "the a x", "<s>", "<s>the", "a<s>the",
        "x<s>the", " <s> the", "<s><s>the", "the<s>the<s> the", "ax<s>ax<s>the", "\u00e9t\u00e9",
        "\u0301a", "\u0301<s>a", "\x01\x02the", "\x01<s>the", "hello world", "hello", "Hello world",
        "\u2581the", "\u2581", "a\u2581the", "king  king", "The King, the king. [UNK] <unk>",
        "\u4e00the", "x x x", "xxx", "aaa", "  the  ", "\n", "a\nthe", "the\tthe"]


def texts(count):
    rng = random.Random(5)
    pieces = [*"ax t\u00e9\u0301\x01", "the", "<s>", "th", " the", "king", ", "]
    for _ in range(count):
        if rng.randrange(2):
            yield "".join(rng.choice(pieces) for _ in range(rng.choice([2, 4, 9])))
        else:
            start = rng.randrange(len(TEXT))
            yield TEXT[start:start + 40]


def golden():
    samples, lines = [*HARD, *texts(60)], []
    for name, description in [*word_levels(), *firsts()]:
        library = Tokenizer.from_str(json.dumps(description))
        cases = []
        for sample in samples:
            ids = library.encode(sample, add_special_tokens=False).ids
            special = library.encode(sample, add_special_tokens=True).ids
            cases.append({"text": sample, "ids": ids, "ids_special": special,
                          "decoded": library.decode(special, skip_special_tokens=False),
                          "skipped": library.decode(special, skip_special_tokens=True)})
        lines.append(json.dumps({"name": name, "tokenizer": description, "cases": cases},
                                separators=(",", ":")))
    (HERE / "tokenizer_words.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


def large(folder):
    for name, description in [*word_levels(), *firsts()]:
        path = Path(folder) / name.replace(" ", "-").replace(",", "") / "tokenizer.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(description))


if len(sys.argv) > 1:
    large(sys.argv[1])
else:
    golden()
