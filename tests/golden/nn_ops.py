"""Writes nn_ops.txt: inputs, values and gradients of Weft's neural network ops, by PyTorch in
float64 from their definitions, and rotary frequencies by transformers.

One array a line: name, number of elements, elements. Inputs are rounded to float32, so that float32
and float64 see the same ones. Run it in this folder: python nn_ops.py
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

random = np.random.default_rng(7)
lines = []


def write(name, array):
    flat = np.asarray(array, dtype=np.float64).reshape(-1)
    lines.append(" ".join([name, str(flat.size)] + [f"{x:.9g}" for x in flat]))


def draw(name, *shape, scale=1.0):
    """A float32-exact input, written down; wants a gradient."""
    array = (random.standard_normal(shape) * scale).astype(np.float32).astype(np.float64)
    write(name, array)
    return torch.tensor(array, requires_grad=True)


def finish(name, y, **inputs):
    """Writes y, a cotangent, and what the cotangent gives each input."""
    write(f"{name}.y", y.detach())
    ct = draw(f"{name}.ct", *y.shape)
    grads = torch.autograd.grad(y, list(inputs.values()), ct.detach(), retain_graph=True)
    for key, grad in zip(inputs, grads):
        write(f"{name}.d{key}", grad)


def linear():
    x, w, b = draw("linear.x", 2, 3, 4), draw("linear.w", 5, 4), draw("linear.b", 5)
    finish("linear", F.linear(x, w, b), x=x, w=w, b=b)


def norms():
    x, w, b = draw("norm.x", 3, 2, 6, scale=2), draw("norm.w", 6), draw("norm.b", 6)
    rms = x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-2)
    finish("rms_norm", rms * (1 + w), x=x, w=w)
    finish("rms_norm_plain", rms, x=x)
    finish("layer_norm", F.layer_norm(x, (6,), w, b, 1e-2), x=x, w=w, b=b)
    finish("layer_norm_plain", F.layer_norm(x, (6,), eps=1e-2), x=x)


def rope(name, x, positions, frequencies, interleaved, amplitude):
    angle = torch.tensor(positions, dtype=torch.float64)[..., None, None] * frequencies
    half = frequencies.numel()
    c, s = amplitude * torch.cos(angle), amplitude * torch.sin(angle)
    first = torch.arange(half) * 2 if interleaved else torch.arange(half)
    second = first + (1 if interleaved else half)
    y = x.clone()
    y[..., first] = x[..., first] * c - x[..., second] * s
    y[..., second] = x[..., second] * c + x[..., first] * s
    finish(name, y, x=x)


def ropes():
    # powers of two, so that float32 angles are exact
    frequencies = torch.tensor([0.5, 0.125, 0.03125], dtype=torch.float64)
    rope("rope_halves", draw("rope_halves.x", 2, 3, 2, 8), [4, 0, 17], frequencies, False, 1.5)
    rope("rope_pairs", draw("rope_pairs.x", 2, 3, 2, 6), [[3, 4, 5], [9, 0, 1]], frequencies, True, 1.0)


def attention(name, shape, scale, causal=False, window=0, softcap=0.0, mask=None):
    B, L, S, H, Hk, D, Dv = shape
    q = draw(f"{name}.q", B, L, H, D)
    k = draw(f"{name}.k", B, S, Hk, D)
    v = draw(f"{name}.v", B, S, Hk, Dv)
    scores = torch.einsum("blhd,bshd->bhls", q, k.repeat_interleave(H // Hk, 2)) * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    i, j = torch.arange(L)[:, None] + S - L, torch.arange(S)[None, :]
    visible = torch.ones(B, H, L, S, dtype=torch.bool)
    if causal:
        visible &= j <= i
    if window:
        visible &= i - j < window
    if mask is not None and mask.dtype == torch.bool:
        visible &= mask
        write(f"{name}.mask", mask)
    elif mask is not None:
        scores = scores + mask
        write(f"{name}.mask", mask)
    weights = torch.where(visible, torch.exp(scores), torch.zeros(()))
    total = weights.sum(-1, keepdim=True)
    p = weights / torch.where(total > 0, total, torch.ones(()))
    finish(name, torch.einsum("bhls,bshd->blhd", p, v.repeat_interleave(H // Hk, 2)), q=q, k=k, v=v)


def attentions():
    attention("attention_full", (2, 3, 5, 2, 2, 4, 3), 0.5)
    attention("attention_cache", (1, 3, 7, 4, 2, 4, 4), 0.5, causal=True)
    attention("attention_window", (1, 5, 7, 4, 2, 4, 4), 0.5, causal=True, window=3)
    attention("attention_unseen", (1, 4, 2, 2, 1, 4, 4), 0.5, causal=True)
    bias = torch.tensor(random.standard_normal((1, 2, 4, 6)).astype(np.float32).astype(np.float64))
    attention("attention_capped", (2, 4, 6, 2, 1, 4, 4), 0.8, causal=True, softcap=1.5, mask=bias)
    seen = torch.tensor(random.random((2, 1, 3, 6)) < 0.6)
    seen[0, 0, 1] = False
    attention("attention_masked", (2, 3, 6, 4, 2, 4, 4), 0.5, mask=seen)


def losses():
    logits = draw("cross_entropy.logits", 2, 3, 7, scale=3)
    targets = torch.tensor([[1, -100, 6], [0, 3, -1]])
    write("cross_entropy.targets", targets)
    kept = targets >= 0
    rows = F.cross_entropy(logits.reshape(6, 7), targets.clamp(min=0).reshape(6), reduction="none")
    finish("cross_entropy", torch.where(kept, rows.reshape(2, 3), torch.zeros(())), logits=logits)

    mask = torch.tensor([[1, 1, 0], [0, 1, 0]])
    write("masked_cross_entropy.mask", mask)
    labels = torch.tensor([[1, 2, 6], [0, 3, 1]])
    write("masked_cross_entropy.targets", labels)
    rows = F.cross_entropy(logits.reshape(6, 7), labels.reshape(6), reduction="none").reshape(2, 3)
    finish("masked_cross_entropy", (rows * mask).sum() / mask.sum(), logits=logits)

    a, b = draw("mse.a", 3, 4), draw("mse.b", 3, 4)
    finish("mse", F.mse_loss(a, b), a=a, b=b)

    x, w = draw("linear_cross_entropy.x", 5, 4), draw("linear_cross_entropy.w", 9, 4)
    targets = torch.tensor([3, -1, 0, 8, 3])
    write("linear_cross_entropy.targets", targets)
    for name, cap in (("linear_cross_entropy", 0), ("linear_cross_entropy_capped", 2.5)):
        z = x @ w.T
        z = cap * torch.tanh(z / cap) if cap else z
        rows = F.cross_entropy(z, targets.clamp(min=0), reduction="none")
        finish(name, torch.where(targets >= 0, rows, torch.zeros(())), x=x, w=w)


def adamw():
    p = torch.nn.Parameter(draw("adamw.p", 7).detach().clone())
    optimizer = torch.optim.AdamW([p], lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1)
    for step in range(3):
        p.grad = draw(f"adamw.g{step}", 7).detach() * 0.5
        optimizer.step()
    state = optimizer.state[p]
    write("adamw.new_p", p.detach())
    write("adamw.new_m", state["exp_avg"])
    write("adamw.new_v", state["exp_avg_sq"])


def frequencies(name, head_dim, parameters, max_position=4096, length=None, partial=None):
    kind = parameters["rope_type"]
    if partial is not None:
        parameters["partial_rotary_factor"] = partial
    config = LlamaConfig(hidden_size=head_dim * 2, num_attention_heads=2, head_dim=head_dim,
                         max_position_embeddings=max_position, rope_parameters=parameters)
    f, amplitude = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=length)
    write(f"frequencies.{name}", f)
    write(f"amplitude.{name}", [amplitude])


def all_frequencies():
    short = [1 + 0.1 * i for i in range(8)]
    long = [2.0 + 0.5 * i for i in range(8)]
    frequencies("linear", 16, {"rope_type": "linear", "rope_theta": 1e4, "factor": 8.0})
    frequencies("llama3", 128, {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0,
                                "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                "original_max_position_embeddings": 8192}, 131072)
    frequencies("dynamic", 16, {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}, 2048, 5000)
    frequencies("yarn", 128, {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0,
                              "original_max_position_embeddings": 32768}, 131072)
    frequencies("yarn_mscale", 64, {"rope_type": "yarn", "rope_theta": 1e4, "factor": 40.0,
                                    "original_max_position_embeddings": 4096, "mscale": 1.0,
                                    "mscale_all_dim": 0.8, "truncate": False}, 163840)
    for name, length in (("longrope_short", 4000), ("longrope_long", 5000)):
        frequencies(name, 16, {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": short,
                               "long_factor": long, "factor": 32.0,
                               "original_max_position_embeddings": 4096}, 131072, length)
    frequencies("proportional", 512, {"rope_type": "proportional", "rope_theta": 1e6}, 4096, None, 0.25)
    frequencies("partial", 40, {"rope_type": "linear", "rope_theta": 1e4, "factor": 1.0}, 4096, None, 0.25)


for part in (linear, norms, ropes, attentions, losses, adamw, all_frequencies):
    part()
with open("nn_ops.txt", "w") as out:
    out.write("\n".join(lines) + "\n")
