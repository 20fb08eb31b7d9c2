"""Writes empty_shapes.txt: NumPy's results for inputs without elements, without axes and with axes
of length 1, and for empty lists of axes, for tests/ops/test_empty_shapes.c. A line is a function, the
shape of its input and the result: its shape and the sum of its elements with the weights 1 to 5, in
turn, or "error". NumPy reduces scalars along axis 0 and -1,
and takes triangles of vectors; here, as in MLX, these are errors.

The input holds 1, 1.5, 2, ... Functions of the same names are in the test.

Run it in this folder: python -P empty_shapes.py
"""

import warnings

import numpy as np

warnings.simplefilter("ignore")
SHAPES = [(), (0,), (1,), (3,), (0, 0), (2, 0), (0, 3), (1, 1), (2, 2), (2, 0, 3)]


def last(x):
    if x.ndim == 0:
        raise ValueError("an axis is needed")
    return -1


def first(x):
    return last(x) + 1


def no_element():
    raise ValueError("NumPy lets element 0 of an empty axis pass")


def softmax(x):
    e = np.exp(x - np.max(x, axis=last(x), keepdims=True)) if x.size else x
    return e / np.sum(e, axis=-1, keepdims=True)


def norm_rows(x):
    return x / np.sqrt(np.mean(x * x, axis=last(x), keepdims=True) + 1)


def scan(f):
    return lambda x: f(x, axis=last(x))


def updated(x, f):
    y = x.copy()
    y[()] = f(y[()])
    return y


def no_axes():
    raise ValueError("NumPy makes a matrix of a vector")


