"""Loads real tokenizers and encodes texts, Weft beside Hugging Face's tokenizers, in one process.

    nice -n -15 python tests/bench/tokenizer.py build/libweft.so FOLDER... [--rounds N]
        [--size BYTES of each text, default 1 MB]

Each FOLDER holds a tokenizer.json. The texts are Shakespeare and WikiSQL of ../shared/data where they
are, this tree's C sources, and strings of many scripts made from a seed, in documents of about 4 kB.
Per tokenizer: medians of interleaved rounds, in ms and MB/s. `one` is Tokenizer.encode in a loop,
`batch` Tokenizer.encode_batch_fast with as many threads as there are cores; Weft is called through
ctypes, one document a call, on one thread. The ids are compared, too; a difference ends the run.
"""
import argparse
import ctypes
import random
import statistics
import time
from pathlib import Path

from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"


class Weft:
    def __init__(self, path):
        lib = self.lib = ctypes.CDLL(path)
        self.encode_function = lib.weft_tokenizer_encode
        self.encode_function.argtypes = [
            ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint,
            ctypes.POINTER(ctypes.POINTER(ctypes.c_int32)), ctypes.POINTER(ctypes.c_size_t)]
        lib.weft_tokenizer_load.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)]
        lib.weft_tokenizer_free.argtypes = [ctypes.c_void_p]
        lib.weft_free.argtypes = [ctypes.c_void_p]
        lib.weft_error_message.restype = ctypes.c_char_p

    def load(self, folder):
        out = ctypes.c_void_p()
        if self.lib.weft_tokenizer_load(str(folder).encode(), ctypes.byref(out)):
            raise SystemExit(self.lib.weft_error_message().decode())
        return out

    def free(self, tokenizer):
        self.lib.weft_tokenizer_free(tokenizer)

    def encode(self, tokenizer, texts, keep):
        ids, count, all_ids = ctypes.POINTER(ctypes.c_int32)(), ctypes.c_size_t(), []
        for text in texts:
            if self.encode_function(tokenizer, text, len(text), 0, ctypes.byref(ids),
                                    ctypes.byref(count)):
                raise SystemExit(self.lib.weft_error_message().decode())
            if keep:
                all_ids.append(ids[:count.value])
            self.lib.weft_free(ids)
        return all_ids


def documents(text, size=4000):
    """Cut at line ends."""
    parts, start = [], 0
    while start < len(text):
        end = text.find("\n", start + size)
        end = len(text) if end < 0 else end + 1
        parts.append(text[start:end])
        start = end
    return parts


def scripts(rng, size):
    """Words of letters of many scripts, with spaces and marks between them."""
    pools = [(0x61, 0x7B), (0xE0, 0x17F), (0x3B1, 0x3CA), (0x430, 0x450), (0x5D0, 0x5EB),
             (0x621, 0x64B), (0x905, 0x93A), (0xE01, 0xE2F), (0x3041, 0x3097), (0x4E00, 0x9FA5),
             (0xAC00, 0xD7A4), (0x1F600, 0x1F650)]
    words = []
    for low, high in pools:
        for _ in range(500):
            words.append("".join(chr(rng.randrange(low, high)) for _ in range(rng.randrange(1, 7))))
    out, length = [], 0
    while length < size:
        word = rng.choice(words) + rng.choice([" ", " ", " ", ", ", ". ", "\n", "\u3002"])
        out.append(word)
        length += len(word.encode())
    return "".join(out)


def corpora(size=1 << 20):
    for name, path in [("english", "shakespeare.txt"), ("jsonl", "wikisql-valid.jsonl")]:
        if (SHARED / "data" / path).exists():
            yield name, (SHARED / "data" / path).read_text()[:size]
    sources = sorted(path for folder in ("core", "ops", "nn", "models") for path in
                     (ROOT / folder).rglob("*.c"))
    yield "C code", "".join(path.read_text() for path in sources)[:size]
    yield "scripts", scripts(random.Random(1), size)


def median_times(rounds, *functions):
    times = [[] for _ in functions]
    for _ in range(rounds):
        for function, own in zip(functions, times):
            start = time.perf_counter()
            function()
            own.append(time.perf_counter() - start)
    return [statistics.median(own) for own in times]


def bench(weft, folder, rounds, most):
    path = str(Path(folder) / "tokenizer.json")
    ours, theirs = median_times(rounds, lambda: weft.free(weft.load(folder)),
                                lambda: Tokenizer.from_file(path))
    print(f"{Path(folder).name}: load {1e3 * ours:.0f} ms, tokenizers {1e3 * theirs:.0f} ms")
    tokenizer, peer = weft.load(folder), Tokenizer.from_file(path)
    for name, text in corpora(most):
        texts = documents(text)
        encoded = [t.encode() for t in texts]
        size = sum(len(t) for t in encoded) / 1e6
        expected = [e.ids for e in peer.encode_batch(texts, add_special_tokens=False)]
        if weft.encode(tokenizer, encoded, True) != expected:
            raise SystemExit(f"{folder}: {name}: the ids differ")
        ours, one, batch = median_times(
            rounds, lambda: weft.encode(tokenizer, encoded, False),
            lambda: [peer.encode(t, add_special_tokens=False) for t in texts],
            lambda: peer.encode_batch_fast(texts, add_special_tokens=False))
        print(f"  {name:8} Weft {size / ours:6.1f} MB/s, one {size / one:5.1f}, "
              f"batch {size / batch:5.1f}", flush=True)
    weft.free(tokenizer)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=1 << 20)
    options = parser.parse_args()
    weft = Weft(str(Path(options.library).resolve()))
    for folder in options.folders:
        bench(weft, folder, options.rounds, options.size)


main()
