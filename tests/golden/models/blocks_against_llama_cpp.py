"""Logits of `weft` and of llama.cpp from the same GGUF files, one of each block type.

    python tests/golden/models/blocks_against_llama_cpp.py build/cli/weft

Models of width 512 with random weights (a qwen3 and a llama, three layers) are written in F32 by
`weft convert`, and quantised by llama.cpp's own quantiser (MXFP4: by the gguf package). The float
reference is `weft` on the same file with its blocks decoded to F32. Printed are the largest
differences by the logits' standard deviation.

llama.cpp's own kernels round what they multiply blocks with to 8 bits, which `weft` does not: the
columns behind say whose part a difference is. A llama-cpp-python built with
CMAKE_ARGS="-DGGML_BLAS=ON -DGGML_BLAS_VENDOR=OpenBLAS" multiplies decoded float32 where a prompt has
32 tokens or more; with one, a difference above LIMIT fails.

Then both quantisers make Q4_K, Q5_K and Q6_K of the same numbers, and the root mean square errors are
compared.
Needs llama-cpp-python, gguf, torch, transformers, safetensors and numpy.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import llama_cpp._ggml as ggml
import numpy
from safetensors.numpy import save_file

from against_llama_cpp import llama_cpp, llama_logits_apart, weft_logits

# llama_ftype of each, all tensors alike
TYPES = {"Q8_0": 7, "Q4_0": 2, "Q4_1": 3, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q3_K": 11, "Q4_K": 14,
         "Q5_K": 16, "Q6_K": 18, "IQ4_NL": 25, "IQ4_XS": 30, "MXFP4": None}
LIMIT = 0.02


def make(name, folder):
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config

    torch.manual_seed(0)
    sizes = dict(vocab_size=512, hidden_size=512, intermediate_size=1024, num_hidden_layers=3,
                 num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=256,
                 tie_word_embeddings=False)
    config = Qwen3Config(head_dim=64, **sizes) if name == "qwen3" else LlamaConfig(**sizes)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for key, p in model.named_parameters():
            if p.ndim == 2:
                p.normal_(0, 1 if "embed" in key else p.shape[1] ** -0.5)
    model.save_pretrained(folder)


def quantise(source, to, kind):
    if TYPES[kind] is not None:
        o = llama_cpp.llama_model_quantize_default_params()
        o.ftype, o.pure, o.nthread, o.allow_requantize = TYPES[kind], True, 1, True
        o.quantize_output_tensor = True
        o.output_tensor_type = o.token_embedding_type = getattr(gguf.GGMLQuantizationType, kind)
        if llama_cpp.llama_model_quantize(str(source).encode(), str(to).encode(), o):
            raise RuntimeError(f"{kind}: llama_model_quantize failed")
        return
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(to, reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        writer.add_key_value(field.name, field.contents(), field.types[0])
    for t in reader.tensors:
        if len(t.shape) == 2:
            q = gguf.GGMLQuantizationType[kind]
            writer.add_tensor(t.name, gguf.quants.quantize(t.data, q), raw_dtype=q)
        else:
            writer.add_tensor(t.name, t.data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def compare_logits(command, blas):
    ids = numpy.random.default_rng(0).integers(0, 512, (2, 48)).astype("i4")
    worst = 0
    print("model, type: weft - llama.cpp, weft - float, llama.cpp - float (shares of the deviation)")
    for name in ("qwen3", "llama"):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            make(name, folder / "hf")
            save_file({"input_ids": ids}, folder / "ids.safetensors")
            full, path, dense = (folder / f"{n}.gguf" for n in ("f32", "q", "dense"))
            subprocess.run([command, "convert", folder / "hf", full], check=True)
            for kind in TYPES:
                quantise(full, path, kind)
                subprocess.run([command, "convert", path, dense, "--force"], check=True)
                exact = weft_logits(command, dense, folder / "ids.safetensors", folder)
                ours = weft_logits(command, path, folder / "ids.safetensors", folder)
                theirs = llama_logits_apart(path, ids, folder)
                off = [abs(a - b).max() / exact.std()
                       for a, b in ((ours, theirs), (ours, exact), (theirs, exact))]
                worst = max(worst, off[0])
                print(f"{name} {kind}: {off[0]:.4%}, {off[1]:.4%}, {off[2]:.4%}", flush=True)
    print(f"largest {worst:.4%}, llama.cpp {'with' if blas else 'without'} BLAS")
    return not blas or worst <= LIMIT


def error_of(path, exact):
    """The root mean square error of each matrix of a file, by its name."""
    return {t.name: numpy.sqrt(((gguf.quants.dequantize(t.data, t.tensor_type).astype("f8")
                                 - exact[t.name]) ** 2).mean())
            for t in gguf.GGUFReader(path).tensors if len(t.shape) == 2}


def compare_quantisers(command):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        make("llama", folder / "hf")
        full, ours, theirs = (folder / f"{n}.gguf" for n in ("f32", "ours", "theirs"))
        subprocess.run([command, "convert", folder / "hf", full], check=True)
        exact = {t.name: t.data.astype("f8") for t in gguf.GGUFReader(full).tensors}
        largest = 0
        for kind in ("Q4_K", "Q5_K", "Q6_K"):
            subprocess.run([command, "convert", full, ours, "--force", "--type", kind.lower(),
                            "--override", "lm_head=" + kind.lower()], check=True)
            quantise(full, theirs, kind)
            own, other = error_of(ours, exact), error_of(theirs, exact)
            ratios = [own[name] / other[name] for name in own]
            largest = max(largest, *ratios)
            print(f"{kind}, root mean square error weft / llama.cpp over {len(ratios)} matrices: "
                  f"{min(ratios):.4f} to {max(ratios):.4f}")
        return largest <= 1


def main(command):
    blas = bool(ggml.libggml.ggml_backend_reg_by_name(b"BLAS"))
    fine = [compare_logits(command, blas), compare_quantisers(command)]
    sys.exit(not all(fine))


main(sys.argv[1])
