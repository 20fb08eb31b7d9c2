"""Writes complex_special.safetensors: functions of complex numbers whose parts are signed zeros,
infinities, NaN, ordinary and extreme numbers, by NumPy in complex128, for tests/ops/test_complex.c.

Where C99, annex G, leaves a sign open, NumPy's choice is stored; the test ignores such signs.
"""

import warnings

import numpy as np
from safetensors.numpy import save_file

warnings.simplefilter("ignore")
parts = [0.0, -0.0, 1.0, -1.0, 0.5, -3.0, 120.0, -120.0, 1e-30, 3e38, np.inf, -np.inf, np.nan]
z = np.array([complex(a, b) for a in parts for b in parts], np.complex64)
few = [0.0, -0.0, 1.0, -2.0, 0.5, np.inf, -np.inf]
base = np.array([complex(a, b) for a in few for b in few], np.complex64)
exponents = np.array([0, 1, 2, -1, 0.5, 1j, -1j, 2 + 1j, -2 - 1j, np.inf, -np.inf, np.nan], np.complex64)
names = """exp expm1 log log1p log2 log10 sqrt sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh arccosh
arctanh abs""".split()


def wide(function, *x):
    return function(*(a.astype(np.complex128) for a in x)).astype(np.complex64)


out = {"z": z, "base": base, "exponent": exponents}
for name in names:
    out[name] = wide(getattr(np, name), z)
out["power"] = wide(np.power, base[:, None], exponents[None, :])
save_file({k: np.ascontiguousarray(v) for k, v in out.items()}, "complex_special.safetensors")
