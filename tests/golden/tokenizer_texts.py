"""Writes tokenizer_texts.json: random texts, and what the tokenizers library makes of them
with the storyteller's tokenizer.

    python tests/golden/tokenizer_texts.py            (tokenizers 0.23.3)
"""
import json
import random
from pathlib import Path

from tokenizers import Tokenizer

here = Path(__file__).parent
source = here.parent.parent / "examples/storyteller/tokenizer.json"


def characters(rng):
    """A few generators of characters, so that a text mixes a few scripts rather than all."""
    pools = [
        lambda: chr(rng.randrange(32, 127)),
        lambda: rng.choice(" \t\n\r\u00a0\u3000\u2028\u0085\u180e\x0b\x1c\u200b\x00"),
        lambda: rng.choice(["the ", "little", " girl", "said", "\n\n", "Once upon a time", ", "]),
        lambda: chr(rng.randrange(0x80, 0x600)),
        lambda: chr(rng.randrange(0x300, 0x370)),
        lambda: chr(rng.randrange(0x4E00, 0x9FFF)),
        lambda: chr(rng.randrange(0x1100, 0x1200)),
        lambda: chr(rng.randrange(0xAC00, 0xD7A4)),
        lambda: chr(rng.randrange(0x1F300, 0x1FAFF)),
        lambda: chr(rng.randrange(0x900, 0xE00)),
        lambda: chr(rng.randrange(0x10000, 0x110000)),
        lambda: str(rng.randrange(10 ** rng.randrange(1, 9))),
        lambda: rng.choice(["'s", "'T", "'re", "'LL", "'\u017f", "\u0130", "\u1e9e", "\ufb01"]),
        lambda: rng.choice(["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_", "|>"]),
    ]
    return rng.sample(pools, rng.randrange(1, 5))


def main():
    tokenizer = Tokenizer.from_file(str(source))
    size = tokenizer.get_vocab_size()
    rng = random.Random(20240607)
    lines = []
    for _ in range(500):
        pools = characters(rng)
        length = rng.choice([0, 1, 2, 3, 5, 10, 20])
        text = "".join(rng.choice(pools)() for _ in range(length))
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        noise = [rng.randrange(size) for _ in range(rng.randrange(6))]
        lines.append(json.dumps({
            "text": text,
            "ids": ids,
            "noise": noise,
            "decoded": tokenizer.decode(ids + noise, skip_special_tokens=False),
            "skipped": tokenizer.decode(ids + noise, skip_special_tokens=True),
        }, separators=(",", ":")))
    (here / "tokenizer_texts.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


main()
