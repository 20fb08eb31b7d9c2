"""tests/golden/ops/fft.py -- writes fft.safetensors: transforms by SciPy in float64, rounded to
complex64 at the end. Run it with python -P: random.py is in this folder."""
import os

import numpy as np
import scipy.fft
from safetensors.numpy import save_file

rng = np.random.default_rng(12)
out = {}


def put(case, x, y):
    out[f"{case}/in0"] = np.array(x, order="C")
    out[f"{case}/out0"] = np.array(y.astype(np.complex64) if np.iscomplexobj(y) else y, order="C")


def real(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def spectrum(*shape):
    return (real(*shape) + 1j * real(*shape)).astype(np.complex64)


def wide(x):
    return x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)


# Every radix, primes above them, products of both, powers; one line and several.
for n in [1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 16, 25, 49, 60, 61, 67, 97, 128, 134, 210, 243, 509, 1024]:
    x = spectrum(2, n) if n < 100 else spectrum(n)
    put(f"fft_of{n}", x, scipy.fft.fft(wide(x)))
    r = real(2, n) if n < 100 else real(n)
    put(f"rfft_of{n}", r, scipy.fft.rfft(wide(r)))
    h = spectrum(n // 2 + 1)
    put(f"irfft_of{n}", h, scipy.fft.irfft(wide(h), n))

# Normalisation, in the order of weft_fft_norm; lengths; axes.
x, r = spectrum(3, 4, 5), real(3, 4, 6)
for i, norm in enumerate(["backward", "ortho", "forward"]):
    put(f"fft_norm{i}", x, scipy.fft.fft(wide(x), norm=norm))
    put(f"ifft_norm{i}", x, scipy.fft.ifft(wide(x), norm=norm))
    put(f"rfft_norm{i}", r, scipy.fft.rfft(wide(r), norm=norm))
    put(f"irfft_norm{i}", x, scipy.fft.irfft(wide(x), norm=norm))
    put(f"fftn_norm{i}", x, scipy.fft.fftn(wide(x), norm=norm))
    put(f"irfftn_norm{i}", x, scipy.fft.irfftn(wide(x), norm=norm))
put("fft_crop", x, scipy.fft.fft(wide(x), 2, axis=1))
put("fft_pad", x, scipy.fft.fft(wide(x), 9, axis=0))
put("rfft_crop", r, scipy.fft.rfft(wide(r), 5, axis=-1))
put("rfft_pad", r, scipy.fft.rfft(wide(r), 7, axis=1))
put("irfft_odd", x, scipy.fft.irfft(wide(x), 7, axis=1))
put("fft2", x, scipy.fft.fft2(wide(x)))
put("ifft2", x, scipy.fft.ifft2(wide(x), (2, 8), axes=(0, 1)))
put("rfft2", r, scipy.fft.rfft2(wide(r)))
put("irfft2", x, scipy.fft.irfft2(wide(x), (4, 7)))
put("rfftn", r, scipy.fft.rfftn(wide(r), (4, 5), axes=(2, 0)))
put("ifftn", x, scipy.fft.ifftn(wide(x), (6, 4)))
put("irfftn", x, scipy.fft.irfftn(wide(x), (4, 5), axes=(2, 0)))
for n in [1, 2, 7, 8]:
    put(f"fftfreq{n}", real(1), np.fft.fftfreq(n, 0.3))
    put(f"rfftfreq{n}", real(1), np.fft.rfftfreq(n, 0.3))
s = real(4, 5)
put("fftshift", s, np.fft.fftshift(s))
put("ifftshift", s, np.fft.ifftshift(s))
put("fftshift_axis", s, np.fft.fftshift(s, axes=1))

save_file(out, os.path.join(os.path.dirname(os.path.abspath(__file__)), "fft.safetensors"))
