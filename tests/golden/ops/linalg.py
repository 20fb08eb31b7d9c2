"""tests/golden/ops/linalg.py -- writes linalg.safetensors: values by NumPy, SciPy and gradients by
PyTorch, in float64 and complex128. Vectors that have a free factor are held by what they
reconstruct, and their gradients by functions that do not depend on it. Run it with python -P:
random.py is in this folder."""
import os

import numpy as np
import scipy.linalg
import torch
from safetensors.numpy import save_file

rng = np.random.default_rng(11)
out = {}


def put(case, inputs, *results):
    for i, x in enumerate(inputs):
        x = np.asarray(x)
        out[f"{case}/in{i}"] = np.array(x.astype(np.complex64) if np.iscomplexobj(x) else x, order="C")
    for i, x in enumerate(results):
        x = np.asarray(x)
        out[f"{case}/out{i}"] = np.array(x.astype(np.complex64) if np.iscomplexobj(x) else x, order="C")


def draw(*shape):
    return rng.uniform(-2, 2, shape)


def draw_complex(*shape):
    return (draw(*shape) + 1j * draw(*shape)).astype(np.complex64).astype(np.complex128)


def positive(n, make=draw):
    x = make(3, n, n)
    return x @ np.conj(np.swapaxes(x, -1, -2)) + n * np.eye(n)


# Norms
x = draw(3, 4, 5)
for name, p in [("inf", np.inf), ("minf", -np.inf), ("zero", 0), ("one", 1), ("two", 2), ("half", 0.5),
                ("three", 3), ("mtwo", -2)]:
    put(f"vnorm_{name}", [x], np.linalg.norm(x, p, axis=1))
for name, p in [("inf", np.inf), ("minf", -np.inf), ("one", 1), ("mone", -1), ("two", 2), ("mtwo", -2)]:
    put(f"mnorm_{name}", [x], np.linalg.norm(x, p, axis=(0, 2), keepdims=True))
put("norm_fro", [x], np.linalg.norm(x, "fro", axis=(0, 2)))
put("norm_nuc", [x], np.linalg.norm(x, "nuc", axis=(0, 2)))
put("norm_all", [x], np.linalg.norm(x.ravel()))
z = draw_complex(3, 4)
put("norm_complex", [z], np.linalg.norm(z, axis=-1))

# Cross products
a, b = draw(2, 1, 3), draw(4, 3)
put("cross3", [a, b], np.cross(a, b))
a, b = draw(5, 3), draw(5, 3)
put("cross_first", [a.T, b.T], np.cross(a, b).T)
a, b = draw(5, 2), draw(5, 3)
put("cross23", [a, b], np.cross(np.pad(a, ((0, 0), (0, 1))), b))
put("cross22", [a, b[:, :2]], a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0])

# Factorisations
for name, make in [("real", draw), ("complex", draw_complex)]:
    for shape in [(6, 6), (2, 7, 4), (3, 6)]:
        a = make(*shape)
        case = f"{name}_{'x'.join(map(str, shape))}"
        q, r = np.linalg.qr(a)
        put(f"qr_{case}", [a], q, r)
        q, r = np.linalg.qr(a, mode="complete")
        put(f"qrc_{case}", [a], r)
        put(f"svd_{case}", [a], np.linalg.svd(a, compute_uv=False))
        put(f"pinv_{case}", [a], np.linalg.pinv(a))
        lu, pivots = zip(*[scipy.linalg.lu_factor(m) for m in a.reshape((-1,) + shape[-2:])])
        put(f"lu_{case}", [a], np.reshape(lu, a.shape), np.reshape(pivots, a.shape[:-2] + (-1,)))
    p = positive(5, make)
    put(f"cholesky_{name}", [p], np.linalg.cholesky(p), np.linalg.inv(p))
    put(f"eigh_{name}", [p], np.linalg.eigvalsh(p))
    a, b = make(2, 5, 5), make(5, 3)
    w = np.stack([sorted(m, key=lambda v: (round(v.real, 6), v.imag)) for m in np.linalg.eigvals(a)])
    put(f"eig_{name}", [a], w.astype(np.complex128))
    put(f"solve_{name}", [a, b], np.linalg.solve(a, b), np.linalg.inv(a))
    sign, logarithm = np.linalg.slogdet(a)
    put(f"det_{name}", [a], np.linalg.det(a), sign, logarithm)
    u = np.triu(a) + 3 * np.eye(5)
    put(f"triangular_{name}", [u, b], np.linalg.solve(u, b), np.linalg.solve(np.conj(np.swapaxes(u, -1, -2)), b))

# A low rank: the pseudo-inverse leaves out what is 0.
a = draw(6, 2) @ draw(2, 5)
put("pinv_rank2", [a], np.linalg.pinv(a, rcond=1e-10))


# Gradients of functions of complex matrices, by PyTorch (cotangent times the conjugate of the
# partial derivative, as here). c weighs elements so that they all count.
def gradient(case, fn, *inputs):
    tensors = [torch.tensor(x, requires_grad=True) for x in inputs]
    value = fn(*tensors)
    grads = torch.autograd.grad(value, tensors)
    put(f"grad_{case}", list(inputs), value.detach().numpy(), *[g.numpy() for g in grads])


def weigh(x):
    return (x.abs() ** 2 * torch.arange(1, x.numel() + 1, dtype=torch.float64).reshape(x.shape)).sum()


a, b = draw_complex(4, 4), draw_complex(4, 2)
tall, wide = draw_complex(5, 3), draw_complex(3, 5)
L = torch.linalg
gradient("solve", lambda x, y: weigh(L.solve(x, y)), a, b)
gradient("inv", lambda x: weigh(L.inv(x)), a)
gradient("det", lambda x: weigh(L.det(x)), a)
gradient("slogdet", lambda x: (L.slogdet(x)[0] * (2 - 3j)).real + 2 * L.slogdet(x)[1], a)
gradient("qr", lambda x: weigh(L.qr(x)[0]) + weigh(L.qr(x)[1]), a)
gradient("qr_tall", lambda x: weigh(L.qr(x)[0]) + weigh(L.qr(x)[1]), tall)
gradient("qr_wide", lambda x: weigh(L.qr(x)[0]) + weigh(L.qr(x)[1]), wide)
for name, x in [("svd", a), ("svd_tall", tall), ("svd_wide", wide)]:
    def spectral(x):
        u, s, vh = L.svd(x, full_matrices=False)
        return weigh(u) + weigh(vh) + weigh(s) + weigh((u * s**0.5) @ vh)
    gradient(name, spectral, x)
gradient("pinv", lambda x: weigh(L.pinv(x)), tall)
gradient("lu", lambda x: weigh(L.lu(x)[1]) + weigh(L.lu(x)[2]), a)
gradient("eigvals", lambda x: weigh(L.eigvals(x)[torch.argsort(L.eigvals(x).real)]), a)


def eigen(x):
    w, v = L.eig(x)
    order = torch.argsort(w.real)
    return weigh(v[:, order]) + weigh(w[order])


gradient("eig", eigen, a)
gradient("eig_real", eigen, draw(4, 4) + np.diag([1.0, 3, 6, 10]))
gradient("eigh", lambda x: weigh(L.eigh(x @ x.mH)[1]) + weigh(L.eigh(x @ x.mH)[0]), a)
gradient("cholesky", lambda x: weigh(L.cholesky(x @ x.mH)), a)

save_file(out, os.path.join(os.path.dirname(os.path.abspath(__file__)), "linalg.safetensors"))
