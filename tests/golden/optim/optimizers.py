"""tests/golden/optim/optimizers.py -- writes optimizers.safetensors: parameters after 1, 2, 5, 10 and 20
updates of every optimizer, and rates at some steps.

The gradients are random and do not depend on the parameters. Cases are float64: by torch.optim where
its rule is ours, else by MLX's formulas in NumPy. Every case is also run by mlx.optimizers in float32
where that has the options, Lion by bitsandbytes, and Muon by torch, with its iteration in float64
instead of bfloat16; the script stops where they disagree. The cases are those of
tests/optim/test_optimizers.c."""
import inspect
import math
import os

import bitsandbytes
import mlx.core as mx
import mlx.optimizers as mo
import numpy as np
import torch
from safetensors.numpy import save_file

SHAPES = {"w": (6, 4), "b": (5,), "k": (2, 3, 2)}
KEPT = [1, 2, 5, 10, 20]
STEPS = 20
rng = np.random.default_rng(11)
start = {n: rng.uniform(-1, 1, s) for n, s in SHAPES.items()}
gradients = {n: rng.normal(0, 1, (STEPS,) + s) for n, s in SHAPES.items()}
out = {}
for n in SHAPES:
    out["start/" + n] = start[n]
    out["gradients/" + n] = gradients[n]


def by_numpy(rule):
    """rule(p, g, state, t) -> p, for every parameter by itself."""
    result = {}
    for n in SHAPES:
        p, state, rows = start[n].copy(), {}, []
        for t in range(1, STEPS + 1):
            p = rule(p, gradients[n][t - 1], state, t)
            rows.append(p)
        result[n] = np.stack(rows)
    return result


def by_torch(make, names=tuple(SHAPES), schedule=None, dtype=torch.float64):
    result = {}
    for n in names:
        p = torch.nn.Parameter(torch.tensor(start[n], dtype=dtype))
        o, rows = make([p]), []
        for t in range(STEPS):
            if schedule:
                o.param_groups[0]["lr"] = schedule(t)
            p.grad = torch.tensor(gradients[n][t], dtype=dtype)
            o.step()
            rows.append(p.detach().numpy().copy())
        result[n] = np.stack(rows)
    return result


def by_mlx(make):
    o = make()
    p = {n: mx.array(start[n].astype(np.float32)) for n in SHAPES}
    rows = {n: [] for n in SHAPES}
    for t in range(STEPS):
        p = o.apply_gradients({n: mx.array(gradients[n][t].astype(np.float32)) for n in SHAPES}, p)
        for n in SHAPES:
            rows[n].append(np.array(p[n]))
    return {n: np.stack(rows[n]) for n in SHAPES}


def distance(a, b):
    return max(np.abs(a[n] - b[n]).max() for n in a)


def case(name, result, mlx=None, tolerance=1e-5):
    for n in SHAPES:
        out[f"{name}/{n}"] = np.stack([result[n][t - 1] for t in KEPT])
    far = distance(result, by_mlx(mlx)) if mlx else 0
    print(f"{name:24} mlx {far:.1e}" if mlx else name)
    assert far <= tolerance, name


# ---- the formulas, as MLX writes them ------------------------------------------------------------


def sgd(lr, momentum=0.0, decay=0.0, dampening=0.0):
    def rule(p, g, s, t):
        g = g + decay * p
        if momentum:
            s["v"] = momentum * s.get("v", 0) + (1 - dampening) * g
            g = s["v"]
        return p - lr * g

    return rule


def adam(lr, b1=0.9, b2=0.999, eps=1e-8, decay=0.0):
    def rule(p, g, s, t):
        s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
        s["v"] = b2 * s.get("v", 0) + (1 - b2) * g * g
        return p * (1 - lr * decay) - lr * s["m"] / (np.sqrt(s["v"]) + eps)

    return rule


def adamax(lr, b1=0.9, b2=0.999, eps=1e-8):
    def rule(p, g, s, t):
        s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
        s["v"] = np.maximum(b2 * s.get("v", 0), np.abs(g))
        return p - lr * s["m"] / (s["v"] + eps)

    return rule


def lion(lr, b1=0.9, b2=0.99, decay=0.0):
    def rule(p, g, s, t):
        m = s.get("m", 0)
        s["m"] = b2 * m + (1 - b2) * g
        return (1 - lr * decay) * p - lr * np.sign(b1 * m + (1 - b1) * g)

    return rule


def rms(x):
    return np.sqrt(np.mean(x * x))


