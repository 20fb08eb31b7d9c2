"""Writes attention_sinks.safetensors: attention with a logit a head beside the scores, which gets no
value, and its gradients, by torch in float64, for tests/ops/test_attention_sinks.c.

Run it in this folder: python -P attention_sinks.py
"""

import numpy as np
import torch
from safetensors.numpy import save_file

torch.set_default_dtype(torch.float64)
random = np.random.default_rng(31)
out = {}


def draw(*shape):
    """Numbers that float32 has."""
    return torch.tensor(random.standard_normal(shape).astype(np.float32).astype(np.float64))


def attention(q, k, v, sinks, scale, visible=None, bias=None, softcap=0):
    G = q.shape[2] // k.shape[2]
    k, v = (t.repeat_interleave(G, 2).permute(0, 2, 1, 3) for t in (k, v))
    scores = q.permute(0, 2, 1, 3) @ k.transpose(-1, -2) * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    column = sinks[None, :, None, None].expand(*scores.shape[:3], 1)
    weights = torch.cat([scores, column], -1).softmax(-1)[..., :-1]
    return (weights @ v).permute(0, 2, 1, 3)


def case(name, B, L, S, H, Hk, D, Dv, causal=False, window=0, lengths=None, bias=False, softcap=0,
         sinks=None):
    q, k, v = draw(B, L, H, D), draw(B, S, Hk, D), draw(B, S, Hk, Dv)
    s = draw(H) * 2 if sinks is None else torch.tensor(sinks)
    s = s.to(torch.float32).to(torch.float64)
    inputs = {"q": q, "k": k, "v": v, "sinks": s}
    i, j = torch.arange(L)[:, None], torch.arange(S)[None]
    ends = torch.full((B,), S) if lengths is None else torch.tensor(lengths)
    here = ends[:, None, None, None]
    visible = (j < here).expand(B, 1, L, S)
    if causal:
        visible = visible & (j <= i + here - L)
        if window:
            visible = visible & (i + here - L - j < window)
    if bias:
        inputs["bias"] = draw(B, H, L, S)
    leaves = {n: t.clone().requires_grad_() for n, t in inputs.items()}
    qkvs = (leaves[n] for n in ("q", "k", "v", "sinks"))
    y = attention(*qkvs, D**-0.5, visible, leaves.get("bias"), softcap)
    ct = draw(*y.shape)
    y.backward(ct)
    if lengths is not None:
        out[f"{name}/lengths"] = np.array(lengths, np.int32)
    exact = lambda t: np.array(t.detach().numpy().astype(np.float32), order="C")  # noqa: E731
    out[f"{name}/ct"], out[f"{name}/out"] = exact(ct), np.array(y.detach().numpy(), order="C")
    for n, t in leaves.items():
        out[f"{name}/{n}"] = exact(t)
        out[f"{name}/d_{n}"] = np.array(t.grad.numpy(), order="C")


case("plain", 2, 3, 4, 2, 2, 4, 4)
case("causal", 2, 5, 5, 4, 2, 8, 8, causal=True)
case("window", 1, 6, 9, 4, 1, 8, 6, causal=True, window=3)
case("decode", 2, 1, 40, 4, 2, 8, 8, causal=True, lengths=[40, 19])
case("nothing seen", 2, 2, 5, 2, 1, 4, 4, lengths=[0, 5])
case("bias", 1, 3, 4, 2, 2, 4, 4, bias=True)
case("softcap", 1, 4, 4, 2, 1, 4, 4, causal=True, softcap=1.5)
case("extreme", 1, 3, 4, 4, 2, 4, 4, sinks=[-1e30, 1e4, 60.0, -60.0])
save_file(out, "attention_sinks.safetensors")
