"""tests/bench/overhead.py -- nanoseconds per op of graphs of 1000 ops on 16 float32 numbers, built,
evaluated and freed: in Weft, NumPy, MLX and JAX, in one run.

    python tests/bench/overhead.py BUILD/tests/bench_overhead [ROUNDS]

The libraries take turns, ROUNDS (5) times, half a second for each kind of graph. Printed are the
best graph of all, and the median over the rounds of the median graph of each. What is not installed
is left out."""
import json
import statistics
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


def best_and_median(run, seconds):
    run()
    took, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        run()
        took.append(time.perf_counter() - began)
    return [t / OPS * 1e9 for t in (min(took), statistics.median(took))]


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
    output = subprocess.run([binary, "1000"], check=True, capture_output=True, text=True).stdout
    return json.loads(output)


def all_results(binary, left_out):
    """A round: of each library, by graph, the best and the median."""
    results = {}
    for library, runs in ("NumPy", numpy_runs), ("MLX", mlx_runs), ("JAX", jax_runs):
        if library not in left_out:
            try:
                results[library] = {name: best_and_median(run, 0.5) for name, run in runs()}
            except ImportError:
                left_out.add(library)
    results["Weft"] = weft_results(binary)
    return results


def main():
    binary = sys.argv[1]
    left_out = set()
    rounds = [all_results(binary, left_out) for _ in range(int(sys.argv[2]) if sys.argv[2:] else 5)]
    columns = [n + c for n in GRAPHS for c in ("", " compiled")]
    print(f"{'ns per op: best, median':24}" + "".join(f"{c:>18}" for c in columns))
    for library, values in rounds[0].items():
        line = f"{library:24}"
        for c in columns:
            of = [r[library][c] for r in rounds] if c in values else []
            cell = of and f"{min(b for b, _ in of):.0f}, {statistics.median(m for _, m in of):.0f}"
            line += f"{cell or '-':>18}"
        print(line)


main()
