"""Writes jacobian.safetensors: Jacobians and a Hessian of a small network by JAX in float64, for
tests/transforms/test_jacobian.c.

Run it in this folder, with jax installed: python jacobian.py
"""

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save_file

jax.config.update("jax_enable_x64", True)
random = np.random.default_rng(5)
x, w, b = (jnp.asarray(random.normal(size=s)) for s in ((2, 3), (4, 3), (4,)))
out = {"x": x, "w": w, "b": b}


def net(x, w, b):
    h = jnp.tanh(x @ w.T + b)
    return h, jnp.sum(jnp.exp(h), axis=0)


def loss(x, w, b):
    h, s = net(x, w, b)
    return jnp.sum(h**2) + jnp.prod(s)


for o, row in enumerate(jax.jacrev(net, argnums=(0, 1, 2))(x, w, b)):
    for i, jacobian in enumerate(row):
        out[f"jacobian.{o}.{i}"] = jacobian
for i, row in enumerate(jax.hessian(loss, argnums=(0, 1, 2))(x, w, b)):
    for j, hessian in enumerate(row):
        out[f"hessian.{i}.{j}"] = hessian
save_file({k: np.ascontiguousarray(v) for k, v in out.items()}, "jacobian.safetensors")
