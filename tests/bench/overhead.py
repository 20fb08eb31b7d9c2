"""tests/bench/overhead.py -- nanoseconds per op of graphs of 1000 ops on 16 float32 numbers, built,
evaluated and freed: in Weft, NumPy, MLX and JAX, in one run.

    python tests/bench/overhead.py BUILD/tests/bench_overhead [ROUNDS]

The libraries take turns, ROUNDS (5) times, and the best of each counts. What is not installed is
left out."""
import json
import subprocess
import sys
import time

OPS, ELEMENTS = 1000, 16


def chain(x, y, maximum, minimum):
    for _ in range(OPS // 2):
        x = x * y + y
    return x


def lattice(x, y, maximum, minimum):
    before = y
    for i in range(OPS):
        before, x = x, maximum(x, before) if i % 2 else minimum(x, before)
    return x


GRAPHS = {"chain": chain, "lattice": lattice}


def best_of(run, seconds):
    run()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - began)
    return best / OPS * 1e9


def numpy_runs():
    import numpy as np

    x, y = np.ones(ELEMENTS, np.float32), np.full(ELEMENTS, 0.5, np.float32)
    for name, graph in GRAPHS.items():
        yield name, lambda: graph(x, y, np.maximum, np.minimum)


def mlx_runs():
    import mlx.core as mx

    mx.set_default_device(mx.cpu)
    x, y = mx.ones(ELEMENTS), mx.full(ELEMENTS, 0.5)
    mx.eval(x, y)
    for name, graph in GRAPHS.items():
        yield name, lambda: mx.eval(graph(x, y, mx.maximum, mx.minimum))
        fast = mx.compile(lambda x, y: graph(x, y, mx.maximum, mx.minimum))
        yield name + " compiled", lambda: mx.eval(fast(x, y))


def jax_runs():
    import jax
    import jax.numpy as jnp

    x, y = jnp.ones(ELEMENTS), jnp.full(ELEMENTS, 0.5)
    for name, graph in GRAPHS.items():
        yield name, lambda: graph(x, y, jnp.maximum, jnp.minimum).block_until_ready()
        fast = jax.jit(lambda x, y: graph(x, y, jnp.maximum, jnp.minimum))
        yield name + " compiled", lambda: fast(x, y).block_until_ready()


def weft_results(binary):
    output = subprocess.run([binary, "300"], check=True, capture_output=True, text=True).stdout
    return json.loads(output)


def main():
    binary = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    results, left_out = {}, set()
    for _ in range(rounds):
        for library, runs in ("NumPy", numpy_runs), ("MLX", mlx_runs), ("JAX", jax_runs):
            if library in left_out:
                continue
            try:
                new = {name: best_of(run, 0.5) for name, run in runs()}
            except ImportError:
                left_out.add(library)
                continue
            old = results.setdefault(library, new)
            results[library] = {k: min(v, old[k]) for k, v in new.items()}
        new = weft_results(binary)
        old = results.setdefault("Weft", new)
        results["Weft"] = {k: min(v, old[k]) for k, v in new.items()}
    columns = [n + c for n in GRAPHS for c in ("", " compiled")]
    print(f"{'ns per op':10}" + "".join(f"{c:>18}" for c in columns))
    for library, values in results.items():
        print(f"{library:10}" + "".join(f"{values[c]:18.1f}" if c in values else f"{'-':>18}"
                                        for c in columns))


main()
