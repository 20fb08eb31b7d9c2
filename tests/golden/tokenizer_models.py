"""Writes tokenizer_models.json: small Unigram and WordPiece tokenizers, with the normalizers,
pre-tokenizers, post-processors and decoders that such files have, and what the tokenizers library
makes of some hundred texts.

    python tests/golden/tokenizer_models.py               (tokenizers 0.23.3, sentencepiece 0.2.3)
    python tests/golden/tokenizer_models.py FOLDER        larger ones, as FOLDER/NAME/tokenizer.json,
                                                          for tokenizer_compare.py

Those of the golden file have SentencePiece rules of their own, a few hundred; the larger ones have
its nmt_nfkc.
"""
import sys

sys.path.pop(0)  # this folder has a random.py, which is not the module of that name
import base64  # noqa: E402
import json  # noqa: E402
import random  # noqa: E402
import tempfile  # noqa: E402
import unicodedata  # noqa: E402
from pathlib import Path  # noqa: E402

import sentencepiece  # noqa: E402
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers  # noqa: E402

HERE = Path(__file__).resolve().parent
BYTES = [f"<0x{b:02X}>" for b in range(256)]
SAMPLES = ["\u00dcber den W\u00f6lfen, wo \u00c4pfel wachsen", "L'\u00e9t\u00e9 o\u00f9 na\u00eft la ni\u00e8ce",
           "\u6771\u4eac\u306f\u5927\u304d\u3044\u3002", "\u041c\u043e\u0441\u043a\u0432\u0430 \u043d\u0435 \u0432\u0435\u0440\u0438\u0442", "\uac00\ub098\ub2e4 \ud55c\uad6d\uc5b4", "\uff21\uff22\uff23 \ufb01ne \u2460\u2461"]


def corpus():
    text = (HERE.parents[1] / "examples/data/shakespeare.txt").read_text()
    return [line for line in text.split("\n") if line][:3000] + SAMPLES * 20


def rules():
    """Normalization rules as SentencePiece lists them, code points to code points."""
    out = {}
    for code in [*range(0xA0, 0x180), *range(0x2000, 0x2070), *range(0x2460, 0x2480),
                 *range(0xFB00, 0xFB07), *range(0xFF01, 0xFF5F), 0x3000, 0x1E9E, 0xFDFA]:
        form = unicodedata.normalize("NFKC", chr(code))
        if form != chr(code):
            out[chr(code)] = form
    for letter in "aeioucn":
        for mark in "\u0300\u0301\u0302\u0303\u0308\u0327":
            form = unicodedata.normalize("NFC", letter + mark)
            if len(form) == 1:
                out[letter + mark] = form
    out.update({"\t": " ", "\n": " ", "\r": " ", "\u200b": " ", "\u2581": " ", "\x01": "", "\u00ad": ""})
    return "".join(f"{' '.join('%X' % ord(c) for c in k)}\t{' '.join('%X' % ord(c) for c in v)}\n"
                   for k, v in sorted(out.items()))


