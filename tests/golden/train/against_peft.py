"""Trains the same 200 updates with `weft train` and with PEFT, and compares every loss.

    python3 tests/golden/train/against_peft.py build/cli/weft MODEL [OPTION...]

MODEL is a folder with a tokenizer, such as the storyteller. The rows have prompts, which are not
trained, and completions, of unequal lengths. Each update takes all rows once, as ACCUMULATE batches:
so its loss does not depend on the order in which rows are drawn. Both start from the same adapter,
whose B is not zero, and use weight decay, warm-up, a cosine schedule and clipping that acts on
most updates, and LoRA+; OPTION is given to `weft train` too, as --checkpoint. The variants are LoRA,
rsLoRA and DoRA; `--full` without an adapter is compared with transformers alone. Fails when a loss, a
norm or a validation loss differs by more than LIMIT (norms: ten times that), relative.

Needs torch, transformers and peft (figures were made with 2.13, 5.23 and 0.21.2 on the CPU).
"""
import json
import math
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

LIMIT = 1e-5
STEPS, ROWS, BATCH, ACCUMULATE = 200, 12, 3, 4
LR, DECAY, WARMUP, CLIP, PLUS = 5e-5, 0.1, 20, 0.5, 2
FULL_LR = 5e-6  # of all parameters: a loss that stays far from zero
WORDS = ("once there was a small red fox who saw the moon and wanted to know why it shone so bright "
         "over the old house by the river where nobody had lived for many years").split()


def rows(count, seed):
    draw = random.Random(seed)

    def text(low, high):
        return " ".join(draw.choice(WORDS) for _ in range(draw.randint(low, high)))
    return [{"prompt": text(2, 12) + " ", "completion": text(3, 30)} for _ in range(count)]


def weft(*arguments):
    done = subprocess.run([command, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"weft {arguments[0]}: exit status {done.returncode}\n{done.stderr}")
    return done.stdout


def samples(path):
    """Token ids and weights, as the command would train them."""
    made = []
    for line in weft("data", path, model_folder, "--jsonl").splitlines():
        row = json.loads(line)
        made.append((row["ids"], row["weights"]))
    return made


def total_loss(model, group):
    """The sum of the weighted losses of the next tokens, padded to one length."""
    longest = max(len(ids) for ids, _ in group)
    ids = torch.tensor([s + [0] * (longest - len(s)) for s, _ in group])
    weights = torch.tensor([w + [0.0] * (longest - len(w)) for _, w in group])
    mask = torch.tensor([[1] * len(s) + [0] * (longest - len(s)) for s, _ in group])
    logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1].float()
    losses = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    return (losses * weights[:, 1:].flatten()).sum()


def rate(step):
    if step < WARMUP:
        return (step + 1) / WARMUP
    return (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP))) / 2


def groups(model):
    plus = [p for n, p in model.named_parameters() if p.requires_grad and "lora_B" in n]
    rest = [p for n, p in model.named_parameters() if p.requires_grad and "lora_B" not in n]
    return [{"params": rest, "scale": 1}, {"params": plus, "scale": PLUS}]


def train_peft(start, lr, train, held_out, rates):
    torch.manual_seed(0)
    model = PeftModel.from_pretrained(base(), start, is_trainable=True) if start else base()
    model.train()
    optimizer = torch.optim.AdamW(groups(model), lr=lr, betas=(0.9, 0.99), eps=1e-8,
                                  weight_decay=DECAY)
    weight = sum(sum(w[1:]) for _, w in train)
    trained = [p for p in model.parameters() if p.requires_grad]
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = 0.0
        for i in range(0, len(train), BATCH):
            part = total_loss(model, train[i:i + BATCH]) / weight
            part.backward()
            loss += part.item()
        norms.append(torch.nn.utils.clip_grad_norm_(trained, CLIP).item())
        for group in optimizer.param_groups:
            group["lr"] = lr * rates[step] * group["scale"]
        optimizer.step()
        losses.append(loss)
    model.eval()
    with torch.no_grad():
        validation = sum(total_loss(model, [s]).item() for s in held_out)
    return losses, norms, validation / sum(sum(w[1:]) for _, w in held_out)


def base():
    return AutoModelForCausalLM.from_pretrained(
        model_folder, dtype=torch.float32, attn_implementation="eager")


def start_of(folder, **variant):
    torch.manual_seed(3)
    config = LoraConfig(task_type="CAUSAL_LM", r=8, lora_dropout=0.0, target_modules="all-linear",
                        init_lora_weights=False, **{"lora_alpha": 16, **variant})
    model = get_peft_model(base(), config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter *= 0.1
    model.save_pretrained(folder)


def compare(name, folder, variant):
    lr = FULL_LR if variant is None else LR
    start = None if variant is None else folder / "start"
    if start:
        start_of(start, **variant)
    begin = ["--init-adapter", start, "--lora-plus", PLUS] if start else ["--full"]
    for part, count in (("train", ROWS), ("held-out", 4)):
        (folder / f"{part}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows(count, part)))
    weft("train", model_folder, "--data", folder / "train.jsonl", "--val-data",
         folder / "held-out.jsonl", "--val-every", 0, "--steps", STEPS, "--batch-size", BATCH,
         "--accumulate", ACCUMULATE, "--lr", lr, "--weight-decay", DECAY, "--warmup", WARMUP,
         "--clip", CLIP, "--optimizer-options", "beta2=0.99", *begin, "--out", folder / "run",
         *options)
    lines = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "loss" in line and line["step"] > 0]
    assert [line["step"] for line in steps] == list(range(1, STEPS + 1))
    rates = [rate(i) for i in range(STEPS)]
    found = {"learning rate": max(abs(s["lr"] / lr - r) for s, r in zip(steps, rates))}
    losses, norms, validation = train_peft(
        start, lr, samples(folder / "train.jsonl"), samples(folder / "held-out.jsonl"), rates)
    found["loss"] = max(abs(s["loss"] / loss - 1) for s, loss in zip(steps, losses))
    found["norm"] = max(abs(s["grad_norm"] / norm - 1) for s, norm in zip(steps, norms))
    ours = [line["validation_loss"] for line in lines if "validation_loss" in line][-1]
    found["validation"] = abs(ours / validation - 1)
    print(f"{name}: loss {losses[0]:.4f} to {losses[-1]:.4f}, norms {min(norms):.3f} to "
          f"{max(norms):.3f}, validation {validation:.7f} and {ours:.7f}")
    bad = 0
    for what, difference in found.items():
        limit = 10 * LIMIT if what == "norm" else LIMIT
        bad += not difference <= limit
        print(f"    {what} differs by {difference:.2g} (at most {limit:g})"
              f"{'' if difference <= limit else ' FAILED'}", flush=True)
    return bad


command, model_folder, *options = sys.argv[1:]
failed = 0
# rsLoRA divides by the root of the rank: the smaller alpha gives it the scale of the others, and
# losses that stay as far from zero, where relative differences would grow.
VARIANTS = (("LoRA", {}), ("rsLoRA", {"use_rslora": True, "lora_alpha": 6}),
            ("DoRA", {"use_dora": True}), ("all parameters", None))
for name, variant in VARIANTS:
    with tempfile.TemporaryDirectory() as temporary:
        failed += compare(name, Path(temporary), variant)
sys.exit(failed > 0)
