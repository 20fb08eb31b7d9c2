"""Seconds of a GRPO update, of sampling and of training, in Weft and in TRL's GRPOTrainer.

    python3 tests/bench/peer_grpo.py build/cli/weft MODEL.gguf [ROUNDS]

The same task, prompts, LoRA (rank 16, all linears), float32, number of completions and largest
length. Both programs run alternately, ROUNDS times, 3 updates each, of which the first one is not
counted. Weft's training alone is measured from the completions that its run has sampled
(--completions); TRL's sampling is the time in _generate_single_turn. Made for TRL 1.16.0.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PROMPTS, GROUP, MOST, UPDATES, RANK = 3, 8, 16, 3, 16


def rows():
    return [{"question": f"What is {a} + {b}?", "answer": str(a + b)}
            for a in range(1, 11) for b in range(1, 11)]


def steps(folder):
    """Seconds between the updates of a run after the first."""
    at = [json.loads(line)["seconds"] for line in open(folder / "metrics.jsonl")]
    return [b - a for a, b in zip(at, at[1:])]


def weft(binary, model, work):
    data = work / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    shared = [binary, "train", model, "--objective", "grpo", "--num-generations", str(GROUP),
              "--batch-size", str(PROMPTS), "--max-completion-length", str(MOST), "--steps",
              str(UPDATES), "--rank", str(RANK), "--dtype", "float32", "--overwrite"]
    subprocess.run(shared + ["--data", data, "--reward", "exact:number", "--out", work / "run"],
                   check=True, capture_output=True)
    subprocess.run(shared + ["--completions", work / "run" / "completions.jsonl", "--out",
                             work / "trained"], check=True, capture_output=True)
    whole, training = (statistics.mean(steps(work / name)) for name in ("run", "trained"))
    return whole, whole - training, training


def trl(model, work):
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    path = pathlib.Path(model)
    base = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name,
                                                dtype=torch.float32)
    weights, config = base.state_dict(), base.config  # float32, but they count as quantized
    del config.quantization_config
    base = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    base.load_state_dict(weights)
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    sampled, ends = [], []

    class Timed(GRPOTrainer):
        def _generate_single_turn(self, *rest, **named):
            began = time.perf_counter()
            made = super()._generate_single_turn(*rest, **named)
            sampled.append(time.perf_counter() - began)
            return made

        def training_step(self, *rest, **named):
            loss = super().training_step(*rest, **named)
            ends.append(time.perf_counter())
            return loss

    def reward(completions, answer, **_):
        texts = [c[0]["content"] if isinstance(c, list) else c for c in completions]
        return [float(a in t) for t, a in zip(texts, answer)]

    data = Dataset.from_list([{"prompt": [{"role": "user", "content": row["question"]}],
                               "answer": row["answer"]} for row in rows()])
    config = GRPOConfig(output_dir=str(work / "trl"), per_device_train_batch_size=PROMPTS * GROUP,
                        num_generations=GROUP, max_completion_length=MOST, max_steps=UPDATES,
                        learning_rate=2e-4, logging_steps=1, save_strategy="no", report_to=[],
                        use_cpu=True, bf16=False, gradient_checkpointing=False,
                        disable_tqdm=True)
    trainer = Timed(model=base, reward_funcs=reward, args=config, train_dataset=data,
                    processing_class=tokenizer,
                    peft_config=LoraConfig(r=RANK, lora_alpha=2 * RANK,
                                           target_modules="all-linear"))
    trainer.train()
    whole = statistics.mean(b - a for a, b in zip(ends, ends[1:]))
    sampling = statistics.mean(sampled[1:])
    return whole, sampling, whole - sampling


def main(binary, model, rounds=2):
    found = {"weft": [], "trl": []}
    for _ in range(int(rounds)):
        for name in found:
            with tempfile.TemporaryDirectory() as work:
                work = pathlib.Path(work)
                found[name].append(weft(binary, model, work) if name == "weft"
                                   else trl(model, work))
            print(name, "update %.2f s: sampling %.2f s, training %.2f s" % found[name][-1],
                  flush=True)
    best = {name: [min(column) for column in zip(*runs)] for name, runs in found.items()}
    for i, what in enumerate(("update", "sampling", "training")):
        print(f"{what}: weft {best['weft'][i]:.2f} s, trl {best['trl'][i]:.2f} s, "
              f"ratio {best['trl'][i] / best['weft'][i]:.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
