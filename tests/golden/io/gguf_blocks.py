"""Writes gguf_blocks.safetensors: random blocks of each GGUF type, decoded by the gguf package.

For each type NAME: NAME/blocks uint8 (rows, bytes) and NAME/values float32 (rows, elements). For the
types that Weft makes: NAME/numbers float32 and NAME/made uint8, by the package's quantisers (Q4_K
has none there).
"""
import os
import numpy as np
from gguf import GGMLQuantizationType as T, quants, GGML_QUANT_SIZES
from safetensors.numpy import save_file

TYPES = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL",
         "IQ4_XS", "MXFP4"]
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82],
          "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0],
          "IQ4_XS": [0], "MXFP4": []}
random = np.random.default_rng(7)
out = {}
for name in TYPES:
    size, width = GGML_QUANT_SIZES[T[name]]
    n = 1024 // size
    blocks = random.integers(0, 256, (3 * n, width), dtype=np.uint8)
    for at in HALVES[name]:  # finite, and subnormal ones and zeros among them
        half = random.normal(0, 0.1, 3 * n).astype(np.float16)
        half[::7] = np.float16(3e-7)
        half[3::7] = 0
        blocks[:, at:at + 2] = half.view(np.uint8).reshape(-1, 2)
    if name == "MXFP4":
        blocks[:, 0] = random.integers(0, 240, 3 * n)
        blocks[:4, 0] = [0, 1, 2, 250]
    blocks = blocks.reshape(3, n * width)
    out[name + "/blocks"] = blocks
    out[name + "/values"] = quants.dequantize(blocks, T[name]).astype(np.float32)
for name in ["Q4_0", "Q8_0"]:
    x = random.normal(0, 1, (4, 512)).astype(np.float32)
    x[1] *= 1e-6
    x[2, ::3] = 0
    x[3, :64] = 0
    out[name + "/numbers"] = x
    out[name + "/made"] = quants.quantize(x, T[name])
save_file({k: np.ascontiguousarray(v) for k, v in out.items()},
          os.path.join(os.path.dirname(os.path.abspath(__file__)), "gguf_blocks.safetensors"))
