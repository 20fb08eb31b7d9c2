"""Writes random.safetensors: numbers of JAX's (randint) and MLX's (the distributions whose formula
is the same) generators for given keys, for tests/ops/test_distributions.c.

Run it in this folder, with jax and mlx installed: python random.py
"""

import sys

sys.path.pop(0)  # this file has the name of a module that others import

import jax  # noqa: E402
import mlx.core as mx  # noqa: E402
import numpy as np  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402

jax.config.update("jax_threefry_partitionable", False)
jax.config.update("jax_enable_x64", True)
out = {}
SEEDS = [0, 1, 42, 2**63 + 12345]


def jax_key(seed):
    return np.array([seed >> 32, seed & 0xFFFFFFFF], dtype=np.uint32)


RANGES = {
    np.int8: [(-3, 4), (-128, 127)],
    np.uint8: [(0, 10), (3, 255)],
    np.int16: [(-1000, 1000)],
    np.uint16: [(0, 60000)],
    np.int32: [(0, 10), (-7, 100000), (-(2**31), 2**31 - 1)],
    np.uint32: [(0, 3000000000)],
    np.int64: [(0, 6), (-(2**62), 2**61)],
    np.uint64: [(5, 10**18)],
}
for s, seed in enumerate(SEEDS):
    for dtype, ranges in RANGES.items():
        for r, (low, high) in enumerate(ranges):
            x = jax.random.randint(jax_key(seed), (3, 7), low, high, dtype)
            out[f"randint.{s}.{np.dtype(dtype).name}.{r}"] = np.ascontiguousarray(np.asarray(x))
            out[f"bounds.{np.dtype(dtype).name}.{r}"] = np.array([low, high], dtype)
    low, high = np.arange(5, dtype=np.int32), np.arange(5, dtype=np.int32) * 7 + 3
    x = jax.random.randint(jax_key(seed), (4, 5), low, high, np.int32)
    out[f"randint_array.{s}"] = np.ascontiguousarray(np.asarray(x))

    key = mx.array(jax_key(seed))
    put = lambda name, x: out.__setitem__(f"{name}.{s}", np.ascontiguousarray(np.array(x)))
    put("uniform", mx.random.uniform(mx.array([-1.0, 0, 2]), mx.array([0.5, 8, 3]), (4, 3), key=key))
    put("normal", mx.random.normal((4, 3), loc=mx.array([-1.0, 0, 2]), scale=mx.array([0.5, 8, 3]), key=key))
    put("bernoulli", mx.random.bernoulli(mx.array([0.1, 0.5, 0.9]), (20, 3), key=key))
    put("truncated", mx.random.truncated_normal(-1.5, 2.0, (17,), key=key))
    put("gumbel", mx.random.gumbel((17,), key=key))
    put("laplace", mx.random.laplace((17,), loc=1.0, scale=2.0, key=key))
    put("permutation", mx.random.permutation(31, key=key))
    put("permuted", mx.random.permutation(mx.arange(24).reshape(4, 6), axis=1, key=key))
    logits = mx.array(np.linspace(-1, 1, 15).reshape(3, 5).astype(np.float32))
    put("categorical", mx.random.categorical(logits, key=key))
    put("categorical_n", mx.random.categorical(logits, axis=0, num_samples=6, key=key))
    put("categorical_shape", mx.random.categorical(logits, axis=-1, shape=(4, 3), key=key))

COVARIANCE = np.array([[2, 0.5, 0.1], [0.5, 1, 0.3], [0.1, 0.3, 0.7]], np.float32)
MEAN = np.array([1, -2, 0.5], np.float32)
MEANS = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
COVARIANCES = COVARIANCE * np.arange(1, 5, dtype=np.float32).reshape(4, 1, 1)
for s, seed in enumerate(SEEDS):
    words = jax_key(seed)
    with mx.stream(mx.cpu):
        draw = lambda mean, cov, shape: np.array(
            mx.random.multivariate_normal(mx.array(mean), mx.array(cov), shape, key=mx.array(words)))
        out[f"multivariate_svd.{s}"] = draw(MEAN, COVARIANCE, (5,))
        out[f"multivariate_batch.{s}"] = draw(MEANS, COVARIANCES, ())
    x = jax.random.multivariate_normal(words, MEAN, COVARIANCE, (5,), np.float32, "cholesky")
    out[f"multivariate_cholesky.{s}"] = np.ascontiguousarray(np.asarray(x))
out["multivariate_mean"], out["multivariate_means"] = MEAN, MEANS
out["multivariate_covariance"], out["multivariate_covariances"] = COVARIANCE, COVARIANCES

save_file(out, "random.safetensors")
