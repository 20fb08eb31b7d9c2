"""Measures Weft against other programs on this machine: `make bench`.

    python3 compare.py [--weft FILE] [--ceilings FILE] [--inferena FILE] [--rounds N] [--threads N]
                       [--only TEXT] [--device NAME] [--quick] [--full] [--models FOLDER]
                       [--out FOLDER] [--list]

In each round the programs of a comparison run one after the other, so that other load affects them
alike. The results are the median of each program and the median of the per-round ratios, printed and
written to OUT/results.json and OUT/results.svg. Peers run in the Python that WEFT_PEERS_PYTHON names
(several, separated by ":"; each peer uses the first that has it). A peer that is not installed is
skipped with a message; if Weft fails, so does the program. --only: comparisons whose name contains
TEXT. --quick: a tiny model and few tokens, to check the programs; its figures mean nothing. --full:
also the shape of Llama-3.2-1B, prompts of 4,096 tokens, transformers, several shapes of batches,
compiled PEFT and a long context: hours. --device: only the public benchmarks, on this device for
Weft (vulkan) and by CUDA for PyTorch.

The models have published shapes and random weights (shape.py) and are written to MODELS once.
Weft converts them to GGUF, and both programs load the same file. Needs only Python's library.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

import compare_plot
import shape

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
STORYTELLER = ROOT / "examples/storyteller"
PEERS = {"torch": ["peer_torch.py", "versions"], "llama.cpp": ["peer_llama.py", "versions"],
         "numpy": ["peer_arrays.py", "numpy", "versions"],
         "mlx": ["peer_arrays.py", "mlx", "versions"]}


class Skipped(Exception):
    """A program that cannot be measured; the message is the reason."""


def run(command, environment=None):
    """Parses the last JSON line that the command prints."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          env={**os.environ, **(environment or {})}, check=False, timeout=3600)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        end = (done.stderr.strip() or "it printed no result").splitlines()[-1]
        raise Skipped(f"{' '.join(map(str, command[:3]))}: status {done.returncode}: {end}")
    return json.loads(lines[-1])


class Machine:
    """The programs that are installed."""

    def __init__(self, arguments):
        self.a = arguments
        self.environment = {"OPENBLAS_NUM_THREADS": str(arguments.threads),
                            "OMP_NUM_THREADS": str(arguments.threads)}
        self.pythons, self.versions, self.absent = {}, {}, {}
        candidates = [p for p in os.environ.get("WEFT_PEERS_PYTHON", "").split(":") if p]
        for peer, command in PEERS.items():
            for python in candidates:
                try:
                    self.versions[peer] = run([python, HERE / command[0], *command[1:]])
                    self.pythons[peer] = python
                    break
                except (Skipped, OSError) as error:
                    self.absent[peer] = str(error)
            if not candidates:
                self.absent[peer] = "WEFT_PEERS_PYTHON names no Python"

    def peer(self, name, script, *words):
        if name not in self.pythons:
            raise Skipped(f"{name} is absent: {self.absent[name]}")
        return run([self.pythons[name], HERE / script, *words], self.environment)

    def torch(self, program, *words):
        device = "cpu" if self.a.device == "cpu" else "cuda"
        if program in ("lora", "inferena"):
            words = [*words, "--device", device]
        return self.peer("torch", "peer_torch.py", program, *words, "--threads", self.a.threads)

    def weft(self, *words):
        return run([self.a.weft, *words, "--threads", self.a.threads, "--device", self.a.device,
                    "--json"])

    def folder(self, name):
        name = "tiny" if self.a.quick else name
        folder = self.a.models / name
        shape.make(name, folder)
        return folder

    def blocks(self, name, kind):
        """The model as a GGUF file of one type, beside its folder."""
        folder = self.folder(name)
        file = folder.with_name(f"{folder.name}-{kind}.gguf")
        if not file.exists():
            subprocess.run([str(self.a.weft), "convert", str(folder), str(file), "--type", kind,
                            "--no-tokenizer"], check=True, stdout=subprocess.DEVNULL)
        return file


# ---- Comparisons: each gives {program: function that returns {metric: rate}} ---------------------