def adafactor(lr=None, beta1=None, decay=0.0, scale=True, warmup=False, threshold=1.0, eps1=1e-30,
              eps2=1e-3, rate=0.8):
    def rule(p, g, s, t):
        step = lr if lr else min(1e-6 * t if warmup else 1e-2, 1 / math.sqrt(t))
        step = step * (max(eps2, rms(p)) if scale else 1)
        b2 = 1 - t**-rate
        square = g * g + eps1
        if g.ndim >= 2:
            s["r"] = b2 * s.get("r", 0) + (1 - b2) * square.mean(-1)
            s["c"] = b2 * s.get("c", 0) + (1 - b2) * square.mean(-2)
            row = 1 / np.sqrt(s["r"] / s["r"].mean(-1, keepdims=True))
            u = g * row[..., None] * (1 / np.sqrt(s["c"]))[..., None, :]
        else:
            s["v"] = b2 * s.get("v", 0) + (1 - b2) * square
            u = g / np.sqrt(s["v"])
        u = step * u / max(1, rms(u) / threshold)
        if beta1:
            s["m"] = beta1 * s.get("m", 0) + (1 - beta1) * u
            u = s["m"]
        return p - p * decay * step - u

    return rule


def newton_schulz(x, steps):
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / (np.sqrt((x * x).sum()) + 1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.T if tall else x


def muon(lr, momentum=0.95, decay=0.01, nesterov=True, steps=5):
    def rule(p, g, s, t):
        g = g + decay * p
        s["v"] = momentum * s.get("v", 0) + (1 - momentum) * g
        u = (1 - momentum) * g + momentum * s["v"] if nesterov else s["v"]
        if p.ndim >= 2:
            u = newton_schulz(u.reshape(p.shape[0], -1), steps).reshape(p.shape)
            u = u * math.sqrt(max(1, p.shape[-2] / p.shape[-1]))
        return p - lr * u

    return rule


# ---- the cases -----------------------------------------------------------------------------------

T = torch.optim
case("sgd", by_torch(lambda p: T.SGD(p, 0.1)), lambda: mo.SGD(0.1))
case("sgd_momentum", by_torch(lambda p: T.SGD(p, 0.1, momentum=0.9, weight_decay=0.05)),
     lambda: mo.SGD(0.1, momentum=0.9, weight_decay=0.05))
case("sgd_nesterov", by_torch(lambda p: T.SGD(p, 0.1, momentum=0.8, nesterov=True)),
     lambda: mo.SGD(0.1, momentum=0.8, nesterov=True))
case("sgd_dampening", by_numpy(sgd(0.1, momentum=0.9, dampening=0.3)),
     lambda: mo.SGD(0.1, momentum=0.9, dampening=0.3))
case("rmsprop", by_torch(lambda p: T.RMSprop(p, 0.01)), lambda: mo.RMSprop(0.01))
case("rmsprop_options", by_torch(lambda p: T.RMSprop(p, 0.01, alpha=0.9, eps=1e-3)),
     lambda: mo.RMSprop(0.01, alpha=0.9, eps=1e-3))
case("adagrad", by_torch(lambda p: T.Adagrad(p, 0.1, eps=1e-8)), lambda: mo.Adagrad(0.1))
case("adadelta", by_torch(lambda p: T.Adadelta(p, 1.0)), lambda: mo.AdaDelta(1.0))
case("adadelta_options", by_torch(lambda p: T.Adadelta(p, 2.0, rho=0.8, eps=1e-3)),
     lambda: mo.AdaDelta(2.0, rho=0.8, eps=1e-3))
case("adam", by_numpy(adam(0.01)), lambda: mo.Adam(0.01))
case("adam_corrected", by_torch(lambda p: T.Adam(p, 0.01, betas=(0.8, 0.95), eps=1e-6)),
     lambda: mo.Adam(0.01, [0.8, 0.95], 1e-6, bias_correction=True))
case("adamw", by_numpy(adam(0.01, decay=0.01)), lambda: mo.AdamW(0.01))
case("adamw_corrected", by_torch(lambda p: T.AdamW(p, 0.02, weight_decay=0.1)),
     lambda: mo.AdamW(0.02, weight_decay=0.1, bias_correction=True))
# torch adds eps inside the maximum, which makes no difference this small.
case("adamax_corrected", by_torch(lambda p: T.Adamax(p, 0.02, betas=(0.85, 0.99), eps=1e-14)))
case("adamax", by_numpy(adamax(0.02)), lambda: mo.Adamax(0.02))
case("lion", by_numpy(lion(0.01)), lambda: mo.Lion(0.01))
case("lion_decay", by_numpy(lion(0.02, 0.8, 0.95, 0.3)), lambda: mo.Lion(0.02, [0.8, 0.95], 0.3))
for name, options in (("lion", {"lr": 0.01}),
                      ("lion_decay", {"lr": 0.02, "betas": (0.8, 0.95), "weight_decay": 0.3})):
    there = by_torch(lambda p: bitsandbytes.optim.Lion(p, **options), dtype=torch.float32)
    far = max(np.abs(there[n][t - 1] - out[f"{name}/{n}"][i]).max()
              for n in SHAPES for i, t in enumerate(KEPT))
    print(f"{name:24} bitsandbytes {far:.1e}")
    assert far < 1e-5, name
# With torch's lr at the relative step's bound the rules agree.
case("adafactor", by_torch(lambda p: T.Adafactor(p, lr=1e-2, eps=(1e-30, 1e-3))),
     lambda: mo.Adafactor())
assert distance(by_torch(lambda p: T.Adafactor(p, lr=1e-2, eps=(1e-30, 1e-3))),
                by_numpy(adafactor())) < 1e-12
case("adafactor_rate", by_numpy(adafactor(0.05, beta1=0.9, decay=0.1, scale=False)),
     lambda: mo.Adafactor(0.05, beta_1=0.9, weight_decay=0.1, scale_parameter=False,
                          relative_step=False))
case("adafactor_warmup", by_numpy(adafactor(warmup=True, threshold=0.5, rate=0.6)),
     lambda: mo.Adafactor(warmup_init=True, clip_threshold=0.5, decay_rate=-0.6))
# The iteration multiplies rounding by about 3.4 to the fifth.
case("muon", by_numpy(muon(0.02)), lambda: mo.Muon(0.02), 1e-4)
case("muon_options", by_numpy(muon(0.05, 0.8, 0.0, False, 3)),
     lambda: mo.Muon(0.05, 0.8, 0.0, False, 3), 1e-4)
source = inspect.getsource(T._muon._zeropower_via_newtonschulz)
assert "grad.bfloat16()" in source
exec(source.replace("grad.bfloat16()", "grad.clone()"), vars(T._muon))
for steps, nesterov, momentum in ((5, True, 0.95), (3, False, 0.8)):
    there = by_torch(lambda p: T.Muon(p, 0.05, weight_decay=0.0, momentum=momentum,
                                      nesterov=nesterov, ns_steps=steps), ("w",))
    far = distance(there, {"w": by_numpy(muon(0.05, momentum, 0.0, nesterov, steps))["w"]})
    print(f"muon of {steps} iterations     torch {far:.1e}")
    assert far < 1e-5


# A varying rate, and in the second case a varying beta1.
def rate_at(t):
    return 0.02 * 0.9**t


case("adamw_scheduled", by_torch(lambda p: T.AdamW(p, 0.02, weight_decay=0.1), schedule=rate_at),
     lambda: mo.AdamW(mo.exponential_decay(0.02, 0.9), weight_decay=0.1, bias_correction=True))


def warming_beta(p, g, s, t):
    b1 = 0.5 + 0.4 * min(t - 1, 10) / 10
    return adam(0.01, b1)(p, g, s, t)


case("adam_beta_scheduled", by_numpy(warming_beta))

# ---- rates ---------------------------------------------------------------------------------------

AT = np.array([0, 1, 2, 3, 5, 9, 10, 11, 14, 15, 16, 20, 29, 30, 31, 100, 1000], np.int64)
RATES = {
    "exponential": (mo.exponential_decay(0.1, 0.97), lambda t: 0.1 * 0.97**t),
    "step": (mo.step_decay(0.1, 0.9, 10), lambda t: 0.1 * 0.9 ** (t // 10)),
    "cosine": (mo.cosine_decay(0.1, 30, 0.01),
               lambda t: 0.01 + 0.09 * 0.5 * (1 + math.cos(math.pi * min(t, 30) / 30))),
    "linear": (mo.linear_schedule(0.0, 0.1, 15), lambda t: 0.1 * min(t, 15) / 15),
}
RATES["join"] = (
    mo.join_schedules([mo.linear_schedule(0.0, 0.1, 10), mo.cosine_decay(0.1, 20),
                       mo.exponential_decay(0.01, 0.5)], [10, 30]),
    lambda t: 0.1 * t / 10 if t < 10
    else 0.05 * (1 + math.cos(math.pi * (t - 10) / 20)) if t < 30
    else 0.01 * 0.5 ** (t - 30),
)
out["rates/at"] = AT
for name, (theirs, exact) in RATES.items():
    values = np.array([exact(int(t)) for t in AT])
    mlx = np.array([theirs(mx.array(int(t))).item() for t in AT])
    print(f"{name:24} mlx {np.abs(mlx - values).max():.1e}")
    assert np.abs(mlx - values).max() < 1e-7, name
    out["rates/" + name] = values

save_file({k: np.ascontiguousarray(v) for k, v in out.items()},
          os.path.join(os.path.dirname(os.path.abspath(__file__)), "optimizers.safetensors"))
