"""Reference values and gradients of test_activations.c and test_losses.c, by PyTorch in float64:
python3 functions.py writes functions.safetensors. Inputs are float32; ct is the cotangent."""
import os
import numpy as np
import torch
import torch.nn.functional as F
from golden import case, normal, rng, save

# Activations: numbers on every piece, none at a corner, and large ones.
x = np.concatenate([normal(15, scale=2), np.float32([-30, -9, 30, 200, -200, 0.25])]).reshape(3, 7)
for name, f in {
    "relu2": lambda x: F.relu(x) ** 2, "relu6": F.relu6, "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "elu": lambda x: F.elu(x, 1.5), "celu": lambda x: torch.where(x > 0, x, 0.7 * torch.expm1(x.clamp(max=0) / 0.7)), "selu": F.selu, "mish": F.mish,
    "gelu_fast_approx": lambda x: x * torch.sigmoid(1.702 * x), "log_sigmoid": F.logsigmoid,
    "softsign": F.softsign, "softmin": lambda x: F.softmin(x, 0), "hardswish": F.hardswish,
    "hard_tanh": lambda x: F.hardtanh(x, -1.5, 0.5), "hard_shrink": lambda x: F.hardshrink(x, 0.6),
    "softshrink": lambda x: F.softshrink(x, 0.6), "sigmoid": torch.sigmoid, "relu": F.relu,
    "silu": F.silu, "softplus": F.softplus, "tanh": torch.tanh, "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "softmax": lambda x: F.softmax(x, 1),
    "log_softmax": lambda x: F.log_softmax(x, 0),
}.items():
    case(name, f, x)
case("glu", lambda x: F.glu(x, 0), normal(4, 5))
case("prelu", lambda x, a: F.prelu(x, a), x, normal(7))
case("step", lambda x: (x.detach() >= 0.25).to(torch.int32), x)

# Losses, without reduction; the suite reduces by itself.
logits, classes = normal(4, 6, 5, scale=3), rng.integers(0, 6, (4, 5)).astype(np.int32)
soft = torch.softmax(torch.tensor(normal(4, 6, 5)), 1).numpy()
w = np.abs(normal(4, 5))


def ce(x, t, smoothing=0.0):
    if t.dim() == x.dim():  # MLX differentiates the targets' sum as if it were 1
        x = x - x.max(1, keepdim=True).values.detach()
        score = (1 - smoothing) * (x * t).sum(1) + smoothing * x.mean(1)
        return torch.logsumexp(x, 1) - score
    return F.cross_entropy(x, t.long(), reduction="none", label_smoothing=smoothing)


case("ce", ce, logits, classes)
case("ce_smooth", lambda x, t: ce(x, t, 0.2), logits, classes)
case("ce_weights", lambda x, t, w: ce(x, t) * w, logits, classes, w)
case("ce_soft", ce, logits, soft)
case("ce_soft_smooth", lambda x, t: ce(x, t, 0.1), logits, soft)
a, b, c = normal(5, 6), normal(5, 6), normal(5, 6)
t01, t11 = (b > 0).astype(np.float32), np.where(b > 0, 1, -1).astype(np.float32)
p01 = rng.uniform(0.01, 0.99, (5, 6)).astype(np.float32)
n = {"reduction": "none"}
case("bce_logits", lambda x, t: F.binary_cross_entropy_with_logits(x, t, **n), a * 20, p01)
case("bce", lambda x, t: -(t * torch.log(x) + (1 - t) * torch.log(1 - x)), p01, t01)
case("bce_weights", lambda x, t, w: F.binary_cross_entropy_with_logits(x, t, **n) * w, a, p01, np.abs(c))
case("nll", lambda x, t: F.nll_loss(x, t.long(), **n), logits, classes)
case("kl_div", lambda x, t: F.kl_div(x, t, log_target=True, **n).sum(1), a, b)
case("hinge", lambda x, t: torch.relu(1 - x * t), a, t11)
case("l1", lambda x, t: F.l1_loss(x, t, **n), a, b)
case("mse", lambda x, t: F.mse_loss(x, t, **n), a, b)
case("smooth_l1", lambda x, t: F.smooth_l1_loss(x, t, beta=0.6, **n), a, b)
case("huber", lambda x, t: F.huber_loss(x, t, delta=0.7, **n), a, b)
case("log_cosh", lambda x, t: torch.logaddexp(x - t, t - x) - np.log(2.0), a * 100, b)
case("gaussian_nll", lambda x, t, v: F.gaussian_nll_loss(x, t, v, full=True, eps=1e-6, **n), a, b, np.abs(c) + np.float32(0.1))


def triplet(a, p, n, degree=3.0):
    near = (((a - p).abs() ** degree).sum(1) + 1e-6) ** (1 / degree)
    far = (((a - n).abs() ** degree).sum(1) + 1e-6) ** (1 / degree)
    return torch.relu(near - far + 1)


case("triplet", triplet, a, b, c)
case("cosine", lambda x, t: F.cosine_similarity(x, t, dim=1, eps=1e-8), a, b)
case("margin", lambda x, y, t: F.margin_ranking_loss(x, y, t, margin=0.3, **n), a, b, t11)
save(os.path.join(os.path.dirname(os.path.abspath(__file__)), "functions.safetensors"))
