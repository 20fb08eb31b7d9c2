"""Compares `weft tokenize` with the tokenizers library, on random and real texts or on every code
point.

    python tests/golden/tokenizer_compare.py build/cli/weft FOLDER [texts, default 10000] [seed] [GGUF]
    python tests/golden/tokenizer_compare.py build/cli/weft --code-points [TOKENIZER_JSON]
    python tests/golden/tokenizer_compare.py build/cli/weft --classes

FOLDER holds a tokenizer.json; with GGUF, a file that `weft convert` wrote from it, `weft` reads
that instead. Half of the texts are random, the others are cut from this tree's
sources and, where it is, from ../shared/data. --code-points runs each character through patterns of
one category and through NFC among combining marks, and prints the ranges that differ:
text/tokenizer/unicode.c is made from them; the other normalizers and pre-tokenizers that look at single
characters come next, then the normalizer of TOKENIZER_JSON (a Precompiled one, for example).
--categories prints the tables of text/tokenizer/categories.c. --classes prints the lists of text/tokenizer/classes.c.
"""
import sys

sys.path.pop(0)  # this folder has a random.py, which is not the module of that name
import json  # noqa: E402
import random  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
from pathlib import Path  # noqa: E402

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers  # noqa: E402
from tokenizers.pre_tokenizers import Split  # noqa: E402

WORDS = "the of and to in that it was said Once upon a time there lived: I'll don't, \n\n\t  ".split(" ")
ODD = ["'s", "'T", "'re", "'LL", "'\u017f", "\u0130", "\u1e9e", "\xdf", "\ufb01"]
SPACES = " \t\n\r\u00a0\u3000\u2028\u0085\u180e\x0b\x0c\x1c\u200b"


