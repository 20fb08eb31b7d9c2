"""Writes complex.safetensors: products, variances, dot products and convolutions of complex numbers
by torch in complex128, with their gradients; and orders, exponentials and scatters by NumPy; for
tests/ops/test_complex_golden.c.

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


# ---- order, exponentials, scatters: NumPy in complex128 from these definitions -------------------


def key(z):
    """NaN last, then by real and imaginary parts."""
    return (1,) if np.isnan(z.real) or np.isnan(z.imag) else (0, z.real, z.imag)


def extreme(z, largest):
    """The first index of the largest or smallest; NaN wins."""
    if any(key(v) == (1,) for v in z):
        largest = True
    return (max if largest else min)(range(len(z)), key=lambda i: key(z[i]))


def rows(f, x, axis=-1):
    return np.apply_along_axis(f, axis, x)


def put(name, array):
    kind = np.complex64 if np.iscomplexobj(array) else None
    out[name] = np.array(array.astype(kind) if kind else array, order="C")


plain = random.integers(-2, 3, (3, 8)) + 1j * random.integers(-2, 3, (3, 8))  # with ties
with_nan = plain.copy()
with_nan[0, 3] = complex(np.nan, 1)
with_nan[0, 6] = complex(2, np.nan)
with_nan[2, 0] = complex(np.nan, np.nan)
wide = random.normal(size=(3, 8)) * 40 + 1j * random.normal(size=(3, 8)) * 3
wide[1, 2] = complex(-np.inf, 1)
for name, x in {"plain": plain, "nan": with_nan}.items():
    order = rows(lambda z: np.array(sorted(range(len(z)), key=lambda i: key(z[i]))), x)
    put(f"{name}/x", x)
    put(f"{name}/argsort", order.astype(np.int32))
    put(f"{name}/sort", np.take_along_axis(x, order, -1))
    for which, largest in (("max", True), ("min", False)):
        at = rows(lambda z: extreme(z, largest), x)
        put(f"{name}/arg{which}", at.astype(np.int32))
        put(f"{name}/{which}", np.take_along_axis(x, at[:, None], -1)[:, 0])
        running = np.stack([rows(lambda z: extreme(z[: n + 1], largest), x) for n in range(8)], -1)
        put(f"{name}/cum{which}", np.take_along_axis(x, running, -1))
exps = lambda x: np.exp(x - x.real.max(-1, keepdims=True))  # noqa: E731
put("wide/x", wide)
wide = out["wide/x"].astype(np.complex128)
put("wide/softmax", exps(wide) / exps(wide).sum(-1, keepdims=True))
put("wide/logsumexp", wide.real.max(-1) + np.log(exps(wide).sum(-1)))
put("wide/log_softmax", wide - (wide.real.max(-1) + np.log(exps(wide).sum(-1)))[:, None])
prefix = [wide[:, : n + 1] for n in range(8)]
put("wide/logcumsumexp", np.stack([p.real.max(-1) + np.log(exps(p).sum(-1)) for p in prefix], -1))
x, values = draw(4, 3).numpy(), draw(6, 3).numpy()
at = np.array([1, 3, 1, 0, 3, 1], np.int32)
for name, array in {"x": x, "values": values, "at": at}.items():
    put(f"scatter/{name}", array)
for name, f in {
    "add": np.add, "prod": np.multiply,
    "max": lambda a, b: np.where(a.real >= b.real, a, b),
    "min": lambda a, b: np.where(a.real <= b.real, a, b),
}.items():
    y = x.copy()
    for i, place in enumerate(at):
        y[place] = f(y[place], values[i])
    put(f"scatter/{name}", y)
save_file(out, "complex.safetensors")
