"""Writes attention.safetensors: attention with an added bias by torch in float64, and the gradients
of q, k, v and the bias, for tests/ops/test_attention_bias.c.

Run it in this folder, with torch installed: python attention.py
"""

import numpy as np
import torch
from safetensors.numpy import save_file

random = np.random.default_rng(31)
out = {}


def case(name, q, k, v, bias, causal=False, softcap=0.0, hidden=()):
    B, L, H, D = q
    S, Hk = k[1], k[2]
    arrays = [torch.tensor(random.normal(size=s), requires_grad=True) for s in (q, k, v)]
    added = random.normal(size=bias)
    for at in hidden:
        added[at] = -np.inf
    arrays.append(torch.tensor(added, requires_grad=True))
    qh, kh, vh = (a.transpose(1, 2) for a in arrays[:3])
    kh, vh = (a.repeat_interleave(H // Hk, dim=1) for a in (kh, vh))
    scores = qh @ kh.transpose(-1, -2) / np.sqrt(D)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores + arrays[3]
    if causal:
        seen = torch.ones(L, S, dtype=torch.bool).tril(S - L)
        scores = scores.masked_fill(~seen, -torch.inf)
    o = (torch.softmax(scores, -1) @ vh).transpose(1, 2)
    ct = torch.tensor(random.normal(size=tuple(o.shape)))
    o.backward(ct)
    for label, a in zip(("q", "k", "v", "bias"), arrays):
        out[f"{name}/{label}"] = a.detach().numpy()
        out[f"{name}/d_{label}"] = a.grad.numpy()
    out[f"{name}/ct"] = ct.numpy()
    out[f"{name}/o"] = o.detach().contiguous().numpy()


case("full", (2, 5, 4, 8), (2, 7, 4, 8), (2, 7, 4, 6), (2, 4, 5, 7))
case("per_head", (2, 5, 4, 8), (2, 7, 2, 8), (2, 7, 2, 6), (4, 5, 7), causal=True)
case("per_key", (2, 5, 4, 8), (2, 7, 1, 8), (2, 7, 1, 8), (1, 4, 1, 7))
case("per_batch", (3, 4, 2, 4), (3, 4, 2, 4), (3, 4, 2, 4), (3, 1, 4, 4), softcap=1.5)
case("one_row", (1, 9, 2, 4), (1, 9, 2, 4), (1, 9, 2, 4), (9,), causal=True)
case("scalar", (1, 3, 2, 4), (1, 3, 2, 4), (1, 3, 2, 4), ())
case("hidden", (1, 3, 2, 4), (1, 6, 2, 4), (1, 6, 2, 4), (2, 3, 6),
     hidden=((0, 0, 1), (0, 2, slice(0, 5)), (1, 1, slice(2, 6))))
save_file(out, "attention.safetensors")
