"""Writes tokenizer_splits.json: small byte-level BPE tokenizers with the pre-tokenizers of CLIP, Falcon, DeepSeek and
others, and the ids that the tokenizers library gives. "pre": the name in GGUF files of the same splits.

    python tests/golden/tokenizer_splits.py               (tokenizers 0.23.3)
    python tests/golden/tokenizer_splits.py FOLDER        larger ones, as FOLDER/NAME/tokenizer.json, for
                                                          tokenizer_compare.py
"""
import sys

sys.path.pop(0)  # this folder has a random.py, which is not the module of that name
import json  # noqa: E402
import random  # noqa: E402
from pathlib import Path  # noqa: E402

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, trainers  # noqa: E402
from tokenizers.pre_tokenizers import ByteLevel, Digits, Punctuation, Sequence, Split  # noqa: E402

HERE = Path(__file__).resolve().parent
HARD = ["12345 67 890 2024", "\u6771\u4eac\u306f\u5927\u304d\u3044\u3002", "\u041c\u043e\u0441\u043a\u0432\u0430 \u043d\u0435 \u0432\u0435\u0440\u0438\u0442", "if (x == 10) { return y->z; }\n\t\tfoo();",
        "a  b   c    d", "\u00c4\u00d6\u00dc \u00e4\u00f6\u00fc \u00df", "don't I'll WE'VE", "\uac00\ub098\ub2e4 \ud55c\uad6d\uc5b4", "price: $1,234.56!!!",
        "\u00b2\u00b3\u00b9 \u00bd 1\u00b2", "", " ", "  ", "\n\n a", "a\n", "a \n b", "a.b,c;d `e`", "\U00010400x \u1f7d\u1fbe", "</w>a</w>", "9999999",
        "e\u0301te\u0301", "\u3000\u3002\uff01x", "1234567890 12", "x\r\ny \r"]
LATIN = ("A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
         "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5"
         "\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba"
         "\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45"
         "\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe"
         "\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102"
         "\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
         "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3"
         "\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06"
         "\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
         "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df"
         "\U0001e900-\U0001e943")
HAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"


def split(pattern, behavior="isolated", invert=False):
    return Split(Regex(pattern), behavior, invert)


def level(regex=False):
    return ByteLevel(add_prefix_space=False, use_regex=regex)


def descriptions():
    """Names, normalizers, pre-tokenizers, options of the model, and names in GGUF files."""
    clip = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex("\\s+"), " "), normalizers.Lowercase()])
    yield "clip", clip, [split("'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+", "removed", True), level()], \
        {"end_of_word_suffix": "</w>"}, []
    yield "falcon", None, [Punctuation("contiguous"), level(True), Digits(False), split("[0-9][0-9][0-9]")], {}, []
    yield "gpt-2", None, [level(True)], {}, ["gpt-2", "exaone4", "gigachat", "mellum", "a.x-4.0"]
    yield "deepseek-llm", None, [split("[\\r\\n]"), split("\\s?[" + LATIN + "]+"),
                                 split("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"), split("\\s+$"),
                                 split(HAN), Digits(True), level()], {}, ["deepseek-llm"]
    yield "deepseek-coder", None, [split("[\\r\\n]"), split("\\s?\\p{L}+"), split("\\s?\\p{P}+"), split(HAN), Digits(True),
                                   level()], {}, ["deepseek-coder"]
    yield "deepseek-v3", None, [
        split("\\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
        split("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
              "| ?[\\p{P}\\p{S}]+[\\r\\n]*" + TAIL), level()], {}, ["deepseek-v3", "hunyuan-dense"]
    yield "seed-coder", None, [split(CONTRACTIONS + "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" + TAIL),
                               level()], {}, ["seed-coder"]
    yield "llama-3", None, [split(CONTRACTIONS + "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" + TAIL),
                            level()], {"ignore_merges": True}, ["llama-bpe", "lfm2", "falcon-h1", "midm-2.0", "glm5"]
    yield "tiktoken", None, [split("'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+"
                                   "|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s"), level()], {}, []
    bloom = split(" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+")  # a class within a class, as in its tokenizer.json
    yield "bloom", None, [bloom, level()], {}, ["bloom", "poro-chat", "gpt3-finnish"]
    yield "viking", None, [bloom, Digits(True), level()], {}, ["viking"]
    upper, lower = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]", "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
    other = "[^\\r\\n\\p{L}\\p{N}]?"
    cased = (f"{other}{upper}*{lower}+{CONTRACTIONS}?|{other}{upper}+{lower}*{CONTRACTIONS}?|\\p{{N}}{{1,3}}"
             "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" + TAIL)
    yield "gpt-4o", None, [split(cased), level()], {}, ["gpt-4o", "llama4", "talkie"]
    # Its patterns have [...&&[^\\p{Han}]], which is the same as this lookahead.
    foreign = cased.replace(upper, f"(?:(?!\\p{{Han}}){upper})").replace(lower, f"(?:(?!\\p{{Han}}){lower})")
    yield "kimi-k2", None, [split("\\p{Han}+|" + foreign.replace("\\n/]", "\\n]")), level()], {}, ["kimi-k2"]
    yield "exaone-moe", None, [split(CONTRACTIONS + "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}"
                                     "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"), level()], {}, ["exaone-moe"]
    yield "tiny_aya", None, [split("\\d{1,3}(?=(?:\\d{3})*\\b)"), split(cased), level()], {}, ["tiny_aya", "cohere2moe"]
    yield "qwen2", None, [split(CONTRACTIONS + "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" + TAIL),
                          level()], {}, ["stablelm2", "hunyuan", "kormo", "megrez", "f2llmv2"]


def corpus():
    text = (HERE.parents[1] / "examples/data/shakespeare.txt").read_text()
    return [line for line in text.split("\n") if line][:2000] + HARD * 30


def texts(count):
    rng = random.Random(5)
    pieces = [*"ax1 2\u00e9\u00b2\u4e00\u3042\n.,'`", "the", "'s", " the", "king", ", ", "  ", "123", "\u0301"]
    for _ in range(count):
        yield "".join(rng.choice(pieces) for _ in range(rng.choice([2, 4, 9])))


def trained(normalizer, steps, options, size):
    suffix = {k: v for k, v in options.items() if k == "end_of_word_suffix"}
    library = Tokenizer(models.BPE(**options))
    if normalizer:
        library.normalizer = normalizer
    library.pre_tokenizer = Sequence(steps)
    library.decoder = decoders.ByteLevel()
    library.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=size, initial_alphabet=ByteLevel.alphabet(),
                                                              show_progress=False, **suffix))
    return library


def main():
    lines = []
    for name, normalizer, steps, options, pre in descriptions():
        if len(sys.argv) > 1:
            path = Path(sys.argv[1]) / name / "tokenizer.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            trained(normalizer, steps, options, 2000).save(str(path))
            continue
        library = trained(normalizer, steps, options, 420)
        cases = []
        for sample in [*HARD, *texts(30)]:
            ids = library.encode(sample).ids
            text = library.decode(ids)
            cases.append({"text": sample, "ids": ids, "ids_special": ids, "decoded": text, "skipped": text})
        lines.append(json.dumps({"name": name, "pre": pre, "tokenizer": json.loads(library.to_str()), "cases": cases},
                                separators=(",", ":")))
    if lines:
        (HERE / "tokenizer_splits.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


main()