def field(message, number):
    """The bytes of a length-delimited field of a protocol buffer."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = varint()
        if tag & 7 == 2:
            size = varint()
            if tag >> 3 == number:
                return message[at:at + size]
            at += size
        elif tag & 7 == 0:
            varint()
        else:
            at += 4 if tag & 7 == 5 else 8
    return b""


def train_sentencepiece(size, own_rules, **options):
    """The pieces with their scores, and the compiled rules in base64."""
    with tempfile.TemporaryDirectory() as folder:
        data, tsv, prefix = (Path(folder) / n for n in ("data.txt", "rules.tsv", "m"))
        data.write_text("\n".join(corpus()) + "\n")
        tsv.write_text(rules())
        normalization = ({"normalization_rule_tsv": str(tsv)} if own_rules else
                         {"normalization_rule_name": "nmt_nfkc"})
        sentencepiece.SentencePieceTrainer.train(
            input=str(data), model_prefix=str(prefix), vocab_size=size, model_type="unigram",
            hard_vocab_limit=False, num_threads=1, minloglevel=2, **normalization, **options)
        proto = prefix.with_suffix(".model").read_bytes()
    library = sentencepiece.SentencePieceProcessor(model_proto=proto)
    # ModelProto.normalizer_spec.precompiled_charsmap
    charsmap = base64.b64encode(field(field(proto, 3), 2)).decode()
    return [[library.id_to_piece(i), library.get_score(i)] for i in range(len(library))], charsmap


def added(content, token_id, **options):
    return {"id": token_id, "content": content, "single_word": False, "lstrip": False,
            "rstrip": False, "normalized": False, "special": True, **options}


def template(ids, before, after):
    def piece(name):
        return {"SpecialToken": {"id": name, "type_id": 0}}
    single = [*map(piece, before), {"Sequence": {"id": "A", "type_id": 0}}, *map(piece, after)]
    return {"type": "TemplateProcessing", "single": single,
            "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {n: {"id": n, "ids": [ids[n]], "tokens": [n]}
                               for n in {*before, *after}}}


def tokenizer(model, **parts):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
            "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None,
            "model": model, **parts}


def sequence(key, *steps):
    return {"type": "Sequence", key: list(steps)}


def metaspace(scheme="always", split=True):
    return {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": split}


def unigram(pieces, unk_id, byte_fallback=False):
    return {"type": "Unigram", "unk_id": unk_id, "vocab": pieces, "byte_fallback": byte_fallback}


def unigrams(size, own_rules):
    """As the files of XLM-RoBERTa, T5, ALBERT and Llama's relatives are."""
    pieces, charsmap = train_sentencepiece(size, own_rules)
    compiled = {"type": "Precompiled", "precompiled_charsmap": charsmap}
    spaces = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    strip = {"type": "Strip", "strip_left": False, "strip_right": True}
    ids = {p: i for i, (p, _) in enumerate(pieces)}
    special = [added(t, ids[t]) for t in ("<unk>", "<s>", "</s>")]
    yield "xlm-roberta", tokenizer(
        unigram(pieces, ids["<unk>"]), added_tokens=special,
        normalizer=sequence("normalizers", compiled, strip, spaces),
        pre_tokenizer=metaspace(), decoder=metaspace(),
        post_processor={"type": "RobertaProcessing", "cls": ["<s>", ids["<s>"]],
                        "sep": ["</s>", ids["</s>"]], "trim_offsets": True,
                        "add_prefix_space": True})
    yield "t5", tokenizer(
        unigram(pieces, ids["<unk>"]), added_tokens=special, normalizer=compiled,
        pre_tokenizer=sequence("pretokenizers", {"type": "WhitespaceSplit"}, metaspace()),
        decoder=metaspace(), post_processor=template(ids, [], ["</s>"]))
    quotes = [{"type": "Replace", "pattern": {"String": q}, "content": '"'} for q in ("``", "''")]
    yield "albert", tokenizer(
        unigram(pieces, ids["<unk>"]), added_tokens=special,
        normalizer=sequence("normalizers", *quotes, {"type": "NFKD"}, {"type": "StripAccents"},
                            {"type": "Lowercase"}, compiled, spaces),
        pre_tokenizer=metaspace(), decoder=metaspace(),
        post_processor=template(ids, ["<s>"], ["</s>"]))
    yield "unigram nmt", tokenizer(
        unigram(pieces, ids["<unk>"]), added_tokens=special,
        normalizer=sequence("normalizers", {"type": "Nmt"}, {"type": "NFKC"}, spaces),
        pre_tokenizer=metaspace("never", False), decoder=metaspace("never", False))
    pieces = [*pieces, *([b, -30.0] for b in BYTES)]
    decoder = sequence("decoders", {"type": "Replace", "pattern": {"String": "\u2581"},
                                         "content": " "}, {"type": "ByteFallback"},
                       {"type": "Fuse"},
                       {"type": "Strip", "content": " ", "start": 1, "stop": 0})
    yield "unigram bytes", tokenizer(
        unigram(pieces, ids["<unk>"], True), added_tokens=special, pre_tokenizer=metaspace("first"),
        decoder=decoder)
    if own_rules:
        yield "unigram, a text twice, bytes missing", tokenizer(unigram(
            [["<unk>", 0.0], ["a", -1.5], ["ab", -2.0], ["a", -1.0], ["b", -1.0], ["bc", -4.25],
             ["abc", -3.0], ["", -1.0], ["<0xC3>", -1e1], ["<0xA9>", -2.5e-1], ["\u00e9\u00e8", -99]],
            0, True))


