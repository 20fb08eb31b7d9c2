"""Writes random.txt: words and keys of JAX's Threefry generator, for tests/ops/test_random.c.

One array a line: name, number of elements, elements. Run it in this folder, with jax installed:
python random.py
"""

import sys

sys.path.pop(0)  # this file has the name of a module that others import

import jax  # noqa: E402
import numpy as np  # noqa: E402

jax.config.update("jax_threefry_partitionable", False)
lines = []


def write(name, array):
    flat = np.asarray(array).reshape(-1).tolist()
    lines.append(" ".join([name, str(len(flat))] + [str(x) for x in flat]))


for index, seed in enumerate([0, 1, 42, 2**63 + 12345]):
    key = np.array([seed >> 32, seed & 0xFFFFFFFF], dtype=np.uint32)
    for count in (1, 2, 5, 1031):
        write(f"{index}.words.{count}", jax.random.bits(key, (count,), np.uint32))
    for count in (1, 4, 7, 33):
        write(f"{index}.bytes.{count}", jax.random.bits(key, (count,), np.uint8))
        write(f"{index}.halves.{count}", jax.random.bits(key, (count,), np.uint16))
    for count in (2, 3):
        write(f"{index}.split.{count}", jax.random.split(key, count))

with open("random.txt", "w") as file:
    file.write("\n".join(lines) + "\n")
