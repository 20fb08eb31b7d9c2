"""Compares logits of llama.cpp with those of `weft`, on the GGUF files that `weft convert` writes.

    python tests/golden/models/against_llama_cpp.py build/cli/weft [fixture...]

Each fixture (here or in ../shared/fixtures) is written in F32. llama.cpp computes with keys and
values in float32 and without flash attention; its logits, `weft logits` of the same file, and the
reference's are compared: the largest differences, and the logits' standard deviation. Fails when
they differ by more than `limit` says, or a fixture that is known to be another case (below: not
written, windows, shared) turns out not to be. Needs llama-cpp-python (these are findings of
0.3.36), safetensors and numpy.
"""
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
from safetensors import safe_open

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from peers import Llama, weft_logits

PROMPT = 12  # tokens, of `greedy`

SHARED = HERE.parents[3] / "shared" / "fixtures"


def llama_logits_apart(path, ids, folder, what="--logits"):
    """The same in a process of its own: llama.cpp aborts on what it does not expect. Or, of a row of
    tokens, the row of its first 12 and as many greedy ones as it has more."""
    at, to = Path(folder) / "ids.npy", Path(folder) / "logits.npy"
    numpy.save(at, ids)
    done = subprocess.run([sys.executable, __file__, what, path, at, to], capture_output=True)
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise RuntimeError(f"llama.cpp fails (status {done.returncode}) {why}")
    return numpy.load(to)


# What GGUF has no words for, and what `weft convert` says of it.
NOT_WRITTEN = {
    "exaone4-hybrid": "a window on some of the layers is unsupported",
    "falcon-h1-gate": "a bias of Mamba 2's projections, or a convolution without a bias",
    "falcon-h1-norm": "a bias of o_proj or of the MLP is unsupported",
    "glm4-moe-lite-groups": "a scaled rotation, or one of halves is unsupported",
    "granite4-moe": "time_step_limit is unsupported",
    "granite4-rope": "a bias of Mamba 2's projections, or a convolution without a bias",
    "lfm2-bias": "conv_bias true is unsupported",
    "lfm2-moe-scaled": "norm_topk_prob false, use_expert_bias false or a routed_scaling_factor",
    "lfm3": "models have no GGUF architecture",
    "lfm3-plain": "models have no GGUF architecture",
    "minicpm3": "a scale_emb, scale_depth or dim_model_base other than 12, 1.4 and 256",
    "minicpm3-plain": "a scale_emb, scale_depth or dim_model_base other than 12, 1.4 and 256",
    "minicpm-head": "this scaling of the rotary embedding is unsupported",
    "ministral": "a window on some of the layers is unsupported",
    "nemotron-h": "MLPs beside layers of experts is unsupported",
    "nemotron-h-latent": "mlp_bias true is unsupported",
    "qwen3-5-mlx": "models have no GGUF architecture",
    "qwen3-5-moe": "models have no GGUF architecture",
    "qwen3-5-wrapped": "models have no GGUF architecture",
    "qwen3-moe-mixed": "norm_topk_prob false is unsupported",
    "qwen3-next": "models have no GGUF architecture",
    "rope-dynamic": "this scaling of the rotary embedding is unsupported",
    "rope-longrope": "this scaling of the rotary embedding is unsupported",
}


class Finding(Exception):
    """What is not as expected."""


def limit(config):
    """The largest difference, in deviations. llama.cpp looks gelu up in a table in float16: with a
    gelu rounded likewise, transformers' logits of gemma4-wrapped and gemma4-moe are within 0.002
    of llama.cpp's, which are 0.041 and 0.014 from those with gelu in float32."""
    if config["model_type"].startswith("gemma"):
        return 0.06
    # In files of deepseek2 it gives the norms of latents the epsilon of the others, not 1e-6.
    return 1e-4 if config["model_type"] == "glm4_moe_lite" else 2e-5


def convert(command, source, path, *options):
    """What `weft convert` says; "": it is written."""
    done = subprocess.run([command, "convert", str(source), str(path), "--force", *options],
                          capture_output=True, text=True)
    return done.stderr.strip() if done.returncode else ""


def compare(name, command, source, folder, ids, expected, config, positions=None):
    """Both on the model in `source`, at the first positions; its reference's logits, if there are.
    The logits of llama.cpp."""
    path = Path(folder) / "model.gguf"
    said = convert(command, source, path, "--type", "f32")
    if said:
        raise Finding(f"not written: {said[-150:]}")
    ours = weft_logits(command, path, ids, folder).astype("f8")
    theirs = llama_logits_apart(path, ids, folder)[..., :ours.shape[-1]]
    off = abs(ours - theirs)[:, :positions].max()
    more = "" if expected is None else (
        f", llama.cpp - reference {abs(theirs - expected)[:, :positions].max():.2g}"
        f", weft - reference {abs(ours - expected).max():.2g}")
    print(f"{name}: deviation {ours.std():.4f}, largest difference weft - llama.cpp {off:.2g}{more}")
    if not off <= limit(config) * ours.std():
        raise Finding(f"they differ by {off:.3g}")
    chosen_by_context = config["model_type"] == "phi3"  # llama.cpp chooses longrope's factors so
    if (positions is None and expected is not None and limit(config) < 0.01
            and not chosen_by_context):
        with safe_open(Path(source) / "reference.safetensors", "np") as f:
            greedy = f.get_tensor("greedy")
        if not (llama_logits_apart(path, greedy, folder, "--greedy") == greedy).all():
            raise Finding("greedy tokens differ")
    return theirs


