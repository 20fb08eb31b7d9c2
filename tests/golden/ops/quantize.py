"""tests/golden/ops/quantize.safetensors: quantised matrices by MLX on the CPU.

Run with a Python that has mlx and numpy. Tensors are "case/in0" (the matrix), "case/codes",
"case/scales", "case/biases" and "case/dense" (dequantised); products are of float64.
"""
import json
import os
import struct

import mlx.core as mx
import numpy as np

mx.set_default_device(mx.cpu)
rng = np.random.default_rng(20260101)
tensors = {}
NAMES = {mx.float32: "F32", mx.float16: "F16", mx.bfloat16: "BF16", mx.uint8: "U8", mx.uint32: "U32"}


def put(name, a):
    kind = NAMES[a.dtype]
    if kind == "BF16":
        a = a.view(mx.uint16)
    tensors[name] = (kind, np.array(a))


def put64(name, a):
    tensors[name] = ("F64", np.asarray(a, np.float64))


def wide(a):
    return np.array(a.astype(mx.float32)).astype(np.float64)


def matrix(rows, columns, scale=1.0):
    """Groups of all kinds: random, constant, zeros, of one sign, with a far outlier."""
    w = rng.standard_normal((rows, columns)).astype(np.float32) * scale
    w[0] = 0
    w[1] = 1.5 * scale
    w[4, :64] = -1.5 * scale
    w[2] = np.abs(w[2])
    w[3] = -np.abs(w[3])
    w[3, 7] = 30 * scale
    return mx.array(w)


def quantised(name, w, mode, group, bits, glob=None):
    more = {} if glob is None else {"global_scale": glob}
    parts = mx.quantize(w, group, bits, mode, **more)
    for part, label in zip(parts, ("codes", "scales", "biases")):
        put(f"{name}/{label}", part)
    dtype = {} if mode == "affine" or glob is not None else {"dtype": w.dtype}
    dense = mx.dequantize(*parts, group_size=group, bits=bits, mode=mode, **more, **dtype)
    put(f"{name}/dense", dense)
    return parts, dense


for kind, dtype in (("f32", mx.float32), ("f16", mx.float16), ("bf16", mx.bfloat16)):
    w = matrix(6, 128).astype(dtype)
    put(f"{kind}/in0", w)
    for bits in (2, 3, 4, 5, 6, 8):
        for group in (32, 64, 128):
            quantised(f"{kind}/affine{bits}_{group}", w, "affine", group, bits)
    for mode, group, bits in (("mxfp4", 32, 4), ("mxfp8", 32, 8), ("nvfp4", 16, 4)):
        quantised(f"{kind}/{mode}", w, mode, group, bits)

w = matrix(6, 64)
glob = mx.abs(w).max()
put("global/in0", w)
put("global/scale", glob)
quantised("global/nvfp4", w, "nvfp4", 16, 4, glob)

# The vector of MLX's own tests: w[i] = ((7 i mod 32) - 12) / 8.
w = mx.array((((7 * np.arange(32)) % 32) - 12).astype(np.float32)[None] * 0.125)
put("ramp/in0", w)
for bits in (2, 3, 4, 5, 6, 8):
    quantised(f"ramp/affine{bits}_32", w, "affine", 32, bits)

# Products in float64 of what MLX dequantises in float32.
x = mx.array(rng.standard_normal((3, 256)).astype(np.float32))
put("product/in0", x)
for name, mode, group, bits in (("affine4", "affine", 64, 4), ("affine3", "affine", 32, 3),
                                ("mxfp8", "mxfp8", 32, 8), ("nvfp4", "nvfp4", 16, 4)):
    w = matrix(6, 256)
    parts, dense = quantised(f"product/{name}", w, mode, group, bits)
    put64(f"product/{name}/out0", wide(x) @ wide(dense).T)
    put(f"product/{name}/mlx", mx.quantized_matmul(x, *parts, group_size=group, bits=bits, mode=mode))
    y = rng.standard_normal((2, 6)).astype(np.float32)
    put(f"product/{name}/in1", mx.array(y))
    put64(f"product/{name}/out1", y.astype(np.float64) @ wide(dense))

# A mixture of experts.
w = mx.array(rng.standard_normal((3, 4, 64)).astype(np.float32))
x = mx.array(rng.standard_normal((2, 1, 64)).astype(np.float32))
parts, dense = quantised("experts", w, "affine", 32, 4)
lhs, rhs = np.array([[0, 0], [1, 1]], np.uint32), np.array([[2, 0], [1, 2]], np.uint32)
put("experts/in0", x)
put("experts/lhs", mx.array(lhs))
put("experts/rhs", mx.array(rhs))
put64("experts/out0", wide(x)[lhs] @ np.swapaxes(wide(dense)[rhs], -1, -2))
out = mx.gather_qmm(x, *parts, lhs_indices=mx.array(lhs), rhs_indices=mx.array(rhs), transpose=True,
                    group_size=32, bits=4)
assert np.abs(wide(out) - tensors["experts/out0"][1]).max() < 1e-4

# Both quantised, which MLX has on its GPUs only: products in float64 of what it dequantises.
w = mx.array(rng.standard_normal((5, 64)).astype(np.float32))
x = mx.array(rng.standard_normal((3, 64)).astype(np.float32))
put("both/in0", x)
put("both/in1", w)
for mode in ("nvfp4", "mxfp8"):
    dense = [wide(mx.dequantize(*mx.quantize(a, mode=mode), mode=mode, dtype=mx.float32)) for a in (x, w)]
    put64(f"both/{mode}", dense[0] @ dense[1].T)

# float8
x = np.concatenate([rng.standard_normal(200) * 10.0 ** rng.integers(-4, 4, 200),
                    [0, -0.0, 2.0**-10, 3 * 2.0**-10, 2.0**-9, 447, 448, 449, 464, 480, 1e9, 17, 19, 21,
                     2.0**-6, 0.0156, np.inf, -np.inf, np.nan]]).astype(np.float32)
put("fp8/in0", mx.array(x))
put("fp8/codes", mx.to_fp8(mx.array(x)))
put("fp8/all", mx.from_fp8(mx.array(np.arange(256, dtype=np.uint8)), mx.float32))

# The format by hand: a header of JSON, then the bytes.
SIZES = {"F64": 8, "F32": 4, "U32": 4, "F16": 2, "BF16": 2, "U8": 1}
header, blob = {}, b""
for name, (kind, a) in sorted(tensors.items(), key=lambda t: (-SIZES[t[1][0]], t[0])):
    data = np.ascontiguousarray(a).tobytes()
    header[name] = {"dtype": kind, "shape": list(a.shape), "data_offsets": [len(blob), len(blob) + len(data)]}
    blob += data
text = json.dumps(header, separators=(",", ":")).encode()
text += b" " * (-len(text) % 8)
path = os.path.join(os.path.dirname(__file__), "quantize.safetensors")
with open(path, "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + blob)
print(path, os.path.getsize(path))
