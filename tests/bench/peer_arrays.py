"""Measures matrix products of other array libraries for compare.py: prints one JSON line.

    python peer_arrays.py numpy|mlx versions|gemm [--dtype D] [--rows R] [--width W] [--steps N]

x (R, W) times the transpose of (W, W), GFLOP/s of the median. NumPy computes by its BLAS, which is
OpenBLAS in its wheels; `versions` says which. Threads: OPENBLAS_NUM_THREADS.
"""
import argparse
import contextlib
import io
import json
import statistics
import time


def numpy_parts(arguments):
    import numpy
    if arguments.program == "versions":
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            numpy.show_config()
        blas = "openblas" if "openblas" in text.getvalue().lower() else "another BLAS"
        return {"numpy": numpy.__version__, "blas": blas}
    random = numpy.random.default_rng(0)
    x = random.standard_normal((arguments.rows, arguments.width), dtype=arguments.dtype)
    w = random.standard_normal((arguments.width, arguments.width), dtype=arguments.dtype)
    return lambda: x @ w.T


def mlx_parts(arguments):
    import mlx.core as mx
    if arguments.program == "versions":
        return {"mlx": mx.__version__}
    mx.set_default_device(mx.cpu)
    dtype = getattr(mx, arguments.dtype)
    x = mx.random.normal((arguments.rows, arguments.width)).astype(dtype)
    w = mx.random.normal((arguments.width, arguments.width)).astype(dtype)
    mx.eval(x, w)
    return lambda: mx.eval(x @ w.T)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=["numpy", "mlx"])
    parser.add_argument("program", choices=["versions", "gemm"])
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=5)
    arguments = parser.parse_args()
    parts = (numpy_parts if arguments.library == "numpy" else mlx_parts)(arguments)
    if arguments.program == "versions":
        print(json.dumps(parts))
        return
    rates = []
    for _ in range(arguments.steps + 1):
        begin = time.perf_counter()
        parts()
        rates.append(2e-9 * arguments.rows * arguments.width ** 2 / (time.perf_counter() - begin))
    print(json.dumps({"gemm": statistics.median(rates[1:])}))


main()