def generating(machine, model, kind, prompt):
    prompt, tokens = (32, 4) if machine.a.quick else (prompt, 32)
    dtype = "bfloat16" if kind == "bf16" else "float32"

    def weft(activations):
        g = machine.weft("bench", machine.blocks(model, kind), "--dtype", dtype, "--prompt-tokens",
                         prompt, "-n", tokens + 1, "--warm-up", 1, "--activations", activations,
                         "--no-cache", "--no-restore", "--no-bundle", "--no-probes")["generation"]
        return {"prefill": g["prefill_tokens_per_sec"], "decode": g["decode_tokens_per_sec"]}

    def llama():
        return machine.peer("llama.cpp", "peer_llama.py", "generate", machine.blocks(model, kind),
                            "--prompt", prompt, "--tokens", tokens, "--threads", machine.a.threads)

    programs = {"weft": lambda: weft("exact")}
    if kind != "bf16":
        programs["weft, int8"] = lambda: weft("int8")
    programs["llama.cpp"] = llama
    if kind == "bf16" and machine.a.full:
        programs["transformers"] = lambda: machine.torch(
            "generate", machine.folder(model), "--dtype", "bfloat16", "--prompt", prompt,
            "--tokens", tokens)
    return programs


def training(machine, model, dtype, sizes, *options, rank=16):
    """sizes: (rows, length); options: of weft bench, --checkpoint also for PEFT."""
    rows, length = (1, 32) if machine.a.quick else sizes
    steps = 1 if machine.a.quick or length > 2048 else 3
    words = ["--dtype", dtype, "--length", length, "--rank", rank]
    peer_words = [word for word in options if word == "--checkpoint"]

    def weft():
        report = machine.weft("bench", machine.folder(model), "--train", *words, "--batch-size",
                              rows, "--runs", steps, "--warm-up", int(steps > 1), *options)
        return {"train": report["training"]["tokens_per_sec"]}

    def peft(mode):
        return lambda: {"train": machine.torch("lora", machine.folder(model), *words, "--rows",
                                               rows, "--steps", steps, "--mode", mode,
                                               *peer_words)["train"]}

    programs = {"weft": weft, "PEFT": peft("eager")}
    if machine.a.full and not options:
        programs["PEFT, compiled"] = peft("compile")
    return programs


def inferena(machine, dtype):
    """One pass of kvark/inferena: float32 weights and activations, or bfloat16."""
    rounds = 1 if machine.a.quick else 10
    losses = {}

    def checked(program, report):
        """The times, if the loss agrees with that of the programs before."""
        losses[program] = report["loss"]
        first = next(iter(losses.values()))
        if abs(report["loss"] / first - 1) > (0.01 if dtype == "bfloat16" else 1e-3):
            raise Skipped(f"the loss of {program} is {report['loss']}, expected {first}")
        return {metric.replace("_", " "): value for metric, value in report.items()
                if metric.endswith("_ms")}

    def weft():
        if not machine.a.inferena.exists():
            raise Skipped(f"{machine.a.inferena} is not built: ninja -C build tests/bench_inferena")
        return checked("weft", run([machine.a.inferena, machine.folder("smollm2-135m"),
                                    machine.a.device, dtype, rounds],
                                   {"WEFT_THREADS": str(machine.a.threads)}))

    def torch(program, *words):
        return lambda: checked(program, machine.torch(
            "inferena", machine.folder("smollm2-135m"), "--dtype", dtype, "--steps", rounds, *words))

    programs = {"weft": weft, "PyTorch": torch("PyTorch")}
    if machine.a.device != "cpu" and dtype == "float32":
        programs["PyTorch, TF32"] = torch("PyTorch, TF32", "--tf32")
    if machine.a.full:
        programs["PyTorch, compiled"] = torch("PyTorch, compiled", "--mode", "compile")
    return programs


