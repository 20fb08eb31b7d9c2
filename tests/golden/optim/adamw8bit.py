"""tests/golden/optim/adamw8bit.py -- writes adamw8bit.safetensors: a parameter after some updates with
moments of 8 bits, its codes and scales. `nearest` is NumPy's, where every value gets the nearest code
of bitsandbytes' maps (but a positive second moment never that of 0); `bitsandbytes` is AdamW8bit of
bitsandbytes 0.50 on the CPU, whose kernel finds codes by a table of bins, so that many small values get
a neighbour of the nearest; `adamw` is torch's AdamW in float32.

The gradient of update t, from 0, is `base` rolled by 37 t and multiplied by 1 + t / 8 (exact), so that
the file has no other. 50 x 101 elements are 19 blocks of 256 and part of another. Magnitudes of `wide`
span four decades, so that some second moments are too small for a code of their own."""
import os

import numpy as np
import torch
from bitsandbytes.functional import create_dynamic_map
from bitsandbytes.optim import AdamW8bit
from safetensors.numpy import save_file

SHAPE, STEPS, BLOCK = (50, 101), 16, 256
LR, DECAY, BETAS, EPS = 0.01, 0.1, (0.9, 0.999), 1e-8
SIZE = SHAPE[0] * SHAPE[1]
rng = np.random.default_rng(5)
start = rng.uniform(-1, 1, SHAPE).astype(np.float32)
normal = rng.normal(0, 1, SHAPE)
bases = {"base": (normal * 10.0 ** rng.uniform(-1, 0, SHAPE)).astype(np.float32),
         "wide": (normal * 10.0 ** rng.uniform(-4, 0, SHAPE)).astype(np.float32)}
out = {"start": start, **bases}


def gradient(base, t):
    return np.roll(base.reshape(-1), 37 * t).reshape(SHAPE) * np.float32(1 + t / 8)


def by_torch(base, make):
    p = torch.nn.Parameter(torch.tensor(start))
    optimizer = make([p])
    for t in range(STEPS):
        p.grad = torch.tensor(gradient(base, t))
        optimizer.step()
    return p.detach().numpy().copy()


def encode(x, values, positive):
    blocks = np.pad(x.reshape(-1), (0, -SIZE % BLOCK)).reshape(-1, BLOCK)
    scale = np.abs(blocks).max(1, keepdims=True)
    middles = ((values[:-1].astype(np.float64) + values[1:]) / 2).astype(np.float32)
    codes = np.searchsorted(middles, blocks / np.where(scale == 0, 1, scale))
    if positive:
        codes = np.where((codes == 0) & (blocks > 0), 1, codes)
    decoded = (values[codes] * scale).reshape(-1)[:SIZE].reshape(SHAPE)
    return codes.reshape(-1)[:SIZE].reshape(SHAPE).astype(np.uint8), scale.reshape(-1), decoded


def nearest(base, codes):
    maps = [create_dynamic_map(signed=s).numpy() for s in (True, False)]
    p, m, v = start.astype(np.float32), np.zeros(SHAPE, np.float32), np.zeros(SHAPE, np.float32)
    for t in range(1, STEPS + 1):
        g = gradient(base, t - 1)
        m = np.float32(BETAS[0]) * m + np.float32(1 - BETAS[0]) * g
        v = np.float32(BETAS[1]) * v + np.float32(1 - BETAS[1]) * g * g
        root = np.sqrt(v / np.float32(1 - BETAS[1] ** t)) + np.float32(EPS)
        step = m / np.float32(1 - BETAS[0] ** t) / root + np.float32(DECAY) * p
        p = p - np.float32(LR) * step
        codes["m"], codes["m_scale"], m = encode(m, maps[0], False)
        codes["v"], codes["v_scale"], v = encode(v, maps[1], True)
    return p


for name, base in bases.items():
    codes = {}
    out[name + "/nearest"] = nearest(base, codes)
    out[name + "/adamw"] = by_torch(base, lambda p: torch.optim.AdamW(p, lr=LR, weight_decay=DECAY))
    if name == "base":
        out.update(codes)
        out[name + "/bitsandbytes"] = by_torch(
            base, lambda p: AdamW8bit(p, lr=LR, weight_decay=DECAY))
    for other in ("adamw", "bitsandbytes"):
        if f"{name}/{other}" in out:
            away = np.abs(out[name + "/nearest"] - out[f"{name}/{other}"])
            print(name, other, away.max(), away.mean(), np.abs(out[name + "/adamw"] - start).mean())
save_file(out, os.path.join(os.path.dirname(__file__), "adamw8bit.safetensors"))
