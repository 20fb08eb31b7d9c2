"""Compares the tensors of GGUF files that `weft convert` writes with gguf-py.

    python tests/golden/models/gguf_names.py build/cli/weft [fixture...]

For each tensor of the fixture's checkpoint, gguf-py's map of names gives the name in the file. The
values there must be those of the checkpoint, in the form of llama.cpp's converter: experts in
stacks, kv_b_proj as matrices of keys and values, A as -exp(A_log). The file must not have others.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import load_file
import json

HERE = Path(__file__).parent
FIXTURES = ["glm4-moe-lite", "minicpm3-published"]


def stacked(tensors):
    """Experts that are stored one by one, as the converter stacks them."""
    out, experts = {}, {}
    for name, a in tensors.items():
        m = re.match(r"(.*\.experts)\.(\d+)\.(.*)", name)
        if m:
            experts.setdefault(f"{m[1]}.{m[3]}", {})[int(m[2])] = a
        else:
            out[name] = a
    return out | {k: np.stack([v[i] for i in range(len(v))]) for k, v in experts.items()}


def latents(config, arch, tensors):
    if arch != gguf.MODEL_ARCH.DEEPSEEK2:
        return tensors
    out = {}
    for name, a in tensors.items():
        if name.endswith("kv_b_proj.weight"):
            nope, v = config["qk_nope_head_dim"], config["v_head_dim"]
            heads = a.reshape(config["num_attention_heads"], nope + v, -1)
            out[name.replace("kv_b_proj", "k_b_proj")] = heads[:, :nope].swapaxes(1, 2)
            out[name.replace("kv_b_proj", "v_b_proj")] = heads[:, nope:]
        else:
            out[name.replace("e_score_correction_bias", "e_score_correction.bias")] = a
    return out


def check(weft, name, file):
    subprocess.run([weft, "convert", str(HERE / name), str(file), "--type", "f32"], check=True,
                   capture_output=True)
    config = json.loads((HERE / name / "config.json").read_text())
    reader = gguf.GGUFReader(file)
    text = str(bytes(reader.fields["general.architecture"].parts[-1]), "utf-8")
    arch = next(a for a, n in gguf.MODEL_ARCH_NAMES.items() if n == text)
    names = gguf.get_tensor_name_map(arch, config["num_hidden_layers"])
    there = {t.name: t.data for t in reader.tensors}
    used = set()
    tensors = load_file(HERE / name / "model.safetensors")
    for key, a in latents(config, arch, stacked(tensors)).items():
        layer = re.match(r"model\.layers\.(\d+)\.", key)
        if layer and int(layer[1]) >= config["num_hidden_layers"]:
            continue
        mapped = names.get_name(key, try_suffixes=(".weight", ".bias"))
        assert mapped in there, (name, key, mapped)
        assert there[mapped].shape == a.shape, (name, mapped, there[mapped].shape, a.shape)
        assert np.array_equal(there[mapped], a.astype(np.float32)), (name, mapped)
        used.add(mapped)
    rest = {n for n in there if n not in used and not n.startswith("rope_")}
    assert not rest, (name, rest)
    allowed = {gguf.TENSOR_NAMES[t] for t in gguf.MODEL_TENSORS[arch]}
    for n in there:
        plain = re.sub(r"\.(weight|bias)$", "", re.sub(r"^blk\.\d+\.", "blk.{bid}.", n))
        assert plain in allowed, (name, n)
    print(f"{name}: {len(there)} tensors of {text} equal")


def main():
    with tempfile.TemporaryDirectory() as work:
        for name in sys.argv[2:] or FIXTURES:
            check(sys.argv[1], name, Path(work) / f"{name}.gguf")


if __name__ == "__main__":
    main()
