"""Writes distill/teacher, distill/batches.safetensors and distill/NAME.safetensors: TRL's loss of
generalized knowledge distillation.

    python3 tests/golden/train/distill.py [NAME...]

20 updates (AdamW) of ../models/llama with the adapter of objectives/start, or of all its
parameters, from a teacher of another width with random weights. A batch has 4 samples: ids
(steps, 4, L), lengths and prompts (steps, 4). Each file has losses and grad_norms (steps), the
gradients of the first update (grad.PATH) and the parameters after the last one. The loss is
GKDTrainer.generalized_jsd_loss of the logits at the completions' tokens; TRL's trainer itself
leaves its temperature at 1. Made with TRL 1.16.0, PEFT 0.21.2, transformers 5.24.0 and torch 2.13
on the CPU.
"""
import os
import random
import sys

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

from objectives import VOCABULARY, base, here, start

from trl.experimental.gkd import GKDTrainer

out = here / "distill"
STEPS, BATCH = 20, 4
RUNS = {
    "jsd": dict(beta=0.5, temperature=0.9, lr=0.005),
    "forward": dict(beta=0.0, temperature=1.0, lr=0.005),
    "reverse": dict(beta=1.0, temperature=0.7, lr=0.005),
    "full": dict(beta=0.3, temperature=0.9, lr=0.001),
}


def teacher():
    if not (out / "teacher").exists():
        torch.manual_seed(3)
        config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=48, intermediate_size=64,
                             num_hidden_layers=1, num_attention_heads=3, num_key_value_heads=3,
                             max_position_embeddings=512, tie_word_embeddings=True,
                             initializer_range=0.3, bos_token_id=1, eos_token_id=2, pad_token_id=0)
        LlamaForCausalLM(config).save_pretrained(out / "teacher")
    return LlamaForCausalLM.from_pretrained(out / "teacher", dtype=torch.float32,
                                            attn_implementation="eager").eval()


def batches():
    random.seed(9)
    lengths = [[random.randint(8, 17) for _ in range(BATCH)] for _ in range(STEPS)]
    prompts = [[random.randint(2, 5) for _ in range(BATCH)] for _ in range(STEPS)]
    width = max(map(max, lengths))
    ids = [[[random.randrange(3, VOCABULARY) if k < n else 0 for k in range(width)] for n in row]
           for row in lengths]
    made = {"ids": torch.tensor(ids, dtype=torch.int32),
            "lengths": torch.tensor(lengths, dtype=torch.int32),
            "prompts": torch.tensor(prompts, dtype=torch.int32)}
    save_file(made, out / "batches.safetensors")
    return made


def path_of(name):
    for part in ("base_model.model.", ".default", ".weight"):
        name = name.replace(part, "") if "lora" in name or part == "base_model.model." else name
    return name.removesuffix(".weight") if "lora" in name else name


def main(name):
    run = RUNS[name]
    data, guide = batches(), teacher()
    model = base() if name == "full" else start()
    model.train()
    trained = [(path_of(n), p) for n, p in model.named_parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW([p for _, p in trained], lr=run["lr"], weight_decay=0)
    file, losses, norms = {}, [], []
    for step in range(STEPS):
        ids = data["ids"][step].long()
        at = torch.arange(ids.shape[1])[None, :]
        inside = at < data["lengths"][step][:, None]
        labels = torch.where(inside & (at >= data["prompts"][step][:, None]), ids, -100)
        own = model(input_ids=ids, attention_mask=inside.long()).logits[:, :-1]
        with torch.no_grad():
            other = guide(input_ids=ids, attention_mask=inside.long()).logits[:, :-1]
        loss = GKDTrainer.generalized_jsd_loss(own, other, labels[:, 1:], beta=run["beta"],
                                               temperature=run["temperature"])
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            file |= {"grad." + n: p.grad.clone() for n, p in trained}
        losses.append(loss.item())
        norms.append(torch.stack([p.grad.norm() for _, p in trained]).norm().item())
        optimizer.step()
    file |= {n: p.detach().clone() for n, p in trained}
    file["losses"] = torch.tensor(losses, dtype=torch.float64)
    file["grad_norms"] = torch.tensor(norms, dtype=torch.float64)
    if name == "full":  # the file stays small
        file = {n: t for n, t in file.items() if "layers.0" not in n and "embed" not in n}
    save_file(file, out / f"{name}.safetensors")
    print(name, losses[0], losses[-1])


if __name__ == "__main__":
    out.mkdir(exist_ok=True)
    for each in sys.argv[1:] or RUNS:
        main(each)