FUNCTIONS = {
    "sum": np.sum,
    "sum_last": lambda x: np.sum(x, axis=last(x)),
    "sum_first": lambda x: np.sum(x, axis=first(x)),
    "sum_keep": lambda x: np.sum(x, keepdims=True),
    "mean": np.mean,
    "mean_last": lambda x: np.mean(x, axis=last(x)),
    "prod": np.prod,
    "prod_last": lambda x: np.prod(x, axis=last(x)),
    "max": np.max,
    "max_last": lambda x: np.max(x, axis=last(x)),
    "max_first": lambda x: np.max(x, axis=first(x)),
    "min": np.min,
    "min_last": lambda x: np.min(x, axis=last(x)),
    "all": np.all,
    "any": np.any,
    "all_last": lambda x: np.all(x, axis=last(x)),
    "any_first": lambda x: np.any(x, axis=first(x)),
    "count_nonzero": np.count_nonzero,
    "var": np.var,
    "var_last": lambda x: np.var(x, axis=last(x)),
    "std_first": lambda x: np.std(x, axis=first(x)),
    "median": np.median,
    "median_last": lambda x: np.median(x, axis=last(x)),
    "trace": np.trace,
    "array_equal": lambda x: np.array_equal(x, x),
    "allclose": lambda x: np.allclose(x, x),
    "argmax_last": lambda x: np.argmax(x, axis=last(x)),
    "argmin_first": lambda x: np.argmin(x, axis=first(x)),
    "softmax": softmax,
    "log_softmax": lambda x: np.log(softmax(x)),
    "cumsum": scan(np.cumsum),
    "cumprod": scan(np.cumprod),
    "cummax": scan(np.maximum.accumulate),
    "cummin": scan(np.minimum.accumulate),
    "logcumsumexp": scan(np.logaddexp.accumulate),
    "sort": scan(np.sort),
    "sort_first": lambda x: np.sort(x, axis=first(x)),
    "argsort": scan(np.argsort),
    "partition": lambda x: np.partition(x, 0) if x.shape[last(x)] else no_element(),
    "searchsorted": lambda x: np.searchsorted(x, np.float32(1.5)),
    "flatten": np.ravel,
    "reshape_flat": lambda x: np.reshape(x, (x.size,)),
    "transpose": np.transpose,
    "swapaxes": lambda x: np.swapaxes(x, 0, 1),
    "moveaxis": lambda x: np.moveaxis(x, 0, -1),
    "flip": np.flip,
    "expand_first": lambda x: np.expand_dims(x, 0),
    "expand_last": lambda x: np.expand_dims(x, -1),
    "squeeze_first": lambda x: np.squeeze(x, first(x)),
    "atleast_1d": np.atleast_1d,
    "atleast_2d": np.atleast_2d,
    "atleast_3d": np.atleast_3d,
    "broadcast": lambda x: np.broadcast_to(x, (4, *x.shape)),
    "copy": np.copy,
    "slice_none": lambda x: x[0:0] if last(x) else x,
    "slice_back": lambda x: x[..., ::-1] if last(x) else x,
    "concatenate": lambda x: np.concatenate([x, x]),
    "concatenate_last": lambda x: np.concatenate([x, x], axis=last(x)),
    "stack": lambda x: np.stack([x, x]),
    "stack_last": lambda x: np.stack([x, x], axis=-1),
    "repeat": lambda x: np.repeat(x, 2, axis=first(x)),
    "repeat_none": lambda x: np.repeat(x, 0, axis=first(x)),
    "tile": lambda x: np.tile(x, (2, 3)),
    "roll": lambda x: np.roll(x, 1, axis=first(x)),
    "diff": lambda x: np.diff(x, axis=last(x)),
    "pad": lambda x: np.pad(x, [(1, 2)] + [(0, 0)] * (x.ndim - 1), constant_values=7)
    if last(x)
    else x,
    "take": lambda x: np.take(x, [0], axis=first(x)),
    "take_none": lambda x: np.take(x, np.zeros((2, 0), int), axis=first(x)),
    "take_along_none": lambda x: np.take_along_axis(x, np.zeros((*x.shape[:-1], 0), int), last(x)),
    "matmul": lambda x: x @ np.swapaxes(x, -1, -2),
    "matmul_vector": lambda x: x @ np.ones(x.shape[-1:], np.float32) if last(x) else x,
    "outer": lambda x: np.outer(x, x),
    "inner": lambda x: np.inner(x, x),
    "vecdot": lambda x: np.sum(x * x, axis=last(x)),
    "tensordot_1": lambda x: np.tensordot(x, x.T, 1),
    "tensordot_0": lambda x: np.tensordot(x, x, 0),
    "kron": lambda x: np.kron(x, x),
    "einsum_trace": lambda x: np.einsum("ii->", x),
    "einsum_outer": lambda x: np.einsum("i,j->ij", x, x),
    "einsum_last": lambda x: np.einsum("...i->...", x),
    "norm": lambda x: np.sqrt(np.sum(x * x)),
    "norm_last": lambda x: np.linalg.norm(x, axis=last(x)),
    "norm_1": lambda x: np.linalg.norm(x, 1, axis=last(x)),
    "inv": lambda x: np.linalg.inv(x + 3 * np.eye(x.shape[-1], dtype=np.float32)),
    "det": lambda x: np.linalg.det(x + 3 * np.eye(x.shape[-1], dtype=np.float32)),
    "cholesky": lambda x: np.linalg.cholesky(9 * np.eye(x.shape[-1], dtype=np.float32) + 0 * x),
    "svdvals": lambda x: np.linalg.svd(x, compute_uv=False),
    "eigvalsh": lambda x: np.linalg.eigvalsh(9 * np.eye(x.shape[-1], dtype=np.float32) + 0 * x),
    "solve": lambda x: np.linalg.solve(x + 3 * np.eye(x.shape[-1], dtype=np.float32), x),
    "pinv": lambda x: np.linalg.pinv(x),
    "fft": lambda x: np.abs(np.fft.fft(x)),
    "rfft": lambda x: np.abs(np.fft.rfft(x)),
    "fft_padded": lambda x: np.abs(np.fft.fft(x, 4)),
    "fftn": lambda x: np.abs(np.fft.fftn(x)),
    "fftshift": np.fft.fftshift,
    "zeros_like": np.zeros_like,
    "full_like": lambda x: np.full_like(x, 3),
    "tril": lambda x: np.tril(x) if x.ndim > 1 else no_axes(),
    "triu": lambda x: np.triu(x) if x.ndim > 1 else no_axes(),
    "diagonal": np.diagonal,
    "diag": np.diag,
    "add": lambda x: x + x,
    "exp": np.exp,
    "clip": lambda x: np.clip(x, 1.25, 2),
    "where": lambda x: np.where(x > 1.2, x, 0),
    "rms_norm": norm_rows,
    # An empty list of axes.
    "sum_none": lambda x: np.sum(x, axis=()),
    "sum_none_keep": lambda x: np.sum(x, axis=(), keepdims=True),
    "mean_none": lambda x: np.mean(x, axis=()),
    "prod_none": lambda x: np.prod(x, axis=()),
    "max_none": lambda x: np.max(x, axis=()),
    "min_none": lambda x: np.min(x, axis=()),
    "all_none": lambda x: np.all(x, axis=()),
    "any_none": lambda x: np.any(x, axis=()),
    "count_none": lambda x: np.count_nonzero(x, axis=()),
    "var_none": lambda x: np.var(x, axis=()),
    "std_none": lambda x: np.std(x, axis=()),
    "median_none": lambda x: np.median(x, axis=()),
    "flip_none": lambda x: np.flip(x, axis=()),
    "squeeze_none": lambda x: np.squeeze(x, axis=()),
    "expand_none": lambda x: np.expand_dims(x, ()),
    "tensordot_none": lambda x: np.tensordot(x, x, ([], [])),
    "fftshift_none": lambda x: np.fft.fftshift(x, axes=()),
    "window_none": lambda x: np.lib.stride_tricks.sliding_window_view(x, (), ()),
    "logsumexp_none": lambda x: np.log(np.sum(np.exp(x), axis=())),
    "softmax_none": lambda x: np.exp(x) / np.sum(np.exp(x), axis=()),
    "norm_none": lambda x: np.linalg.vector_norm(x, axis=()),
    "norm_none_keep": lambda x: np.linalg.vector_norm(x, axis=(), keepdims=True),
    "norm_p_none": lambda x: np.linalg.norm(x, 1, axis=()),
    "norm_nuclear_none": lambda x: np.linalg.norm(x, "nuc", axis=()),
    "transpose_none": lambda x: np.transpose(x, ()),
    "number_none": lambda x: np.prod([x.shape[i] for i in ()]),
    "slice_empty": lambda x: x[()],
    "dynamic_slice_none": lambda x: x[()],
    "slice_update_none": lambda x: updated(x, lambda y: x * x),
    "update_none": lambda x: updated(x, lambda y: x * x),
    "update_add_none": lambda x: updated(x, lambda y: y + x * x),
    "update_prod_none": lambda x: updated(x, lambda y: y * x * x),
    "update_max_none": lambda x: updated(x, lambda y: np.maximum(y, x * x)),
    "update_min_none": lambda x: updated(x, lambda y: np.minimum(y, x * x)),
    "gather_none": lambda x: x[()],
    "scatter_none": lambda x: updated(x, lambda y: x * x),
    "scatter_add_none": lambda x: updated(x, lambda y: y + x * x),
    "scatter_prod_none": lambda x: updated(x, lambda y: y * x * x),
    "scatter_max_none": lambda x: updated(x, lambda y: np.maximum(y, x * x)),
    "scatter_min_none": lambda x: updated(x, lambda y: np.minimum(y, x * x)),
    "pad_none": lambda x: np.pad(x, {}, mode="reflect"),
    "pad_with_none": lambda x: np.pad(x, {}, constant_values=2),
    "tile_none": lambda x: np.tile(x, ()),
    "roll_flat": lambda x: np.roll(x, 1),
    "roll_flat_twice": lambda x: np.roll(x, (1, 3)),
    "roll_none": lambda x: np.roll(x, (), ()),
    "roll_one_none": lambda x: np.roll(x, 1, ()),
    "roll_two_none": lambda x: np.roll(x, (1, 2), ()),
    "ifftshift": np.fft.ifftshift,
    "ifftshift_none": lambda x: np.fft.ifftshift(x, axes=()),
    "fftn_none": lambda x: np.fft.fftn(x, axes=()),
    "ifftn_none": lambda x: np.fft.ifftn(x, axes=()),
    "fft2_none": lambda x: np.fft.fft2(x, axes=()),
    "ifft2_none": lambda x: np.fft.ifft2(x, axes=()),
    "rfftn_none": lambda x: np.fft.rfftn(x, axes=()),
    "irfftn_none": lambda x: np.fft.irfftn(x, axes=()),
    "rfft2_none": lambda x: np.fft.rfft2(x, axes=()),
    "irfft2_none": lambda x: np.fft.irfft2(x, axes=()),
    "fftn_lengths_none": lambda x: np.fft.fftn(x, s=(2,), axes=()),
}


def text(shape):
    return "(" + ",".join(map(str, shape)) + ")"


with open("empty_shapes.txt", "w") as out:
    for name, f in FUNCTIONS.items():
        for shape in SHAPES:
            n = int(np.prod(shape))
            x = (1 + 0.5 * np.arange(n, dtype=np.float32)).reshape(shape)
            try:
                y = np.asarray(f(x))
                total = np.sum(y.astype(np.float64).ravel() * (1 + np.arange(y.size) % 5))
                result = f"{text(y.shape)} {'nan' if np.isnan(total) else f'{total:.3f}'}"
            except (ValueError, IndexError, np.linalg.LinAlgError, TypeError):
                result = "error"
            out.write(f"{name} {text(shape)} {result}\n")
