"""Compares GGUF files that `weft convert` writes with those of llama.cpp's converter, and reads the
latter in `weft`.

    python tests/golden/models/against_converter.py build/cli/weft LLAMA_CPP [fixture...]

LLAMA_CPP is the folder of llama.cpp's source with its conversion package. Files are F32, without a
vocabulary. Tensors must have equal names, shapes and values but for the last bits of exp and of
products; keys that both files have must have equal values, but for those of `OTHER`; and logits of
`weft` from the converter's file must be the reference's. Needs torch and transformers (findings of
llama-cpp-python 0.3.36, whose source has the package).
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
from safetensors import safe_open

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

FIXTURES = ["granite4", "granite4-experts", "granite4-attention", "nemotron-h-dense",
            "nemotron-h-experts", "nemotron-h-mamba", "falcon-h1", "lfm2", "lfm2-moe", "granite", "llama"]

# Keys with other values, and why.
OTHER = {
    "context_length": "2^20 in hybrids without positions",
    "rope.dimension_count": "of Nemotron, whose heads are not rotated",
}
# What the converter gets wrong: positions of hybrids that have them, and the output of tied models
# whose embeddings and logits have different scales.
WRONG = {"granite4-experts": "rope.scaling.finetuned: ", "falcon-h1": "only weft writes output.weight"}


def convert(folder, source, out):
    """In a process of its own: the converter without a vocabulary."""
    sys.path[:0] = [str(folder), str(folder / "gguf-py")]
    import gguf
    import torch
    from conversion import get_model_class
    from conversion.base import ModelBase, ModelType
    config = json.loads((source / "config.json").read_text())
    ModelBase.load_hparams = staticmethod(lambda *_, **__: dict(config))
    kind = get_model_class(config["architectures"][0])
    kind.set_vocab = lambda self: None
    with torch.inference_mode():
        kind(source, gguf.LlamaFileType.ALL_F32, out).write()


def prepare(source, to):
    """A copy whose config.json names its class and has the defaults of transformers."""
    import transformers
    config = transformers.AutoConfig.from_pretrained(source)
    kind = transformers.models.auto.modeling_auto
    names = {**kind.MODEL_MAPPING_NAMES, **kind.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES}
    config.architectures = [names[config.model_type]]
    config.save_pretrained(to)
    text = json.loads((to / "config.json").read_text())
    # The converter knows the names that published models have.
    if config.model_type == "nemotron_h":
        letters = {"linear_attention": "M", "full_attention": "*", "mlp": "-", "moe": "E"}
        text["hybrid_override_pattern"] = "".join(
            letters[kind] for kind in text.pop("layers_block_type"))
        text["num_hidden_layers"] = len(text["hybrid_override_pattern"])
        text["mamba_d_head"] = text["mamba_head_dim"]
        if "E" not in text["hybrid_override_pattern"]:
            text = {k: v for k, v in text.items() if "expert" not in k}
    if config.model_type in ("lfm2_moe", "nemotron_h"):
        text.pop("rms_norm_eps", None)  # the fixtures have another epsilon beside it
    if config.model_type == "granitemoehybrid":
        old = {"linear_attention": "mamba", "full_attention": "attention"}
        text["layer_types"] = [old[kind] for kind in text["layer_types"]]
        if not text["num_local_experts"]:  # as in published models
            text["intermediate_size"] = text["shared_intermediate_size"]
    (to / "config.json").write_text(json.dumps(text))
    (to / "model.safetensors").symlink_to(source / "model.safetensors")


def values(reader):
    import gguf
    out = {}
    for key, field in reader.fields.items():
        name = key.split(".", 1)[1] if "." in key else key
        if not key.startswith(("general.", "GGUF.", "tokenizer.")):
            out[name] = field.contents()
    return out


def same(a, b):
    a, b = numpy.atleast_1d(a), numpy.atleast_1d(b)
    if a.dtype.kind in "US" or b.dtype.kind in "US":
        return list(a) == list(b)
    n = max(len(a), len(b))  # one number stands for all layers
    return numpy.allclose(numpy.resize(a, n), numpy.resize(b, n), rtol=1e-6, atol=0)


def check(weft, llama_cpp, name, work):
    import gguf
    from peers import run, weft_logits
    source = HERE / name
    prepare(source, work / "source")
    done = subprocess.run([sys.executable, __file__, "--convert", llama_cpp, work / "source",
                           work / "theirs.gguf"], capture_output=True, text=True)
    if done.returncode:
        print(f"{name}: FAILED: the converter: {done.stderr[-300:]}")
        return False
    run(weft, "convert", source, work / "ours.gguf", "--type", "f32")
    theirs, ours = gguf.GGUFReader(work / "theirs.gguf"), gguf.GGUFReader(work / "ours.gguf")
    a = {t.name: t.data for t in theirs.tensors}
    b = {t.name: t.data for t in ours.tensors}
    problems = [f"only the converter writes {n}" for n in sorted(set(a) - set(b))]
    problems += [f"only weft writes {n}" for n in sorted(set(b) - set(a))]
    for n in sorted(set(a) & set(b)):
        if a[n].shape != b[n].shape or not numpy.allclose(a[n], b[n], rtol=1e-6, atol=1e-9):
            problems.append(f"{n}: {a[n].shape}, {b[n].shape} differ")
    x, y = values(theirs), values(ours)
    problems += [f"{k}: converter {x[k]}, weft {y[k]}" for k in sorted(set(x) & set(y))
                 if k not in OTHER and not same(x[k], y[k])]
    missing = sorted(set(x) - set(y))
    with safe_open(source / "reference.safetensors", "np") as f:
        ids, expected = f.get_tensor("input_ids"), f.get_tensor("logits")
    off = abs(weft_logits(weft, work / "theirs.gguf", ids, work) - expected).max() / expected.std()
    if name in WRONG:
        problems = [p for p in problems if not p.startswith(WRONG[name])]
    elif not off <= 2e-5:
        problems.append(f"logits of the converter's file are off by {off:.2g} of the deviation")
    print(f"{name}: {'FAILED' if problems else 'equal'}: {len(b)} tensors, {len(set(x) & set(y))} "
          f"keys, logits {off:.1g}" + "".join(f"\n    {p}" for p in problems)
          + (f"\n    keys that only the converter writes: {', '.join(missing)}" if missing else ""))
    return not problems


def main(weft, llama_cpp, names):
    fine = True
    for name in names or FIXTURES:
        with tempfile.TemporaryDirectory() as work:
            fine &= check(weft, llama_cpp, name, Path(work))
    return 0 if fine else 1


if sys.argv[1] == "--convert":
    convert(*map(Path, sys.argv[2:5]))
else:
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
