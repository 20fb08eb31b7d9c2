"""Writes complex.safetensors: products, variances, dot products and convolutions of complex numbers
by torch in complex128, with their gradients, for tests/ops/test_complex_golden.c.

Run it with torch installed: python -P complex.py (this folder has a random.py)
"""

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

random = np.random.default_rng(17)
out = {}


def draw(*shape, zeros=()):
    z = random.normal(size=shape) + 1j * random.normal(size=shape)
    for at in zeros:
        z[at] = 0
    return torch.tensor(z)


def case(name, f, *arrays):
    arrays = [a.clone().requires_grad_() for a in arrays]
    y = f(*arrays)
    ct = draw(*y.shape) if y.is_complex() else draw(*y.shape).real.contiguous()
    y.backward(ct)
    narrow = lambda t: np.array(  # noqa: E731
        t.detach().resolve_conj().numpy().astype(np.complex64 if t.is_complex() else np.float32), order="C")
    for i, a in enumerate(arrays):
        out[f"{name}/in{i}"] = narrow(a)
        out[f"{name}/grad{i}"] = narrow(a.grad)
    out[f"{name}/ct"] = narrow(ct)
    out[f"{name}/out0"] = narrow(y)


def last(x):
    return x.movedim(-1, 1)


def first(x):
    return x.movedim(1, -1)


x = draw(3, 5)
case("prod", lambda x: x.prod(1), x)
case("prod_zero", lambda x: x.prod(1), draw(3, 4, zeros=((0, 1), (1, 2), (1, 3))))
case("cumprod", lambda x: x.cumprod(1), x)
case("cumprod_zero", lambda x: x.cumprod(0), draw(4, 3, zeros=((1, 0), (2, 1), (0, 1))))
case("var", lambda x: x.var(1, correction=0), x)
case("var1", lambda x: x.var((0, 1), correction=1), x)
case("std", lambda x: x.std(1, correction=0), x)
case("vecdot", lambda a, b: torch.linalg.vecdot(a, b), draw(2, 3, 4), draw(3, 4))
case("conv1d", lambda x, w: first(F.conv1d(last(x), last(w), stride=2, padding=1)),
     draw(2, 9, 3), draw(4, 3, 3))
case("conv2d", lambda x, w: first(F.conv2d(last(x), last(w), padding=1, groups=2)),
     draw(2, 5, 4, 4), draw(6, 3, 3, 2))
case("conv_transpose1d",
     lambda x, w: first(F.conv_transpose1d(last(x), w.permute(2, 0, 1), stride=2, padding=1)),
     draw(2, 5, 3), draw(4, 3, 3))
save_file(out, "complex.safetensors")
