"""Seconds of a GRPO update, of sampling and of training, in Weft and in TRL's GRPOTrainer.

    python3 tests/bench/peer_grpo.py build/cli/weft MODEL.gguf|FOLDER [--device vulkan]
        [--prompts 3] [--group 8] [--tokens 16] [--updates 3] [--rounds 2]

The same task, prompts, LoRA (rank 16, all linears), number of completions and largest length: on
the CPU in float32, on vulkan (TRL: CUDA) in bfloat16. Both programs run alternately, and the first
update of each run is not counted. Weft's training alone is measured from the completions that its
run has sampled (--completions); TRL's sampling is the time in _generate_single_turn. FOLDER is a
checkpoint with its tokenizer, as shape.py writes it; a model with random weights has long
completions, of equal length in both programs. Made for TRL 1.16.0.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

RANK = 16


def rows():
    return [{"question": f"What is {a} + {b}?", "answer": str(a + b)}
            for a in range(1, 11) for b in range(1, 11)]


def steps(folder):
    """Seconds between the updates of a run after the first."""
    at = [json.loads(line)["seconds"] for line in open(folder / "metrics.jsonl")]
    return [b - a for a, b in zip(at[-o.updates:], at[-o.updates + 1:])]


def weft(work):
    data = work / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    shared = [o.weft, "train", o.model, "--objective", "grpo", "--num-generations", o.group,
              "--batch-size", o.prompts, "--max-completion-length", o.tokens, "--steps", o.updates,
              "--rank", RANK, "--device", o.device, "--dtype",
              "float32" if o.device == "cpu" else "bfloat16", "--overwrite"]

    def run(*more):
        done = subprocess.run([str(word) for word in (*shared, *more)], capture_output=True,
                              text=True)
        if done.returncode:
            raise SystemExit(done.stderr)

    run("--data", data, "--reward", "exact:number", "--out", work / "run")
    run("--completions", work / "run" / "completions.jsonl", "--out", work / "trained")
    whole, training = (statistics.mean(steps(work / name)) for name in ("run", "trained"))
    return whole, whole - training, training


def load():
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    path = pathlib.Path(o.model)
    dtype = torch.float32 if o.device == "cpu" else torch.bfloat16
    if path.is_dir():
        return (AutoModelForCausalLM.from_pretrained(path, dtype=dtype),
                AutoTokenizer.from_pretrained(path))
    base = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=dtype)
    weights, config = base.state_dict(), base.config  # converted, but they count as quantized
    del config.quantization_config
    base = AutoModelForCausalLM.from_config(config, dtype=dtype)
    base.load_state_dict(weights)
    return base, AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)


def trl(work):
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from trl import GRPOConfig, GRPOTrainer

    base, tokenizer = load()
    cuda = o.device != "cpu"
    sampled, ends = [], []

    def now():
        if cuda:
            torch.cuda.synchronize()
        return time.perf_counter()

    class Timed(GRPOTrainer):
        def _generate_single_turn(self, *rest, **named):
            began = now()
            made = super()._generate_single_turn(*rest, **named)
            sampled.append(now() - began)
            return made

        def training_step(self, *rest, **named):
            loss = super().training_step(*rest, **named)
            ends.append(now())
            return loss

    def reward(completions, answer, **_):
        texts = [c[0]["content"] if isinstance(c, list) else c for c in completions]
        return [float(a in t) for t, a in zip(texts, answer)]

    chat = tokenizer.chat_template is not None
    data = Dataset.from_list(
        [{"prompt": [{"role": "user", "content": row["question"]}] if chat else row["question"],
          "answer": row["answer"]} for row in rows()])
    config = GRPOConfig(output_dir=str(work / "trl"),
                        per_device_train_batch_size=o.prompts * o.group, num_generations=o.group,
                        max_completion_length=o.tokens, max_steps=o.updates, learning_rate=2e-4,
                        logging_steps=1, save_strategy="no", report_to=[], use_cpu=not cuda,
                        bf16=cuda, gradient_checkpointing=False, disable_tqdm=True)
    trainer = Timed(model=base, reward_funcs=reward, args=config, train_dataset=data,
                    processing_class=tokenizer,
                    peft_config=LoraConfig(r=RANK, lora_alpha=2 * RANK,
                                           target_modules="all-linear"))
    trainer.train()
    whole = statistics.mean(b - a for a, b in zip(ends, ends[1:]))
    sampling = statistics.mean(sampled[1:])
    return whole, sampling, whole - sampling


def main():
    programs, found = {"weft": weft, "trl": trl}, {"weft": [], "trl": []}
    for _ in range(o.rounds):
        for name, measure in programs.items():
            with tempfile.TemporaryDirectory() as work:
                found[name].append(measure(pathlib.Path(work)))
            print(name, "update %.2f s: sampling %.2f s, training %.2f s" % found[name][-1],
                  flush=True)
    best = {name: [min(column) for column in zip(*runs)] for name, runs in found.items()}
    for i, what in enumerate(("update", "sampling", "training")):
        print(f"{what}: weft {best['weft'][i]:.2f} s, trl {best['trl'][i]:.2f} s, "
              f"ratio {best['trl'][i] / best['weft'][i]:.2f}")
    print(f"completions/s: weft {o.prompts * o.group / best['weft'][0]:.1f}, "
          f"trl {o.prompts * o.group / best['trl'][0]:.1f}")


parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("weft")
parser.add_argument("model")
parser.add_argument("--device", choices=["cpu", "vulkan"], default="cpu")
for name, default in (("prompts", 3), ("group", 8), ("tokens", 16), ("updates", 3),
                      ("rounds", 2)):
    parser.add_argument(f"--{name}", type=int, default=default)
o = parser.parse_args()

if __name__ == "__main__":
    main()
