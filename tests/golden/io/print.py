"""Texts that NumPy 2.4 prints: python print.py writes print.safetensors beside this file."""

import os

import numpy as np
from safetensors.numpy import save_file

random = np.random.default_rng(5)
cases = {
    "scalar": np.array(1.5), "scalar_third": np.array(1 / 3), "scalar_int": np.array(-7, np.int16),
    "scalar_f32": np.array(1.5e6, np.float32), "scalar_true": np.array(True),
    "empty": np.zeros((0, 3)), "ones": np.ones((2, 3), np.float32),
    "uneven": np.array([1, 0.5, -0.125, 3.25]), "thirds": np.arange(9).reshape(3, 3) / 3,
    "huge": np.array([1e10, 1.0, -2.5e-3]), "tiny": np.array([1e-5, 2e-5], np.float32),
    "special": np.array([[np.nan, 1.0], [np.inf, -np.inf]]), "minus_zero": np.array([-0.0, 0.0]),
    "half": random.normal(size=(4, 5)).astype(np.float16),
    "half_large": np.array([2000.0, 1.0], np.float16),
    "bools": random.random((3, 4)) < 0.5, "ints": random.integers(-1000, 1000, (3, 20)),
    "u64": np.array([0, 2**64 - 1], np.uint64), "i64": np.array([-(2**63), 2**63 - 1]),
    "long": np.arange(2000, dtype=np.int32), "wide": random.normal(size=(3, 700)).astype(np.float32),
    "cube": np.arange(24.0).reshape(2, 3, 4), "four": np.arange(16, dtype=np.uint8).reshape(2, 2, 2, 2),
    "deep": random.normal(size=(8, 9, 20, 3)).astype(np.float32),
    "lines": random.normal(size=100).astype(np.float32) * 1000,
}
tensors = {}
for name, array in cases.items():
    text = np.array2string(array) if array.ndim else str(array[()])
    tensors[name + "/in0"] = array
    tensors[name + "/text"] = np.frombuffer(text.encode(), np.uint8)
for name, array in {
    "scalar_complex": np.array(1.5 - 2j, np.complex64),
    "complex": (random.normal(size=(2, 3)) + 1j * random.normal(size=(2, 3))).astype(np.complex64),
    "complex_special": np.array([np.nan + 1j, 2 - np.inf * 1j], np.complex64),
}.items():
    text = np.array2string(array) if array.ndim else str(array[()])
    tensors[name + "/complex"] = array.view(np.float32) if array.ndim else np.array([array.real, array.imag])
    tensors[name + "/text"] = np.frombuffer(text.encode(), np.uint8)
save_file(tensors, os.path.join(os.path.dirname(os.path.abspath(__file__)), "print.safetensors"))
