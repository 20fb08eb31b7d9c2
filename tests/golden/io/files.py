"""Files that NumPy and h5py write: python files.py writes them beside this file. Every array is 0, 1, 2, ..."""

import os

import h5py
import numpy as np

os.chdir(os.path.dirname(os.path.abspath(__file__)))
grid = np.arange(6).reshape(2, 3)
np.save("float32.npy", grid.astype("<f4"))
np.save("fortran.npy", np.asfortranarray(grid.astype("<f8")))
np.save("big.npy", grid.astype(">i4"))
np.save("big_complex.npy", (grid + 1j).astype(">c8"))
np.save("scalar.npy", np.array(7, "<u8"))
np.save("empty.npy", np.zeros((0, 3), "?"))
np.save("object.npy", np.array([{}], object), allow_pickle=True)
arrays = {
    "bool": grid % 2 == 1, "half": grid.astype("<f2"), "nested/int8": grid.astype("i1"),
    "complex": (grid - 2j).astype("<c8"), "scalar": np.array(2.5),
}
np.savez("stored.npz", **{k.replace("/", "_"): v for k, v in arrays.items()})
np.savez_compressed("deflated.npz", zeros=np.zeros(1000, "<f4"), ones=np.ones((2, 2), "<i8"))
with h5py.File("arrays.h5", "w") as file:
    for name, array in arrays.items():
        file[name] = array
    file["big"] = grid.astype(">f4")
    file.create_dataset("chunks", data=grid.astype("<f4"), chunks=(1, 2), compression="gzip")
with h5py.File("text.h5", "w") as file:
    file["words"] = "text"