def public(machine):
    """Benchmarks that others publish figures of."""
    for dtype in ("float32", "bfloat16"):
        yield f"inferena {dtype}, SmolLM2-135M shape, 128 tokens", inferena(machine, dtype)
    for model, title in (("smollm2-135m", "SmolLM2-135M"), ("tinyllama-1.1b", "TinyLlama-1.1B")):
        yield (f"unsloth 11184: LoRA bfloat16 of rank 8, {title} shape, 1 x 512, checkpointed",
               training(machine, model, "bfloat16", (1, 512), "--checkpoint", rank=8))


def storyteller_training(machine):
    rows, length, steps = (1, 32, 2) if machine.a.quick else (8, 256, 12)
    sizes = ["--length", length, "--rank", 8]

    def weft():
        report = machine.weft("bench", STORYTELLER, "--train", *sizes, "--batch-size", rows,
                              "--runs", steps, "--warm-up", 3)
        return {"train": report["training"]["tokens_per_sec"]}

    def peft(mode):
        return lambda: {"train": machine.torch("lora", STORYTELLER, *sizes, "--rows", rows,
                                               "--steps", steps, "--mode", mode)["train"]}

    peers = {"PEFT": peft("eager")}
    if not machine.a.quick:
        peers["PEFT, compiled"] = peft("compile")
    return {"weft": weft, **peers}


def storyteller_decoding(machine):
    tokens = 16 if machine.a.quick else 200

    def weft():
        g = machine.weft("bench", STORYTELLER, "--prompt-tokens", 24, "-n", tokens + 1, "--warm-up",
                         1, "--no-cache", "--no-restore", "--no-bundle", "--no-probes")
        return {"decode": g["generation"]["decode_tokens_per_sec"]}

    def transformers():
        rates = machine.torch("generate", STORYTELLER, "--tokens", tokens)
        return {"decode": rates["decode"]}

    return {"weft": weft, "transformers": transformers}


def products(machine, dtype):
    rounds = 1 if machine.a.quick else 5
    words = ["--dtype", dtype, "--rows", 512, "--width", 4096, "--steps", rounds]

    def weft():
        if not machine.a.ceilings.exists():
            raise Skipped(f"{machine.a.ceilings} is not built: ninja -C build tests/bench_ceilings")
        report = run([machine.a.ceilings, "--json", "--products", rounds],
                     {"WEFT_THREADS": str(machine.a.threads)})
        found = [p["exact"] for p in report["products"]
                 if p["weight"] == dtype and p["rows"] == 512]
        return {"gemm": found[0]}

    peers = {"PyTorch (oneDNN)" if dtype == "bfloat16" else "PyTorch":
             lambda: machine.torch("gemm", *words)}
    if dtype == "float32":
        peers["NumPy (OpenBLAS)"] = lambda: machine.peer("numpy", "peer_arrays.py", "numpy", "gemm",
                                                         *words)
    peers["MLX"] = lambda: machine.peer("mlx", "peer_arrays.py", "mlx", "gemm", *words)
    return {"weft": weft, **peers}


def comparisons(machine):
    """The name and the programs of each comparison."""
    if machine.a.device != "cpu":
        yield from public(machine)
        return
    for dtype in ("float32", "bfloat16"):
        yield f"gemm {dtype}, 512 x 4096 x 4096", products(machine, dtype)
    small, large = ("qwen3-0.6b", "Qwen3-0.6B shape"), ("llama-3.2-1b", "Llama-3.2-1B shape")
    full = machine.a.full
    for model, title in (small, large) if full else (small,):
        for prompt in (512, 4096) if full else (512,):
            for kind in ("q8_0", "q4_k", "q4_0", "bf16"):
                yield (f"generating {kind}, {title}, prompt of {prompt}",
                       generating(machine, model, kind, prompt))
        for sizes in ((1, 512), (1, 1024), (4, 256)) if full else ((1, 512),):
            for dtype in ("float32", "bfloat16"):
                yield (f"LoRA {dtype}, {title}, {sizes[0]} x {sizes[1]}",
                       training(machine, model, dtype, sizes))
            if full:
                yield (f"LoRA 4 bits, {title}, {sizes[0]} x {sizes[1]}",
                       training(machine, model, "float32", sizes, "--quantize", 4))
    if full:
        yield (f"LoRA bfloat16, {small[1]}, 1 x 8192, checkpointed",
               training(machine, small[0], "bfloat16", (1, 8192), "--checkpoint"))
    yield "LoRA float32, storyteller, 8 x 256", storyteller_training(machine)
    yield "generating float32, storyteller", storyteller_decoding(machine)
    yield from public(machine)


