"""Writes second.safetensors: gradients and Hessians of functions where they are delicate (zeros in
products, ties, zeros of norms, ends of activations), by torch in float64, for
tests/ops/test_second_derivatives.c.

Run it in this folder: python -P second.py
"""

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

torch.set_default_dtype(torch.float64)
random = np.random.default_rng(21)
out = {}


def case(name, f, x):
    """The loss is the sum of f(x) times fixed weights."""
    x = torch.tensor(x, dtype=torch.float64)
    shape = f(x).shape
    w = torch.tensor(random.uniform(0.5, 1.5, tuple(shape)))
    loss = lambda x: (f(x) * w).sum()  # noqa: E731
    x = x.requires_grad_()
    grad = torch.autograd.grad(loss(x), x)[0]
    hessian = torch.autograd.functional.hessian(loss, x.detach())
    assert torch.isfinite(grad).all() and torch.isfinite(hessian).all(), name
    for part, t in {"in0": x, "weights": w, "grad": grad, "hessian": hessian}.items():
        out[f"{name}/{part}"] = np.array(t.detach().numpy(), order="C")


def products(x, of):
    """Products of the elements of x at the positions that each list names."""
    rows = []
    for positions in of:
        p = torch.ones(())
        for i in positions:
            p = p * x[i]
        rows.append(p)
    return torch.stack(rows)


ROWS = [[1.5, -2, 0.5, 3], [1.5, 0, 0.5, 3], [0, -2, 0, 3], [0, 0, 0, 3]]
case("prod", lambda x: x.prod(1), ROWS)
case("prod_all", lambda x: x.reshape(-1).prod(), [[1.5, 0, 2], [0.5, -1, 3]])
case("cumprod", lambda x: x.cumprod(1), ROWS)
# scatter_prod(x, [0, 2, 0, 2, 0], values): x is the first 3 elements, the values are the others.
SCATTERED = [[0, 3, 5, 7], [1], [2, 4, 6]]
for name, values in {
    "none": [2, 3, 0.5, 1.5, -1, 2, 0.7, 1.2],
    "one": [2, 3, 0.5, 0, -1, 2, 0.7, 1.2],
    "two": [0, 3, 0.5, 1.5, 0, 0, 0.7, 0],
    "three": [0, 0, 0, 0, 0, 0, 0.7, 1.2],
}.items():
    case(f"scatter_prod_{name}", lambda x: products(x, SCATTERED), values)
case("norm", lambda x: torch.linalg.vector_norm(x, dim=1), [[3, -4, 0], [0.5, 0, 0], [1, 2, 3]])
case("norm3", lambda x: torch.linalg.vector_norm(x, ord=3, dim=1), [[3, -4, 1], [0.5, 0, 2]])
case("std", lambda x: x.std(1, correction=0), [[1, 2, 4], [0.5, 0, 0]])
case("var", lambda x: x.var(1, correction=1), [[1, 2, 4], [0.5, 0.5, 0.5]])
case("logsumexp", lambda x: x.logsumexp(1), [[1, 1, 1], [800, 0, -800], [-1e3, -1e3, -1001]])
case("logcumsumexp", lambda x: x.logcumsumexp(1), [[1, 1, 1], [700, 0, -700], [-9, 3, 3.5]])
case("softmax", lambda x: x.softmax(1), [[1, 1, 1], [800, 0, -800], [-9, 3, 3.5]])
case("log_softmax", lambda x: x.log_softmax(1), [[1, 1, 1], [800, 0, -800], [-9, 3, 3.5]])
case("max_squared", lambda x: x.amax(1) ** 2, [[1, 2, 4], [3, 3, 1]])
case("sort_squared", lambda x: x.sort(1).values ** 2, [[4, 1, 2], [3, 3, 1]])
case("square_power", lambda x: x**2.0, [0.0, -1.5, 2])
case("cube_power", lambda x: x**3.0, [0.0, -1.5, 2])
case("sigmoid", torch.sigmoid, [0.0, -800, 800, 2])
case("softplus", F.softplus, [0.0, -800, 18, 2])
case("silu", F.silu, [0.0, -800, 800, -2])
case("gelu", F.gelu, [0.0, -30, 30, -2])
case("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), [0.0, -30, 30, -2])
case("tanh", torch.tanh, [0.0, -800, 800, 0.5])
case("erf", torch.erf, [0.0, -30, 30, 0.5])
case("log1p", torch.log1p, [0.0, 1e-12, 1e12, -0.5])
case("expm1", torch.expm1, [0.0, 1e-12, -800, 2])
case("logaddexp", lambda x: x.reshape(2, 3).logsumexp(0), [1.0, 2, 800, 1, 2.5, -800])
case("arctan2", lambda x: torch.atan2(x[:3], x[3:]), [0.0, 1, -1, 1, 0.5, -2])
case("sinc_like", lambda x: torch.sin(x) * x.square(), [0.0, 1, -40])
save_file(out, "second.safetensors")
