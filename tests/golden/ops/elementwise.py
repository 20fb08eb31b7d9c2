"""Writes elementwise.safetensors: functions of each element by NumPy in float64 and complex128
(two by mpmath), on
inputs that are float32 and complex64: random ones, and extreme ones (huge, tiny, subnormal, zeros of
both signs, infinities, NaN). For tests/ops/test_elementwise_golden.c.

Run it in this folder, with numpy, mpmath and safetensors installed: python elementwise.py
"""

import mpmath
import numpy as np
from safetensors.numpy import save_file

mpmath.mp.prec = 200
rng = np.random.default_rng(4)
tiny, small = np.float32(2.0**-149), np.float32(2.0**-126)
largest = np.finfo(np.float32).max
specials = [0, 0.0, 1, 0.5, 2, 3, 1e-3, 1e-30, 1e30, 88.6, 103.9, 80, 0.75, 0.9999999, 1.0000001]
specials += [1e-20, 127.5, 1.5, 2.5, 17.25, largest, small, small / 3, tiny, np.inf, 3.1415927, 1e5]
specials = np.array(specials, np.float32)
specials = np.concatenate([specials, -specials, [np.nan]]).astype(np.float32)
out = {}


def put(name, result):
    if np.iscomplexobj(result):
        out[f"{name}/re"] = np.ascontiguousarray(result.real)
        out[f"{name}/im"] = np.ascontiguousarray(result.imag)
    else:
        out[f"{name}/out0"] = np.ascontiguousarray(result)


def samples(n, low, high):
    near = rng.uniform(low, high, n)
    far = np.exp(rng.uniform(np.log(1e-38), np.log(1e38), n // 2)) * rng.choice([-1, 1], n // 2)
    return np.concatenate([specials, near, far]).astype(np.float32)


real1 = {
    "sqrt": (0, 9), "exp": (-20, 20), "expm1": (-2, 2), "log": (0, 4), "log1p": (-1, 2),
    "log2": (0, 4), "log10": (0, 4), "sin": (-9, 9), "cos": (-9, 9), "tan": (-9, 9),
    "arcsin": (-1, 1), "arccos": (-1, 1), "arctan": (-4, 4), "sinh": (-9, 9), "cosh": (-9, 9),
    "tanh": (-3, 3), "arcsinh": (-4, 4), "arccosh": (1, 4), "arctanh": (-1, 1),
    "degrees": (-9, 9), "radians": (-360, 360), "square": (-9, 9), "reciprocal": (-9, 9),
    "floor": (-9, 9), "ceil": (-9, 9), "trunc": (-9, 9), "round": (-9, 9), "sign": (-1, 1),
    "abs": (-1, 1), "negative": (-1, 1),
}
with np.errstate(all="ignore"):
    for name, (low, high) in real1.items():
        x = samples(60, low, high)
        out[f"real/{name}/in0"] = x
        put(f"real/{name}", getattr(np, name)(x.astype(np.float64)))
    a, b = (g.reshape(-1) for g in np.meshgrid(specials[::3], specials[::3]))
    a, b = np.concatenate([a, samples(60, -4, 4)]), np.concatenate([b, samples(60, -4, 4)])
    out["binary/in0"], out["binary/in1"] = a, b
    A, B = a.astype(np.float64), b.astype(np.float64)
    for name in ("power", "arctan2", "logaddexp", "maximum", "minimum", "remainder"):
        put(f"binary/{name}", getattr(np, name)(A, B))
    for name in ("divide", "multiply", "add", "subtract"):
        put(f"binary/{name}", getattr(np, name)(A, B))

    # Complex: all directions, sizes from 1e-12 to 1e12; both sides of the cuts; zeros by sign.
    size = np.exp(rng.uniform(-27, 27, 110))
    z = size * np.exp(1j * rng.uniform(-np.pi, np.pi, 110))
    near = rng.uniform(-3, 3, 110) + 1j * rng.uniform(-3, 3, 110)
    edge = np.array([0.5, 1, 2, 1 + 1e-6, 1 - 1e-6, 0.0], np.float32)
    corners = [complex(s * e, t * f) for e in edge for f in (0.0, 1e-20, 1.0) for s in (1, -1) for t in (1, -1)]
    z = np.concatenate([z, near, np.array(corners)]).astype(np.complex64)
    out["complex/in0"] = z
    Z = z.astype(np.complex128)
    for name in ("sqrt exp log log2 log10 sin cos tan arcsin arccos arctan sinh cosh tanh "
                 "arcsinh arccosh arctanh square reciprocal").split():
        put(f"complex/{name}", getattr(np, name)(Z))
    for name in ("expm1", "log1p"):  # NumPy's lose digits near 0
        exact = [getattr(mpmath, name)(mpmath.mpc(v)) for v in Z]
        values = np.array([complex(v) for v in exact])
        if name == "log1p":  # mpmath has no zeros with signs, which choose the side of the cut
            values = values.real + 1j * np.arctan2(Z.imag, 1 + Z.real)
        put(f"complex/{name}", values)
    put("complex/abs", np.abs(Z))
    w = (rng.uniform(-3, 3, len(z)) + 1j * rng.uniform(-3, 3, len(z))).astype(np.complex64)
    out["complex/in1"] = w
    W = w.astype(np.complex128)
    for name in ("power", "divide", "multiply"):
        put(f"complex2/{name}", getattr(np, name)(Z, W))

for name, n in (("hanning", 7), ("hamming", 8), ("blackman", 9), ("bartlett", 10), ("hanning", 1000)):
    out[f"window/{name}{n}"] = getattr(np, name)(n)
out["linspace/a"] = np.linspace(-1.5, 0, 37)
out["linspace/b"] = np.linspace(3, -7, 12, endpoint=False)

save_file(out, "elementwise.safetensors")