# ---- Rounds --------------------------------------------------------------------------------------

def measure(programs, rounds, say):
    """{program: {metric: [value per round]}}, without programs that cannot be measured."""
    values, skipped = {}, {}
    for index in range(rounds):
        for program, function in programs.items():
            if program in skipped:
                continue
            try:
                for metric, value in function().items():
                    values.setdefault(program, {}).setdefault(metric, []).append(value)
            except (Skipped, OSError, subprocess.SubprocessError) as error:
                skipped[program] = str(error)
                values.pop(program, None)
                say(f"    {program} is skipped: {error}")
        say(f"    round {index + 1} of {rounds}")
    return values, skipped


def rows_of(name, values):
    """A row per metric: medians, and the median ratio of Weft's speed to each peer's in the same
    round. Metrics in ms are times, the others rates."""
    for metric in values.get("weft", {}):
        row = {"comparison": name, "metric": metric, "rates": {}, "ratios": {}, "values": {}}
        for program, metrics in values.items():
            if metric in metrics:
                row["rates"][program] = statistics.median(metrics[metric])
                row["values"][program] = metrics[metric]
        own = values["weft"][metric]
        for program, rates in row["values"].items():
            if program != "weft":
                row["ratios"][program] = statistics.median(
                    theirs / mine if metric.endswith(" ms") else mine / theirs
                    for mine, theirs in zip(own, rates))
        yield row


def processor():
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor()


def show(row):
    rates = ", ".join(f"{program} {rate:,.1f}" for program, rate in row["rates"].items())
    ratios = ", ".join(f"{ratio:.2f} times {program}" for program, ratio in row["ratios"].items())
    print(f"  {row['metric']:12} {rates}" + (f": {ratios}" if ratios else ""), flush=True)


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", type=pathlib.Path, default=ROOT / "build/cli/weft")
    parser.add_argument("--ceilings", type=pathlib.Path, default=ROOT / "build/tests/bench_ceilings")
    parser.add_argument("--inferena", type=pathlib.Path, default=ROOT / "build/tests/bench_inferena")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--models", type=pathlib.Path, default=ROOT / "build/bench/models")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/bench")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.threads < 1:
        parser.error("--rounds and --threads: expected at least 1")
    return arguments


def main():
    arguments = read_arguments()
    machine = Machine(arguments)
    chosen = [c for c in comparisons(machine) if arguments.only in c[0]]
    if arguments.list:
        print("\n".join(name for name, _ in chosen))
        return
    if not chosen:
        sys.exit(f"compare.py: no comparison contains '{arguments.only}'")
    for peer, why in machine.absent.items():
        if peer not in machine.versions:
            print(f"{peer} is absent: {why}")
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()
    if load[0] > 0.3:
        print(f"the machine is busy (load {load[0]:.1f}): the figures mean little")
    result = {"processor": processor(), "cores": cores, "threads": arguments.threads,
              "rounds": arguments.rounds, "quick": arguments.quick, "load_before": load,
              "versions": machine.versions, "rows": [], "skipped": {}}
    for name, programs in chosen:
        print(name, flush=True)
        values, skipped = measure(programs, arguments.rounds,
                                  lambda text: print(text, file=sys.stderr, flush=True))
        result["skipped"][name] = skipped
        for row in rows_of(name, values):
            show(row)
            result["rows"].append(row)
    result["load_after"] = os.getloadavg()
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "results.json").write_text(json.dumps(result, indent=1) + "\n")
    (arguments.out / "results.svg").write_text(compare_plot.plot(result))
    print(f"written: {arguments.out}/results.json, {arguments.out}/results.svg")
    failed = [name for name, programs in result["skipped"].items() if "weft" in programs]
    if failed:
        sys.exit(f"compare.py: Weft failed in: {'; '.join(failed)}")


if __name__ == "__main__":
    main()