def weft(command, folder, items, *options):
    text = "".join(json.dumps(item) + "\n" for item in items)
    done = subprocess.run([command, "tokenize", str(folder), "--jsonl", *options], input=text,
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return [json.loads(line) for line in done.stdout.rstrip("\n").split("\n")]


def random_texts(rng, count, added):
    span = lambda low, high: lambda: chr(rng.randrange(low, high))
    pools = [
        span(32, 127), span(0x80, 0x600), span(0x300, 0x370), span(0x4E00, 0x9FFF),
        span(0x1100, 0x1200), span(0xAC00, 0xD7A4), span(0x1F300, 0x1FAFF), span(0x900, 0xE00),
        span(0xE000, 0x10000), span(0x10000, 0x110000),
        lambda: rng.choice(SPACES), lambda: rng.choice(WORDS) + rng.choice(["", " "]),
        lambda: rng.choice(ODD), lambda: str(rng.randrange(10 ** rng.randrange(1, 9))),
        lambda: rng.choice(added or [" "]),
    ]
    for _ in range(count):
        some = rng.sample(pools, rng.randrange(1, 5))
        yield "".join(rng.choice(some)() for _ in range(rng.choice([1, 2, 3, 5, 10, 30])))


def real_texts(rng, count):
    root = Path(__file__).resolve().parents[2]
    paths = sorted(p for f in ("models", "docs", "tests/golden") for p in (root / f).rglob("*")
                   if p.suffix in (".c", ".md", ".py"))
    paths += [root.parent / "shared" / "data" / n for n in ("shakespeare.txt", "wikisql-valid.jsonl")]
    paths += [root / "tests/golden/tokenizer_texts.json"]
    texts = [p.read_text() for p in paths if p.exists()]
    for _ in range(count):
        text = rng.choice(texts)
        start = rng.randrange(len(text))
        yield text[start:start + rng.choice([20, 200, 1000])]


def compare(command, folder, count, seed, read):
    path = Path(folder) / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(path))
    rng = random.Random(seed)
    added = [t["content"] for t in json.loads(path.read_text())["added_tokens"]]
    texts = list(random_texts(rng, (count + 1) // 2, added[:10] + added[-30:]))
    texts += real_texts(rng, count // 2)
    bad = []
    for special in (False, True):
        ours = weft(command, read, texts, *(["--special"] if special else []))
        ids = [tokenizer.encode(t, add_special_tokens=special).ids for t in texts]
        bad += [(ascii(t), a, b) for t, a, b in zip(texts, ours, ids, strict=True) if a != b]
    ids += [[rng.randrange(tokenizer.get_vocab_size()) for _ in range(rng.randrange(20))]
            for _ in range(count)]
    ours = weft(command, read, ids, "--decode")
    texts = [tokenizer.decode(i, skip_special_tokens=False) for i in ids]
    bad += [(i, ascii(a), ascii(b)) for i, a, b in zip(ids, ours, texts, strict=True) if a != b]
    for case in bad[:10]:
        print(*case, sep="\n  ")
    print(f"{folder}: {2 * count} texts, {len(ids)} decoded, {len(bad)} differ")
    return len(bad)


def bytes_only(normalizer, pattern, cutter=None):
    """A tokenizer.json of single bytes: what it drops or reorders shows in the ids."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in own]
    spelling = {b: chr(b) for b in own} | {b: chr(256 + n) for n, b in enumerate(others)}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False,
                  "trim_offsets": False}
    steps = [cutter, byte_level] if cutter else [byte_level]
    if pattern:
        steps.insert(0, {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Removed",
                         "invert": False})
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
            "normalizer": normalizer, "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
            "post_processor": None, "decoder": byte_level,
            "model": {"type": "BPE", "vocab": {spelling[b]: b for b in range(256)}, "merges": []}}


def bert(clean, chinese, accents, lowercase):
    return {"type": "BertNormalizer", "clean_text": clean, "handle_chinese_chars": chinese,
            "strip_accents": accents, "lowercase": lowercase}


def code_points(command, path=None):
    codes = [c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]
    nfc = {"type": "NFC"}
    surveys = [
        ("\\p{L}", None, "\\p{L}", "%s"), ("\\p{N}", None, "\\p{N}", "%s"),
        ("\\s", None, "\\s", "%s"), ("\\S", None, "\\S", "%s"),
        ("contractions", None, "(?i:'s|'t|'re|'ve|'m|'ll|'d)", "'%s"),
        ("NFC", nfc, None, "%s"), ("NFC, marks behind", nfc, None, "%s\u0301\u0323"),
        ("NFC, marks around", nfc, None, "e\u0301%s\u0327"),
    ]
    surveys = [(*survey, None) for survey in surveys]
    for name, normalizer in (
            *((form, {"type": form}) for form in ("NFD", "NFKD", "NFKC")),
            ("Lowercase", {"type": "Lowercase"}), ("StripAccents", {"type": "StripAccents"}),
            ("Nmt", {"type": "Nmt"}), ("BertNormalizer, clean", bert(True, False, False, False)),
            ("BertNormalizer, Chinese", bert(False, True, False, False)),
            ("BertNormalizer, accents", bert(False, False, True, False)),
            ("BertNormalizer", bert(True, True, None, True))):
        surveys.append((name, normalizer, None, "%s", None))
    for cutter in ({"type": "Punctuation", "behavior": "Removed"}, {"type": "WhitespaceSplit"}):
        surveys.append((cutter["type"], None, None, "%s", cutter))
    if path:
        normalizer = json.loads(Path(path).read_text())["normalizer"]
        surveys += [(f"{path}, {ascii(form)}", normalizer, None, form, None)
                    for form in ("%s", "a%s", "%sa", "\u00e9%s", "%s\u00e9", "\u3042%s", "%s\u0301")]
    total = 0
    for name, normalizer, pattern, form, cutter in surveys:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "tokenizer.json"
            path.write_text(json.dumps(bytes_only(normalizer, pattern, cutter)))
            tokenizer = Tokenizer.from_file(str(path))
            texts = [form % chr(c) for c in codes]
            ours = weft(command, folder, texts)
        ranges = []
        for code, text, ids in zip(codes, texts, ours, strict=True):
            if ids == tokenizer.encode(text, add_special_tokens=False).ids:
                continue
            total += 1
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
        print(name + ":", *(f"{a:X}-{b:X}" for a, b in ranges))
    return total


def classes():
    """The ranges of code points that a pattern matches, from one pass over each thousand of them."""
    codes = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    for pattern in ("\\p{L}", "\\p{N}", "\\s"):
        runs, single, ranges = Split(Regex(pattern + "+"), "isolated"), Split(Regex(pattern), "removed"), []
        for start in range(0, len(codes), 4096):
            chunk = codes[start:start + 4096]
            for piece, (low, high) in runs.pre_tokenize_str("".join(map(chr, chunk))):
                if single.pre_tokenize_str(piece[0]):
                    continue
                for code in chunk[low:high]:
                    if ranges and ranges[-1][1] == code - 1:
                        ranges[-1][1] = code
                    else:
                        ranges.append([code, code])
        print(pattern, *("{0x%X, 0x%X}," % tuple(r) for r in ranges))


def categories():
    """What normalizers remove or pad and pre-tokenizers cut at, of all code points."""
    def normalized(step):
        return lambda c: step.normalize_str(c)

    def pieces(step):
        return lambda c: [piece for piece, _ in step.pre_tokenize_str("a" + c)]

    def own(*flags):
        return normalized(normalizers.BertNormalizer(*flags))

    space = pieces(pre_tokenizers.WhitespaceSplit())
    for name, look, what in (
            ("controls", own(True, False, False, False), lambda c, made: made == ""),
            ("nonspacing", own(False, False, True, False), lambda c, made: made == ""),
            ("marks", normalized(normalizers.StripAccents()), lambda c, made: made == ""),
            ("punctuation", pieces(pre_tokenizers.Punctuation()), lambda c, made: made == ["a", c]),
            ("chinese", own(False, True, False, False), lambda c, made: made == f" {c} "),
            ("spaces", space, lambda c, made: made == ["a"])):
        ranges = []
        for code in range(1, 0x110000):
            if 0xD800 <= code < 0xE000 or not what(chr(code), look(chr(code))):
                continue
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
        print(name, *("{0x%X, 0x%X}," % tuple(r) for r in ranges))


if sys.argv[2] == "--categories":
    categories()
    sys.exit()
if sys.argv[2] == "--classes":
    classes()
    sys.exit()
if sys.argv[2] == "--code-points":
    sys.exit(code_points(sys.argv[1], *sys.argv[3:4]) > 0)
numbers = [int(n) for n in sys.argv[3:5]] + [10000, 1][len(sys.argv[3:]):]
sys.exit(compare(*sys.argv[1:3], *numbers, read=(sys.argv[5:] or sys.argv[2:])[0]) > 0)