def train_wordpiece(size, lowercase):
    trained = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    trained.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    trained.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trained.train_from_iterator(corpus(), trainers.WordPieceTrainer(
        vocab_size=size, show_progress=False,
        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    return json.loads(trained.to_str())["model"]["vocab"]


def word_pieces(size):
    bert = {"type": "BertPreTokenizer"}

    def normalizer(clean=True, chinese=True, accents=None, lowercase=True):
        return {"type": "BertNormalizer", "clean_text": clean, "handle_chinese_chars": chinese,
                "strip_accents": accents, "lowercase": lowercase}

    def model(vocab, longest=100, prefix="##"):
        return {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": prefix,
                "max_input_chars_per_word": longest, "vocab": vocab}

    for name, lowercase in (("bert uncased", True), ("bert cased", False)):
        vocab = train_wordpiece(size, lowercase)
        special = [added(t, vocab[t], **({"lstrip": True} if t == "[MASK]" else {}))
                   for t in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")]
        yield name, tokenizer(
            model(vocab), added_tokens=special, normalizer=normalizer(lowercase=lowercase),
            pre_tokenizer=bert, decoder={"type": "WordPiece", "prefix": "##", "cleanup": lowercase},
            post_processor=template(vocab, ["[CLS]"], ["[SEP]"]))
    pairs = {"type": "BertProcessing", "sep": ["[SEP]", vocab["[SEP]"]],
             "cls": ["[CLS]", vocab["[CLS]"]]}
    yield "wordpiece, accents", tokenizer(
        model(vocab, 8), added_tokens=special, post_processor=pairs, pre_tokenizer=bert,
        normalizer=normalizer(clean=False, chinese=False, accents=True, lowercase=False),
        decoder={"type": "WordPiece", "prefix": "##", "cleanup": True})
    yield "wordpiece, lowercase", tokenizer(
        model(vocab), normalizer=normalizer(clean=False, accents=False), added_tokens=special,
        pre_tokenizer=sequence("pretokenizers", {"type": "WhitespaceSplit"},
                               {"type": "Punctuation", "behavior": "Contiguous"}),
        decoder=sequence("decoders", {"type": "WordPiece", "prefix": "##", "cleanup": False}))
    bare = {t.removeprefix("##"): i for t, i in vocab.items() if not t.startswith("##")}
    yield "wordpiece without a prefix", tokenizer(
        model({t: n for n, t in enumerate(bare)}, prefix=""), added_tokens=[],
        pre_tokenizer={"type": "Punctuation", "behavior": "MergedWithPrevious"})


HARD = [
    "", " ", "  ", "\n", "\r\n", "a\r\nb", "\t a \t", "Hello, World!", "hello world", "HELLO WORLD",
    "\u00e9t\u00e9 e\u0301te\u0301", "e\u0301", "E\u0301\u0302x", "A\u030a \u212b \u00c5", "\ufb01ne \ufb01\u0301x", "\uff28\uff45\uff4c\uff4c\uff4f", "\u2460\u2461\u2462",
    "\u6771\u4eac\u306f\u5927\u304d\u3044", "\u4e00\u4e8c a\u4e09b", "\uac00\ub098\ub2e4", "\u1100\u1161\u11a8", "\u0e40\u0e01\u0e32\u0e30", "\u0915\u094d\u0937\u093f",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7\U0001f1ea", "\u00a9\u200d\u00a9", "a\u200db", "\u0600a \u0600", "\u0e33a", "x\u0e33",
    "a\u0897b", "a\u1ac1 a\u1acf", "\u0130stanbul I\u0131", "\u1e9e\u00df\u017f", "\ua7cb\ua7dc\u1c89\U00010d50", "\u03a3\u03a3 \u03a3",
    "don't do not can't I'm we've you're it's ' x ' n't", "a . b ? c ! d , e ' f", "##a ## #a", "[CLS] a [MASK]b [UNK] c [SEP]",
    "<s>a</s> <unk>b<unk> <unk>\u2603", "\u2603\u2603 a\u2603b \u2603", "\u2603", "\u00e9\u00e8\u00e9 abc abab\u00e9", "``x'' ` ''", "\x01a\x02b\x7fc\u0080d\u0085e",
    "\u200ba\u200bb\u200c\u200e\ufeff", "\u00ad a\u00adb", "\u2581a \u2581 b\u2581", "a\u00a0b\u3000c\u2028d\u1680e\u180ef", "$a+b=c<d>e^f`g|h~i", "\u00a1\u00bf\u2014\u2026\u3001\u3002\u00a7\u00b6",
    "\ufffd \U000e0001 \U000f0000 \ue000", "9.99% #5 @x_y a-b-c", "x" * 120, "the " * 60, "a" * 99 + " " + "a" * 100 + " " + "a" * 101,
    "\u0301a", "\u0301", "a\u0301\u0301\u0301\u0301\u0301\u0301", "\ufdfa", "\u1e0b\u0323", "\U0001d400\U0001d7d8",
]


def texts(count):
    rng = random.Random(7)
    lines = corpus()
    pieces = "".join(HARD) + "".join(chr(c) for c in range(0x300, 0x330)) + " " * 40
    for _ in range(count):
        kind = rng.randrange(3)
        if kind == 0:
            line = rng.choice(lines)
            start = rng.randrange(len(line))
            yield line[start:start + 60]
        elif kind == 1:
            yield "".join(rng.choice(pieces) for _ in range(rng.choice([2, 5, 12])))
        else:
            yield " ".join(rng.choice([rng.choice(lines)[:12], rng.choice(HARD)[:8]]) for _ in range(4))


def golden():
    samples, lines = [*HARD, *texts(240)], []
    for name, description in [*unigrams(400, True), *word_pieces(500)]:
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
    (HERE / "tokenizer_models.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


def large(folder):
    for name, description in [*unigrams(4000, False), *word_pieces(6000)]:
        path = Path(folder) / name.replace(" ", "-").replace(",", "") / "tokenizer.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(description))


if len(sys.argv) > 1:
    large(sys.argv[1])
else:
    golden()
