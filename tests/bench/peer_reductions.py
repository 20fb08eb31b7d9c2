"""How fast NumPy and PyTorch are at what reductions.c times: python peer_reductions.py THREADS"""

import sys
import time

import numpy as np
import torch

torch.set_num_threads(int(sys.argv[1]))


def best(function):
    took = []
    for _ in range(9):
        start = time.perf_counter()
        function()
        took.append(time.perf_counter() - start)
    return 1e3 * min(took)


x = (300 * np.sin(np.arange(1 << 24, dtype=np.float32))).reshape(4096, 4096)
m = x.reshape(64, 512, 512)
whole, wide = x.astype(np.int32), x[:2048].astype(np.float64)
X, M, W, D = (torch.from_numpy(a) for a in (x, m, whole, wide))
B, few = X.bfloat16(), slice(512)

CASES = {
    "sum f32 last": (lambda: np.sum(x, 1), lambda: X.sum(1)),
    "sum f32 first": (lambda: np.sum(x, 0), lambda: X.sum(0)),
    "sum f32 all": (lambda: np.sum(x), lambda: X.sum()),
    "sum f32 middle": (lambda: np.sum(m, 1), lambda: M.sum(1)),
    "sum f32 turned": (lambda: np.sum(x.T, 1), lambda: X.T.sum(1)),
    "sum bf16 last": (None, lambda: B.sum(1)),
    "max f32 last": (lambda: np.max(x, 1), lambda: X.amax(1)),
    "prod f32 last": (lambda: np.prod(x, 1), lambda: X.prod(1)),
    "sum i32 last": (lambda: np.sum(whole, 1, dtype=np.int32), lambda: W.sum(1)),
    "max i32 last": (lambda: np.max(whole, 1), lambda: W.amax(1)),
    "sum f64 last": (lambda: np.sum(wide, 1), lambda: D.sum(1)),
    "all f32 last": (lambda: np.all(x, 1), lambda: X.all(1)),
    "var f32 last": (lambda: np.var(x, 1), lambda: X.var(1, correction=0)),
    "var f32 first": (lambda: np.var(x, 0), lambda: X.var(0, correction=0)),
    "cumsum f32 last": (lambda: np.cumsum(x, 1), lambda: X.cumsum(1)),
    "cumsum f32 first": (lambda: np.cumsum(x, 0), lambda: X.cumsum(0)),
    "cummax f32 last": (lambda: np.maximum.accumulate(x, 1), lambda: X.cummax(1)),
    "logcumsumexp f32": (
        lambda: np.logaddexp.accumulate(x[few], 1),
        lambda: X[few].logcumsumexp(1),
    ),
    "sort f32": (lambda: np.sort(x[few], 1, kind="stable"), lambda: X[few].sort(1, stable=True)),
    "sort f64": (lambda: np.sort(wide[few], 1, kind="stable"), lambda: D[few].sort(1, stable=True)),
    "argsort i32": (
        lambda: np.argsort(whole[few], 1, kind="stable"),
        lambda: W[few].argsort(dim=1, stable=True),
    ),
    "partition f32": (lambda: np.partition(x[few], 100, 1), lambda: X[few].kthvalue(100, 1)),
}
for name, functions in CASES.items():
    times = [f"{best(f):8.2f}" if f else "       -" for f in functions]
    print(f"{name:18s} numpy {times[0]} ms, torch {times[1]} ms", flush=True)
