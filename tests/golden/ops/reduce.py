"""Writes reduce.safetensors: reductions, scans, sorts and searches by NumPy, SciPy and JAX in
float64, for tests/ops/test_reduce_golden.c.

Run it in this folder, with scipy and jax installed: python reduce.py
"""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from safetensors.numpy import save_file

jax.config.update("jax_enable_x64", True)
random = np.random.default_rng(11)
out = {}


def put(name, array):
    out[name] = np.array(array, order="C")


def exact(*shape):
    """float64 numbers that float32 has."""
    return random.standard_normal(shape).astype(np.float32).astype(np.float64)


X = {
    "plain": exact(3, 5, 4),
    "zeros": np.round(exact(4, 6, 3)),  # with zeros and ties
    "extreme": np.array(
        [[np.inf, 1, -0.0, 0.0], [-np.inf, np.inf, 2, 2], [np.nan, 1, -1, 0], [-np.inf, -np.inf, -1, 3]]
    ).reshape(4, 4, 1),
    "empty": np.zeros((2, 0, 3)),
    "large": np.full((2, 3, 2), 1e30) * np.array([1, -1]),
}
REDUCTIONS = {
    "sum": np.sum,
    "mean": np.mean,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "all": np.all,
    "any": np.any,
    "median": np.median,
    "count_nonzero": lambda x, axis, keepdims: np.count_nonzero(x, axis=axis, keepdims=keepdims).astype(np.int32),
    "var0": lambda x, axis, keepdims: np.var(x, axis=axis, keepdims=keepdims),
    "std1": lambda x, axis, keepdims: np.std(x, axis=axis, keepdims=keepdims, ddof=1),
    "logsumexp": lambda x, axis, keepdims: scipy.special.logsumexp(x, axis=axis, keepdims=keepdims),
}
AXES = {"first": 0, "middle": 1, "last": 2, "around": (0, 2), "all": (0, 1, 2)}
np.seterr(all="ignore")

for kind, x in X.items():
    put(f"x.{kind}", x)
    for name, function in REDUCTIONS.items():
        for label, axis in AXES.items():
            n = np.prod([x.shape[a] for a in np.atleast_1d(axis)])
            if (n == 0 and name in ("max", "min", "logsumexp")) or (kind == "empty" and name in ("median", "logsumexp")):
                continue
            if kind == "large" and name in ("var0", "std1"):
                continue  # 0 but for the rounding of the mean
            put(f"{name}.{kind}.{label}", function(x, axis=axis, keepdims=True))

SCANS = {
    "cumsum": jnp.cumsum,
    "cumprod": jnp.cumprod,
    "cummax": jax.lax.cummax,
    "cummin": jax.lax.cummin,
    "logcumsumexp": jax.lax.cumlogsumexp,
}
IDENTITY = {"cumsum": 0, "cumprod": 1, "cummax": -np.inf, "cummin": np.inf, "logcumsumexp": -np.inf}


def scan(name, x, reverse, inclusive):
    x = jnp.flip(x, 1) if reverse else x
    y = SCANS[name](x, axis=1)
    if not inclusive:
        first = jnp.full_like(y[:, :1], IDENTITY[name])
        y = jnp.concatenate([first, y[:, :-1]], 1)
    return jnp.flip(y, 1) if reverse else y


for kind in ("plain", "zeros", "empty", "large"):
    x = jnp.array(X[kind])
    ct = jnp.array(exact(*x.shape))
    tangent = jnp.array(exact(*x.shape))
    put(f"ct.{kind}", ct)
    put(f"tangent.{kind}", tangent)
    for name in SCANS:
        for reverse in (0, 1):
            for inclusive in (0, 1):
                if x.shape[1] == 0 and not inclusive:
                    continue
                label = f"{name}.{kind}.{reverse}{inclusive}"
                f = lambda x: scan(name, x, reverse, inclusive)
                put(label, f(x))
                if kind == "plain" or (kind == "zeros" and name in ("cumsum", "cumprod", "logcumsumexp")):
                    put(f"{label}.dx", jax.vjp(f, x)[1](ct)[0])
                    put(f"{label}.dy", jax.jvp(f, (x,), (tangent,))[1])

for kind in ("plain", "zeros", "extreme"):
    x = X[kind]
    for axis in range(3):
        put(f"sort.{kind}.{axis}", np.sort(x, axis=axis, kind="stable"))
        put(f"argsort.{kind}.{axis}", np.argsort(x, axis=axis, kind="stable").astype(np.uint32))
    put(f"argmax.{kind}", np.argmax(x).astype(np.uint32))
    put(f"argmin.{kind}", np.argmin(x, axis=1).astype(np.uint32))
    s = np.sort(x.reshape(-1))
    v = np.concatenate([x.reshape(-1)[::2], [0.5, -0.5, np.inf, -np.inf, np.nan]])
    put(f"sorted.{kind}", s)
    put(f"values.{kind}", v)
    for side in ("left", "right"):
        put(f"searchsorted.{kind}.{side}", np.searchsorted(s, v, side=side).astype(np.uint32))
    put(f"softmax.{kind}", scipy.special.softmax(x, axis=(0, 2)))

m = exact(2, 5, 7)
put("x.matrix", m)
for offset in (-6, -2, 0, 3, 7):
    put(f"trace.{offset}", np.trace(m, offset, 1, 2))
put("trace.other", np.trace(m, 1, 2, 0))

save_file(out, "reduce.safetensors")
