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

save_file(out, os.path.splitext(os.path.abspath(__file__))[0] + ".safetensors")
