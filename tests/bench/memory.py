"""Memory of LoRA fine-tuning: weft train beside PyTorch and PEFT, in one run.

    python memory.py WEFT MODEL... [--rows R] [--length L] [--steps N] [--rank R] [--json]

Each MODEL is a folder, such as shape.py writes. Every format is trained on the same batches of random
tokens, rank R on all linears, two threads. While a process runs, /proc/PID/status is read every 5 milliseconds:

    anonymous  the most resident anonymous memory: what the process itself holds
    resident   the most resident memory of all, with pages of mapped files
    reported   what weft says itself (peak memory of the run)
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time


def peft_run(folder, batches, dtype, rank, threads):
    """The child process: PEFT trains on the batches."""
    import torch
    from peer_torch import with_lora
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM
    torch.set_num_threads(threads)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    model, optimizer, _ = with_lora(model, rank)
    for batch in load_file(batches)["batches"].long():
        model(input_ids=batch, labels=batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def watch(command):
    """Runs a command. Returns its output and the peaks of anonymous and of all resident memory."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    status = pathlib.Path(f"/proc/{process.pid}/status")
    anonymous = resident = 0
    while process.poll() is None:
        try:
            for line in status.read_text().splitlines():
                if line.startswith("RssAnon:"):
                    anonymous = max(anonymous, int(line.split()[1]) * 1024)
                elif line.startswith("VmHWM:"):
                    resident = max(resident, int(line.split()[1]) * 1024)
        except (FileNotFoundError, ProcessLookupError):
            pass
        time.sleep(0.005)
    output = process.stdout.read().decode()
    if process.returncode:
        sys.exit(f"memory.py: {' '.join(map(str, command))}: status {process.returncode}\n{output}")
    return output, anonymous, resident


def measure(arguments, folder):
    """Yields a row for each tool and format."""
    import numpy
    from safetensors.numpy import save_file
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        shape = (arguments.steps, arguments.rows, arguments.length)
        tokens = numpy.random.default_rng(0).integers(0, config["vocab_size"], shape)
        save_file({"batches": tokens.astype(numpy.int32),
                   "prompt_lengths": numpy.zeros(shape[:2], numpy.int32)},
                  scratch / "batches.safetensors")
        blocks = scratch / "q4_k.gguf"
        subprocess.run([arguments.weft, "convert", folder, blocks, "--type", "q4_k",
                        "--no-tokenizer"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        formats = {"float32": (folder, "--dtype", "float32"),
                   "bfloat16": (folder, "--dtype", "bfloat16"),
                   "Q4_K, float32": (blocks, "--dtype", "float32"),
                   "Q4_K, bfloat16": (blocks, "--dtype", "bfloat16"),
                   "--quantize 4, float32": (folder, "--quantize", "4", "--dtype", "float32"),
                   "--quantize 4, bfloat16": (folder, "--quantize", "4", "--dtype", "bfloat16")}
        for name, options in formats.items():
            output, anonymous, resident = watch(
                [arguments.weft, "train", *options, "--batches", scratch / "batches.safetensors",
                 "--rank", str(arguments.rank), "--threads", "2", "--out", scratch / "run",
                 "--overwrite", "--json"])
            yield {"tool": "weft", "format": name, "anonymous": anonymous, "resident": resident,
                   "reported": json.loads(output)["peak_memory"]}
        for dtype in ("float32", "bfloat16"):
            _, anonymous, resident = watch(
                [sys.executable, __file__, "--child", str(folder), scratch / "batches.safetensors",
                 dtype, str(arguments.rank)])
            yield {"tool": "PEFT", "format": dtype, "anonymous": anonymous, "resident": resident}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weft")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    for folder in arguments.models:
        if arguments.json:
            print(json.dumps({"model": folder, "rows": list(measure(arguments, folder))}))
            continue
        print(f"{folder}: {arguments.rows} x {arguments.length} tokens, rank {arguments.rank}; MB")
        print(f"{'':30}{'anonymous':>10}{'resident':>10}{'reported':>10}{'of it':>8}")
        for row in measure(arguments, folder):
            reported = row.get("reported")
            print(f"{row['tool'] + ' ' + row['format']:30}{row['anonymous'] / 1e6:10.0f}"
                  f"{row['resident'] / 1e6:10.0f}"
                  + (f"{reported / 1e6:10.0f}{reported / row['anonymous']:8.2f}"
                     if reported else ""), flush=True)


if sys.argv[1:2] == ["--child"]:
    peft_run(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]), 2)
else:
    main()
