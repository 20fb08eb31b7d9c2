"""Writes tokenizer_small.json: small tokenizers, one for each thing that a tokenizer.json can ask
for, with texts and what the tokenizers library makes of them.

    python tests/golden/tokenizer_small.py      (tokenizers 0.23.3)
"""
import json
from pathlib import Path

from tokenizers import Tokenizer

BYTES = [f"<0x{b:02X}>" for b in range(256)]


def model(tokens, merges=(), **options):
    vocab = {}
    for token in tokens:
        vocab.setdefault(token, len(vocab))
    for merge in merges:
        vocab.setdefault("".join(merge), len(vocab))
    return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
            "vocab": vocab, "merges": [list(m) for m in merges], **options}


LETTERS = list("abcdefgh 12-.▁é_")
PLAIN = model(["<unk>", *LETTERS], [("a", "b"), ("ab", "c"), (" ", "a"), ("1", "2"), ("-", "-"),
                                    ("b", "-"), ("-", "b"), ("▁", "a"), ("b", "c")],
              unk_token="<unk>")


def added(content, token_id, **options):
    return {"id": token_id, "content": content, "single_word": False, "lstrip": False,
            "rstrip": False, "normalized": False, "special": False, **options}


def split(pattern, behavior, invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def template(before, after, ids):
    def piece(name):
        return {"SpecialToken": {"id": name, "type_id": 0}}
    return {"type": "TemplateProcessing",
            "single": [*map(piece, before), {"Sequence": {"id": "A", "type_id": 0}},
                       *map(piece, after)],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                     {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {n: {"id": n, "ids": [i], "tokens": [n]} for n, i in ids.items()}}


def tokenizer(**parts):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
            "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None,
            "model": PLAIN, **parts}


def variants():
    string, regex = {"String": "-"}, {"Regex": "-+|\\s+"}
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            name = f"Split {behavior}{' inverted' if invert else ''}"
            yield name, tokenizer(pre_tokenizer=split(string, behavior, invert))
            yield name + ", regex", tokenizer(pre_tokenizer=split(regex, behavior, invert))
    yield "Digits", tokenizer(pre_tokenizer={"type": "Digits", "individual_digits": False})
    yield "single digits", tokenizer(pre_tokenizer={"type": "Digits", "individual_digits": True})
    for scheme in ("always", "first", "never"):
        for cut in (True, False):
            step = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": cut}
            yield f"Metaspace {scheme} {cut}", tokenizer(
                pre_tokenizer=step, added_tokens=[added("<s>", 90)])
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                  "use_regex": True}
    gpt2 = model(["Ġ", "Ċ", *"abcdefgh12-.'tsĠÃ©"], [("Ġ", "a"), ("a", "b"), ("Ġa", "b"), ("'", "t")])
    yield "ByteLevel as GPT-2", tokenizer(model=gpt2, pre_tokenizer=byte_level, decoder=byte_level,
                                          added_tokens=[added("<s>", 90, special=True)])
    yield "ignore_merges", tokenizer(model={**PLAIN, "ignore_merges": True})
    yield "Prepend and Replace", tokenizer(
        normalizer={"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        added_tokens=[added("<s>", 90)])
    yield "Replace by pattern", tokenizer(
        normalizer={"type": "Replace", "pattern": {"Regex": "[bc]+"}, "content": "-"})
    yield "Lowercase", tokenizer(normalizer={"type": "Lowercase"})
    yield "Lowercase, newer letters", tokenizer(
        model=model(["<unk>", *"ab\u0264\u019b\u1c8a\U00010d70"], unk_token="<unk>"),
        normalizer={"type": "Lowercase"})
    for left, right in ((True, True), (True, False), (False, True)):
        yield f"Strip {left} {right}", tokenizer(
            normalizer={"type": "Strip", "strip_left": left, "strip_right": right})
    for scheme in ("always", "first", "never"):
        step = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True}
        yield f"Metaspace decoder {scheme}", tokenizer(pre_tokenizer=step, decoder=step)
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        yield form, tokenizer(normalizer={"type": form})
    fallback = model(["<unk>", *BYTES, *"ab▁"], [("a", "b")], unk_token="<unk>", byte_fallback=True,
                     fuse_unk=True)
    decoder = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
        {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    yield "byte fallback", tokenizer(model=fallback, decoder=decoder)
    yield "fused unknowns", tokenizer(model={**PLAIN, "fuse_unk": True})
    yield "no unknown token", tokenizer(model={**PLAIN, "unk_token": None})
    yield "merges as text", tokenizer(
        model={**PLAIN, "merges": ["a b", "ab c", "- -", "b c"]})
    for option in ("lstrip", "rstrip", "single_word", "normalized", "special"):
        yield f"added token, {option}", tokenizer(
            added_tokens=[added("bc", 90, **{option: True}), added("bcd", 91)])
    yield "added token behind NFC", tokenizer(
        normalizer={"type": "NFC"}, added_tokens=[added("e\u0301", 90, normalized=True)])
    yield "template", tokenizer(
        added_tokens=[added("<s>", 90, special=True), added("</s>", 91, special=True)],
        post_processor={"type": "Sequence", "processors": [
            {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False,
             "use_regex": True},
            template(["<s>", "<s>"], ["</s>"], {"<s>": 90, "</s>": 91})]})


TEXTS = ["", " ", "abc", "ab-c", "--ab--c--", "-a -b - -c ", "a--1-2", "  abc  abc ", "ab 12 1a2 212",
         "abcbcdbc", "a bc d", "a  bc  d bc", " bc ", "e\u0301bc\u00e9", "\ufb01\u00e9\uac00", "▁a b▁",
         "zaz zzaz\U0001f600z", "<s>ab<s> ab<s>", "ab\nab\n\nab", "don't a", "\u00e9", "a_bc_ bc.bc",
         "<s>", "</s>ab</s>", "ABC dAB\u0130\u00c9", "\u3000 ab\n\u00a0",
         "\u32ff\U00011938\U0001fbf1a\ua7f2", "\ua7cb\u1c89\ua7dcA\U00010d50"]


def main():
    lines = []
    for name, description in variants():
        # The library numbers added tokens itself: as in the vocabulary, else the next free id.
        vocab, moved = description["model"]["vocab"], {}
        for token in description["added_tokens"]:
            known = vocab.get(token["content"])
            size = len(vocab) + sum(i >= len(vocab) for i in moved.values())
            moved[token["id"]] = size if known is None else known
            token["id"] = moved[token["id"]]
        processor = description["post_processor"]
        if processor:
            for special in processor["processors"][1]["special_tokens"].values():
                special["ids"] = [moved[i] for i in special["ids"]]
        text = json.dumps(description)
        library = Tokenizer.from_str(text)
        cases = []
        for sample in TEXTS:
            ids = library.encode(sample, add_special_tokens=False).ids
            special = library.encode(sample, add_special_tokens=True).ids
            cases.append({"text": sample, "ids": ids, "ids_special": special,
                          "decoded": library.decode(special, skip_special_tokens=False),
                          "skipped": library.decode(special, skip_special_tokens=True)})
        lines.append(json.dumps({"name": name, "tokenizer": description, "cases": cases},
                                separators=(",", ":")))
    (Path(__file__).parent / "tokenizer_small.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


main()
