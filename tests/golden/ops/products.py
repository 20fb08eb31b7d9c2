"""tests/golden/ops/products.py -- writes products.safetensors: einsum, tensordot, kron and others by
NumPy in float64. The subscripts are those of tests/ops/test_products.c, in the same order."""
import os

import numpy as np
from safetensors.numpy import save_file

rng = np.random.default_rng(4)
out = {}


def put(case, inputs, result):
    for i, x in enumerate(inputs):
        out[f"{case}/in{i}"] = np.array(x, order="C")
    out[f"{case}/out0"] = np.array(result, order="C")


def draw(*shape):
    return rng.uniform(-2, 2, shape)


EINSUM = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,jk", (3, 4), (4, 5)),
    ("ba,cb", (3, 4), (2, 3)),
    ("ii->i", (4, 4)),
    ("ii", (5, 5)),
    ("iijj->ij", (3, 3, 2, 2)),
    ("iji->j", (3, 4, 3)),
    ("ijk->kji", (2, 3, 4)),
    ("ij->", (3, 4)),
    ("...ij,...jk->...ik", (2, 3, 4), (5, 1, 4, 2)),
    ("...ij,jk", (2, 3, 4), (4, 2)),
    ("i...->...", (3, 2, 4)),
    ("...,...", (3, 1), (2, 1, 4)),
    ("i,j->ij", (3,), (4,)),
    ("i,i->i", (4,), (4,)),
    ("bi,bj->bij", (2, 3), (2, 4)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("bqhd,bkhd->bhqk", (2, 4, 3, 5), (2, 6, 3, 5)),
    ("ij,jk,kl,lm->im", (3, 4), (4, 2), (2, 6), (6, 3)),
    ("ab,ac,bd,cd,de->e", (3, 4), (3, 2), (4, 5), (2, 5), (5, 2)),
    ("ij,ij,ij->ij", (2, 3), (2, 3), (2, 3)),
    ("ij,kj->ik", (3, 1), (2, 4)),
    ("aab,bc->c", (3, 3, 2), (2, 4)),
    ("ij,jk->ik", (3, 0), (0, 2)),
    ("i,j,k->", (3,), (2,), (4,)),
    ("Ab,bA->b", (3, 4), (4, 3)),
    (" i j , j k -> k i ", (3, 4), (4, 5)),
    ("ab,bc,cd,de,ef,fg,gh,hi,ij->aj",) + tuple((2 + k % 3, 2 + (k + 1) % 3) for k in range(9)),
    ("...a,...b->ab...", (2, 3, 4), (3, 5)),
]
for i, (subscripts, *shapes) in enumerate(EINSUM):
    inputs = [draw(*s) for s in shapes]
    put(f"einsum{i}", inputs, np.einsum(subscripts, *inputs))

a, b = draw(2, 3, 4), draw(4, 3, 5)
put("tensordot_axes", [a, b], np.tensordot(a, b, ([2, 1], [0, 1])))
a, b = draw(2, 3, 4), draw(3, 4, 5)
put("tensordot_two", [a, b], np.tensordot(a, b, 2))
a, b = draw(2, 3), draw(4)
put("tensordot_none", [a, b], np.tensordot(a, b, 0))
a, b = draw(2, 3), draw(4, 2)
put("outer", [a, b], np.outer(a, b))
put("kron", [a, b], np.kron(a, b))
a, b = draw(2, 3), draw(2, 2, 4)
put("kron_ranks", [a, b], np.kron(a, b))
a, b = draw(2, 3), draw(4, 5, 3)
put("inner", [a, b], np.inner(a, b))
a, b = draw(2, 3, 4), draw(3, 4)
put("vecdot", [a, b], np.vecdot(a, b))
a, b = draw(2, 3, 4), draw(2, 3, 1)
put("vecdot_axis", [a, b], np.vecdot(a, b, axis=1))
c, a, b = draw(5), draw(2, 3, 4), draw(4, 5)
put("addmm", [c, a, b], 0.5 * (a @ b) - 2 * c)

# Products of parts: matrices that indices choose, segments of the terms, masked blocks.
a, b = draw(2, 3, 4, 5), draw(6, 5, 7)
lhs, rhs = rng.integers(-6, 6, (4, 1)), rng.integers(0, 6, (3,))
put("gather_mm", [a, b, lhs, rhs], a.reshape(6, 4, 5)[lhs] @ b[rhs])
a, b = draw(40, 1, 16), draw(4, 16, 9)
lhs, rhs = rng.integers(0, 40, 64), np.sort(rng.integers(0, 4, 64))
put("gather_mm_rows", [a, b, lhs, rhs], a[lhs] @ b[rhs])
a, b = draw(3, 10), draw(10, 4)
segments = np.array([[[0, 4], [4, 10]], [[2, 2], [3, 9]]])
put("segmented_mm", [a, b, segments],
    np.stack([[a[:, s:e] @ b[s:e] for s, e in row] for row in segments]))
a, b = draw(2, 70, 33), draw(33, 40)
masks = [rng.uniform(-1, 1, s) for s in [(2, 3, 2), (3, 2), (2, 2)]]


def spread(mask, *shape):
    return np.repeat(np.repeat(mask, 32, -2), 32, -1)[..., : shape[0], : shape[1]]


put("block_masked", [a, b, *masks],
    spread(masks[0], 70, 40) * ((spread(masks[1], 70, 33) * a) @ (spread(masks[2], 33, 40) * b)))

# MLX's Hadamard matrices of 12, 20 and 28 (scipy's of powers of two are the same).
import mlx.core as mx  # noqa: E402

for n in [1, 2, 64, 256, 12, 40, 112]:
    x = draw(3, n)
    h = np.array(mx.hadamard_transform(mx.eye(n), scale=1.0), dtype=np.float64).T
    put(f"hadamard{n}", [x], x @ h.T / np.sqrt(n))

save_file(out, os.path.splitext(os.path.abspath(__file__))[0] + ".safetensors")
