"""Writes the tokenizer of a tokenizer.json as the metadata of a GGUF file, in the form that
llama.cpp's converter gives Unigram ("t5") and WordPiece ("bert") tokenizers.

    python tests/golden/tokenizer_gguf.py                        (gguf 0.19)
    python tests/golden/tokenizer_gguf.py FOLDER OUT.gguf

The first writes tokenizer_NAME.gguf for tokenizers of tokenizer_models.json. Of the second,
tokenizer_compare.py compares what `weft` reads from OUT.gguf with the tokenizers library.
"""
import sys

sys.path.pop(0)  # this folder has a random.py, which is not the module of that name
import base64  # noqa: E402
import json  # noqa: E402
from pathlib import Path  # noqa: E402

import gguf  # noqa: E402

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6


def steps(part):
    if part is None:
        return []
    inner = part.get("normalizers") or part.get("pretokenizers")
    return [s for p in inner for s in steps(p)] if inner else [part]


def write(tokenizer, out):
    model = tokenizer["model"]
    special = {t["id"] for t in tokenizer["added_tokens"] if t["special"]}
    writer = gguf.GGUFWriter(out, "bert")
    if model["type"] == "WordPiece":
        texts = [t for t, _ in sorted(model["vocab"].items(), key=lambda item: item[1])]
        def spell(t):
            if t.startswith("[") and t.endswith("]"):
                return t
            return t[2:] if t.startswith("##") else "\u2581" + t
        writer.add_tokenizer_model("bert")
        writer.add_token_list([spell(t) for t in texts])
        writer.add_token_types([CONTROL if i in special else NORMAL for i in range(len(texts))])
        ids = {t: i for i, t in enumerate(texts)}
        writer.add_unk_token_id(ids["[UNK]"])
        writer.add_bos_token_id(ids["[CLS]"])
        writer.add_sep_token_id(ids["[SEP]"])
        writer.add_pad_token_id(ids["[PAD]"])
    else:
        pieces = model["vocab"]
        unknown = model["unk_id"]
        kinds = [UNKNOWN if i == unknown else CONTROL if i in special else
                 BYTE if t.startswith("<0x") and len(t) == 6 else NORMAL
                 for i, (t, _) in enumerate(pieces)]
        ids = {t: i for i, (t, _) in enumerate(pieces)}
        charsmaps = [s["precompiled_charsmap"] for s in steps(tokenizer["normalizer"])
                     if s["type"] == "Precompiled"]
        collapses = any(s["type"] in ("Strip", "WhitespaceSplit") for s in
                        steps(tokenizer["normalizer"]) + steps(tokenizer["pre_tokenizer"]))
        bos = "<s>" in json.dumps(tokenizer["post_processor"])
        writer.add_tokenizer_model("t5")
        writer.add_tokenizer_pre("default")
        writer.add_token_list([t for t, _ in pieces])
        writer.add_token_scores([s for _, s in pieces])
        writer.add_token_types(kinds)
        writer.add_add_space_prefix(True)
        writer.add_remove_extra_whitespaces(collapses)
        if charsmaps:
            writer.add_precompiled_charsmap(base64.b64decode(charsmaps[0]))
        writer.add_unk_token_id(unknown)
        writer.add_bos_token_id(ids["<s>"])
        writer.add_eos_token_id(ids["</s>"])
        writer.add_add_bos_token(bos)
        writer.add_add_eos_token(True)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


HERE = Path(__file__).resolve().parent
if len(sys.argv) > 1:
    write(json.loads((Path(sys.argv[1]) / "tokenizer.json").read_text()), sys.argv[2])
else:
    for variant in json.loads((HERE / "tokenizer_models.json").read_text()):
        if variant["name"] in ("xlm-roberta", "bert uncased", "bert cased"):
            name = variant["name"].replace(" ", "-")
            write(variant["tokenizer"], HERE / f"tokenizer_{name}.gguf")
