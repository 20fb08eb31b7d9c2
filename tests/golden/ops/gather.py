"""Reference arrays of test_indexing.c, by NumPy: python3 gather.py writes gather.safetensors."""
import os
import numpy as np
from safetensors.numpy import save_file

rng = np.random.default_rng(7)
out = {}


def case(name, *results):
    for i, y in enumerate(results):
        out[f"{name}/out{i}"] = np.array(y, order="C")


def given(name, x):
    out[name] = np.array(x, order="C")
    return x


x = given("x", rng.normal(size=(4, 5, 6)).astype(np.float32))
i = given("i", rng.integers(-4, 4, size=(2, 3)).astype(np.int32))
j = given("j", rng.integers(0, 5, size=(3,)).astype(np.int64))
k = given("k", rng.integers(0, 6, size=(2, 1)).astype(np.uint8))
e = np.s_[...]
case("index", x[1], x[:, -1], x[1:3, ::-2], x[..., 2], x[None, :, 0, None], x[i], x[:, j], x[..., k],
     x[i, j], x[i, :, k], x[:, j, k], x[i, j, k], x[0, j], x[0, :, j], x[:, 0, k], x[None, i, 1:4, None, k],
     x[i, 1, 2:5], x[1:3, j, ::2], x[2, 3, 4], x[0:0, j], x[i[:, :0]], x[e], x[::-1, j, 1:-1][..., 0])


def updated(at, fn=None, shape=None):
    y = x.copy()
    v = given_values(y[at].shape if shape is None else shape)
    if fn is None:
        y[at] = v
    else:
        fn.at(y, at, v)
    return y


n_values = 0


def given_values(shape):
    global n_values
    v = given(f"v{n_values}", rng.normal(size=shape).astype(np.float32))
    n_values += 1
    return v


s = np.s_
ats = [s[1], s[1:3, ::-2], s[i], s[i, :, k], s[:, 0, k], s[1:3, j, ::2], s[None, 2, ..., 1:3]]
for n, fn in enumerate([None, np.add, np.multiply, np.maximum, np.minimum]):
    case(f"update{n}", *[updated(at, fn) for at in ats])
case("update_scalar", updated(s[i, j], None, ()))

ui = given("ui", rng.integers(-4, 4, size=(3, 2)).astype(np.int32))
uj = given("uj", rng.integers(0, 3, size=(2,)).astype(np.int32))


def windows(sizes):
    # MLX's gather at (ui on axis 0, uj on axis 2).
    shape = np.broadcast_shapes(ui.shape, uj.shape)
    a, b = np.broadcast_to(ui, shape), np.broadcast_to(uj, shape)
    for at in np.ndindex(shape):
        p = a[at] % 4
        yield at, (slice(p, p + sizes[0]), slice(0, sizes[1]), slice(b[at], b[at] + sizes[2]))


def gathered(sizes):
    y = np.zeros((3, 2, *sizes), np.float32)
    for at, window in windows(sizes):
        y[at] = x[window]
    return y


def scattered(sizes, fn):
    y = x.copy()
    v = given_values((3, 2, *sizes))
    for at, window in windows(sizes):
        y[window] = fn(y[window], v[at])
    return y


case("gather", gathered((1, 5, 1)), gathered((1, 3, 1)), gathered((1, 2, 4)), gathered((1, 1, 1)))
fns = [lambda a, b: b, np.add, np.multiply, np.maximum, np.minimum]
for n, fn in enumerate(fns):
    case(f"scatter{n}", scattered((1, 5, 1), fn), scattered((1, 2, 3), fn))
along = given("along", rng.integers(-5, 5, size=(4, 7, 6)).astype(np.int64))
v = given_values((4, 7, 6))
y = x.copy()
for at in np.ndindex(v.shape):  # the last counts
    y[at[0], along[at], at[2]] = v[at]
case("along", np.take_along_axis(x, along, 1), y)
case("take_flat", x.reshape(-1)[given("flat", rng.integers(-120, 120, size=(3, 2)))])
far = given("far", np.array([-9, -5, -1, 0, 3, 4, 5, 17], np.int32))
case("modes", np.take(x, far, 0, mode="clip"), np.take(x, far, 0, mode="wrap"))
mask = given("mask", rng.random(size=(5, 1)) < 0.5)
wide = np.broadcast_to(mask, x.shape)
m = x.copy()
v = given("vm", rng.normal(size=(130,)).astype(np.float32))
m[wide] = v[: wide.sum()]
case("masked", m)
u = given_values((2, 3, 2))
a, b, c, d = x.copy(), x.copy(), x.copy(), x.copy()
at = s[1:3, 4:1:-1, 1:6:4]
a[at], b[at] = u, b[at] + u[:1]
c[at], d[at] = c[at] * u, np.maximum(d[at], u)
e = x.copy()
e[at] = np.minimum(e[at], 0.25)
case("slices", a, b, c, d, e)
save_file(out, os.path.join(os.path.dirname(os.path.abspath(__file__)), "gather.safetensors"))
