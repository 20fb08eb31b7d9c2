"""Reference arrays of test_shapes.c, by NumPy: python3 structure.py writes structure.safetensors."""
import os
import numpy as np
from safetensors.numpy import save_file

rng = np.random.default_rng(4)
out = {}


def case(name, x, *results):
    out[name + "/in0"] = np.ascontiguousarray(x)
    for i, y in enumerate(results):
        out[f"{name}/out{i}"] = np.array(y, order="C")


x = rng.normal(size=(3, 4, 5)).astype(np.float32)
case("unflatten", x, x.reshape(3, 2, 2, 5))
case("moveaxis", x, np.moveaxis(x, 0, -1), np.moveaxis(x, 2, 0), np.moveaxis(x, 1, 1))
case("flip", x, np.flip(x), np.flip(x, 1), np.flip(x, (0, -1)))
case("expand", x, np.expand_dims(x, (0, 2, -1)))
ones = x.reshape(1, 3, 1, 20, 1)
case("squeeze", ones, np.squeeze(ones), np.squeeze(ones, (0, -1)))
v = x[0, 0]
case("atleast", v, np.atleast_1d(v), np.atleast_2d(v), np.atleast_3d(v))
m = x[0]
case("atleast2", m, np.atleast_2d(m), np.atleast_3d(m))
strided = np.lib.stride_tricks.as_strided
flat = x.reshape(-1)
f = flat.itemsize
case("as_strided", x, strided(flat[7:], (4, 3, 2), (5 * f, 2 * f, f)),
     strided(flat[59:], (3, 5), (-4 * f, -2 * f)), strided(flat[2:], (), ()))
case("split", x, *np.split(x, 2, 1), *np.split(x, [1, 3, 9], -1), *np.split(x, [2, -1], 0))
case("unstack", x, *[x[:, i] for i in range(4)])
case("repeat", x, np.repeat(x, 3, 1), np.repeat(x, 2, -1), np.repeat(x, 0, 0))
case("tile", x, np.tile(x, (2,)), np.tile(x, (2, 1, 1, 3)), np.tile(x, (2, 3, 2)), np.tile(x, (0, 1)))
case("roll", x, np.roll(x, 2, 1), np.roll(x, -7), np.roll(x, (1, -2), (0, 2)), np.roll(x, (4, 4), (1, 1)))
case("diff", x, np.diff(x), np.diff(x, 2, 1), np.diff(x, 1, 0, x[1:2], x[:2]), np.diff(x, 0))
truth = x > 0
case("diff_bool", truth, np.diff(truth, 2))
for mode in ("constant", "edge", "reflect", "symmetric", "wrap"):
    more = {"constant_values": -1.5} if mode == "constant" else {}
    case("pad_" + mode, x, np.pad(x, ((2, 1), (0, 0), (1, 3)), mode, **more),
         np.pad(x, ((7, 11), (9, 0), (0, 8)), mode, **more), np.pad(x[:1], ((3, 2), (0, 0), (0, 0)), mode, **more))
h = x.astype(np.float16)
case("view", h[:, :, :4], np.ascontiguousarray(h[:, :, :4]).view(np.int32),
     np.ascontiguousarray(h[:, :, :4]).view(np.uint8), np.ascontiguousarray(h[:, :, :4]).view(np.int16))
empty = np.zeros((2, 0, 3), np.float32)
case("empty", empty, np.repeat(empty, 2, 0), np.tile(empty, (2, 2, 2)), np.roll(empty, 3, 1), np.flip(empty),
     np.pad(empty, ((1, 0), (0, 2), (0, 0))), np.diff(empty), np.diff(empty, axis=1))
a, b = rng.normal(size=(4, 1, 3)).astype(np.float32), rng.normal(size=(2, 1)).astype(np.float32)
out["broadcast/in0"], out["broadcast/in1"] = a, b
for i, y in enumerate(np.broadcast_arrays(a, b)):
    out[f"broadcast/out{i}"] = np.ascontiguousarray(y)
save_file(out, os.path.join(os.path.dirname(os.path.abspath(__file__)), "structure.safetensors"))
