"""Writes division.safetensors: floor_divide and remainder of every pair of a grid of numbers with
zeros of both signs, infinities, NaN and subnormals, and of integers at the ends of their ranges,
for tests/ops/test_division.c.

Where both operands are finite and the divisor is not 0, the quotient is the floor of the exact
rational quotient; elsewhere it is NumPy's, which is compared with the exact one too.

Run it in this folder: python -P division.py
"""

from fractions import Fraction
from math import floor

import numpy as np
from safetensors.numpy import save_file

np.seterr(all="ignore")
random = np.random.default_rng(3)
out = {}


def exact(a, b, dtype):
    """floor(a / b) rounded to dtype, or None."""
    if not (np.isfinite(a) and np.isfinite(b)) or b == 0:
        return None
    whole = floor(Fraction(float(a)) / Fraction(float(b)))
    if whole == 0:  # the sign of a zero is that of the quotient
        return dtype(np.copysign(0, np.copysign(1, a) * np.copysign(1, b)))
    try:
        return dtype(float(whole))
    except OverflowError:
        return dtype(-np.inf if whole < 0 else np.inf)


def floats(dtype, tiny, huge):
    some = [0.0, 1, 0.1, 0.3, 0.5, 0.7, 2.5, 3, 6.25, 7, 10, 255.5, 1e-3, tiny, huge, np.inf]
    some = np.array(some + [-x for x in some] + [np.nan], dtype)
    a, b = (x.ravel() for x in np.meshgrid(some, some))
    # Quotients that rounding moves across an integer: k b, and its neighbours.
    steps = np.array([0.1, 0.3, 0.7, 1.1, 3.7, -0.1, -2.3], dtype)
    counts = np.arange(1, 60, dtype=np.float64)
    near = (counts[:, None] * steps.astype(np.float64)).astype(dtype)
    near = np.stack([near, np.nextafter(near, dtype(0)), np.nextafter(near, dtype(np.inf))])
    by = np.broadcast_to(steps, near.shape)
    a = np.concatenate([a, near.ravel(), random.standard_normal(200).astype(dtype) * dtype(9)])
    b = np.concatenate([b, by.ravel(), random.standard_normal(200).astype(dtype)])
    quotient, rest = np.floor_divide(a, b), np.remainder(a, b)
    for i in range(len(a)):
        e = exact(a[i], b[i], dtype)
        if e is not None:
            if abs(e) < 1000:
                same = quotient[i] == e and np.signbit(quotient[i]) == np.signbit(e)
                assert same, (a[i], b[i], quotient[i], e)
            quotient[i] = e
    return a, b, quotient, rest


def integers(dtype):
    info = np.iinfo(dtype)
    some = np.array([0, 1, 2, 3, 7, 100, info.max, info.max - 1, info.min, info.min + 1], dtype)
    if info.min < 0:
        some = np.concatenate([some, -some[1:6]])
    a, b = (x.ravel() for x in np.meshgrid(some, some))
    return a, b, np.floor_divide(a, b), np.remainder(a, b)


KINDS = {
    "float32": lambda: floats(np.float32, 1e-40, 3e38),
    "float64": lambda: floats(np.float64, 5e-324, 1e308),
    "float16": lambda: floats(np.float16, 6e-8, 65504),
    **{n: (lambda n=n: integers(np.dtype(n).type)) for n in "int8 int16 int32 int64 uint8 uint32 uint64".split()},
}
for name, make in KINDS.items():
    for part, array in zip(("a", "b", "quotient", "rest"), make()):
        out[f"{name}.{part}"] = np.ascontiguousarray(array)
save_file(out, "division.safetensors")