def changed(source, folder, changes):
    """A copy of the fixture with another configuration."""
    to = Path(folder) / "changed"
    shutil.copytree(source, to)
    config = json.loads((to / "config.json").read_text())
    config.update(changes)
    (to / "config.json").write_text(json.dumps(config))
    return to


def windows(name, command, source, folder, ids, expected, config):
    """A window of all layers: llama.cpp heeds none in files of architecture llama and phi3. Positions
    that the window does not cut are equal, a file without window is equal at all positions, and
    llama.cpp's logits are the same with window and without."""
    n = config["sliding_window"]
    with_window = compare(f"{name}, {n} positions", command, source, folder, ids, expected, config, n)
    other = changed(source, folder, {"sliding_window": None})
    without = compare(f"{name} without window", command, other, folder, ids, None, config)
    if abs(with_window - without).max() > 0:
        raise Finding("llama.cpp heeds the window")
    if not abs(without - expected)[:, n:].max() > 0.1:
        raise Finding("the window makes no difference")


def own_layers(config):
    return config["num_hidden_layers"] - (config.get("num_kv_shared_layers") or 0)


def fits(types, own):
    """llama.cpp (llama-model.cpp, `reuse`) has layers that share keys and values take them, with a
    window, from the last own layer but one, without from the last, whatever these are. Those of
    Gemma 4's checkpoints end with one that has a window and one that has none."""
    return own == len(types) or types[own - 2:own] == ["sliding_attention", "full_attention"]


def shared(name, command, source, folder, ids, expected, config):
    """Its own layers end otherwise: llama.cpp fails the assertion that the layer has a cache of its
    kind. With as many shared layers as it takes for its rule to be right, it does not."""
    try:
        compare(name, command, source, folder, ids, expected, config)
    except RuntimeError:
        pass
    else:
        raise Finding("llama.cpp reads it")
    types = config["layer_types"]
    own = next(n for n in range(own_layers(config) - 1, 1, -1) if fits(types, n))
    other = changed(source, folder, {"num_kv_shared_layers": len(types) - own})
    compare(f"{name} of {own} own layers", command, other, folder, ids, None, config)


def rounded(name, command, source, folder, ids, expected, config):
    """llama.cpp rounds yarn's bounds, which gpt-oss does not: it computes what a model with rounded
    bounds does."""
    path = Path(folder) / "model.gguf"
    said = convert(command, source, path, "--type", "f32")
    if said:
        raise Finding(f"not written: {said[-150:]}")
    key = "rope_parameters" if "rope_parameters" in config else "rope_scaling"
    other = changed(source, folder, {key: {**config[key], "truncate": True}})
    theirs = llama_logits_apart(path, ids, folder)[..., :expected.shape[-1]]
    ours = weft_logits(command, other, ids, folder).astype("f8")
    off, same = abs(ours - theirs).max(), abs(weft_logits(command, path, ids, folder) - expected).max()
    print(f"{name} with rounded bounds: deviation {ours.std():.4f}, largest difference weft - "
          f"llama.cpp {off:.2g}, not rounded: weft - reference {same:.2g}")
    if not max(off, same) <= limit(config) * ours.std():
        raise Finding(f"they differ by {off:.3g}")
    if not abs(theirs - expected).max() > 0.01:
        raise Finding("llama.cpp does not round")


def check(name, command, source, folder):
    config = json.loads((source / "config.json").read_text())
    with safe_open(source / "reference.safetensors", "np") as f:
        ids, expected = f.get_tensor("input_ids"), f.get_tensor("logits").astype("f8")
    if name in NOT_WRITTEN:
        said = convert(command, source, Path(folder) / "model.gguf")
        if NOT_WRITTEN[name] not in said:
            raise Finding(f"expected '{NOT_WRITTEN[name]}', found '{said[-150:]}'")
        print(f"{name}: not written: {NOT_WRITTEN[name]}")
        return
    how = compare
    if config["model_type"] in ("mistral", "phi3") and config.get("sliding_window"):
        how = windows
    elif config["model_type"] == "gpt_oss":
        how = rounded
    elif "num_kv_shared_layers" in config and not fits(config["layer_types"], own_layers(config)):
        how = shared
    how(name, command, source, folder, ids, expected, config)


def main(command, names):
    found = {p.parent.name: p.parent for base in (SHARED, HERE)
             for p in sorted(base.glob("*/reference.safetensors"))
             if (p.parent / "config.json").exists()
             and not (p.parent / "modules.json").exists()  # encoders_against_llama_cpp.py
             # llama.cpp aborts on a hybrid without attention; against_converter.py compares its file
             and p.parent.name != "nemotron-h-mamba"}
    failed = 0
    for name, source in sorted(found.items()):
        if names and name not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(name, command, source, folder)
            except (Finding, RuntimeError) as error:
                print(f"{name}: FAILED: {error}")
                failed += 1
    print(f"{failed} of {len(names) or len(found)} failed")
    return 1 if failed else 0


if sys.argv[1] == "--logits":
    numpy.save(sys.argv[4], Llama(sys.argv[2]).logits(numpy.load(sys.argv[3])))
elif sys.argv[1] == "--greedy":
    row = numpy.load(sys.argv[3])[0].tolist()
    numpy.save(sys.argv[4], [row[:PROMPT] + Llama(sys.argv[2]).answer(row[:PROMPT],
                                                                      len(row) - PROMPT, [])])
elif __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
