"""Compares logits of llama.cpp with those of `weft`, on the GGUF files that `weft convert` writes.

    python tests/golden/models/against_llama_cpp.py build/cli/weft [fixture...]

Each fixture (here or in ../shared/fixtures) is written in F32. llama.cpp computes with keys and
values in float32 and without flash attention; its logits, `weft logits` of the same file, and the
reference's are compared: the largest differences, and the logits' standard deviation.
Needs llama-cpp-python, safetensors and numpy.
"""
import ctypes
import subprocess
import sys
import tempfile
from pathlib import Path

import llama_cpp
import numpy
from safetensors import safe_open

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[3] / "shared" / "fixtures"


@llama_cpp.llama_log_callback
def quiet(level, text, context):
    if level >= 4:
        sys.stderr.write(text.decode())


llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
llama_cpp.llama_backend_init()


def llama_logits(path, rows):
    """Logits (B, L, V) of token ids (B, L)."""
    options = llama_cpp.llama_model_default_params()
    options.use_extra_bufts = False  # no repacking, nor what AMX wants
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), options)
    if not model:
        raise RuntimeError("llama.cpp cannot load it")
    size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    length = rows.shape[1]
    o = llama_cpp.llama_context_default_params()
    o.n_ctx = o.n_batch = o.n_ubatch = max(length, 32)
    o.type_k = o.type_v = llama_cpp.GGML_TYPE_F32
    o.flash_attn_type = 0
    o.n_threads = o.n_threads_batch = 1
    out = []
    for row in rows:
        context = llama_cpp.llama_init_from_model(model, o)
        batch = llama_cpp.llama_batch_init(length, 0, 1)
        batch.n_tokens = length
        for i, token in enumerate(row):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = int(token), i, 1
            batch.seq_id[i][0], batch.logits[i] = 0, 1
        if llama_cpp.llama_decode(context, batch):
            raise RuntimeError("llama_decode failed")
        out.append([numpy.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, i),
                                             (size,)).copy() for i in range(length)])
        llama_cpp.llama_batch_free(batch)
        llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
    return numpy.array(out, dtype=numpy.float64)


def llama_logits_apart(path, ids, folder):
    """The same in a process of its own: llama.cpp aborts on what it does not expect."""
    at, to = Path(folder) / "ids.npy", Path(folder) / "logits.npy"
    numpy.save(at, ids)
    done = subprocess.run([sys.executable, __file__, "--one", path, at, to], capture_output=True)
    if done.returncode:
        raise RuntimeError(f"llama.cpp fails (status {done.returncode})")
    return numpy.load(to)


def weft_logits(command, path, ids, folder):
    """The same of `weft`."""
    to = Path(folder) / "logits.safetensors"
    subprocess.run([command, "logits", str(path), "--ids", str(ids), "--out", str(to)], check=True,
                   capture_output=True)
    with safe_open(to, "np") as f:
        return f.get_tensor("logits").astype("f8")


def main(command, names):
    found = {p.parent.name: p.parent for base in (SHARED, HERE)
             for p in sorted(base.glob("*/reference.safetensors")) if (p.parent / "config.json").exists()}
    worst = 0
    for name, source in sorted(found.items()):
        if names and name not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.gguf"
            done = subprocess.run([command, "convert", str(source), str(path)],
                                  capture_output=True, text=True)
            if done.returncode:
                print(f"{name}: not written: {done.stderr.strip()[-150:]}")
                continue
            with safe_open(source / "reference.safetensors", "np") as f:
                ids, expected = f.get_tensor("input_ids"), f.get_tensor("logits").astype("f8")
            try:
                theirs = llama_logits_apart(path, ids, folder)[..., :expected.shape[-1]]
            except RuntimeError as error:
                print(f"{name}: {error}")
                continue
            ours = weft_logits(command, path, source / "reference.safetensors", folder)
        off = [abs(a - b).max() for a, b in ((ours, theirs), (theirs, expected), (ours, expected))]
        worst = max(worst, off[0])
        print(f"{name}: deviation {expected.std():.4f}, largest difference weft - llama.cpp "
              f"{off[0]:.2g}, llama.cpp - reference {off[1]:.2g}, weft - reference {off[2]:.2g}")
    print(f"largest difference of all: {worst:.3g}")


if sys.argv[1] == "--one":
    numpy.save(sys.argv[4], llama_logits(sys.argv[2], numpy.load(sys.argv[3])))
elif __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
