"""Writes gguf_triples.safetensors: how MLX reads the Q4_0, Q4_1 and Q8_0 blocks of
gguf_blocks.safetensors: codes, scales and biases, for tests/io/test_gguf.c.

Run it with gguf and mlx installed.
"""

import os
import tempfile

import gguf
import mlx.core as mx
import numpy as np
from safetensors.numpy import load_file, save_file

blocks = load_file("gguf_blocks.safetensors")
out = {}
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "x.gguf")
    writer = gguf.GGUFWriter(path, "llama")
    for name in ("Q4_0", "Q4_1", "Q8_0"):
        raw = blocks[f"{name}/blocks"]
        writer.add_tensor(f"{name}.weight", raw, raw_dtype=gguf.GGMLQuantizationType[name])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    arrays = mx.load(path)
    for name in ("Q4_0", "Q4_1", "Q8_0"):
        for part in ("weight", "scales", "biases"):
            out[f"{name}/{part}"] = np.array(arrays[f"{name}.{part}"])
save_file(out, "gguf_triples.safetensors")
