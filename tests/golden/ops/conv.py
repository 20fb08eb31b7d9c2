"""tests/golden/ops/conv.py -- writes conv.safetensors: convolutions by torch in float64 with the
gradients of sum(y * ct), transposed ones, convolve by NumPy, pooling by torch. The cases are those of
tests/ops/test_conv.c, in the same order."""
import os

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

torch.manual_seed(7)
out = {}


def put(name, x):
    out[name] = np.array(x.detach().numpy() if torch.is_tensor(x) else x, order="C")


def draw(*shape):
    return (torch.rand(shape, dtype=torch.float64) * 4 - 2).requires_grad_()


def last(x):  # channels last
    return x.movedim(1, -1)


CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}

# N, C, O, spatial, kernel, stride, (low, high) of each axis, dilation, groups
GENERAL = [
    (2, 3, 4, (7,), (3,), (1,), [(0, 0)], (1,), 1),
    (1, 4, 6, (9,), (2,), (2,), [(2, 1)], (3,), 2),
    (2, 3, 5, (6, 7), (3, 3), (1, 1), [(1, 1), (1, 1)], (1, 1), 1),
    (1, 8, 8, (9, 8), (3, 2), (2, 3), [(0, 2), (1, 0)], (2, 1), 4),
    (2, 20, 20, (5, 6), (3, 3), (1, 2), [(1, 1), (1, 1)], (1, 1), 20),
    (1, 2, 3, (4, 5, 6), (2, 3, 2), (1, 2, 1), [(1, 0), (1, 1), (0, 1)], (1, 1, 2), 1),
    (1, 40, 37, (4, 5), (1, 1), (1, 1), [(0, 0), (0, 0)], (1, 1), 1),
    (3, 33, 18, (8, 3), (3, 3), (2, 1), [(1, 1), (1, 1)], (1, 1), 1),
]
for i, (N, C, O, spatial, kernel, stride, pads, dilation, groups) in enumerate(GENERAL):
    x, w = draw(N, C, *spatial), draw(O, C // groups, *kernel)
    flat = [p for pair in reversed(pads) for p in pair]
    y = CONV[len(kernel)](F.pad(x, flat), w, stride=stride, dilation=dilation, groups=groups)
    ct = draw(*y.shape)
    y.backward(ct)
    for name, t in [("in0", x), ("in1", w), ("in2", ct), ("out0", y), ("dx", x.grad), ("dw", w.grad)]:
        put(f"conv{i}/{name}", last(t))

# N, C, O, spatial, kernel, stride, padding, output padding, dilation, groups
TRANSPOSED = [
    (2, 3, 4, (5,), (3,), (2,), (1,), (1,), (1,), 1),
    (1, 4, 6, (4, 3), (3, 2), (2, 3), (1, 0), (1, 2), (1, 1), 2),
    (1, 2, 3, (2, 3, 2), (2, 2, 3), (1, 2, 2), (0, 1, 1), (0, 0, 1), (2, 1, 1), 1),
]
for i, (N, C, O, spatial, kernel, stride, padding, extra, dilation, groups) in enumerate(TRANSPOSED):
    x, w = draw(N, C, *spatial), draw(C, O // groups, *kernel)
    y = TRANSPOSE[len(kernel)](x, w, stride=stride, padding=padding, output_padding=extra,
                               groups=groups, dilation=dilation)
    ct = draw(*y.shape)
    y.backward(ct)

    def ours(w):  # (C, O / groups, ...) as (O, ..., C / groups)
        parts = w.reshape(groups, C // groups, O // groups, *kernel)
        return parts.transpose(1, 2).reshape(O, C // groups, *kernel).movedim(1, -1)

    for name, t in [("in0", last(x)), ("in1", ours(w)), ("in2", last(ct)), ("out0", last(y)),
                    ("dx", last(x.grad)), ("dw", ours(w.grad))]:
        put(f"transposed{i}/{name}", t)

for i, (n, m) in enumerate([(7, 3), (7, 4), (3, 6), (5, 5), (6, 1)]):
    a, v = np.random.default_rng(i).uniform(-2, 2, n), np.random.default_rng(9 + i).uniform(-2, 2, m)
    put(f"convolve{i}/in0", a)
    put(f"convolve{i}/in1", v)
    for mode in ["full", "same", "valid"]:
        put(f"convolve{i}/{mode}", np.convolve(a, v, mode))

POOLS = [((2, 3, 9), (3,), (2,), (1,)), ((1, 2, 6, 7), (2, 3), (2, 2), (0, 1)),
         ((1, 2, 4, 5, 4), (2, 2, 2), (2, 1, 2), (0, 0, 0))]
MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVG = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
for i, (shape, window, stride, padding) in enumerate(POOLS):
    x = draw(*shape)
    put(f"pool{i}/in0", last(x))
    for name, f in [("max", MAX), ("avg", AVG)]:
        x.grad = None
        y = f[len(window)](x, window, stride, padding)
        y.square().sum().backward()
        put(f"pool{i}/{name}", last(y))
        put(f"pool{i}/d{name}", last(x.grad))

save_file(out, os.path.splitext(os.path.abspath(__file__))[0] + ".safetensors")
